package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// compareArchive compares the files with the topic, one after the other: as far as the topic holds their summaries.
func (a *auditor) compareArchive(ctx context.Context, files map[int32][]File, r *Report) error {
	switch {
	case a.o.Partition >= 0:
		return nil
	case a.o.NoArchive:
		r.Notes = append(r.Notes, "the archive is not compared, as was wished")
		return nil
	}
	if _, err := os.Stat(filepath.Join(a.cfg.Sink.Dir, "summaries")); errors.Is(err, fs.ErrNotExist) {
		dir, _ := filepath.Abs(a.cfg.Sink.Dir)
		r.differ(Difference{
			Kind: kindArchive, Topic: a.cfg.Prefix + schemas.TopicJobSummary,
			Text: "the archive is not compared, since there is none in " + dir +
				": mount it there, set sink.dir, or leave it out with --no-archive",
		})
		return nil
	}
	for _, p := range slices.Sorted(maps.Keys(a.topics[schemas.TopicJobSummary].Ranges)) {
		of := files[p]
		r.contiguous(of, oldestDate(files))
		if err := a.compareChain(ctx, p, of, oldestDate(files), r); err != nil {
			return err
		}
	}
	return nil
}

// compareNone handles a partition without files: it reports the summaries that the archive must contain by now. oldest
// is the oldest date of the other partitions: users delete older dates.
func (a *auditor) compareNone(ctx context.Context, p int32, bounds kafka.Range, oldest string, r *Report) error {
	name := a.cfg.Prefix + schemas.TopicJobSummary
	patience := sinkPeriods * a.cfg.FilePeriod()
	due, err := a.adm.ListOffsetsAfterMilli(ctx, time.Now().Add(-patience).UnixMilli(), name)
	if err == nil {
		err = due.Error()
	}
	if err != nil {
		return fmt.Errorf("asking what is old in %s: %w", name, err)
	}
	if !a.o.Since.IsZero() {
		oldest = max(oldest, a.o.Since.UTC().Format(time.DateOnly))
	}
	old, _ := due.Lookup(name, p)
	read := kafka.Range{From: max(a.topics[schemas.TopicJobSummary].Ranges[p].From, bounds.From), To: old.Offset}
	s := recount.OpenStream(ctx, a.cfg, name, p, read)
	defer s.Close()
	first, lacks := int64(0), int64(0)
	for {
		e, ok, err := s.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		of := summaryOf(e, a.cfg.Cluster)
		if of == nil || time.UnixMilli(of.IntervalStart).UTC().Format(time.DateOnly) < oldest {
			continue
		}
		if lacks++; lacks == 1 {
			first = e.Offset
		}
	}
	if lacks > 0 {
		r.differ(Difference{
			Kind: kindArchive, Topic: name, Partition: p, Offset: &first, Text: fmt.Sprintf(
				"the archive has no file of this partition, and lacks %d summaries that are older than %v",
				lacks, patience),
		})
	}
	return nil
}

// sinkPeriods is the number of periods that a sink may take to write a file.
const sinkPeriods = 3

// compareChain compares the files of one partition with the topic.
func (a *auditor) compareChain(ctx context.Context, p int32, files []File, oldest string, r *Report) error {
	name := a.cfg.Prefix + schemas.TopicJobSummary
	bounds, err := kafka.TopicBounds(ctx, a.adm, name)
	if err != nil {
		return err
	}
	c := &Chain{Partition: p, Files: int64(len(files)), End: bounds[p].To}
	r.Archive = append(r.Archive, c)
	if len(files) == 0 {
		return a.compareNone(ctx, p, bounds[p], oldest, r)
	}
	compacted := map[string]bool{}
	for i := range files {
		if files[i].Compacted != nil {
			compacted[files[i].Path] = true
		}
	}
	if len(compacted) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the rows of %d compacted files of partition %d are not compared: "+
			"weir archive verify reads them", len(compacted), p))
	}
	first, last := files[0], files[len(files)-1]
	c.Next = last.Next
	if last.Next > bounds[p].To || !kafka.SameTopic(last.TopicID, a.topics[schemas.TopicJobSummary].ID) {
		agreed, err := kafka.Agree(ctx, a.cl, name, p) // the broker that was asked may be cut from its peers
		if err != nil {
			return err
		}
		by := agreed.Partitions[p]
		if last.Next <= by.End && kafka.SameTopic(last.TopicID, agreed.ID) {
			return fmt.Errorf("%s-%d ends at %d for one broker, at %d %s: try again: %w",
				name, p, bounds[p].To, by.End, by.By(), kafka.ErrUnsure)
		}
		r.differ(Difference{
			Kind: kindChain, Topic: name, Partition: p, Offset: &last.Next, File: last.Path,
			Text: fmt.Sprintf("it is of another topic than the one that ends at %d, %s", by.End, by.By()),
		})
		return nil
	}
	from := max(a.topics[schemas.TopicJobSummary].Ranges[p].From, bounds[p].From)
	// Records in holes between files are passed over: the chain of file names already shows the holes.
	read := kafka.Range{From: from, To: last.Next}
	if first.fault != nil || first.PreviousDate != "" && first.PreviousDate < oldest { // users delete old dates
		read.From = max(from, first.Start)
	}
	s := recount.OpenStream(ctx, a.cfg, name, p, read)
	defer s.Close()
	l := &lookahead{s: s}
	if err := first.uncovered(l, a.cfg.Cluster, r); err != nil {
		return err
	}
	for i := range files {
		if err := a.compareFile(&files[i], from, l, c, r); err != nil {
			return err
		}
	}
	return nil
}

// lookahead is a stream with a view of the next record before it is taken.
type lookahead struct {
	s    *recount.Stream
	e    Entry
	full bool
}

// before returns the next record if its offset is below next.
func (l *lookahead) before(next int64) (e Entry, ok bool, err error) {
	if !l.full {
		if l.e, l.full, err = l.s.Next(); err != nil || !l.full {
			return Entry{}, false, err
		}
	}
	if l.e.Offset >= next {
		return Entry{}, false, nil
	}
	l.full = false
	return l.e, true, nil
}

// skip passes the records before an offset.
func (l *lookahead) skip(to int64) error {
	for {
		if _, ok, err := l.before(to); err != nil || !ok {
			return err
		}
	}
}

// compareFile compares a file with the summaries of its offsets. The topic still holds the offsets from from on.
func (a *auditor) compareFile(f *File, from int64, l *lookahead, c *Chain, r *Report) error {
	if f.Gap {
		c.Gaps++
	}
	if f.Next <= from {
		return nil
	}
	defer a.progress(f.Next-max(f.Start, from), f.LastInterval)
	if f.Compacted != nil { // compacted from files that were compared before, proven by a hash
		return nil
	}
	if err := l.skip(f.Start); err != nil {
		return err
	}
	rows, readable := f.rows(r)
	unreadable := int64(0)
	for {
		e, ok, err := l.before(f.Next)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		switch s := summaryOf(e, a.cfg.Cluster); {
		case s == nil:
			unreadable++
		case readable:
			c.Summaries++
			n, fault := rows.Take(s)
			if c.Rows += n; fault != nil {
				r.differ(intervalOf(s).mark(f.difference(&e.Offset, "%v", fault)))
			}
		}
	}
	if f.Start < from || !readable {
		return nil
	}
	c.Compared++
	if rows.Left(r, f); unreadable != f.UndecodableCount {
		r.differ(f.difference(&f.Start, "it lists %d unreadable records, the topic has %d",
			f.UndecodableCount, unreadable))
	}
	return nil
}

// summaryOf returns the summary of this cluster that a record is, or nil.
func summaryOf(e Entry, cluster string) *schemas.JobSummary {
	value, err := schemas.Unmarshal(e.Value)
	s, ok := value.(*schemas.JobSummary)
	if err != nil || !ok || s.Cluster != cluster {
		return nil
	}
	return s
}

// rows reads the rows of a file. They are not readable if the file stands for a gap, is damaged or was deleted.
func (f *File) rows(r *Report) (rows *Rows, readable bool) {
	if f.fault != nil || f.Gap {
		return nil, false
	}
	all, _, err := sink.ReadFile(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Notes = append(r.Notes, f.Path+" was deleted meanwhile")
	case err != nil:
		r.differ(f.difference(&f.Start, "it cannot be read: %v", err))
	}
	return newRows(all), err == nil
}

// uncovered reports the summaries that lie before the first file of a chain.
func (f *File) uncovered(l *lookahead, cluster string, r *Report) error {
	for {
		e, ok, err := l.before(f.Start)
		if err != nil || !ok {
			return err
		}
		d := f.difference(&e.Offset, "the archive lacks it, and begins behind it")
		if s := summaryOf(e, cluster); s != nil {
			d = intervalOf(s).mark(d)
		}
		r.differ(d)
	}
}

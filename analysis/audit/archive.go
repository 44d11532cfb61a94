package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// File is one file of the archive, as its footer describes it.
type File struct {
	Path, Date string
	sink.Footer
	fault error // not nil: it cannot be read
}

// List returns the files of a topic in an archive, by partition and in the order of their positions. It leaves out the
// dates before since. Users may delete dates meanwhile. There may be no archive.
func List(dir, topic, since string) (map[int32][]File, error) {
	root := filepath.Join(dir, "summaries")
	dates, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", root, err)
	}
	var all []*File
	for _, d := range dates {
		date, ok := strings.CutPrefix(d.Name(), "date=")
		if !ok || date < since {
			continue
		}
		names, err := os.ReadDir(filepath.Join(root, d.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing %s: %w", d.Name(), err)
		}
		for _, n := range names {
			f := &File{Path: filepath.Join(root, d.Name(), n.Name()), Date: date}
			if f.Topic = topic; f.parseName(n.Name()) {
				all = append(all, f)
			}
		}
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, f := range all {
		g.Go(func() error {
			f.readFooter()
			return nil
		})
	}
	_ = g.Wait() // each file has its own fault
	files := map[int32][]File{}
	for _, f := range all {
		if !errors.Is(f.fault, fs.ErrNotExist) {
			files[f.Partition] = append(files[f.Partition], f.links()...)
		}
	}
	for _, of := range files {
		slices.SortFunc(of, func(a, b File) int { return cmp.Compare(a.Start, b.Start) })
	}
	return files, nil
}

// links returns what a file is in its chain. A compacted file is several links if files of other dates lie between.
func (f *File) links() (all []File) {
	if f.Compacted == nil {
		return []File{*f}
	}
	for _, r := range f.Ranges() {
		link := *f
		link.Start, link.Next, link.PreviousDate, link.Gap = r.Start, r.Next, r.PreviousDate, r.Gap
		all = append(all, link)
	}
	return all
}

// parseName reads partition and start from the name of a file. It is not ok for the names of other files.
func (f *File) parseName(name string) (ok bool) {
	rest, ok := strings.CutPrefix(name, f.Topic+"-")
	numbers, parquet := strings.CutSuffix(rest, ".parquet")
	partition, start, two := strings.Cut(numbers, "-")
	p, err := strconv.ParseInt(partition, 10, 32)
	s, fault := strconv.ParseInt(strings.TrimPrefix(start, "c"), 10, 64) // a compacted file has the letter
	f.Partition, f.Start, f.Next = int32(p), s, s
	return ok && parquet && two && err == nil && fault == nil
}

// readFooter replaces what the name says of a file by what the footer says.
func (f *File) readFooter() {
	footer, err := sink.ReadFooter(f.Path)
	switch {
	case err != nil:
		f.fault = err
	case footer.Topic != f.Topic || footer.Partition != f.Partition || footer.Start != f.Start:
		f.fault = errName
	default:
		f.Footer = footer
	}
}

func (f *File) difference(offset *int64, format string, args ...any) Difference {
	return Difference{
		Kind: KindArchive, Topic: f.Topic, Partition: f.Partition, Offset: offset, File: f.Path,
		Text: fmt.Sprintf(format, args...),
	}
}

var errName = errors.New("its name is not that of its footer")

// Contiguous reports the holes and overlaps of a partition's files, and those that cannot be read. oldest is the oldest
// date of the archive: what is missing of older ones, users deleted.
func (r *Report) Contiguous(files []File, oldest string) {
	differ := func(f *File, format string, args ...any) {
		d := f.difference(&f.Start, format, args...)
		d.Kind = KindChain
		r.differ(d)
	}
	for i := range files {
		f := &files[i]
		if f.fault != nil {
			differ(f, "it cannot be read: %v", f.fault)
			if i+1 < len(files) {
				f.Next = files[i+1].Start // its rows are lost, the chain is not
			}
		}
		if i == 0 {
			continue
		}
		before := &files[i-1]
		switch {
		case f.Start < before.Next:
			differ(f, "it overlaps %s, which reaches to %d", before.Path, before.Next)
		case f.Start > before.Next && f.fault == nil && (f.PreviousDate == "" || f.PreviousDate >= oldest):
			differ(f, "a hole in the chain: offsets %d to %d are in no file", before.Next, f.Start)
		}
	}
}

// Rows are the rows of one file, until the topic's summaries have taken them.
type Rows struct {
	left map[rowKey][]*schemas.Row
}

// rowKey names a row. metric is nil in the row of a summary without metrics.
type rowKey struct {
	jobInterval
	metric string
	none   bool
}

// String returns which row of its job and interval it is.
func (k rowKey) String() string {
	if k.none {
		return "without metric"
	}
	return "metric " + k.metric
}

// NewRows takes the rows of a file.
func NewRows(rows []schemas.Row) *Rows {
	r := &Rows{map[rowKey][]*schemas.Row{}}
	for i := range rows {
		job := schemas.JobKey{JobID: rows[i].JobID, Restart: rows[i].Restart}
		key := rowKey{jobInterval: jobInterval{job, rows[i].IntervalStart}, none: rows[i].Metric == nil}
		if rows[i].Metric != nil {
			key.metric = *rows[i].Metric
		}
		r.left[key] = append(r.left[key], &rows[i])
	}
	return r
}

// Take removes the rows of a summary and returns how many there were, or the first that is missing or differs.
func (r *Rows) Take(s *schemas.JobSummary) (n int64, err error) {
	w := intervalOf(s)
	if len(s.Metrics) == 0 {
		return r.take(rowKey{jobInterval: w, none: true}, s, &schemas.JobSummaryMetric{})
	}
	for i := range s.Metrics {
		one, fault := r.take(rowKey{jobInterval: w, metric: s.Metrics[i].Name}, s, &s.Metrics[i])
		n += one
		err = cmp.Or(err, fault)
	}
	return n, err
}

func (r *Rows) take(key rowKey, s *schemas.JobSummary, m *schemas.JobSummaryMetric) (int64, error) {
	rows := r.left[key]
	if len(rows) == 0 {
		return 0, fmt.Errorf("%s: the row is missing", key)
	}
	if r.left[key] = rows[1:]; len(rows) == 1 {
		delete(r.left, key)
	}
	if column := different(rows[0], s, m, key.none); column != "" {
		return 1, fmt.Errorf("%s: column %s is not as the topic has it", key, column)
	}
	return 1, nil
}

// different returns the first column of a row that is not what the summary has, or "".
func different(r *schemas.Row, s *schemas.JobSummary, m *schemas.JobSummaryMetric, none bool) string {
	numbers := [11]*float64{}
	for k := range numbers {
		if m.Deciles != nil {
			numbers[k] = &(*m.Deciles)[k]
		}
	}
	name, unit, scope, nodes, count, invalid := &m.Name, &m.Unit, &m.Scope, &m.Nodes, &m.Count, &m.Invalid
	if none {
		name, unit, scope, nodes, count, invalid = nil, nil, nil, nil, nil, nil
	}
	for _, c := range []struct {
		column string
		same   bool
	}{
		{"cluster", r.Cluster == s.Cluster},
		{"interval_ms", r.IntervalMs == s.IntervalMs},
		{"metric", equal(r.Metric, name)},
		{"unit", equal(r.Unit, unit)},
		{"scope", equal(r.Scope, scope)},
		{"method", r.Method == s.Method},
		{"parts", r.Parts == s.Parts},
		{"parts_reported", r.PartsReported == s.PartsReported},
		{"nodes_expected", r.NodesExpected == s.NodesExpected},
		{"nodes_reported", r.NodesReported == s.NodesReported},
		{"nodes", equal(r.Nodes, nodes)},
		{"count", equal(r.Count, count)},
		{"invalid", equal(r.Invalid, invalid)},
		{"mean", equal(r.Mean, m.Mean)},
		{"stddev", equal(r.Stddev, m.Stddev)},
		{"node_stddev", equal(r.NodeStddev, m.NodeStddev)},
		{"low_node", equal(r.LowNode, m.LowNode)},
		{"high_node", equal(r.HighNode, m.HighNode)},
		{"rank_error", equal(r.RankError, m.RankError)},
		{"lo", equalList(r.Lo, m.Lo)},
		{"hi", equalList(r.Hi, m.Hi)},
	} {
		if !c.same {
			return c.column
		}
	}
	for k, d := range []*float64{r.D0, r.D1, r.D2, r.D3, r.D4, r.D5, r.D6, r.D7, r.D8, r.D9, r.D10} {
		if !equal(d, numbers[k]) {
			return fmt.Sprintf("d%d", k)
		}
	}
	return differentCertified(r, m.Certified)
}

// differentCertified compares the columns of the certified summary. Where it has no items, a list is null.
func differentCertified(r *schemas.Row, c *schemas.Certified) string {
	var eps *float64
	if c == nil {
		c = &schemas.Certified{}
	} else {
		eps = &c.Eps
	}
	for _, c := range []struct {
		column string
		same   bool
	}{
		{"eps", equal(r.Eps, eps)},
		{"order_statistics", equalItems(r.OrderStatistics, c.OrderStatistics, func(v *float64) float64 { return *v })},
		{"knot_values", equalItems(r.KnotValues, c.Knots, func(k *schemas.Knot) float64 { return k.Value })},
		{"knot_ranks", equalItems(r.KnotRanks, c.Knots, func(k *schemas.Knot) int64 { return k.Rank })},
		{"atom_values", equalItems(r.AtomValues, c.Atoms, func(a *schemas.Atom) float64 { return a.Value })},
		{"atom_counts", equalItems(r.AtomCounts, c.Atoms, func(a *schemas.Atom) int64 { return a.Count })},
	} {
		if !c.same {
			return c.column
		}
	}
	return ""
}

// equalItems reports whether a list has one field of each item.
func equalItems[V comparable, I any](list []V, items []I, field func(*I) V) bool {
	if len(list) != len(items) || (list == nil) != (len(items) == 0) {
		return false
	}
	for i := range items {
		if list[i] != field(&items[i]) {
			return false
		}
	}
	return true
}

func equal[V comparable](a, b *V) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func equalList(a []float64, b *[]float64) bool {
	if b == nil {
		return a == nil
	}
	return slices.Equal(a, *b)
}

// Left reports the rows that no summary of the topic has taken, with a text that says why they should not be there.
func (r *Rows) Left(report *Report, f *File) {
	keys := slices.SortedFunc(maps.Keys(r.left), func(a, b rowKey) int {
		return cmp.Or(byInterval(a.jobInterval, b.jobInterval), strings.Compare(a.metric, b.metric))
	})
	for _, key := range keys {
		report.differ(key.mark(f.difference(nil, "%s: %d rows more than the topic has", key, len(r.left[key]))))
	}
}

// listArchive lists the files of the archive, if it is seen from here. A sink may link a file into a date that was
// listed before, and another one into a later date. So a hole must be there three times.
func (a *auditor) listArchive(ctx context.Context) (map[int32][]File, error) {
	if a.o.Partition >= 0 {
		return nil, nil
	}
	for tries := 1; ; tries++ {
		since := ""
		if !a.o.Since.IsZero() {
			since = a.o.Since.UTC().Format(time.DateOnly)
		}
		files, err := List(a.cfg.Sink.Dir, a.cfg.Prefix+schemas.TopicJobSummary, since)
		if err != nil || tries == 3 {
			return files, err
		}
		var r Report
		for _, of := range files {
			r.Contiguous(slices.Clone(of), oldestDate(files))
		}
		if r.Found == 0 || !kafka.Pause(ctx, time.Second) {
			return files, nil
		}
	}
}

func oldestDate(files map[int32][]File) (oldest string) {
	for _, of := range files {
		for i := range of {
			if oldest == "" || of[i].Date < oldest {
				oldest = of[i].Date
			}
		}
	}
	return oldest
}

// compareArchive compares the files with the topic, one after the other: as far as the topic holds their summaries.
func (a *auditor) compareArchive(ctx context.Context, files map[int32][]File, r *Report) error {
	if a.o.Partition >= 0 {
		return nil
	}
	if len(files) == 0 {
		dir, _ := filepath.Abs(a.cfg.Sink.Dir)
		r.Notes = append(r.Notes, "the archive is not compared: there is none in "+dir)
		return nil
	}
	for _, p := range slices.Sorted(maps.Keys(a.topics[schemas.TopicJobSummary].ranges)) {
		of := files[p]
		r.Contiguous(of, oldestDate(files))
		if err := a.compareChain(ctx, p, of, oldestDate(files), r); err != nil {
			return err
		}
	}
	return nil
}

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
		return nil
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
	if last.Next > bounds[p].To || !kafka.SameTopic(last.TopicID, a.topics[schemas.TopicJobSummary].id) {
		r.differ(Difference{
			Kind: KindChain, Topic: name, Partition: p, Offset: &last.Next, File: last.Path,
			Text: fmt.Sprintf("it is of another topic than the one that ends at %d", bounds[p].To),
		})
		return nil
	}
	from := max(a.topics[schemas.TopicJobSummary].ranges[p].From, bounds[p].From)
	// Its records in holes between files are passed over: the names of files tell of holes.
	read := kafka.Range{From: from, To: last.Next}
	if first.fault != nil || first.PreviousDate != "" && first.PreviousDate < oldest { // users delete old dates
		read.From = max(from, first.Start)
	}
	s := openStream(ctx, a.cfg, name, p, read)
	defer s.close()
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

// lookahead is a stream whose next record can be seen before it is taken.
type lookahead struct {
	s    *stream
	e    Entry
	full bool
}

// before returns the next record if its offset is below next.
func (l *lookahead) before(next int64) (e Entry, ok bool, err error) {
	if !l.full {
		if l.e, l.full, err = l.s.next(); err != nil || !l.full {
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

// compareFile compares a file with the summaries of its offsets, of which the topic has those from an offset on.
func (a *auditor) compareFile(f *File, from int64, l *lookahead, c *Chain, r *Report) error {
	if f.Gap {
		c.Gaps++
	}
	if f.Next <= from {
		return nil
	}
	defer a.progress(f.Next-max(f.Start, from), f.LastInterval)
	if f.Compacted != nil { // its rows are those of files that were compared, by a hash
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
	return NewRows(all), err == nil
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

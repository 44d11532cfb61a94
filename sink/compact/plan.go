package compact

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirhpc/weir/sink"
)

const (
	// ripening is how long a date must be over before it is compacted. Most late rows have come by then.
	ripening = 26 * time.Hour
	// lateFiles is the number of small files of late rows at which a compacted date is compacted again.
	lateFiles = 32
	// maxUndecodable bounds the list in a footer, as the sink does.
	maxUndecodable = 10_000
)

// task is a date that is due: it gets a generation, made of the inputs of each partition.
type task struct {
	date       string
	generation int64
	inputs     map[int32][]sink.File // by range; partitions without small files are left as they are
	held       error                 // not nil: why it is not compacted now
	deleted    bool                  // users deleted the rows that the rollups have, and these are late ones
}

var (
	// errOpen holds a date that a partition may still append to.
	errOpen = errors.New("the last file of a partition lies in it")
	// errYoung holds a date that ended only now.
	errYoung = errors.New("it ended less than 26 hours ago")
	// errStaged holds a date until its last compaction is cleared away.
	errStaged = errors.New("its inputs are kept for another while")
)

// due returns the dates to compact, oldest first, and the dates that something holds. files lists the archive by date,
// and staged names the dates with a directory in the stage. again is the number of late files that makes a compacted
// date due again.
func due(files []sink.File, staged map[string]bool, now time.Time, again int) []task {
	byDate, last := map[string][]sink.File{}, map[int32]sink.File{}
	for _, f := range files {
		byDate[f.Date] = append(byDate[f.Date], f)
		if l, ok := last[f.Partition]; !ok || end(f) > end(l) {
			last[f.Partition] = f
		}
	}
	holes := sink.Holes(files)
	var tasks []task
	for _, date := range slices.Sorted(maps.Keys(byDate)) {
		t := taskOf(date, byDate[date], again)
		if t.inputs == nil && t.held == nil {
			continue
		}
		for _, p := range slices.Sorted(maps.Keys(last)) {
			if last[p].Date <= date && t.held == nil {
				t.held = fmt.Errorf("%w: partition %d", errOpen, p)
			}
		}
		switch over, err := time.Parse(time.DateOnly, date); {
		case t.held != nil:
		case err != nil:
			t.held = err
		case now.Before(over.Add(24*time.Hour + ripening)):
			t.held = errYoung
		case staged[date]:
			t.held = errStaged
		default:
			t.held = cmp.Or(holes[""], holes[date])
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// waits reports whether time alone releases a date that is held.
func (t task) waits() bool {
	return errors.Is(t.held, errOpen) || errors.Is(t.held, errYoung) || errors.Is(t.held, errStaged)
}

// end returns the end of a file, as far as it is known.
func end(f sink.File) int64 { return max(f.Start, f.Footer.Next) }

// taskOf returns the task of a date. Its inputs are nil if there is nothing to compact.
func taskOf(date string, files []sink.File, again int) task {
	t := task{date: date, generation: generation(files) + 1}
	small := map[int32]int{}
	total := 0
	for _, f := range files {
		if f.Fault != nil {
			t.held = f.Fault
			return t
		}
		if !f.Compacted {
			small[f.Partition]++
			total++
		}
	}
	if total == 0 || t.generation > 1 && total < again {
		return t
	}
	t.inputs = map[int32][]sink.File{}
	for _, f := range files {
		if small[f.Partition] > 0 {
			t.inputs[f.Partition] = append(t.inputs[f.Partition], f)
		}
	}
	for _, inputs := range t.inputs {
		slices.SortFunc(inputs, func(a, b sink.File) int { return cmp.Compare(a.Start, b.Start) })
	}
	return t
}

// generation returns the last generation among files; 0 if none is compacted.
func generation(files []sink.File) int64 {
	last := int64(0)
	for _, f := range files {
		if c := f.Footer.Compacted; f.Fault == nil && c != nil {
			last = max(last, c.Generation)
		}
	}
	return last
}

// joined returns the footer of the file that takes the place of inputs. The fields that depend on rows are still
// missing.
func joined(inputs []sink.File, generation int64) sink.Footer {
	first := inputs[0].Footer
	f := sink.Footer{Topic: first.Topic, Partition: first.Partition}
	c := &sink.Compacted{Generation: generation}
	var ranges []sink.Range
	for _, in := range inputs {
		ranges = append(ranges, in.Footer.Ranges()...)
		c.Inputs = append(c.Inputs, in.Name)
		f.Undecodable = append(f.Undecodable, in.Footer.Undecodable...)
		f.UndecodableCount += in.Footer.UndecodableCount
		f.TopicID = cmp.Or(in.Footer.TopicID, f.TopicID)
	}
	f.Undecodable = f.Undecodable[:min(len(f.Undecodable), maxUndecodable)]
	slices.SortFunc(ranges, func(a, b sink.Range) int { return cmp.Compare(a.Start, b.Start) })
	for _, r := range ranges {
		if n := len(c.Ranges); n > 0 && c.Ranges[n-1].Next == r.Start && !c.Ranges[n-1].Gap && !r.Gap {
			c.Ranges[n-1].Next = r.Next
			continue
		}
		c.Ranges = append(c.Ranges, r)
	}
	f.Start, f.Next = c.Ranges[0].Start, c.Ranges[len(c.Ranges)-1].Next
	f.PreviousDate, f.Compacted = c.Ranges[0].PreviousDate, c
	return f
}

// entry is a name in a directory, with its inode and its file in the chain.
type entry struct {
	name  string
	inode uint64
	file  *sink.File // nil: not named as a file of the chain
}

// verdict is the decision of recovery about a directory of the stage.
type verdict int

const (
	discard verdict = iota // it was never published: its files are in the date as well
	finish                 // it was published: this is the date's old directory
	keep                   // nobody knows
)

// decide returns the verdict on a directory of the stage. The directory's name holds its generation. If the date has
// reached that generation, then the exchange took place, and the stage holds the old directory.
func decide(staged int64, dateExists bool, date []entry) verdict {
	switch {
	case !dateExists:
		return keep
	case generationOf(date) >= staged:
		return finish
	}
	return discard
}

func generationOf(entries []entry) int64 {
	last := int64(0)
	for _, e := range entries {
		if e.file != nil {
			last = max(last, generation([]sink.File{*e.file}))
		}
	}
	return last
}

// contents summarizes a date's directory.
type contents struct {
	names  map[string]uint64 // and their inodes
	inputs map[string]bool   // of the files of the last generation
	ranges map[int32][]sink.Range
}

func contentsOf(entries []entry) contents {
	c := contents{map[string]uint64{}, map[string]bool{}, map[int32][]sink.Range{}}
	last := generationOf(entries)
	for _, e := range entries {
		c.names[e.name] = e.inode
		if e.file == nil || e.file.Fault != nil || e.file.Footer.Compacted == nil {
			continue
		}
		p := e.file.Partition
		c.ranges[p] = append(c.ranges[p], e.file.Footer.Compacted.Ranges...)
		if e.file.Footer.Compacted.Generation == last {
			for _, name := range e.file.Footer.Compacted.Inputs {
				c.inputs[name] = true
			}
		}
	}
	return c
}

// holds reports whether compacted files of the date hold the start of a file.
func (c contents) holds(f *sink.File) bool {
	return slices.ContainsFunc(c.ranges[f.Partition], func(r sink.Range) bool {
		return r.Start <= f.Start && f.Start < r.Next
	})
}

// carried returns the names of a published date's old directory that belong into the new one: files that came after the
// stage was made. Rows in a compacted file must not come back.
func carried(old, date []entry) []string {
	c := contentsOf(date)
	var names []string
	for _, e := range old {
		_, there := c.names[e.name]
		if !there && !c.inputs[e.name] && (e.file == nil || !c.holds(e.file)) {
			names = append(names, e.name)
		}
	}
	return names
}

// spent returns the names in a published date's old directory that may be deleted. These are inputs that the date's
// footers name, and files that the date contains too. The others stay.
func spent(old, date []entry) (names, rest []string) {
	c := contentsOf(date)
	for _, e := range old {
		if inode, there := c.names[e.name]; c.inputs[e.name] || there && inode == e.inode {
			names = append(names, e.name)
		} else {
			rest = append(rest, e.name)
		}
	}
	return names, rest
}

// unpublished returns the names in a stage of some generation that may be deleted. These are files of that generation,
// if the date still contains their inputs, and files that the date contains too.
func unpublished(staged int64, stage, date []entry) (names, rest []string) {
	c := contentsOf(date)
	for _, e := range stage {
		inode, there := c.names[e.name]
		if there && inode == e.inode || e.file != nil && derived(e.file, staged, c) {
			names = append(names, e.name)
		} else {
			rest = append(rest, e.name)
		}
	}
	return names, rest
}

// derived reports whether a file can be made again from a date.
func derived(f *sink.File, generation int64, date contents) bool {
	made := f.Footer.Compacted
	if f.Fault != nil || made == nil || made.Generation != generation {
		return false
	}
	missing := func(name string) bool { _, there := date.names[name]; return !there }
	return !slices.ContainsFunc(made.Inputs, missing)
}

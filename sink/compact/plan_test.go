package compact

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/sink"
)

// small returns a small file as a listing has it.
func small(date string, partition int32, start, next int64, previous string) sink.File {
	return sink.File{
		Date: date, Partition: partition, Start: start,
		Name: fmt.Sprintf("%s-%d-%020d.parquet", testTopic, partition, start),
		Footer: sink.Footer{
			Topic: testTopic, Partition: partition, Start: start, Next: next, PreviousDate: previous,
			Rows: next - start,
		},
	}
}

func compacted(inputs []sink.File, generation int64) sink.File {
	f := joined(inputs, generation)
	return sink.File{
		Date: inputs[0].Date, Partition: f.Partition, Start: f.Start, Compacted: true, Footer: f,
		Name: sink.CompactedName(testTopic, f.Partition, f.Start),
	}
}

func TestDue(t *testing.T) {
	const d1, d2, d3 = "2026-11-20", "2026-11-21", "2026-11-22"
	at := func(date string, hours int) time.Time {
		day, err := time.Parse(time.DateOnly, date)
		if err != nil {
			t.Fatal(err)
		}
		return day.Add(time.Duration(hours) * time.Hour)
	}
	day := []sink.File{small(d1, 0, 0, 5, ""), small(d1, 0, 5, 9, d1), small(d2, 0, 9, 12, d1)}
	late := func(n int) []sink.File {
		files := []sink.File{compacted(day[:2], 1), day[2]}
		for i := range int64(n) {
			files = append(files, small(d1, 0, 12+i, 13+i, d1))
		}
		return append(files, small(d3, 0, 12+int64(n), 50, d1))
	}
	sorted := func(files []sink.File) []sink.File {
		slices.SortStableFunc(files, func(a, b sink.File) int { return strings.Compare(a.Date, b.Date) })
		return files
	}
	damaged := slices.Clone(day)
	damaged[1].Fault = sink.ErrBadFile
	hole := []sink.File{day[0], small(d1, 0, 6, 9, d1), day[2]}
	two := append(slices.Clone(day), small(d1, 1, 0, 3, ""))
	for name, c := range map[string]struct {
		files  []sink.File
		staged string
		now    time.Time
		want   map[string]int // whether d1 is due, and its inputs of partition 0
		held   error          // of d1
	}{
		"over for 26 hours":              {day, "", at(d2, 26), map[string]int{d1: 2}, nil},
		"over for less":                  {day, "", at(d2, 25), nil, errYoung},
		"the chain ends in it":           {day[:2], "", at(d3, 72), nil, errOpen},
		"another partition ends in it":   {sorted(two), "", at(d3, 72), nil, errOpen},
		"its old files are still there":  {day, d1, at(d2, 26), nil, errStaged},
		"a file is damaged":              {damaged, "", at(d2, 26), nil, sink.ErrBadFile},
		"a file is missing":              {hole, "", at(d2, 26), nil, sink.ErrHole},
		"compacted":                      {sorted(late(0)), "", at(d3, 72), nil, nil},
		"compacted, and some late files": {sorted(late(31)), "", at(d3, 72), nil, nil},
		"compacted, and many late files": {sorted(late(32)), "", at(d3, 72), map[string]int{d1: 33}, nil},
		"nothing at all":                 {nil, "", at(d3, 72), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			var held error
			for _, task := range due(c.files, map[string]bool{c.staged: true}, c.now, lateFiles) {
				switch {
				case task.date != d1:
				case task.held == nil:
					got[task.date] = len(task.inputs[0])
				default:
					held = task.held
				}
			}
			if c.want == nil {
				c.want = map[string]int{}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("due (-want +got):\n%s", diff)
			}
			if !errors.Is(held, c.held) || (held == nil) != (c.held == nil) {
				t.Errorf("held by %v, want %v", held, c.held)
			}
		})
	}
}

func TestJoined(t *testing.T) {
	const d, other = "2026-11-21", "2026-11-22"
	gap := small(d, 0, 9, 12, d)
	gap.Footer.Gap = true
	f := joined([]sink.File{
		small(d, 0, 0, 5, "2026-11-20"), small(d, 0, 5, 9, d), gap, small(d, 0, 12, 15, d), small(d, 0, 20, 22, other),
	}, 4)
	want := []sink.Range{
		{Start: 0, Next: 9, PreviousDate: "2026-11-20"},
		{Start: 9, Next: 12, PreviousDate: d, Gap: true},
		{Start: 12, Next: 15, PreviousDate: d},
		{Start: 20, Next: 22, PreviousDate: other},
	}
	if diff := cmp.Diff(want, f.Compacted.Ranges); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
	if f.Start != 0 || f.Next != 22 || f.PreviousDate != "2026-11-20" || f.Compacted.Generation != 4 ||
		len(f.Compacted.Inputs) != 5 {
		t.Errorf("footer %+v", f)
	}
}

// TestDecisionsLoseNothing replaces random dates in memory, once or twice. Files come while the stage is made, and
// afterwards. No position may be lost or doubled.
func TestDecisionsLoseNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for round := range 30_000 {
		d := newDirs(rnd)
		for generation := int64(1); generation <= 1+rnd.Int64N(2); generation++ {
			d.arrive(rnd.IntN(4))
			stage := d.compact(generation)
			if verdict := decide(generation, true, d.date); verdict != discard {
				t.Fatalf("round %d: a stage that was not published: verdict %d", round, verdict)
			}
			if _, rest := unpublished(generation, stage, d.date); len(rest) > 0 {
				t.Fatalf("round %d: a stage keeps %v", round, rest)
			}
			d.arrive(rnd.IntN(3)) // into the old directory
			old := d.date
			d.date = stage
			if verdict := decide(generation, true, d.date); verdict != finish {
				t.Fatalf("round %d: a stage that was published: verdict %d", round, verdict)
			}
			d.arrive(rnd.IntN(3)) // into the new one
			for range 1 + rnd.IntN(2) {
				for _, name := range carried(old, d.date) {
					d.date = append(d.date, find(old, name))
				}
			}
			if err := d.whole(); err != nil {
				t.Fatalf("round %d, generation %d: %v", round, generation, err)
			}
			if _, rest := spent(old, d.date); len(rest) > 0 {
				t.Fatalf("round %d: the old directory keeps %v", round, rest)
			}
		}
	}
}

// dirs is a date's directory in memory.
type dirs struct {
	rnd   *rand.Rand
	date  []entry
	next  int64
	inode uint64
	users int
	have  int64 // positions that arrived
}

func newDirs(rnd *rand.Rand) *dirs {
	d := &dirs{rnd: rnd}
	d.arrive(1 + rnd.IntN(4))
	return d
}

// arrive adds small files, and now and then a user's. Between them another date has positions.
func (d *dirs) arrive(n int) {
	for range n {
		d.inode++
		if d.rnd.IntN(6) == 0 {
			d.users++
			d.date = append(d.date, entry{name: fmt.Sprint("user-", d.users), inode: d.inode})
			continue
		}
		d.next += d.rnd.Int64N(2)
		f := small(testDate, 0, d.next, d.next+1+d.rnd.Int64N(3), testDate)
		d.next, d.have = f.Footer.Next, d.have+f.Footer.Next-f.Footer.Start
		d.date = append(d.date, entry{f.Name, d.inode, &f})
	}
}

// compact returns a stage of all files of the chain so far, and links of the others.
func (d *dirs) compact(generation int64) (stage []entry) {
	var inputs []sink.File
	for _, e := range d.date {
		if e.file != nil {
			inputs = append(inputs, *e.file)
		} else {
			stage = append(stage, e)
		}
	}
	if len(inputs) > 0 {
		slices.SortFunc(inputs, func(a, b sink.File) int { return int(a.Start - b.Start) })
	} else {
		inputs = []sink.File{small(testDate, 0, d.next, d.next+1, testDate)}
		d.inode++
		d.date = append(d.date, entry{inputs[0].Name, d.inode, &inputs[0]})
		d.next, d.have = d.next+1, d.have+1
	}
	f := compacted(inputs, generation)
	d.inode++
	return append(stage, entry{f.Name, d.inode, &f})
}

func find(entries []entry, name string) entry {
	return entries[slices.IndexFunc(entries, func(e entry) bool { return e.name == name })]
}

// whole checks that the date has each position that a file arrived with once, and each user's file.
func (d *dirs) whole() error {
	count, users := map[int64]int{}, 0
	for _, e := range d.date {
		if e.file == nil {
			users++
			continue
		}
		for _, r := range e.file.Footer.Ranges() {
			for p := r.Start; p < r.Next; p++ {
				count[p]++
			}
		}
	}
	for p, n := range count {
		if n != 1 {
			return fmt.Errorf("position %d is there %d times", p, n)
		}
	}
	if int64(len(count)) != d.have {
		return fmt.Errorf("%d positions of %d", len(count), d.have)
	}
	if users != d.users {
		return fmt.Errorf("%d users' files of %d", users, d.users)
	}
	return nil
}

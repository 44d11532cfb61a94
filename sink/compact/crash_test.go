package compact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// A world is an archive that the tests copy by links, and what must be in it.
type world struct {
	template string
	rows     []string // of the files in place
	foreign  map[string]string
	late     lateFile
	after    lateFile // what the partition gets next, of a later date
}

// atomOf returns a value for each name of a row: the place where a rollup shows it.
func atomOf(row string) float64 {
	var p, start, i int
	if _, err := fmt.Sscanf(row, "p%d-%d-%d", &p, &start, &i); err != nil {
		panic(err)
	}
	return float64(p*1_000_000 + start*1000 + i)
}

// lateFile lies beside the archive until a late sink links it.
type lateFile struct {
	path, name string
	rows       []string
}

const (
	nextDate   = "2026-11-22"
	partitions = 2
	testAgain  = 4
)

var testNow = time.UnixMilli(dayMs).Add(72 * time.Hour)

// hoursLater returns a time after the test's date is due, and after the old files of now may go.
func hoursLater(n int) time.Time {
	now := time.Now()
	if now.Before(testNow) {
		now = testNow
	}
	return now.Add(time.Duration(n) * keepFor)
}

// chainOf writes the files of a world.
type chainOf struct {
	t        testing.TB
	dir      string
	next     map[int32]int64
	previous map[int32]string
}

// add appends a file of n rows to a partition, and returns the names of the rows.
func (c *chainOf) add(dir string, partition int32, date string, n int, change func(*sink.Footer),
) (name string, rows []string) {
	c.t.Helper()
	start := c.next[partition]
	f := sink.Footer{
		Topic: testTopic, Partition: partition, Start: start, Next: start + int64(n) + 1, Rows: int64(n),
		PreviousDate: c.previous[partition], TopicID: "id",
	}
	if change != nil {
		change(&f)
	}
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		c.t.Fatal(err)
	}
	var all []schemas.Row
	for i := range n {
		v := []float64{1, 2, 3, float64(start), 5}
		interval := at.UnixMilli() + start*1000 + int64(i)
		v = append(v, make([]float64, 59)...)
		r := rowOf(fmt.Sprint("job", i%3), fmt.Sprint("metric", i%2), interval, 1000, 1, 5, v)
		r.Cluster = fmt.Sprintf("p%d-%d-%d", partition, start, i)
		atom := atomOf(r.Cluster) // which the rollups keep
		count, zero := int64(1), 0.0
		r.Count, r.Mean, r.Stddev, r.Eps = &count, &atom, &zero, &zero
		r.AtomValues, r.AtomCounts = []float64{atom}, []int64{1}
		all = append(all, r)
		rows = append(rows, r.Cluster)
	}
	if err := sink.Append(dir, testTopic, date, all, f); err != nil {
		c.t.Fatal(err)
	}
	c.next[partition], c.previous[partition] = f.Next, date
	return fmt.Sprintf("%s-%d-%020d.parquet", testTopic, partition, start), rows
}

// newWorld makes an archive whose date is due: small files with a gap and what could not be read, and a user's file.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{template: t.TempDir(), foreign: map[string]string{"notes.txt": "mine"}}
	c := &chainOf{t, w.template, map[int32]int64{}, map[int32]string{}}
	for p := range int32(partitions) {
		for i := range 4 {
			_, rows := c.add(w.template, p, testDate, 2+i, func(f *sink.Footer) {
				if i == 2 {
					f.Undecodable, f.UndecodableCount = []sink.Undecodable{{Offset: f.Start, Reason: "why"}}, 1
				}
			})
			w.rows = append(w.rows, rows...)
		}
	}
	c.add(w.template, 0, testDate, 0, func(f *sink.Footer) { f.Gap = true })
	for p := range int32(partitions) {
		_, rows := c.add(w.template, p, nextDate, 1, nil)
		w.rows = append(w.rows, rows...)
	}
	for name, text := range w.foreign {
		path := filepath.Join(sink.DatePath(w.template, testDate), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.stash(t, c)
	return w
}

// stash makes the file that a late sink will link, and the one behind it. Until then they lie in another archive.
func (w *world) stash(t testing.TB, c *chainOf) {
	t.Helper()
	elsewhere := t.TempDir()
	name, rows := c.add(elsewhere, 0, testDate, 2, nil)
	w.late = lateFile{filepath.Join(sink.DatePath(elsewhere, testDate), name), name, rows}
	name, rows = c.add(elsewhere, 0, nextDate, 2, nil)
	w.after = lateFile{filepath.Join(sink.DatePath(elsewhere, nextDate), name), name, rows}
}

// again returns a world whose date was compacted once, and has so many late files that it is due again.
func (w *world) again(t testing.TB) *world {
	t.Helper()
	dir := w.clone(t)
	for _, now := range []time.Time{testNow, hoursLater(2)} {
		c := newCompactor(Options{Dir: dir, Topic: testTopic})
		c.now = func() time.Time { return now }
		if err := c.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	next := &world{template: dir, rows: slices.Clone(w.rows), foreign: w.foreign}
	c := &chainOf{t, dir, map[int32]int64{}, map[int32]string{}}
	files, err := sink.Files(filepath.Join(dir, "summaries"), testTopic)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Footer.Next > c.next[f.Partition] {
			c.next[f.Partition], c.previous[f.Partition] = f.Footer.Next, f.Date
		}
	}
	for range testAgain {
		_, rows := c.add(dir, 0, testDate, 1, nil)
		next.rows = append(next.rows, rows...)
	}
	_, rows := c.add(dir, 0, nextDate, 1, nil)
	next.rows = append(next.rows, rows...)
	next.stash(t, c)
	return next
}

// clone copies the archive by links. No file is ever written to again.
func (w *world) clone(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(w.template, func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(dir, strings.TrimPrefix(path, w.template))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Name() == "lock" || d.Name() == ".lock":
			return nil
		}
		return os.Link(path, to)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// lateKind is how a late file comes.
type lateKind int

const (
	noLate  lateKind = iota
	locked           // by a sink that holds the lock
	strayed          // without the lock: by a user, or from a host where locks do not reach
)

// schedule is one run of a compaction that crashes, and what happens meanwhile.
type schedule struct {
	crash  int // ahead of which action; beyond the last: it does not
	second int // the same in the recovery
	late   lateKind
	lateAt int  // ahead of which action
	plain  bool // the file system cannot exchange
	breaks func(*compactor)
}

func (s schedule) String() string {
	return fmt.Sprintf("crash %d, then %d; late %d at %d; two renames %v", s.crash, s.second, s.late, s.lateAt, s.plain)
}

// player plays a schedule.
type player struct {
	schedule
	w    *world
	t    testing.TB
	dir  string
	want []string
	// stray rows must be there once at the end, and never twice.
	stray []string
	due   bool // a late file should be linked
	step  int
	err   error // what a reader found
}

const never = 1 << 30

// play returns the first thing that is wrong, and how many actions the first run had.
func (w *world) play(t testing.TB, s schedule) (steps int, err error) {
	p := &player{schedule: s, w: w, t: t, dir: w.clone(t), want: slices.Clone(w.rows)}
	first := p.run(s.crash, testNow)
	steps = p.step
	p.read()
	second := p.run(s.second, testNow)
	p.read()
	recovered := p.run(never, testNow)
	p.goOn()
	third := p.run(never, hoursLater(2))  // compacts if that was not done, and deletes the old files
	fourth := p.run(never, hoursLater(4)) // deletes them otherwise
	p.want, p.stray = append(p.want, p.stray...), nil
	p.read()
	for _, err := range []error{first, second, recovered, third, fourth} {
		if err != nil && !errors.Is(err, errStop) {
			return steps, fmt.Errorf("%v: a run: %w", s, err)
		}
	}
	if p.err == nil {
		p.err = p.end()
	}
	if p.err != nil {
		return steps, fmt.Errorf("%v: %w", s, p.err)
	}
	return steps, nil
}

// goOn lets the partition get rows of a later date, so that nothing holds the date any longer.
func (p *player) goOn() {
	if p.late == noLate || p.due || p.lateAt != never {
		p.late, p.due = noLate, false
		return
	}
	p.late = noLate
	if err := os.Link(p.w.after.path, filepath.Join(sink.DatePath(p.dir, nextDate), p.w.after.name)); err != nil {
		p.fail(err)
	}
	p.want = append(p.want, p.w.after.rows...)
}

// changes are the actions behind which a reader may see something else.
var changes = map[string]bool{actLink: true, actRename: true, actExchange: true, actRemove: true}

// run runs a compaction that crashes ahead of an action.
func (p *player) run(crash int, now time.Time) error {
	c := newCompactor(Options{Dir: p.dir, Topic: testTopic})
	c.now, c.plain, c.again = func() time.Time { return now }, p.plain, testAgain
	var reason error
	c.Report = func(d Date) {
		if d.State == Failed {
			reason = errors.New(d.Reason)
		}
	}
	if p.breaks != nil {
		p.breaks(c)
	}
	p.step = 0
	last := actLink // so that a reader reads at once
	c.before = func(action, _ string) error {
		if p.step >= crash {
			return errStop
		}
		if p.step == p.lateAt && p.late != noLate {
			p.due, p.lateAt = true, never
		}
		if p.linkLate(); changes[last] && now.Equal(testNow) {
			p.tryRead()
		}
		last = action
		p.step++
		if action == actSync || action == actSyncDir {
			return errDone // a process that dies leaves the page cache
		}
		return nil
	}
	err := c.run(context.Background())
	p.linkLate()
	if errors.Is(err, ErrFailed) && reason != nil {
		err = reason
	}
	return err
}

// linkLate lets a late sink link a file, as soon as it may.
func (p *player) linkLate() {
	if !p.due {
		return
	}
	l := p.w.late
	if p.late == locked {
		lock, err := sink.TakeLock(context.Background(), sink.LockPath(p.dir), false, 0)
		if err != nil {
			return // it waits
		}
		defer lock.Unlock()
	}
	err := os.Link(l.path, filepath.Join(sink.DatePath(p.dir, testDate), l.name))
	if errors.Is(err, fs.ErrNotExist) {
		return // between two renames
	}
	if err != nil {
		p.fail(err)
	}
	if p.due = false; p.late == locked {
		p.want = append(p.want, l.rows...)
	} else {
		p.stray = l.rows // a crash may hide them until the recovery
	}
}

func (p *player) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// tryRead reads as a greedy reader does, if the lock is free.
func (p *player) tryRead() {
	lock, err := sink.TakeLock(context.Background(), sink.LockPath(p.dir), false, 0)
	if err == nil {
		p.fail(p.judge())
		lock.Unlock()
	}
}

// read reads as a sink does: what a crash left between two renames is undone first.
func (p *player) read() { p.fail(sink.Shared(context.Background(), p.dir, p.judge)) }

// known is what a file holds. Files never change, so the judge reads each of them once.
type known struct {
	file sink.File
	rows []string
}

type fileKey struct {
	inode uint64
	size  int64
	at    time.Time
}

var knownFiles = map[fileKey]known{}

// readOnce reads a file as any reader does.
func readOnce(path string) (known, error) {
	info, err := os.Stat(path)
	if err != nil {
		return known{}, err
	}
	key := fileKey{info.Sys().(*syscall.Stat_t).Ino, info.Size(), info.ModTime()}
	if k, ok := knownFiles[key]; ok {
		return k, nil
	}
	rows, f, err := sink.ReadFile(path)
	if err != nil {
		return known{}, err
	}
	k := known{file: sink.File{
		Name: filepath.Base(path), Partition: f.Partition, Start: f.Start, Compacted: f.Compacted != nil, Footer: f,
	}}
	for _, r := range rows {
		k.rows = append(k.rows, r.Cluster)
	}
	knownFiles[key] = k
	return k, nil
}

// judge holds what a glob reads against what must be there, and the chain against its rules.
func (p *player) judge() error {
	paths, err := filepath.Glob(filepath.Join(p.dir, "summaries", "date=*", "*.parquet"))
	if err != nil {
		return err
	}
	count := map[string]int{}
	var files []sink.File
	inside := map[string][]string{} // the rows of each file of the date
	var bad int64
	gaps := 0
	for _, path := range paths {
		k, err := readOnce(path)
		if err != nil {
			return err
		}
		for _, r := range k.rows {
			count[r]++
		}
		if strings.Contains(path, testDate) {
			inside[filepath.Base(path)] = k.rows
		}
		for _, r := range k.file.Footer.Ranges() {
			if r.Gap {
				gaps++
			}
		}
		bad += k.file.Footer.UndecodableCount
		k.file.Path, k.file.Date = path, strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "date=")
		files = append(files, k.file)
	}
	for _, name := range p.want {
		if count[name] != 1 {
			return fmt.Errorf("row %s is there %d times", name, count[name])
		}
		delete(count, name)
	}
	for _, name := range p.stray {
		if count[name] > 1 {
			return fmt.Errorf("row %s is there %d times", name, count[name])
		}
		delete(count, name)
	}
	if len(count) > 0 {
		return fmt.Errorf("rows that nobody wrote: %v", count)
	}
	for date, err := range sink.Holes(files) {
		return fmt.Errorf("date %q: %w", date, err)
	}
	if bad != partitions || gaps != 1 {
		return fmt.Errorf("%d records are listed as undecodable, not %d; %d gaps, not 1", bad, partitions, gaps)
	}
	if err := p.judgeRollups(files, inside); err != nil {
		return err
	}
	return p.foreign()
}

// knownRollups are the rollups that the judge has read.
var knownRollups = map[fileKey]struct {
	footer rollupsFooter
	atoms  map[float64]int64
}{}

// readRollupsOnce returns a file's footer, and how often each atom is in its summaries.
func readRollupsOnce(path string) (f rollupsFooter, atoms map[float64]int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return f, nil, err
	}
	key := fileKey{info.Sys().(*syscall.Stat_t).Ino, info.Size(), info.ModTime()}
	if k, ok := knownRollups[key]; ok {
		return k.footer, k.atoms, nil
	}
	if f, err = readRollups(context.Background(), path); err != nil {
		return f, nil, err
	}
	all, err := rollupsOf(path)
	if err != nil {
		return f, nil, err
	}
	atoms = map[float64]int64{}
	for _, r := range all {
		for i, v := range r.AtomValues {
			atoms[v] += r.AtomCounts[i]
		}
		if r.Count != r.CertifiedCount || r.Intervals != r.Count {
			return f, nil, fmt.Errorf("a rollup of %d rows has %d values, %d of them certified",
				r.Intervals, r.Count, r.CertifiedCount)
		}
	}
	k := knownRollups[key]
	k.footer, k.atoms = f, atoms
	knownRollups[key] = k
	return f, atoms, nil
}

// rollupsOf returns the rollups of a file.
func rollupsOf(path string) (all []Rollup, err error) {
	r, err := newRollupReader(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	err = joinRollups(context.Background(), []*rollupReader{r}, func(r *Rollup) error {
		all = append(all, *r)
		return nil
	})
	return all, err
}

// judgeRollups: each row of a compacted file is in the rollups once. Between rollups and exchange, so are the inputs of
// the generation that comes. No other row is.
func (p *player) judgeRollups(files []sink.File, inside map[string][]string) error {
	date := int64(0)
	want := map[float64]int64{}
	for _, f := range files {
		if f.Date == testDate && f.Footer.Compacted != nil {
			date = max(date, f.Footer.Compacted.Generation)
			for _, row := range inside[f.Name] {
				want[atomOf(row)]++
			}
		}
	}
	f, atoms, err := readRollupsOnce(rollupsPath(p.dir, testDate))
	if errors.Is(err, fs.ErrNotExist) && date == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rollups of a date of generation %d: %w", date, err)
	}
	switch f.generation {
	case date:
	case date + 1:
		for _, name := range f.inputs {
			for _, row := range inside[name] {
				want[atomOf(row)]++
			}
		}
	default:
		return fmt.Errorf("rollups of generation %d beside a date of %d", f.generation, date)
	}
	if !maps.Equal(want, atoms) {
		return fmt.Errorf("rollups of generation %d, date of %d: rows %v, want %v", f.generation, date, atoms, want)
	}
	return nil
}

func (p *player) foreign() error {
	for name, text := range p.w.foreign {
		got, err := os.ReadFile(filepath.Join(sink.DatePath(p.dir, testDate), name))
		if err != nil || string(got) != text {
			return fmt.Errorf("a user's file: %q, %w", got, err)
		}
	}
	return nil
}

// end checks that all is done: one compacted file a partition, and nothing left in the stage.
func (p *player) end() error {
	entries, err := os.ReadDir(sink.StagePath(p.dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "lock" {
			return fmt.Errorf("the stage still has %s", e.Name())
		}
	}
	files, err := sink.FilesIn(sink.DatePath(p.dir, testDate), testTopic, testDate)
	if err != nil {
		return err
	}
	small, compacted := 0, 0
	for _, f := range files {
		if f.Compacted {
			compacted++
		} else {
			small++
		}
	}
	if compacted != partitions || small > 1 {
		return fmt.Errorf("%d compacted and %d small files", compacted, small)
	}
	return nil
}

// schedules calls yield with the schedules of a world. A crash comes ahead of each action, with a late file before it.
// A second one comes in the recovery. With WEIR_ALL_CRASHES=1 the second comes ahead of each action of the recovery.
func schedules(t testing.TB, w *world, plain bool, yield func(schedule) bool) {
	t.Helper()
	const recovery = 12 // actions, at most
	steps, err := w.play(t, schedule{crash: never, second: never, plain: plain})
	if err != nil {
		t.Fatal(err)
	}
	all := os.Getenv("WEIR_ALL_CRASHES") != ""
	for crash := steps; crash >= 0; crash-- { // the last steps are those that errors show at
		before := max(0, crash-1)
		for _, s := range []schedule{
			{crash: crash, second: never},
			{crash: crash, second: never, late: locked, lateAt: before},
			{crash: crash, second: never, late: locked, lateAt: max(0, crash-5)}, // just ahead of the lock
			{crash: never, second: never, late: locked, lateAt: crash},
			{crash: never, second: never, late: strayed, lateAt: crash},
		} {
			if s.plain = plain; !yield(s) {
				return
			}
		}
		for second := range recovery {
			s := schedule{crash: crash, second: second, late: strayed, lateAt: before, plain: plain}
			if (all || second == crash%recovery) && !yield(s) {
				return
			}
		}
	}
}

// TestCompactionCrashes kills a compaction ahead of each action, and again in the recovery. Late files come meanwhile,
// and a reader reads whenever it gets the lock. No row may be lost or doubled at any time.
func TestCompactionCrashes(t *testing.T) {
	first := newWorld(t)
	for name, w := range map[string]*world{"first": first, "again": first.again(t)} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, two renames %v", name, plain), func(t *testing.T) {
				played, offered := 0, 0
				schedules(t, w, plain, func(s schedule) bool {
					if offered++; offered%crashEvery != 0 {
						return true
					}
					_, err := w.play(t, s)
					if err != nil {
						t.Error(err)
					}
					played++
					return err == nil
				})
				t.Logf("%d schedules", played)
			})
		}
	}
}

// TestHarnessCatchesErrors: with each of these errors in the compaction, some schedule must go wrong.
func TestHarnessCatchesErrors(t *testing.T) {
	first := newWorld(t)
	second := first.again(t)
	for name, c := range map[string]struct {
		w      *world
		plain  bool
		breaks func(*compactor)
	}{
		"nothing is carried over": {first, false, func(c *compactor) {
			c.carried = func(_, _ []entry) []string { return nil }
		}},
		"what came late is not linked under the lock": {first, false, func(c *compactor) {
			calls, right := 0, c.late
			c.late = func(c *compactor, t task, stage string) error {
				if calls++; calls > 1 {
					return nil
				}
				return right(c, t, stage)
			}
		}},
		"users' files are left behind": {first, false, func(c *compactor) {
			c.late = func(*compactor, task, string) error { return nil }
		}},
		"there is no recovery": {first, false, func(c *compactor) {
			c.decide = func(int64, bool, []entry) verdict { return keep }
		}},
		"every stage counts as published": {first, false, func(c *compactor) {
			c.decide = func(int64, bool, []entry) verdict { return finish }
		}},
		"no stage counts as published": {first, false, func(c *compactor) {
			c.decide = func(int64, bool, []entry) verdict { return discard }
		}},
		"any compaction counts, instead of the generation": {second, false, func(c *compactor) {
			c.decide = func(_ int64, exists bool, date []entry) verdict { return decide(1, exists, date) }
		}},
		"inputs are carried over": {first, false, func(c *compactor) {
			c.carried = func(old, _ []entry) (names []string) {
				for _, e := range old {
					names = append(names, e.name)
				}
				return names
			}
		}},
		"all old files are deleted at once, before they are carried over": {first, true, func(c *compactor) {
			c.carried = func(_, _ []entry) []string { return nil }
			c.spent = func(old, _ []entry) (names, rest []string) {
				for _, e := range old {
					names = append(names, e.name)
				}
				return names, nil
			}
		}},
		"rollups of a crashed generation are added to again": {first, false, func(c *compactor) {
			c.begin = func(there *rollupsFooter, _ string, _ int64) (bool, map[string]bool, error) {
				return there != nil, map[string]bool{}, nil
			}
		}},
		"the same with late rows": {second, true, func(c *compactor) {
			c.begin = func(*rollupsFooter, string, int64) (bool, map[string]bool, error) {
				return true, map[string]bool{}, nil
			}
		}},
		"rollups are made of late rows alone": {second, false, func(c *compactor) {
			c.begin = func(*rollupsFooter, string, int64) (bool, map[string]bool, error) {
				return false, map[string]bool{}, nil
			}
		}},
		"rollups come after the exchange": {first, false, func(c *compactor) {
			c.rolled = func(c *compactor, made, date string) error {
				c.carried = func(old, now []entry) []string {
					if err := c.publishRollups(made, date); err != nil {
						return nil
					}
					return carried(old, now)
				}
				return nil
			}
		}},
		"a date is compacted from its small files alone": {second, false, func(c *compactor) {
			right := c.due
			c.due = func(files []sink.File, staged map[string]bool, now time.Time, again int) []task {
				tasks := right(files, staged, now, again)
				for _, t := range tasks {
					for p, in := range t.inputs {
						t.inputs[p] = slices.DeleteFunc(in, func(f sink.File) bool { return f.Compacted })
					}
				}
				return tasks
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var caught error
			schedules(t, c.w, c.plain, func(s schedule) bool {
				s.breaks = c.breaks
				_, caught = c.w.play(t, s)
				return caught == nil
			})
			if caught == nil {
				t.Error("no schedule went wrong")
			}
			t.Log(caught)
		})
	}
}

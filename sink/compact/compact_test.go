package compact

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// TestColumnsAreThoseOfTheArchive: a new column of the archive must be known to compaction too.
func TestColumnsAreThoseOfTheArchive(t *testing.T) {
	tags := func(of reflect.Type) (names []string) {
		for field := range of.Fields() {
			if tag := field.Tag.Get("parquet"); tag != "" {
				names = append(names, tag)
			}
		}
		return names
	}
	if diff := cmp.Diff(tags(reflect.TypeFor[schemas.Row]()), tags(reflect.TypeFor[row]())); diff != "" {
		t.Errorf("columns of schemas.Row and of compacted files (-want +got):\n%s", diff)
	}
	for i, name := range tags(reflect.TypeFor[row]()) {
		if want, _, _ := strings.Cut(name, ","); columns[i].name != want {
			t.Errorf("column %d is read as %s, want %s", i, columns[i].name, want)
		}
	}
}

// TestHashSeesEveryColumn: a value that changes, or becomes null, changes the hash.
func TestHashSeesEveryColumn(t *testing.T) {
	var r row
	at := reflect.ValueOf(&r).Elem()
	hashes := func() [2]uint64 { return [2]uint64{r.hash(), r.summaryHash()} }
	seen := map[[2]uint64]string{hashes(): "nothing"}
	for i := range at.NumField() {
		field, name := at.Field(i), at.Type().Field(i).Name
		if name == "fresh" {
			continue
		}
		switch field.Kind() {
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.String:
			field.SetString("x")
		default:
			field.SetInt(1)
		}
		if other, ok := seen[hashes()]; ok {
			t.Errorf("%s does not change the hash: as with %s", name, other)
		}
		seen[hashes()] = name
	}
}

// randomRows returns rows with nulls of every kind, lists and equal keys.
func randomRows(rnd *rand.Rand, n int) []schemas.Row {
	text := func(of string) *string {
		if rnd.IntN(4) == 0 {
			return nil
		}
		s := of + string(rune('a'+rnd.IntN(3)))
		return &s
	}
	number := func() *float64 {
		if rnd.IntN(4) == 0 {
			return nil
		}
		v := rnd.NormFloat64()
		return &v
	}
	list := func() (v []float64) {
		if rnd.IntN(3) > 0 {
			return nil
		}
		for range 1 + rnd.IntN(12) {
			v = append(v, rnd.NormFloat64())
		}
		return v
	}
	whole := func() *int64 { v := rnd.Int64(); return &v }
	wholes := func(n int) (v []int64) {
		for range n {
			v = append(v, rnd.Int64())
		}
		return v
	}
	rows := make([]schemas.Row, n)
	for i := range rows {
		nodes := rnd.Int32()
		rows[i] = schemas.Row{
			Cluster: "c", JobID: string(rune('a' + rnd.IntN(4))), Restart: rnd.Int32N(2),
			IntervalStart: dayMs + rnd.Int64N(5)*1000, IntervalMs: 1000,
			Metric: text("m"), Unit: text("u"), Scope: text("s"), Method: "EXACT", Parts: rnd.Int32(),
			PartsReported: rnd.Int32(), NodesExpected: rnd.Int32(), NodesReported: rnd.Int32(), Nodes: &nodes,
			Count: whole(), Mean: number(), Stddev: number(), NodeStddev: number(),
			LowNode: text("l"), HighNode: text("h"), D0: number(), D5: number(),
			D10: number(), RankError: number(), Lo: list(), Hi: list(),
			Eps: number(), OrderStatistics: list(), KnotValues: list(), AtomValues: list(),
		}
		rows[i].KnotRanks, rows[i].AtomCounts = wholes(len(rows[i].KnotValues)), wholes(len(rows[i].AtomValues))
		if rnd.IntN(2) == 0 {
			rows[i].Nodes, rows[i].Count = nil, nil
		} else {
			rows[i].Invalid = whole()
		}
	}
	return rows
}

// TestRowsSurvive compacts random rows, in one level of merges and in two, and compares them with the library's reader
// of typed rows.
func TestRowsSurvive(t *testing.T) {
	for _, files := range []int{1, 3, 70} {
		rnd := rand.New(rand.NewPCG(7, uint64(files)))
		dir := t.TempDir()
		var want []schemas.Row
		for i := range int64(files) {
			rows := randomRows(rnd, []int{0, 1, 40, 700}[rnd.IntN(4)])
			want = append(want, rows...)
			f := sink.Footer{Topic: testTopic, Start: i, Next: i + 1, Rows: int64(len(rows)), PreviousDate: testDate}
			if err := sink.Append(dir, testTopic, testDate, rows, f); err != nil {
				t.Fatal(err)
			}
		}
		compactTest(t, dir, int64(files))
		paths, err := filepath.Glob(filepath.Join(sink.DatePath(dir, testDate), "*"))
		if err != nil || len(paths) != 1 {
			t.Fatalf("files: %v, %v, want one", paths, err)
		}
		got, footer, err := sink.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		c := footer.Compacted
		if c == nil || len(c.Inputs) != files || len(c.Ranges) != 1 || c.Ranges[0].Next != int64(files) {
			t.Errorf("footer %+v", footer.Compacted)
		}
		if !slices.IsSortedFunc(got, byKey) {
			t.Error("not sorted")
		}
		for _, rows := range [][]schemas.Row{want, got} { // rows with equal keys may change places
			slices.SortFunc(rows, func(a, b schemas.Row) int {
				if c := byKey(a, b); c != 0 {
					return c
				}
				return int(a.Parts) - int(b.Parts)
			})
		}
		for i := range want { // the rollups have them
			w := &want[i]
			w.Eps, w.OrderStatistics, w.KnotValues, w.KnotRanks = nil, nil, nil, nil
			w.AtomValues, w.AtomCounts = nil, nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%d files: rows (-want +got):\n%.2000s", files, diff)
		}
	}
}

func byKey(a, b schemas.Row) int {
	return compare(
		&row{JobID: a.JobID, Restart: a.Restart, Metric: a.Metric, IntervalStart: a.IntervalStart},
		&row{JobID: b.JobID, Restart: b.Restart, Metric: b.Metric, IntervalStart: b.IntervalStart})
}

// compactTest appends a file of a later date at a position, and compacts.
func compactTest(t testing.TB, dir string, next int64) []Date {
	t.Helper()
	f := sink.Footer{Topic: testTopic, Start: next, Next: next + 1, PreviousDate: testDate}
	if err := sink.Append(dir, testTopic, nextDate, nil, f); err != nil {
		t.Fatal(err)
	}
	var reports []Date
	c := newCompactor(Options{Dir: dir, Topic: testTopic, Report: func(d Date) { reports = append(reports, d) }})
	c.now = func() time.Time { return testNow }
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err, reports)
	}
	return reports
}

// TestEncodingOfCompactedFiles: what the page promises of a file.
func TestEncodingOfCompactedFiles(t *testing.T) {
	dir := t.TempDir()
	f := sink.Footer{Topic: testTopic, Next: 1, Rows: 500, PreviousDate: testDate}
	if err := sink.Append(dir, testTopic, testDate, randomRows(rand.New(rand.NewPCG(1, 1)), 500), f); err != nil {
		t.Fatal(err)
	}
	compactTest(t, dir, 1)
	file, err := sink.Open(filepath.Join(sink.DatePath(dir, testDate), sink.CompactedName(testTopic, 0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range file.Metadata().RowGroups[0].Columns {
		m := c.MetaData
		if m.Codec.String() != "ZSTD" || m.BloomFilterOffset != 0 {
			t.Errorf("%v: codec %v, bloom filter at %d", m.PathInSchema, m.Codec, m.BloomFilterOffset)
		}
		split := slices.Contains(m.Encoding, parquet.ByteStreamSplit.Encoding())
		if isDouble := m.Type.String() == "DOUBLE"; isDouble != split {
			t.Errorf("%v: bytes are split: %v", m.PathInSchema, split)
		}
	}
}

// TestNothingIsPublishedThatDiffers: if the read-back is not what was read, the date stays as it was.
func TestNothingIsPublishedThatDiffers(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
	p.breaks = func(c *compactor) { c.same = func(_, _ tally) bool { return false } }
	if err := p.run(never, testNow); err == nil || !strings.Contains(err.Error(), errDiffers.Error()) {
		t.Errorf("a compaction that differs: %v", err)
	}
	p.read()
	if p.err != nil {
		t.Error(p.err)
	}
	files, err := sink.FilesIn(sink.DatePath(p.dir, testDate), testTopic, testDate)
	if err != nil || generation(files) != 0 {
		t.Errorf("generation %d, %v", generation(files), err)
	}
	p.breaks = nil
	if err := errors.Join(p.run(never, testNow), p.run(never, hoursLater(2))); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

// TestOldFilesAreKeptForAnHour: readers on NFS may have them open.
func TestOldFilesAreKeptForAnHour(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
	old := filepath.Join(sink.StagePath(p.dir), "date="+testDate+".g1")
	now := time.Now()
	if now.Before(testNow) {
		now = testNow
	}
	if err := p.run(never, now); err != nil {
		t.Fatal(err)
	}
	since, err := changed(old)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		there bool
	}{{59 * time.Minute, true}, {61 * time.Minute, false}} {
		if err := p.run(never, since.Add(c.after)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(old); (err == nil) != c.there {
			t.Errorf("after %v: %v, want it there: %v", c.after, err, c.there)
		}
	}
}

// TestFaultsOfTheDate: each ends in a message with a remedy, and the date stays whole.
func TestFaultsOfTheDate(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		harm func(t *testing.T, date string) // of the date's directory
		fail string                          // an action whose disk is full
		says string                          // empty: it is compacted
	}{
		"a file without a footer": {func(t *testing.T, date string) {
			put(t, filepath.Join(date, testTopic+"-0-00000000000000000099.parquet"), "no Parquet")
		}, "", "bring it back from a copy"},
		"a directory": {func(t *testing.T, date string) {
			if err := os.Mkdir(filepath.Join(date, "mine"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "", "move it away"},
		"a foreign Parquet file": {func(t *testing.T, date string) {
			put(t, filepath.Join(date, "mine.dat"), "whatever")
		}, "", ""},
		"a symbolic link": {func(t *testing.T, date string) {
			elsewhere := filepath.Join(date, "../../elsewhere")
			if err := errors.Join(os.Rename(date, elsewhere), os.Symlink(elsewhere, date)); err != nil {
				t.Fatal(err)
			}
		}, "", ""},
		"a full disk, at the first file": {nil, actCreate, "no space left"},
		"a full disk, at a sync":         {nil, actSync, "no space left"},
		"a full disk, at a link":         {nil, actLink, "no space left"},
		"a full disk, at the directory":  {nil, actMakeDir, "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
			if c.harm != nil {
				c.harm(t, sink.DatePath(p.dir, testDate))
			}
			p.breaks = func(co *compactor) {
				co.before = func(action, _ string) error {
					if action == c.fail {
						return syscall.ENOSPC
					}
					return nil
				}
			}
			err := p.runPlainly(testNow)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if name != "a file without a footer" {
				p.read()
			}
			if p.err != nil {
				t.Error(p.err)
			}
			if c.fail == "" {
				return
			}
			entries, err := os.ReadDir(sink.StagePath(p.dir))
			if err != nil || len(entries) != 1 {
				t.Errorf("what fails leaves %v, %v in the stage", entries, err)
			}
		})
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runPlainly runs a compaction without a crash, and returns the reason of what failed.
func (p *player) runPlainly(now time.Time) error {
	var reason error
	c := newCompactor(Options{Dir: p.dir, Topic: testTopic, Report: func(d Date) {
		if d.State == Failed {
			reason = errors.New(d.Reason)
		}
	}})
	c.now = func() time.Time { return now }
	if p.breaks != nil {
		p.breaks(c)
	}
	if err := c.run(context.Background()); err != nil && reason == nil {
		return err
	}
	return reason
}

// TestTwoCompactions: the second ends at once, with a message.
func TestTwoCompactions(t *testing.T) {
	w := newWorld(t)
	dir := w.clone(t)
	tried := false
	c := newCompactor(Options{Dir: dir, Topic: testTopic})
	c.now = func() time.Time { return testNow }
	c.before = func(string, string) error {
		if err := Run(t.Context(), Options{Dir: dir, Topic: testTopic}); !errors.Is(err, ErrBusy) {
			t.Errorf("a second compaction: %v, want ErrBusy", err)
		}
		tried = true
		return nil
	}
	if err := c.run(t.Context()); err != nil || !tried {
		t.Fatal(err, tried)
	}
}

// TestCompactionUnderLoad: two compactions, two sinks and readers at once, without any order.
func TestCompactionUnderLoad(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t), want: slices.Clone(w.rows)}
	var wg sync.WaitGroup
	var done atomic.Int32
	for range 2 {
		wg.Go(func() {
			defer done.Add(1)
			for range 5 {
				c := newCompactor(Options{Dir: p.dir, Topic: testTopic, Wait: time.Minute})
				c.now, c.keepFor, c.again = func() time.Time { return hoursLater(2) }, 0, 1
				if err := c.run(t.Context()); err != nil && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			}
		})
	}
	for {
		p.read()
		if done.Load() == 2 {
			break
		}
	}
	wg.Wait()
	if p.read(); p.err != nil {
		t.Error(p.err)
	}
}

// TestGreedyReader: a reader that never lets go costs a run, and no row.
func TestGreedyReader(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
	reader, err := sink.TakeLock(t.Context(), sink.LockPath(p.dir), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.runPlainly(testNow); err == nil || !strings.Contains(err.Error(), "readers kept the date") {
		t.Errorf("a compaction beside a reader: %v", err)
	}
	reader.Unlock()
	if err := p.runPlainly(testNow); err != nil {
		t.Error(err)
	}
	if p.read(); p.err != nil {
		t.Error(p.err)
	}
}

// TestInterrupted: Ctrl-C while files are merged leaves the date as it was, and nothing in the stage.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	dir := w.clone(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := newCompactor(Options{Dir: dir, Topic: testTopic})
	c.now = func() time.Time { return testNow }
	c.before = func(action, _ string) error {
		if action == actCreate {
			cancel()
		}
		return nil
	}
	if err := c.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted run: %v", err)
	}
	if entries, err := os.ReadDir(sink.StagePath(dir)); err != nil || len(entries) != 1 {
		t.Errorf("it leaves %v, %v in the stage", entries, err)
	}
}

// TestVerify: what is damaged is named, and what is whole is whole.
func TestVerify(t *testing.T) {
	w := newWorld(t)
	dir := w.clone(t)
	compactTest(t, dir, 1000) // behind a hole
	verify := func() (faults []string, err error) {
		err = Verify(t.Context(), dir, testTopic, nil, func(v Verified) { faults = append(faults, v.Faults...) })
		return faults, err
	}
	faults, err := verify()
	if !errors.Is(err, ErrWrong) || len(faults) != 1 || !strings.Contains(faults[0], sink.ErrHole.Error()) {
		t.Errorf("an archive with a hole: %v, %q", err, faults)
	}
	behind := filepath.Join(sink.DatePath(dir, nextDate), testTopic+"-0-00000000000000001000.parquet")
	if err := os.Remove(behind); err != nil {
		t.Fatal(err)
	}
	if faults, err := verify(); err != nil {
		t.Errorf("a whole archive: %v, %q", err, faults)
	}
	path := filepath.Join(sink.DatePath(dir, testDate), sink.CompactedName(testTopic, 1, 0))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[50] ^= 1
	if err := errors.Join(os.Remove(path), os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	if faults, err = verify(); !errors.Is(err, ErrWrong) || len(faults) != 1 || !strings.Contains(faults[0], path) {
		t.Errorf("a damaged page: %v, %q", err, faults)
	}
	stats, err := Stats(t.Context(), dir, testTopic)
	if err != nil || len(stats) != 2 || stats[0].Compacted != 2 || stats[0].Small != 0 || stats[0].Gaps != 1 ||
		stats[1].Small != 2 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	if err := Verify(t.Context(), t.TempDir(), testTopic, nil, func(Verified) {}); !errors.Is(err, ErrNoArchive) {
		t.Errorf("no archive: %v", err)
	}
}

// TestDamagedInput: bytes of an input that changed end in an error, not in rows.
func TestDamagedInput(t *testing.T) {
	dir := t.TempDir()
	f := sink.Footer{Topic: testTopic, Next: 1, Rows: 300, PreviousDate: testDate}
	if err := sink.Append(dir, testTopic, testDate, randomRows(rand.New(rand.NewPCG(1, 1)), 300), f); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(sink.DatePath(dir, testDate), "*"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	whole, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	want, err := readBack(t.Context(), paths[0])
	if err != nil || want.rows != 300 {
		t.Fatal(want, err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	path := filepath.Join(dir, "damaged")
	for range 300 {
		b := slices.Clone(whole)
		b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		put(t, path, string(b))
		got, err := readBack(t.Context(), path)
		if err == nil && got != want {
			t.Fatalf("a damaged file is read as %+v, want %+v or an error", got, want)
		}
		if errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}

// TestEmptyDates: a date without files, one with users' files alone, and one whose files have no rows.
func TestEmptyDates(t *testing.T) {
	dir := t.TempDir()
	f := sink.Footer{Topic: testTopic, Next: 3, PreviousDate: testDate, UndecodableCount: 3}
	if err := sink.Append(dir, testTopic, testDate, nil, f); err != nil {
		t.Fatal(err)
	}
	for _, date := range []string{"2026-11-01", "2026-11-02"} {
		if err := os.Mkdir(sink.DatePath(dir, date), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(sink.DatePath(dir, "2026-11-02"), "mine.parquet"), "mine")
	reports := compactTest(t, dir, 3)
	if len(reports) != 2 || reports[0].Date != testDate || reports[0].State != Compacted || reports[1].State != Waits {
		t.Errorf("reports: %+v", reports)
	}
	path := filepath.Join(sink.DatePath(dir, testDate), sink.CompactedName(testTopic, 0, 0))
	rows, got, err := sink.ReadFile(path)
	if err != nil || len(rows) != 0 || got.UndecodableCount != 3 || got.Next != 3 {
		t.Errorf("a file without rows: %d rows, %+v, %v", len(rows), got, err)
	}
	if err := Verify(t.Context(), dir, testTopic, nil, func(Verified) {}); err != nil {
		t.Error(err)
	}
}

// TestFileSystemWithoutExchange: two renames take its place, and directories on two file systems are named.
func TestFileSystemWithoutExchange(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		fault error
		says  string
	}{
		{syscall.EINVAL, ""},
		{syscall.ENOSYS, ""},
		{syscall.EXDEV, "put both on one"},
		{syscall.EIO, "input/output error"},
	} {
		p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
		renames := 0
		p.breaks = func(co *compactor) {
			co.before = func(action, path string) error {
				if action == actExchange {
					return c.fault
				}
				if action == actRename && !strings.HasSuffix(path, ".parquet") {
					renames++
				}
				return nil
			}
		}
		err := p.runPlainly(testNow)
		right := err == nil && renames == 3
		if c.says != "" {
			right = err != nil && strings.Contains(err.Error(), c.says)
		}
		if !right {
			t.Errorf("%v: %v, %d renames", c.fault, err, renames)
		}
		if p.read(); p.err != nil {
			t.Errorf("%v: %v", c.fault, p.err)
		}
	}
}

// TestNothingToDo: a run without any work waits for no reader.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t)}
	reader, err := sink.TakeLock(t.Context(), sink.LockPath(p.dir), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Unlock()
	if err := p.runPlainly(time.UnixMilli(dayMs)); err != nil {
		t.Error(err)
	}
}

package findings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/sinktest"
	"github.com/weirhpc/weir/sink/table"
)

var epoch = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).UnixMilli()

const (
	dayMs = 24 * 3600 * 1000
)

// final is a record of a finding that will not change.
func final(job, rule, title string, asOf int64) schemas.Finding {
	return schemas.Finding{
		Cluster: "c", JobID: job, Rule: rule, RuleHash: "00ff00ff00ff00ff", Title: title, State: schemas.FindingOpen,
		Final: true, Certainty: schemas.Certain, Class: schemas.ClassMed, Severity: 0.25, Worst: 0.5, AsOf: asOf,
		IntervalMs: 1000, Intervals: 9, Evaluated: 8, Matched: 7, JobStart: new(epoch - 10_000),
	}
}

// row is the row of a record at an offset.
func row(t *testing.T, f schemas.Finding, offset int64) Row {
	t.Helper()
	r, ok := rowOf(&f, offset)
	if !ok {
		t.Fatal("it is not final")
	}
	return r
}

// newest returns the row of the last record of each key.
func newest(rows []Row) map[table.Key]Row { return files.Newest(rows) }

// stored returns the rows of all files. It fails for a file that Each refuses, and for a row that is there twice.
func stored(t *testing.T, dir string) map[table.Key]Row {
	t.Helper()
	dates, err := Dates(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[table.Key]Row{}
	for _, date := range dates {
		if err := Each(dir, date, func(r *Row) error {
			if _, twice := rows[files.Key(r)]; twice {
				t.Fatalf("%s is there twice", files.Key(r))
			}
			rows[files.Key(r)] = *r
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// equal compares rows. A file does not tell an empty list from none.
func equal(t *testing.T, want, got map[table.Key]Row, what string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Transformer("lists", func(r Row) Row {
		r.EvidenceNames = append([]string{}, r.EvidenceNames...)
		for _, l := range []*[]float64{&r.EvidenceMeans, &r.EvidenceLows, &r.EvidenceHighs} {
			*l = append([]float64{}, *l...)
		}
		return r
	})); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// store is the table in an archive.
type store struct{ *table.Store[Row] }

func storeIn(dir string) store {
	s := store{files.In(dir, "weir.findings")}
	s.Before = sinktest.NoSync
	return s
}

func newStore(t testing.TB) store {
	t.Helper()
	return storeIn(t.TempDir())
}

// put writes records, and fails if a file cannot be used.
func (s store) put(t *testing.T, topicID string, rows ...Row) {
	t.Helper()
	if bad, err := s.Write(t.Context(), sinktest.LockFor, topicID, newest(rows)); err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
}

// randomLog returns rows as topic findings may give them: few findings, with last intervals on few dates. Their jobs
// have namesakes, and corrected starts. The hash of the rule names the life.
func randomLog(rnd *rand.Rand, n int) (log []Row) {
	const slot = 3 * dayMs
	lives := map[string]int64{}
	for i := range n {
		job, restart := fmt.Sprint("j", rnd.IntN(5)), int32(rnd.IntN(2))
		of := fmt.Sprint(job, restart)
		if rnd.IntN(4) == 0 {
			lives[of]++
		}
		began := epoch + lives[of]*slot
		f := final(job, []string{"idle-cores", "serial", "swapping"}[rnd.IntN(3)],
			fmt.Sprint(rnd.IntN(3)), began+slot-1000-int64(rnd.IntN(3))*dayMs-int64(rnd.IntN(3)))
		f.Restart, f.JobStart, f.RuleHash = restart, new(began+int64(rnd.IntN(3))), fmt.Sprint("life", lives[of])
		if rnd.IntN(2) == 0 {
			f.Node, f.NodeIntervals = new(fmt.Sprint("n", i)), 3
			f.Evidence = []schemas.FindingEvidence{{Name: "cpu_idle.d9", Low: 0.5, Mean: 0.75, High: float64(i)}}
			f.Hint, f.Slurm = "ask for 12 cores", "#SBATCH -n 12"
		}
		r, _ := rowOf(&f, int64(2*i))
		log = append(log, r)
	}
	return log
}

// perLife returns the newest row of each rule and life of a random log.
func perLife(log []Row) map[table.Key]Row {
	of := map[string]Row{}
	for _, r := range log {
		of[fmt.Sprint(r.JobID, r.Restart, r.Rule, r.RuleHash)] = r
	}
	return newest(slices.Collect(maps.Values(of)))
}

// TestNamesakes: a finding does not replace the row of an earlier job with the same number. A finding for the same job
// replaces it, even if its times differ.
func TestNamesakes(t *testing.T) {
	of := func(start, asOf, position int64) Row {
		f := final("1", "serial", fmt.Sprint(position), epoch+asOf)
		if f.JobStart = nil; start >= 0 {
			f.JobStart = new(epoch + start)
		}
		return row(t, f, position)
	}
	for name, c := range map[string]struct {
		before, after Row
		namesakes     bool
	}{
		"a later end":                 {of(0, 20_000, 1), of(0, 60_000, 2), false},
		"the start was corrected":     {of(0, 20_000, 1), of(2000, 60_000, 2), false},
		"it began later":              {of(0, 20_000, 1), of(21_000, 60_000, 2), true},
		"it began before":             {of(30_000, 60_000, 1), of(0, 20_000, 2), true},
		"no start, of the same time":  {of(-1, 20_000, 1), of(-1, 25_000, 2), false},
		"no start, of later":          {of(-1, 20_000, 1), of(-1, 29_000, 2), true},
		"no start, and then it is":    {of(-1, 20_000, 1), of(0, 90_000, 2), false},
		"no start, and one began now": {of(-1, 20_000, 1), of(21_000, 90_000, 2), true},
	} {
		s := newStore(t)
		s.put(t, "id", c.before)
		s.put(t, "id", c.after)
		s.put(t, "id", c.before) // a sink starts again
		want := []Row{c.after}
		if c.namesakes {
			want = append(want, c.before)
		}
		equal(t, newest(want), stored(t, s.Dir), name)
	}
}

// TestStore: the files have the newest record of each finding and life, whatever the order of the batches. A second
// writer of the same records takes no lock, and a file that does not change stays.
func TestStore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(kafkatest.Cases(12, 3)) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		log := randomLog(rnd, 40)
		s := newStore(t)
		for _, batch := range sinktest.Batches(rnd, log) {
			s.put(t, "id", batch...)
			stored(t, s.Dir)
		}
		equal(t, perLife(log), stored(t, s.Dir), fmt.Sprint("seed ", seed))
		s.Before = func(action, path string) error { return fmt.Errorf("%s of %s", action, path) }
		s.put(t, "id", log...)
	}
}

// TestRowsSayWhatTheFindingSays: a final record comes back from the archive as it was. One that may change does not
// get there.
func TestRowsSayWhatTheFindingSays(t *testing.T) {
	full := final("4711", "idle-cores", "cores do nothing", epoch)
	full.Restart, full.State, full.FirstInterval, full.LastInterval = 3, schemas.FindingClosed, epoch-60_000, epoch-1000
	full.Node, full.NodeIntervals, full.Hint, full.Slurm = new("n7"), 5, "ask for 12", "#SBATCH -n 12"
	full.Evidence = []schemas.FindingEvidence{{Name: "cpu_idle.d9", Low: 0.5, Mean: 0.75, High: 1}, {Name: "ipc.mean"}}
	bare := final("4712", "serial", "", epoch+dayMs)
	running := final("4713", "serial", "", epoch)
	running.Final = false
	dir := t.TempDir()
	for range 2 { // the second time nothing changes
		if err := Write(t.Context(), dir, "weir.findings", []schemas.Finding{full, running, bare}); err != nil {
			t.Fatal(err)
		}
	}
	var got []schemas.Finding
	for _, date := range []string{"2026-11-20", "2026-11-21"} {
		if err := Each(dir, date, func(r *Row) error { got = append(got, r.Finding()); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]schemas.Finding{full, bare}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range got {
		if _, err := schemas.MarshalChecked(&got[i]); err != nil {
			t.Error(err)
		}
	}
	stop := errors.New("enough")
	err := Each(dir, "2026-11-20", func(*Row) error { return stop })
	if !errors.Is(err, stop) || errors.Is(err, table.ErrBadFile) {
		t.Errorf("a caller's own error becomes %v", err)
	}
	if err := Each(dir, "2026-11-25", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a date without findings: %v", err)
	}
}

// TestMidnight: a finding lies in the date on which its last evaluated interval ended.
func TestMidnight(t *testing.T) {
	for asOf, want := range map[int64]string{
		epoch - 1001: "2026-11-19", epoch - 1000: "2026-11-20", epoch: "2026-11-20",
	} {
		r := row(t, final("1", "serial", "", asOf), 0)
		if got := r.date(); got != want {
			t.Errorf("as of %d: %s, want %s", asOf, got, want)
		}
	}
}

// TestCrashes kills a writer ahead of each of its steps, and the next one ahead of each of its own. Every finding keeps
// its row: the old one before the files are committed, the new one after. That holds even if the topic forgets them.
func TestCrashes(t *testing.T) {
	t.Parallel()
	before := []Row{
		row(t, final("1", "serial", "old", epoch), 1), row(t, final("1", "swapping", "old", epoch), 2),
		row(t, final("2", "serial", "old", epoch+dayMs), 3), row(t, final("3", "serial", "old", epoch), 4),
	}
	change := []Row{
		row(t, final("1", "serial", "new", epoch+dayMs), 11),     // one moves there
		row(t, final("2", "serial", "new", epoch), 12),           // and another back
		row(t, final("3", "serial", "new", epoch), 13),           // one changes
		row(t, final("4", "overload", "new", epoch+2*dayMs), 14), // and one is new, on a new date
	}
	added := row(t, final("5", "overload", "added", epoch+3*dayMs), 20)
	total := 0
	for first := 0; ; first += kafkatest.Cases(1, 4) {
		s := newStore(t)
		s.put(t, "id", before...)
		var committed *bool
		s.Before, committed = sinktest.CrashAt(first, "findings-commit")
		_, err := s.Write(t.Context(), sinktest.LockFor, "id", newest(change))
		if err == nil {
			break
		}
		if !errors.Is(err, sinktest.ErrCrash) {
			t.Fatal(err)
		}
		want := newest(before)
		if *committed {
			maps.Copy(want, newest(change))
		}
		want[files.Key(&added)] = added
		for second := 0; ; second += kafkatest.Cases(1, 4) {
			copied := storeIn(t.TempDir())
			if err := os.CopyFS(copied.Dir, os.DirFS(s.Dir)); err != nil {
				t.Fatal(err)
			}
			total++
			copied.Before, _ = sinktest.CrashAt(second, "findings-commit")
			// The topic has forgotten the others.
			_, err := copied.Write(t.Context(), sinktest.LockFor, "id", newest([]Row{added}))
			done := err == nil
			if !done && !errors.Is(err, sinktest.ErrCrash) {
				t.Fatal(err)
			}
			copied.Before = sinktest.NoSync
			copied.put(t, "id", added)
			equal(t, want, stored(t, copied.Dir), fmt.Sprintf("crashes %d and %d", first, second))
			if copied.Unfinished() {
				t.Fatalf("crashes %d and %d: something is left in .stage", first, second)
			}
			if done {
				break
			}
		}
		// The topic still has them: a sink that starts again ends as if nothing had been.
		s.Before = sinktest.NoSync
		s.put(t, "id", change...)
		after := newest(before)
		maps.Copy(after, newest(change))
		equal(t, after, stored(t, s.Dir), fmt.Sprintf("crash %d, and a new start", first))
	}
	if total < kafkatest.Cases(300, 20) {
		t.Errorf("%d pairs of crashes: the hook is not ahead of every step", total)
	}
}

// TestFullDisk: where a step fails, all files stay as they are, and the next try succeeds.
func TestFullDisk(t *testing.T) {
	s := newStore(t)
	before, moved := row(t, final("1", "serial", "", epoch), 1), row(t, final("1", "serial", "", epoch+dayMs), 2)
	s.put(t, "id", before)
	for _, action := range []string{
		sink.ActLock, sink.ActMakeDir, sink.ActCreate, sink.ActWrite, sink.ActSync, sink.ActSyncDir,
	} {
		s.Before = func(a, path string) error {
			if a == action {
				return &os.PathError{Op: a, Path: path, Err: syscall.ENOSPC}
			}
			return nil
		}
		_, err := s.Write(t.Context(), sinktest.LockFor, "id", newest([]Row{moved}))
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", action, err)
		}
		s.Before = sinktest.NoSync
		equal(t, newest([]Row{before}), stored(t, s.Dir), action)
	}
	s.put(t, "id", moved)
	equal(t, newest([]Row{moved}), stored(t, s.Dir), "at the end")
}

// TestWriters: several sinks write at once, each with records that others do not have yet.
func TestWriters(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	log := randomLog(rand.New(rand.NewPCG(3, 3)), 60)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for _, batch := range sinktest.Batches(rand.New(rand.NewPCG(uint64(w), 4)), log) {
				bad, err := s.Write(context.Background(), sinktest.LockFor, "id", newest(batch))
				if err != nil || len(bad) > 0 {
					t.Error(bad, err)
				}
			}
		})
	}
	writers.Wait()
	equal(t, perLife(log), stored(t, s.Dir), "at the end")
}

// TestWriteLooksAgain: another sink writes between the look without the lock and the lock. What it wrote stays.
func TestWriteLooksAgain(t *testing.T) {
	s := newStore(t)
	older := row(t, final("1", "serial", "older", epoch), 1)
	newer := row(t, final("1", "serial", "newer", epoch+dayMs), 2)
	other := row(t, final("2", "serial", "", epoch), 3)
	s.Before = func(action, path string) error {
		if action == sink.ActLock {
			s.Before = sinktest.NoSync
			storeIn(s.Dir).put(t, "id", newer, other)
		}
		return sinktest.NoSync(action, path)
	}
	s.put(t, "id", older)
	equal(t, newest([]Row{newer, other}), stored(t, s.Dir), "at the end")
}

// TestTopicMadeAnew: the offsets of a topic that was made anew are small. Its records win all the same, and findings
// that only the old one had stay.
func TestTopicMadeAnew(t *testing.T) {
	s := newStore(t)
	s.put(t, "old", row(t, final("1", "serial", "before", epoch), 900),
		row(t, final("2", "serial", "kept", epoch), 901))
	anew := row(t, final("1", "serial", "after", epoch+dayMs), 3)
	s.put(t, "new", anew)
	kept := row(t, final("2", "serial", "kept", epoch), table.Earlier)
	equal(t, newest([]Row{anew, kept}), stored(t, s.Dir), "made anew")
	s.put(t, "new", anew)
	equal(t, newest([]Row{anew, kept}), stored(t, s.Dir), "again")
}

// TestBadFiles: a file that is damaged stays as it is, and so does one that a newer weir wrote. Other dates go on.
func TestBadFiles(t *testing.T) {
	newer := []byte("weir.findings")
	for name, c := range map[string]struct {
		spoil func(b []byte) []byte
		want  string
	}{
		"cut":   {func(b []byte) []byte { return b[:len(b)/2] }, "not a file of findings"},
		"empty": {func([]byte) []byte { return nil }, "not a file of findings"},
		"text":  {func([]byte) []byte { return []byte(strings.Repeat("rubbish", 100)) }, "not a file of findings"},
		"newer": {func(b []byte) []byte {
			at := bytes.Index(b, newer) + len(newer)
			at += slices.Index(b[at:], '2')
			b[at] = '9'
			return b
		}, ": a newer weir wrote it"},
	} {
		s := newStore(t)
		s.put(t, "id", row(t, final("5", "serial", "", epoch), 1))
		path := Path(s.Dir, "2026-11-20")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		spoilt := c.spoil(slices.Clone(whole))
		if err := os.WriteFile(path, spoilt, 0o644); err != nil {
			t.Fatal(err)
		}
		good, lost := row(t, final("5", "overload", "", epoch+dayMs), 2), row(t, final("5", "swapping", "", epoch), 3)
		bad, err := s.Write(t.Context(), sinktest.LockFor, "id", newest([]Row{good, lost}))
		if fault := fmt.Sprint(bad["2026-11-20"]); err != nil || !strings.Contains(fault, c.want) ||
			!strings.Contains(fault, path) || errors.Is(bad["2026-11-20"], table.ErrBadFile) == (name == "newer") {
			t.Errorf("%s: %v, %v", name, bad, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(spoilt) {
			t.Errorf("%s: the file has changed, %v", name, err)
		}
		got := 0
		if err := Each(s.Dir, "2026-11-21", func(*Row) error { got++; return nil }); err != nil || got != 1 {
			t.Errorf("%s: %d findings of the other date, %v", name, got, err)
		}
		// It comes back from a copy, and what waited gets there.
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		s.put(t, "id", good, lost)
		if len(stored(t, s.Dir)) != 3 {
			t.Errorf("%s: %v", name, stored(t, s.Dir))
		}
	}
}

// TestFlippedByte changes bytes of a file. No such file may make its reader panic, or be taken for another one that is
// whole.
func TestFlippedByte(t *testing.T) {
	s := newStore(t)
	log := randomLog(rand.New(rand.NewPCG(5, 5)), 60)
	for i := range log {
		log[i].AsOf, log[i].JobStart = epoch, new(epoch-10_000)
	}
	s.put(t, "id", log...)
	path := Path(s.Dir, "2026-11-20")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := stored(t, s.Dir)
	rnd := rand.New(rand.NewPCG(6, 6))
	for at := 0; at < len(whole); at += 1 + rnd.IntN(kafkatest.Cases(6, 100)) {
		spoilt := slices.Clone(whole)
		spoilt[at] ^= 1 << rnd.IntN(8)
		if err := os.WriteFile(path, spoilt, 0o644); err != nil {
			t.Fatal(err)
		}
		got := map[table.Key]Row{}
		err := Each(s.Dir, "2026-11-20", func(r *Row) error { got[files.Key(r)] = *r; return nil })
		if err == nil && len(got) != len(want) {
			t.Errorf("byte %d: %d of %d findings, and no error", at, len(got), len(want))
		}
	}
}

package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

const archived = "weir.job-summary"

func begun(t *testing.T, dir string) *Archive {
	t.Helper()
	a, err := NewArchive(t.Context(), dir, filepath.Join(t.TempDir(), "sink"), archived)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func summary(job string, start time.Time) *schemas.JobSummary {
	m := schemas.JobSummaryMetric{
		Name: "cpu", Unit: "1", Scope: schemas.ScopeCore, Count: 2, Nodes: 1, Mean: new(0.5), Stddev: new(0.5),
		NodeStddev: new(0.0), LowNode: new("n1"), HighNode: new("n1"), RankError: new(0.0),
		Deciles: &[]float64{0, 0, 0, 0, 0, 0, 0.2, 0.4, 0.6, 0.8, 1},
	}
	return &schemas.JobSummary{
		Cluster: "c", JobID: job, IntervalStart: start.UnixMilli(), IntervalMs: 1000, Method: schemas.MethodExact,
		Parts: 1, PartsReported: 1, NodesExpected: 1, NodesReported: 1, Metrics: []schemas.JobSummaryMetric{m},
	}
}

// TestArchive: nothing is seen until all is written. The files are a chain of the sink's form, which no sink goes on
// behind.
func TestArchive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "deep")
	a := begun(t, dir)
	midnight := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	want := map[string][]schemas.Row{}
	for i := range 4 {
		for _, job := range []string{"2", "1"} {
			s := summary(job, midnight.Add(time.Duration(i-2)*time.Second))
			if err := a.Add(s); err != nil {
				t.Fatal(err)
			}
			date := time.UnixMilli(s.IntervalStart).UTC().Format(time.DateOnly)
			want[date] = append(want[date], s.Rows()...)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "summaries")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before it is published: %v", err)
	}
	if files, err := a.Publish(); err != nil || files != 2 {
		t.Errorf("%d files, %v", files, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	next := int64(0)
	for _, date := range []string{"2026-11-21", "2026-11-22"} {
		paths, err := filepath.Glob(filepath.Join(dir, "summaries", "date="+date, "*.parquet"))
		if err != nil || len(paths) != 1 {
			t.Fatalf("%s: %v, %v", date, paths, err)
		}
		rows, f, err := sink.ReadFile(paths[0])
		if err != nil || f.Start != next || f.TopicID != topicID || f.Topic != archived {
			t.Errorf("%s: %+v, %v", date, f, err)
		}
		next = f.Next
		jobFirst := slices.Clone(want[date])
		slices.SortStableFunc(jobFirst, func(a, b schemas.Row) int { return int(a.JobID[0]) - int(b.JobID[0]) })
		if !reflect.DeepEqual(rows, jobFirst) {
			t.Errorf("%s: %+v, want %+v", date, rows, jobFirst)
		}
	}
	if left, err := os.ReadDir(sink.StagePath(dir)); err == nil {
		t.Errorf("%v is left", left)
	}
}

// TestFilesAreBounded: a replay of any length holds the rows of one file.
func TestFilesAreBounded(t *testing.T) {
	a := begun(t, t.TempDir())
	a.most = 1000
	start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	s := summary("1", start)
	for i := range 40 {
		m := s.Metrics[0]
		m.Name = fmt.Sprint("m", i)
		s.Metrics = append(s.Metrics, m)
	}
	for range 2*a.most/len(s.Metrics) + 10 {
		if err := a.Add(s); err != nil {
			t.Fatal(err)
		}
		if len(a.rows) > a.most+len(s.Metrics) {
			t.Fatalf("%d rows are held", len(a.rows))
		}
	}
	if files, err := a.Publish(); err != nil || files != 3 {
		t.Errorf("%d files, %v", files, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestArchiveOfItsOwn: a directory with anything in it is refused, and stays as it was. What an earlier replay left is
// deleted.
func TestArchiveOfItsOwn(t *testing.T) {
	sinkDir := t.TempDir()
	for name, c := range map[string]struct {
		has    string // a directory, or a file with a dot
		target string
	}{
		"an archive":       {"summaries", "."},
		"in an archive":    {"summaries", "x"},
		"a user's file":    {"thesis.tex", "."},
		"a sink's staging": {".stage/date=2026-11-22.g1", "."},
	} {
		dir := t.TempDir()
		if has := filepath.Join(dir, c.has); filepath.Ext(has) == ".tex" {
			must(t, os.WriteFile(has, nil, 0o600))
		} else {
			must(t, os.MkdirAll(has, 0o755))
		}
		refused(t, name, filepath.Join(dir, c.target), sinkDir)
	}
	refused(t, "the sink's", sinkDir, sinkDir)
	refused(t, "in the sink's", filepath.Join(sinkDir, "a", "b"), sinkDir)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(sinkDir, link))
	refused(t, "a link to the sink's", link, sinkDir)

	dir := t.TempDir()
	killed := begun(t, dir)
	must(t, killed.Add(summary("1", time.Now())))
	must(t, killed.flush())
	if a, err := NewArchive(t.Context(), dir, sinkDir, archived); !errors.Is(err, sink.ErrLocked) {
		t.Errorf("while another replay runs: %v, %v", a, err)
	}
	killed.lock.Unlock() // as the kernel does when the process ends
	again := begun(t, dir)
	must(t, again.Add(summary("2", time.Now())))
	if files, err := again.Publish(); err != nil || files != 1 {
		t.Errorf("%d files, %v", files, err)
	}
	must(t, again.Close())
	paths, err := filepath.Glob(filepath.Join(dir, "summaries", "*", "*.parquet"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%v, %v", paths, err)
	}
	if rows, _, err := sink.ReadFile(paths[0]); err != nil || len(rows) != 1 || rows[0].JobID != "2" {
		t.Errorf("%+v, %v", rows, err)
	}
	nothing := begun(t, filepath.Join(dir, "..", "nothing"))
	if files, err := nothing.Publish(); files != 0 || err != nil {
		t.Errorf("%d files, %v", files, err)
	}
	must(t, nothing.Close())
}

func refused(t *testing.T, name, dir, sinkDir string) {
	t.Helper()
	if a, err := NewArchive(t.Context(), dir, sinkDir, archived); !errors.Is(err, ErrDirectory) {
		t.Errorf("%s: %v, %v", name, a, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestParseChoice(t *testing.T) {
	for text, want := range map[string]Choice{
		"4711": {"4711", EveryRestart, ""}, "4711/2": {"4711", 2, ""}, "_rest": {"_rest", EveryRestart, ""},
		"a.b-c/0": {"a.b-c", 0, ""}, "4711@2026-11-20": {"4711", EveryRestart, "2026-11-20"},
		"4711@2026-11-20T06:00:00Z/1": {"4711", 1, "2026-11-20T06:00:00Z"},
	} {
		if c, err := ParseChoice(text); err != nil || c != want || c.String() != text {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	for _, text := range []string{
		"", "/1", "1/", "1/x", "1/-1", "1/2/3", "a b", "1/99999999999", "1@", "1@x", "1/0@2026-11-20",
	} {
		if c, err := ParseChoice(text); err == nil {
			t.Errorf("%q: %+v", text, c)
		}
	}
}

// TestBounded: a replay reads the time in which all chosen jobs ran, if that is known of all.
func TestBounded(t *testing.T) {
	at := func(s int64) *int64 { return new(s * 1000) }
	jobs := map[schemas.JobKey]*schemas.Job{
		{JobID: "1"}:             {Start: at(100), End: at(200)},
		{JobID: "1", Restart: 1}: {Start: at(300), End: at(400)},
		{JobID: "2"}:             {Start: at(50)},
		{JobID: "3"}:             {End: at(70)},
	}
	for _, c := range []struct {
		chosen     []Choice
		begin, end int64 // 0: not known
	}{
		{[]Choice{{"1", EveryRestart, ""}}, 90, 410},
		{[]Choice{{"1", 1, ""}}, 290, 410},
		{[]Choice{{"1", 0, ""}, {"2", 0, ""}}, 40, 0},
		{[]Choice{{"1", 0, ""}, {"3", 0, ""}}, 0, 210},
		{[]Choice{{"1", 0, ""}, {"_rest", EveryRestart, ""}}, 0, 0},
		{[]Choice{{"9", 0, ""}}, 0, 0},
	} {
		starts := map[Choice]time.Time{}
		known := map[Choice][]*schemas.Job{}
		for _, one := range c.chosen {
			known[one] = nil
			for key, j := range jobs {
				if one.is(key) {
					known[one] = append(known[one], j)
				}
			}
		}
		begin, end := bounded(known, starts, 10*time.Second)
		if is := begin.Unix(); is != c.begin && (c.begin != 0 || !begin.IsZero()) {
			t.Errorf("%v begin at %d, want %d", c.chosen, is, c.begin)
		}
		if is := end.Unix(); is != c.end && (c.end != 0 || !end.IsZero()) {
			t.Errorf("%v end at %d, want %d", c.chosen, is, c.end)
		}
	}
}

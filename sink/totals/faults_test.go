package totals

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
)

// TestFaults: a date that cannot be made is reported with a remedy. What is there stays, and so does a foreign file.
func TestFaults(t *testing.T) {
	w := newWorld(t, 2)
	small := filepath.Join(sink.DatePath(w.dir, endDate), testTopic+"-0-00000000000000000072.parquet")
	overwrite := func(path string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, strings.TrimPrefix(path, w.dir))
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("mine"), 0o600))
		}
	}
	for name, c := range map[string]struct {
		harm func(dir string) error
		says string
	}{
		"a damaged small file": {overwrite(small), "bring it back from a copy"},
		"a missing small file": {func(dir string) error {
			return os.Remove(filepath.Join(dir, strings.TrimPrefix(small, w.dir)))
		}, "the archive has a hole"},
		"damaged jobs":    {overwrite(jobs.Path(w.dir, endDate)), "bring it back from a copy, or move it away"},
		"a foreign file":  {overwrite(Path(w.dir, endDate)), "totals.parquet: "},
		"damaged rollups": {overwrite(filepath.Join(w.dir, "rollups", "date="+endDate, "rollups.parquet")), "rollups"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := w.clone(t)
			if err := c.harm(dir); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(Path(dir, endDate))
			var got []Date
			err := Run(t.Context(), Options{
				Dir: dir, Topic: testTopic, Frontier: always, Report: func(d Date) { got = append(got, d) },
			})
			if !errors.Is(err, errFailed) || len(got) != 1 || got[0].State != Failed ||
				!strings.Contains(got[0].Reason, c.says) {
				t.Errorf("%v: %+v, want %q", err, got, c.says)
			}
			if after, _ := os.ReadFile(Path(dir, endDate)); string(after) != string(before) {
				t.Error("the file changed")
			}
		})
	}
}

// TestNothingToDo: an archive that is missing, one without jobs, and a date without any.
func TestNothingToDo(t *testing.T) {
	if err := Run(t.Context(), Options{Dir: t.TempDir(), Topic: testTopic, Frontier: always}); !errors.Is(err,
		compact.ErrNoArchive) {
		t.Errorf("no archive: %v", err)
	}
	w := newWorld(t, 1)
	got := run(t, w.dir, func(o *Options) { o.Dates = []string{"2026-01-05"} })
	if len(got) != 1 || got[0].State != unchanged || !strings.Contains(got[0].Reason, "no job ended") {
		t.Errorf("a date without jobs: %+v", got)
	}
	w.writeJobs("2026-01-05", nil)
	got = run(t, w.dir, func(o *Options) { o.Dates = []string{"2026-01-05"} })
	if len(got) != 1 || got[0].State != unchanged {
		t.Errorf("an empty date: %+v", got)
	}
	if _, err := os.Stat(Path(w.dir, "2026-01-05")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty date has a file: %v", err)
	}
	lock, err := sink.TakeLock(t.Context(), filepath.Join(sink.StagePath(w.dir), dirName+".lock"), true, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := Run(t.Context(), Options{Dir: w.dir, Topic: testTopic, Frontier: always}); !errors.Is(err, errBusy) {
		t.Errorf("beside another run: %v", err)
	}
}

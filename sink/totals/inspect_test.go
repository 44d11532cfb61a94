package totals

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
)

func verify(t *testing.T, dir string) Verified {
	t.Helper()
	var all []Verified
	err := Verify(t.Context(), dir, testTopic, nil, func(v Verified) { all = append(all, v) })
	if len(all) != 1 || (err != nil) != (len(all[0].Faults) > 0) || err != nil && !errors.Is(err, compact.ErrWrong) {
		t.Fatalf("%v: %+v", err, all)
	}
	return all[0]
}

// TestVerify: totals of final and of interim jobs are whole. One that differs in a bit is not, and one whose rows
// changed is not compared.
func TestVerify(t *testing.T) {
	w := newWorld(t, 2)
	lives := w.jobs()
	for _, interim := range []bool{false, true} {
		run(t, w.dir, func(o *Options) {
			o.Interim = interim
			o.Frontier = frontierOf(Frontier{ThroughMs: lives[3].EndMs})
		})
		if v := verify(t, w.dir); len(v.Faults) > 0 || v.Outdated || v.Rows == 0 || v.Rows == 16 != interim {
			t.Errorf("interim %v: %+v", interim, v)
		}
	}
	w.compact(t)
	if v := verify(t, w.dir); len(v.Faults) > 0 || v.Outdated {
		t.Errorf("after a compaction: %+v", v)
	}
	path := Path(w.dir, endDate)
	for name, change := range map[string]func(all []Total) []Total{
		"a value":     func(all []Total) []Total { *all[3].Mean = math.Nextafter(*all[3].Mean, 9); return all },
		"a flag":      func(all []Total) []Total { all[3].Final = !all[3].Final; return all },
		"a row less":  func(all []Total) []Total { return all[:len(all)-1] },
		"a row twice": func(all []Total) []Total { return append(all, all[len(all)-1]) },
	} {
		dir := w.clone(t)
		changed := strings.Replace(path, w.dir, dir, 1)
		there, _, err := made(changed)
		if err != nil {
			t.Fatal(err)
		}
		all := change(totalsOf(t, dir))
		d := storeIn(dir)
		if err := errors.Join(os.Remove(changed), d.WriteFile(changed, func(out io.Writer) error {
			w := newWriter(out)
			for i := range all {
				if err := w.add(&all[i]); err != nil {
					return err
				}
			}
			return w.end(*there)
		})); err != nil {
			t.Fatal(err)
		}
		if v := verify(t, dir); len(v.Faults) != 1 || !strings.Contains(v.Faults[0], changed) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	w.append(0, 0, time.Hour)
	if v := verify(t, w.dir); !v.Outdated {
		t.Errorf("late rows: %+v", v)
	}
	sizes, err := Sizes(w.dir)
	if err != nil || len(sizes) != 1 || sizes[endDate].Rows != 16 || sizes[endDate].Bytes == 0 {
		t.Errorf("%+v, %v", sizes, err)
	}
}

// TestRunning: jobs with rows in the archive's last hour, which have not ended. Their totals have all their rows.
func TestRunning(t *testing.T) {
	w := newWorld(t, 3)
	k := schemas.JobKey{JobID: "other1"} // it runs on all three dates
	check := func(name string) {
		t.Helper()
		var got []Total
		until, err := Running(t.Context(), Options{Dir: w.dir, Topic: testTopic}, func(r *Total) error {
			if r.JobID == k.JobID {
				got = append(got, *r)
			} else if r.JobID != "other0" {
				t.Errorf("%s: %s runs", name, r.JobID)
			}
			return nil
		})
		last := firstDay.AddDate(0, 0, 2).Add(16*time.Hour + 30*time.Second).UnixMilli()
		if err != nil || until != last || len(got) != 2 {
			t.Fatalf("%s: until %d, want %d: %d totals, %v", name, until, last, len(got), err)
		}
		for i, metric := range []string{"a", "b"} {
			var rows []schemas.Row
			for _, r := range w.rows[k] {
				if *r.Metric == metric {
					rows = append(rows, r)
				}
			}
			want := fold(t, rows...)
			want.Final = false
			if diff := cmp.Diff(want, got[i]); diff != "" {
				t.Errorf("%s: %s (-rows +total):\n%.2000s", name, metric, diff)
			}
		}
		if left, err := filepath.Glob(filepath.Join(w.dir, ".stage", stagePrefix+"*")); err != nil || len(left) > 0 {
			t.Errorf("%s: the stage has %v, %v", name, left, err)
		}
	}
	end := firstDay.AddDate(0, 0, 2)
	var over []jobs.Life // all but one job of each partition ended on the last date
	for _, j := range w.jobs() {
		over = append(over, lifeOf(j.JobKey, j.StartMs, end.Add(17*time.Hour).UnixMilli())) // behind their rows
	}
	w.writeJobs(end.Format(time.DateOnly), over)
	check("small files")
	w.compact(t)
	check("compacted dates")
}

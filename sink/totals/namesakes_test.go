package totals

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
)

var nightly = schemas.JobKey{JobID: "nightly"}

// addNamesakes adds jobs with one id that follow each other on the first two days, perhaps within one hour, and rows of
// each. It returns them with their rows by metric.
func (w *world) addNamesakes(rnd *rand.Rand) (lives []jobs.Life, of []map[string][]schemas.Row) {
	minutes := func(n int) int64 { return firstDay.Add(time.Duration(n) * time.Minute).UnixMilli() }
	for at := rnd.IntN(600); len(lives) < 6; {
		length := 2 + rnd.IntN([]int{40, 900}[rnd.IntN(2)])
		if at+length >= 2*24*60 {
			break
		}
		start := minutes(at)
		lives = append(lives, lifeOf(nightly, &start, minutes(at+length)))
		before := len(w.rows[nightly])
		for range 1 + rnd.IntN(4) {
			m := at + rnd.IntN(length)
			w.appendOf(m/(24*60), int32(rnd.IntN(partitions)), time.Duration(m%(24*60))*time.Minute, nightly)
		}
		rows := map[string][]schemas.Row{}
		for _, r := range w.rows[nightly][before:] {
			rows[*r.Metric] = append(rows[*r.Metric], r)
		}
		of = append(of, rows)
		at += length + rnd.IntN([]int{2, 30, 300}[rnd.IntN(3)])
	}
	return lives, of
}

// alike leaves out the values that depend on the order in which rows are added. With shared it also leaves out the
// certified count, which hours of two jobs lack.
func alike(t Total, shared bool) Total {
	round := func(p **float64) {
		if *p != nil {
			v := fmt.Sprintf("%.9g", **p)
			var back float64
			_, _ = fmt.Sscan(v, &back)
			*p = &back
		}
	}
	round(&t.Mean)
	round(&t.Stddev)
	round(&t.NodeStddevRMS)
	t.D1, t.D2, t.D3, t.D4, t.D5, t.D6, t.D7, t.D8, t.D9 = nil, nil, nil, nil, nil, nil, nil, nil, nil
	t.RankError, t.Lo, t.Hi = nil, nil, nil
	if shared {
		t.CertifiedCount = 0
	}
	return t
}

// TestTotalsOfNamesakes: each life has its own totals, even if it shares hours with others. They are the same before
// and after a compaction, and a second run writes nothing.
func TestTotalsOfNamesakes(t *testing.T) {
	dates := []string{"2026-01-05", endDate}
	for seed := range uint64(kafkatest.Cases(30, 6)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 9))
			w := newWorld(t, 1)
			lives, of := w.addNamesakes(rnd)
			w.append(2, 0, 23*time.Hour)
			w.append(2, 1, 23*time.Hour)
			for i, date := range dates {
				other := func(j jobs.Life) bool { return dateOf(j.EndMs) != date }
				ended := slices.DeleteFunc(slices.Clone(lives), other)
				if i == 1 {
					ended = append(ended, w.jobs()...)
				}
				w.writeJobs(date, ended)
			}
			run(t, w.dir, nil)
			files := func() (all string) {
				for _, date := range dates {
					b, err := os.ReadFile(Path(w.dir, date))
					if err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
					all += string(b)
				}
				return all
			}
			first := files()
			w.judgeNamesakes(t, lives, of)
			if again := run(t, w.dir, nil); len(again) > 0 {
				t.Errorf("a second run: %+v", again)
			}
			w.compact(t)
			if err := Verify(t.Context(), w.dir, testTopic, nil, func(v Verified) {
				if v.Outdated || len(v.Faults) > 0 {
					t.Errorf("%+v", v)
				}
			}); err != nil {
				t.Error(err)
			}
			for _, date := range dates {
				if err := os.Remove(Path(w.dir, date)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			if run(t, w.dir, nil); files() != first {
				t.Error("a compaction changes totals")
			}
		})
	}
}

// judgeNamesakes holds the totals of namesakes against the rows of each.
func (w *world) judgeNamesakes(t *testing.T, lives []jobs.Life, of []map[string][]schemas.Row) {
	t.Helper()
	left := 0
	for i, j := range lives {
		for metric, rows := range of[i] {
			slices.SortFunc(rows, func(a, b schemas.Row) int { return int(a.IntervalStart - b.IntervalStart) })
			var got []Total
			err := read(Path(w.dir, dateOf(j.EndMs)), nil, func(t *Total) error {
				if t.JobID == nightly.JobID && *t.Metric == metric && j.EndMs > t.Start && t.Start >= *j.StartMs {
					got = append(got, *t)
				}
				return nil
			})
			if err != nil || len(got) != 1 {
				t.Errorf("life %d, %s: %d totals, %v", i, metric, len(got), err)
				continue
			}
			want := fold(t, rows...)
			shared := got[0].CertifiedCount < got[0].Count
			if diff := cmp.Diff(alike(want, shared), alike(got[0], shared)); diff != "" {
				t.Errorf("life %d of %d (-rows +total):\n%.2000s", i, len(lives), diff)
			}
			if !shared && got[0].D5 == nil {
				t.Errorf("life %d: no deciles", i)
			}
			left++
		}
	}
	if left == 0 {
		t.Error("no totals")
	}
}

// TestNamesakeThatRuns: the totals of a job contain no rows of the namesake that runs now. The earlier job does not
// wait for summaries of the namesake that the archive lacks.
func TestNamesakeThatRuns(t *testing.T) {
	w := newWorld(t, 1)
	start := firstDay.Add(30 * time.Hour).UnixMilli()
	first := lifeOf(nightly, &start, firstDay.Add(31*time.Hour+5*time.Minute).UnixMilli())
	w.appendOf(1, 0, 6*time.Hour+10*time.Minute, nightly)
	rows := len(w.rows[nightly])
	w.appendOf(1, 0, 9*time.Hour, nightly)
	w.append(2, 0, 23*time.Hour)
	w.writeJobs(endDate, append(w.jobs(), first))
	waiting := map[schemas.JobKey]int64{nightly: firstDay.Add(33 * time.Hour).UnixMilli()}
	run(t, w.dir, func(o *Options) {
		o.Frontier = frontierOf(Frontier{ThroughMs: firstDay.AddDate(1, 0, 0).UnixMilli(), Waiting: waiting})
	})
	for _, got := range totalsOf(t, w.dir) {
		if got.JobID == nightly.JobID && (got.Intervals != int64(rows)/2 || !got.Final) {
			t.Errorf("%d intervals, want %d: %+v", got.Intervals, rows/2, got)
		}
	}
	count := 0
	w.appendOf(2, 0, 23*time.Hour+time.Minute, nightly)
	_, err := Running(t.Context(), Options{Dir: w.dir, Topic: testTopic}, func(t *Total) error {
		if t.JobID == nightly.JobID {
			count += int(t.Intervals)
		}
		return nil
	})
	if want := len(w.rows[nightly]) - rows; err != nil || count != want {
		t.Errorf("so far %d rows, want %d, %v", count, want, err)
	}
}

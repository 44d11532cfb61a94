package analysis

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

// TestNamesakesOfAnArchive: an id of several jobs alone names none of them. With the date or the time of its start,
// each job has its own intervals, totals, lines and peers.
func TestNamesakesOfAnArchive(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) int64 { return day.Add(d).UnixMilli() }
	d := &disk{dir: t.TempDir(), id: "id"}
	begins := []int64{at(time.Hour), at(2*time.Hour + 30*time.Minute), at(26 * time.Hour)} // two on one day
	var all []measured
	var summaries []*schemas.JobSummary
	var known []schemas.Job
	for i, begin := range begins {
		m := measure(r, "nightly", 0, begin, 60_000, 80+i, "cpu_idle", "cpu_user", "ipc")
		m.job.User = []string{"ada", "ben", "cleo"}[i]
		all, summaries, known = append(all, m), append(summaries, m.summaries...), append(known, m.job)
	}
	requeued := measure(r, "nightly", 1, begins[2]+100*60_000, 60_000, 9, "cpu_idle", "cpu_user", "ipc")
	requeued.job.User = "cleo"
	known, summaries = append(known, requeued.job), append(summaries, requeued.summaries...)
	d.append(t, summaries, 7)
	d.jobs(t, known...)
	d.totals(t)
	load := func(name string, restart int32) (*view.Job, error) {
		a := Ask{Dir: d.dir, Restart: restart, Metrics: []string{"cpu_idle", "cpu_user", "ipc"}}
		return Load(t.Context(), config.Default(), everybody, nil, name, a)
	}
	names := []string{"nightly@2026-11-20T01:00:00Z", "nightly@2026-11-20T02:30:00Z", "nightly@2026-11-21"}
	for _, ambiguous := range []string{"nightly", "nightly@2026-11-20"} {
		_, err := load(ambiguous, -1)
		if !errors.Is(err, ErrAmbiguous) {
			t.Fatalf("%s: %v", ambiguous, err)
		}
		for i, name := range names {
			want := i < 2 || ambiguous == "nightly"
			if listed := strings.Contains(err.Error(), name+"  "+all[i].job.User); listed != want {
				t.Errorf("%s: is %s listed: %v", ambiguous, name, err)
			}
		}
	}
	for name, want := range map[string]error{
		"nightly@2026-11-22": ErrNoJob, "nightly@yesterday": errLife, "other": ErrNoJob, "nightly@running": ErrNoJob,
	} {
		if _, err := load(name, -1); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i, name := range names {
		j, err := load(name, 0)
		if err != nil || j.User != all[i].job.User {
			t.Fatalf("%s: %v, %v", name, j, err)
		}
		if got := j.Metrics[0].Total.Count; got != int64(len(all[i].values["cpu_idle"])) ||
			j.Intervals != int64(len(all[i].summaries)) {
			t.Errorf("%s: %d values in %d intervals", name, got, j.Intervals)
		}
	}
	if j, err := load(names[2], -1); err != nil || j.Restart != 1 || len(j.Earlier) != 1 {
		t.Errorf("the last life of a job: %+v, %v", j, err)
	}
	lists, err := LoadLines(t.Context(), config.Default(), everybody, ListAsk{Dir: d.dir, Since: day})
	if err != nil {
		t.Fatal(err)
	}
	var users []string
	for i := range lists.Rows {
		if l := &lists.Rows[i]; l.Restart == 0 {
			users = append(users, l.User)
			if l.Busy == nil || l.WastedH == nil {
				t.Errorf("%s has no numbers: %+v", l.User, l)
			}
		}
	}
	if slices.Sort(users); !slices.Equal(users, []string{"ada", "ben", "cleo"}) {
		t.Errorf("listed are the jobs of %v", users)
	}
}

// TestLivesOfAnID: the topic's record of a life replaces the row of this life, and no row of a namesake.
func TestLivesOfAnID(t *testing.T) {
	of := func(restart int32, start, end int64, state string) life {
		j := &schemas.Job{JobID: "1", Restart: restart, State: state}
		if start > 0 {
			j.Start = &start
		}
		if end > 0 {
			j.End = &end
		}
		return life{Job: j}
	}
	var l lives
	l = l.add(of(0, 9000, 0, schemas.StateRunning)) // of the topic
	for range 2 {
		l = l.add(of(0, 1000, 2000, schemas.StateCompleted))
		l = l.add(of(1, 2500, 3000, schemas.StateCompleted))
		l = l.add(of(0, 9500, 9900, schemas.StateCompleted)) // the same life: it had ended by mistake
		l = l.add(of(0, 0, 5000, schemas.StateCompleted))
	}
	var got []int
	for _, job := range l.jobs() {
		got = append(got, len(job))
	}
	if !slices.Equal(got, []int{2, 1, 1}) {
		t.Fatalf("lives of each job: %v of %+v", got, l)
	}
	for i, want := range []span{{always.from, 2000}, always, {2000, 9000}, {9000, always.to}} {
		if s := l.span(l[i]); s != want {
			t.Errorf("life %d: %+v, want %+v", i, s, want)
		}
	}
	if _, err := l.choose(everybody, "1", ""); !errors.Is(err, ErrAmbiguous) {
		t.Error(err)
	}
	if job, err := lives(nil).choose(everybody, "1", ""); err != nil || job != nil {
		t.Errorf("nobody knows the id: %v, %v", job, err)
	}
}

package analysis

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"
)

// everybody sees all jobs.
var everybody = Viewer{All: true}

func TestMay(t *testing.T) {
	hers := &schemas.Job{JobID: "1", User: "ada", Account: "physics"}
	for name, tc := range map[string]struct {
		v    Viewer
		j    *schemas.Job
		want bool
	}{
		"zero sees nothing":              {Viewer{}, hers, false},
		"zero sees no job without owner": {Viewer{}, &schemas.Job{JobID: "1"}, false},
		"owner":                          {Viewer{User: "ada"}, hers, true},
		"another user":                   {Viewer{User: "bob"}, hers, false},
		"another user of the account":    {Viewer{User: "physics"}, hers, false},
		"name in another case":           {Viewer{User: "Ada"}, hers, false},
		"leader":                         {Viewer{User: "bob", Accounts: []string{"x", "physics"}}, hers, true},
		"leader of an account with the user's name": {Viewer{User: "bob", Accounts: []string{"ada"}}, hers, false},
		"leader of no account":                      {Viewer{User: "bob", Accounts: []string{""}}, &schemas.Job{User: "ada"}, false},
		"leader and a job without owner":            {Viewer{User: "bob", Accounts: []string{"physics"}}, &schemas.Job{Account: "physics"}, false},
		"support":                                   {Viewer{All: true}, hers, true},
		"support and a job without owner":           {Viewer{All: true}, &schemas.Job{}, true},
		"support and a job without record":          {Viewer{All: true}, nil, true},
		"owner and a job without record":            {Viewer{User: "ada"}, nil, false},
	} {
		if got := tc.v.May(tc.j); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestMayAt: a number and a restart pass on, so a measurement counts for the life in which it was made.
func TestMayAt(t *testing.T) {
	start, end := int64(1_000_000), int64(2_000_000)
	ada := Viewer{User: "ada"}
	ended := &schemas.Job{JobID: "1", User: "ada", State: schemas.StateCompleted, Start: &start, End: &end}
	runs := &schemas.Job{JobID: "1", User: "ada", State: "RUNNING", Start: &start}
	for name, tc := range map[string]struct {
		v    Viewer
		j    *schemas.Job
		ms   int64
		want bool
	}{
		"at its start":                {ada, ended, start, true},
		"before its start":            {ada, ended, start - 1, false},
		"its end was known late":      {ada, ended, end + lateMs - 1, true},
		"long after its end":          {ada, ended, end + lateMs, false},
		"it runs":                     {ada, runs, end + lateMs, true},
		"another user":                {Viewer{User: "bob"}, ended, start, false},
		"support, before its start":   {everybody, ended, start - 1, true},
		"support, without any record": {everybody, nil, start, true},
		"without any record":          {ada, nil, start, false},
	} {
		if got := tc.v.MayAt(tc.j, tc.ms); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestOthersAreNotCompared: similar jobs, ranks and the history of a rule are of jobs that a viewer may see. A rank
// among others needs so many of them that it describes none.
func TestOthersAreNotCompared(t *testing.T) {
	for name, tc := range map[string]struct {
		users  []string
		jobs   int
		ranked bool
	}{
		"few jobs":  {[]string{"bob", "cleo", "dan"}, 9, false},
		"few users": {[]string{"bob", "cleo"}, 12, false},
		"enough":    {[]string{"bob", "cleo", "dan"}, 10, true},
	} {
		t.Run(name, func(t *testing.T) { compareWith(t, tc.users, tc.jobs, tc.ranked) })
	}
}

// compareWith compares a job of ada's with jobs of other users.
func compareWith(t *testing.T, users []string, jobs int, ranked bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 3))
	d := &disk{dir: t.TempDir(), id: "id"}
	var known []schemas.Job
	write := func(id, user, account string) {
		m := measure(r, id, 0, loadStart+int64(len(known))*3_600_000, 60_000, 30, "cpu_idle", "cpu_user", "ipc", "mem_used",
			"flops_any", "mem_bw", "cpu_system", "net_rx")
		m.job.User, m.job.Account, m.job.Queue = user, account, "batch"
		d.append(t, m.summaries, 100)
		known = append(known, m.job)
	}
	for i := range jobs {
		write(strconv.Itoa(10+i), users[i%len(users)], "chemistry")
	}
	write("2", "ada", "physics")
	write("1", "ada", "physics")
	ada := Viewer{User: "ada"}
	ranks := func(v Viewer, wantUser, wantQueue int64) {
		t.Helper()
		j, err := Load(t.Context(), config.Default(), v, nil, "1", Ask{Dir: d.dir, Restart: -1})
		if err != nil {
			t.Fatal(err)
		}
		p, err := LoadPeers(t.Context(), config.Default(), v, d.dir, j, 30)
		if err != nil || len(p.Queue) == 0 || p.User[0].All != wantUser || p.Queue[0].All != wantQueue {
			t.Errorf("%+v: %v, ranks %+v, want %d and %d jobs", v, err, p, wantUser, wantQueue)
		}
	}
	d.jobs(t, known...)
	d.totals(t)
	ranks(everybody, 1, int64(jobs+1))
	if ranked {
		ranks(ada, 1, int64(jobs+1))
	} else {
		ranks(ada, 1, 0)
	}
	var near []string
	rows, err := Like(t.Context(), config.Default(), ada, LikeAsk{Dir: d.dir, JobID: "2", Since: time.UnixMilli(loadStart)})
	for _, row := range rows {
		near = append(near, row.User)
	}
	if err != nil || !slices.Equal(near, []string{"ada"}) {
		t.Errorf("like: %v, %v", near, err)
	}
	var judged []string
	_, err = History(t.Context(), config.Default(), ada, d.dir, ruleSetOf(t), time.UnixMilli(loadStart),
		func(j rules.Job, _ []schemas.Finding) error { judged = append(judged, j.User); return nil })
	if slices.Sort(judged); err != nil || slices.ContainsFunc(judged, func(u string) bool { return u != "ada" }) {
		t.Errorf("history: %v, %v", judged, err)
	}
}

package jobs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/table"
)

var epoch = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).UnixMilli()

const dayMs = 24 * 3600 * 1000

// randomLog returns records as topic jobs may have them, as rows. Few jobs end on few dates, again and again. Each has
// namesakes, which begin where the job before may have ended, or later. A correction may change start and end. Reason
// names the life.
func randomLog(rnd *rand.Rand, n int) (log []Row) {
	const slot = 3 * dayMs
	lives := map[table.Number]int64{}
	for i := range n {
		k := table.Number{Cluster: "c", JobID: fmt.Sprint("j", rnd.IntN(5)), Restart: int32(rnd.IntN(2))}
		if rnd.IntN(3) == 0 {
			lives[k]++
		}
		began := epoch + lives[k]*slot
		end := began + slot - int64(rnd.IntN(3))*dayMs - int64(rnd.IntN(3))
		log = append(log, Row{
			Cluster: k.Cluster, JobID: k.JobID, Restart: k.Restart, User: fmt.Sprint(rnd.IntN(3)),
			Start: new(began + int64(rnd.IntN(3))), End: end, State: schemas.StateCompleted,
			Reason: fmt.Sprint("life ", lives[k]), Position: int64(i * 2),
		})
	}
	return log
}

// lives returns the newest record of each life of a random log.
func lives(log []Row) map[table.Key]Row {
	of := map[string]Row{}
	for _, r := range log {
		of[fmt.Sprint(r.JobID, r.Restart, r.Reason)] = r
	}
	rows := map[table.Key]Row{}
	for _, r := range of {
		rows[files.Key(&r)] = r
	}
	return rows
}

// last returns the newest record of each key.
func last(log []Row) map[table.Key]Row { return files.Newest(log) }

// TestNamesakes: which records belong to one job.
func TestNamesakes(t *testing.T) {
	const hour = 3600_000
	row := func(start, end int64) Row {
		r := Row{Cluster: "c", JobID: "1", End: epoch + end*hour}
		if start >= 0 {
			r.Start = new(epoch + start*hour)
		}
		return r
	}
	for name, c := range map[string]struct {
		before, after Row
		namesakes     bool
	}{
		"a later end":                       {row(1, 5), row(1, 9), false},
		"an earlier end":                    {row(1, 5), row(1, 2), false},
		"a later start":                     {row(1, 5), row(4, 5), false},
		"an earlier start":                  {row(3, 5), row(1, 5), false},
		"another start and end":             {row(3, 5), row(4, 9), false},
		"it took no time":                   {row(1, 1), row(1, 5), false},
		"it takes no time":                  {row(1, 5), row(1, 1), false},
		"it begins at the other's end":      {row(1, 5), row(5, 9), true},
		"it begins later":                   {row(1, 5), row(6, 9), true},
		"it was before":                     {row(6, 9), row(1, 5), true},
		"it takes no time, at the end":      {row(1, 5), row(5, 5), true},
		"the start is known":                {row(-1, 5), row(1, 5), false},
		"the start is known, and the end":   {row(-1, 5), row(1, 6), false},
		"the start is not known any more":   {row(1, 5), row(-1, 5), false},
		"no start, and it ends within":      {row(1, 5), row(-1, 4), false},
		"no start, and it ends later":       {row(1, 5), row(-1, 9), true},
		"no start, and one at its end":      {row(-1, 5), row(5, 9), true},
		"no start, twice":                   {row(-1, 5), row(-1, 5), false},
		"no start, and ends at other times": {row(-1, 5), row(-1, 9), true},
	} {
		for _, order := range [][2]int64{{1, 2}, {2, 1}} { // the older record may come last
			before, after := c.before, c.after
			before.Position, after.Position = order[0], order[1]
			s := newStore(t)
			s.put(t, "id", before)
			s.put(t, "id", after)
			want := []Row{before, after}
			if !c.namesakes {
				want = want[slices.Index(order[:], 2):][:1]
			}
			equal(t, last(want), stored(t, s.Dir), fmt.Sprintf("%s, %v", name, order))
		}
	}
	other := row(1, 5)
	other.Restart = 1
	s := newStore(t)
	s.put(t, "id", row(1, 5), other)
	equal(t, last([]Row{row(1, 5), other}), stored(t, s.Dir), "two restarts")
}

func TestRows(t *testing.T) {
	job := func() *schemas.Job {
		return &schemas.Job{
			JobID: "4711", Restart: 2, User: "ada", Nodes: []string{"n1", "n2"}, Cpus: []int32{0, 1},
			State: schemas.StateFailed, Submit: new(int64(-1)), Start: new(int64(5)), End: new(epoch + 1),
			Cores: new(int64(4)), Exclusive: new(false),
		}
	}
	r, ok := rowOf("c", job(), 7)
	want := Row{
		Cluster: "c", JobID: "4711", Restart: 2, User: "ada", Nodes: []string{"n1", "n2"}, NodeCount: 2,
		Cpus: []int32{0, 1}, Cores: new(int64(4)), Exclusive: new(false),
		Start: new(int64(5)), End: epoch + 1, State: "FAILED", Position: 7,
	}
	if diff := cmp.Diff(want, r); !ok || diff != "" || r.date() != "2026-11-20" {
		t.Errorf("%v %s\n%s", ok, r.date(), diff)
	}
	for name, change := range map[string]func(j *schemas.Job){
		"running":       func(j *schemas.Job) { j.State = schemas.StateRunning },
		"skipped":       func(j *schemas.Job) { j.State = schemas.StateSkipped },
		"no end":        func(j *schemas.Job) { j.End = nil },
		"before 1970":   func(j *schemas.Job) { j.End = new(int64(-1)) },
		"too late":      func(j *schemas.Job) { j.End = new(lastTime) },
		"a fault":       func(j *schemas.Job) { j.JobID = "_fault-1" },
		"less than one": func(j *schemas.Job) { j.Restart = -1 },
	} {
		j := job()
		change(j)
		if _, ok := rowOf("c", j, 7); ok {
			t.Errorf("%s: it has a row", name)
		}
	}
	dates := map[string]bool{}
	for _, end := range []int64{0, dayMs - 1, dayMs, lastTime - 1} {
		dates[(&Row{End: end}).date()] = true
	}
	if got := slices.Sorted(maps.Keys(dates)); !slices.Equal(got, []string{"1970-01-01", "1970-01-02", "2100-12-31"}) {
		t.Error(got)
	}
}

// TestRowHasTheArray: a task of an array is found by its array.
func TestRowHasTheArray(t *testing.T) {
	j := &schemas.Job{
		JobID: "184301", State: schemas.StateFailed, End: &epoch, ArrayJob: new("184300"), ArrayTask: new(int32(1)),
	}
	if r, over := rowOf("c", j, 7); !over || *r.ArrayJob != "184300" || *r.ArrayTask != 1 || r.Position != 7 {
		t.Errorf("%+v", r)
	}
}

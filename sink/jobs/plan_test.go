package jobs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/sinktest"
)

var epoch = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).UnixMilli()

const dayMs = 24 * 3600 * 1000

// files are rows by date, as files have them.
type files map[string]map[key]Row

// apply does what the store does with an edit.
func (f files) apply(edits map[string]*edit) {
	for date, e := range edits {
		if f[date] == nil {
			f[date] = map[key]Row{}
		}
		for k := range e.drop {
			delete(f[date], k)
		}
		maps.Copy(f[date], e.put)
	}
}

// held are the rows of the jobs that records name.
func (f files) held(records map[key]Row) (rows []held) {
	for date, of := range f {
		for k, r := range of {
			if _, named := records[k]; named {
				rows = append(rows, held{date, r})
			}
		}
	}
	return rows
}

// all returns every row. It fails for a row in a wrong file, or one that is there twice.
func (f files) all(t *testing.T) map[key]Row {
	t.Helper()
	rows := map[key]Row{}
	for date, of := range f {
		for k, r := range of {
			if _, twice := rows[k]; twice || r.date() != date || r.key() != k {
				t.Fatalf("%v lies in %s, twice: %v", r, date, twice)
			}
			rows[k] = r
		}
	}
	return rows
}

// randomLog returns records as topic jobs may have them, as rows. Few jobs end on few dates, again and again.
func randomLog(rnd *rand.Rand, n int) (log []Row) {
	for i := range n {
		log = append(log, Row{
			Cluster: "c", JobID: fmt.Sprint("j", rnd.IntN(5)), Restart: int32(rnd.IntN(2)),
			User: fmt.Sprint(rnd.IntN(3)),
			End:  epoch + int64(rnd.IntN(3))*dayMs + int64(rnd.IntN(3)), State: schemas.StateCompleted,
			Position: int64(i * 2),
		})
	}
	return log
}

// last returns the newest record of each job.
func last(log []Row) map[key]Row {
	rows := map[key]Row{}
	for _, r := range log {
		if old, has := rows[r.key()]; !has || old.Position < r.Position {
			rows[r.key()] = r
		}
	}
	return rows
}

// TestPlan: whatever the order in which records come, and however often, each job has one row, of its newest record.
// Then nothing is written any more.
func TestPlan(t *testing.T) {
	t.Parallel()
	for seed := range uint64(kafkatest.Cases(20_000, 1_000)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		log := randomLog(rnd, 1+rnd.IntN(12))
		f := files{}
		for _, batch := range sinktest.Batches(rnd, log) {
			f.apply(plan(f.held(last(batch)), last(batch)))
			f.all(t)
		}
		if want, got := last(log), f.all(t); !reflect.DeepEqual(want, got) {
			t.Fatalf("seed %d (-want +got):\n%s", seed, cmp.Diff(want, got, cmp.AllowUnexported(key{})))
		}
		if edits := plan(f.held(last(log)), last(log)); len(edits) > 0 {
			t.Fatalf("seed %d: a second time %v", seed, edits)
		}
	}
}

// TestPlanMendsDoubles: an archive that was copied together may have a job on two dates.
func TestPlanMendsDoubles(t *testing.T) {
	row := Row{Cluster: "c", JobID: "1", End: epoch, Position: 4}
	older := row
	older.End, older.Position = epoch+dayMs, 3
	f := files{row.date(): {row.key(): row}, older.date(): {older.key(): older}}
	f.apply(plan(f.held(last([]Row{row})), last([]Row{older})))
	if diff := cmp.Diff(map[key]Row{row.key(): row}, f.all(t), cmp.AllowUnexported(key{})); diff != "" {
		t.Error(diff)
	}
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

package table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// entry is a row of a table of the tests.
type entry struct {
	JobID    string `parquet:"job_id,dict"`
	Restart  int32  `parquet:"restart"`
	Start    int64  `parquet:"start"`
	End      int64  `parquet:"end"`
	Text     string `parquet:"text"`
	Position int64  `parquet:"position"`
}

var entries = New(Table[entry]{
	Name: "entries", Version: 1,
	Number:   func(r *entry) Number { return Number{Cluster: "c", JobID: r.JobID, Restart: r.Restart} },
	Life:     func(r *entry) Life { return Life{r.Start, r.End} },
	Date:     func(r *entry) string { return time.UnixMilli(r.End).UTC().Format(time.DateOnly) },
	Position: func(r *entry) *int64 { return &r.Position },
})

var epoch = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).UnixMilli()

const dayMs = 24 * 3600 * 1000

// files are rows by date, as files have them.
type files map[string]map[Key]entry

// apply does what a store does with an edit.
func (f files) apply(edits map[string]*edit[entry]) {
	for date, e := range edits {
		if f[date] == nil {
			f[date] = map[Key]entry{}
		}
		for k := range e.drop {
			delete(f[date], k)
		}
		maps.Copy(f[date], e.put)
	}
}

// held are the rows of the jobs that records name.
func (f files) held(records map[Key]entry) (rows []held) {
	for date, of := range f {
		for k, r := range of {
			for named := range records {
				if named.Number == k.Number {
					rows = append(rows, entries.held(&r, date))
					break
				}
			}
		}
	}
	return rows
}

// all returns every row. It fails for a row in a wrong file, or one that is there twice.
func (f files) all(t *testing.T) map[Key]entry {
	t.Helper()
	rows := map[Key]entry{}
	for date, of := range f {
		for k, r := range of {
			if _, twice := rows[k]; twice || entries.Date(&r) != date || entries.Key(&r) != k {
				t.Fatalf("%v lies in %s, twice: %v", r, date, twice)
			}
			rows[k] = r
		}
	}
	return rows
}

// randomLog returns records as a topic may have them, as rows. Few jobs end on few dates, again and again. Each has
// namesakes, which begin where the job before may have ended, or later. A correction may change start and end. lives
// are the newest record of each life.
func randomLog(rnd *rand.Rand, n int) (log []entry, lives map[Key]entry) {
	const slot = 3 * dayMs
	life, newest := map[Number]int64{}, map[string]entry{}
	for i := range n {
		k := Number{JobID: fmt.Sprint("j", rnd.IntN(5)), Restart: int32(rnd.IntN(2))}
		if rnd.IntN(3) == 0 {
			life[k]++
		}
		began := epoch + life[k]*slot
		r := entry{
			JobID: k.JobID, Restart: k.Restart, Text: fmt.Sprint(rnd.IntN(3)), Start: began + int64(rnd.IntN(3)),
			End: began + slot - int64(rnd.IntN(3))*dayMs - int64(rnd.IntN(3)), Position: int64(i * 2),
		}
		log = append(log, r)
		newest[fmt.Sprint(k, life[k])] = r
	}
	lives = map[Key]entry{}
	for _, r := range newest {
		lives[entries.Key(&r)] = r
	}
	return log, lives
}

// batches cuts a log into pieces, and shuffles them, some twice: as several sinks read that lag and start again. It is
// sinktest.Batches, which imports this package.
func batches(rnd *rand.Rand, log []entry) (all [][]entry) {
	for len(log) > 0 {
		n := 1 + rnd.IntN(len(log))
		all = append(all, log[:n])
		if log = log[n:]; rnd.IntN(3) == 0 {
			all = append(all, all[rnd.IntN(len(all))])
		}
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// TestPlan: whatever the order in which records come, and however often, each life has one row, of its newest record.
// Then nothing is written any more.
func TestPlan(t *testing.T) {
	t.Parallel()
	for seed := range uint64(kafkatest.Cases(20_000, 1_000)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		log, want := randomLog(rnd, 1+rnd.IntN(12))
		f := files{}
		for _, batch := range batches(rnd, log) {
			f.apply(entries.plan(f.held(entries.Newest(batch)), entries.Newest(batch)))
			f.all(t)
		}
		if got := f.all(t); !reflect.DeepEqual(want, got) {
			t.Fatalf("seed %d (-want +got):\n%s", seed, cmp.Diff(want, got))
		}
		if edits := entries.plan(f.held(entries.Newest(log)), entries.Newest(log)); len(edits) > 0 {
			t.Fatalf("seed %d: a second time %v", seed, edits)
		}
	}
}

// TestPlanMendsDoubles: an archive that was copied together may have a job on two dates.
func TestPlanMendsDoubles(t *testing.T) {
	row := entry{JobID: "1", Start: epoch - 5, End: epoch, Position: 4}
	older := row
	older.End, older.Position = epoch+dayMs, 3
	f := files{entries.Date(&row): {entries.Key(&row): row}, entries.Date(&older): {entries.Key(&older): older}}
	f.apply(entries.plan(f.held(entries.Newest([]entry{row})), entries.Newest([]entry{older})))
	if diff := cmp.Diff(map[Key]entry{entries.Key(&row): row}, f.all(t)); diff != "" {
		t.Error(diff)
	}
}

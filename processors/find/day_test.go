package find

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// dayJob is the nth short job of a day, as a scheduler describes it.
func dayJob(n int, state string, startMs, endMs int64) *schemas.Job {
	nodes := []string{fmt.Sprintf("node%05d", n*7919%9000)}
	return &schemas.Job{
		JobID: fmt.Sprint(81_000_000 + n), Name: fmt.Sprintf("case-%d.sh", n%1000),
		User: fmt.Sprintf("user%03d", n*31%700), Account: fmt.Sprintf("project%02d", n%60), Queue: "short",
		Nodes: nodes, Submit: new(startMs - int64(n%90)*1000), Start: &startMs, End: &endMs, State: state,
		Cores: new(int64(16)), TimeLimitS: new(int64(3600)), MemRequestedBytes: new(int64(32 << 30)),
	}
}

// dayOfFind is find in the middle of a day of short jobs.
type dayOfFind struct {
	t     testing.TB
	known *knownJobs
	f     *finder
	n     int
}

func newDayOfFind(t testing.TB) *dayOfFind {
	t.Helper()
	types, err := nodetypes.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &dayOfFind{t: t, known: newKnownJobs()}
	none := func(func(*schemas.FindState) bool) {}
	d.f, err = newFinder(foldtest.Cluster, busyRules(t), typesOf(types), false, d.known.get, nil, none)
	if err != nil {
		t.Fatal(err)
	}
	d.f.keptMs = findingsKeptMs
	return d
}

// run simulates jobs that run for three intervals and end. A fifth of them has a finding.
func (d *dayOfFind) run(jobs int) {
	d.t.Helper()
	for range jobs {
		at := int64(findEpoch) + int64(d.n)*86 // a million jobs a day
		at -= at % findT
		j := dayJob(d.n, schemas.StateCompleted, at, at+3*findT+1)
		r := &kgo.Record{Key: j.Identity().Key(), Value: foldtest.Encode(d.t, j)}
		if err := d.known.take(r); err != nil {
			d.t.Fatal(err)
		}
		d.known.isRead(int64(d.n))
		for i := range int64(3) {
			load := 0.0
			if d.n%5 == 0 {
				load = 1
			}
			e := fold.Entry{Offset: int64(d.n)*3 + i, AppendedMs: at + (i+1)*findT}
			e.Value = foldtest.Encode(d.t, loadOf(j.JobID, at+i*findT, findT, load))
			d.f.Apply(e)
		}
		d.n++
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFinderOfADay: a million short jobs a day leave less than 300 MB in find's memory.
func TestFinderOfADay(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	d := newDayOfFind(t)
	d.run(15_000)
	before := heapInUse()
	d.run(15_000)
	each := (heapInUse() - before) / 15_000
	if ended := len(d.f.ended); ended < 15_000 || len(d.f.jobs) > 0 {
		t.Fatalf("%d jobs run, and %d ended", len(d.f.jobs), ended)
	}
	if each > 300 {
		t.Errorf("a job that ended takes %d bytes", each)
	}
	t.Logf("a job that ended takes %d bytes", each)
	runtime.KeepAlive(d)
}

// BenchmarkFinderOfADay runs a million short jobs.
func BenchmarkFinderOfADay(b *testing.B) {
	for b.Loop() {
		before := heapInUse()
		d := newDayOfFind(b)
		d.run(1_000_000)
		b.ReportMetric(float64(heapInUse()-before)/1e6, "MB")
		runtime.KeepAlive(d)
	}
}

// TestJobTable compares it with a map, while records come, change and go.
func TestJobTable(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	rnd := rand.New(rand.NewPCG(7, foldtest.NewSeed()))
	table, all := newJobTable(), map[string]*schemas.Job{}
	check := func(n int) {
		t.Helper()
		key := schemas.JobKey{JobID: fmt.Sprint(81_000_000 + n)}.String()
		if diff := cmp.Diff(all[key], table.get(key)); diff != "" {
			t.Fatalf("job %s (-want +got):\n%s", key, diff)
		}
	}
	states := []string{schemas.StateRunning, schemas.StatePending, schemas.StateCompleted, schemas.StateFailed}
	const jobs = 2 * mostYoung
	for step := range kafkatest.Cases(6, 3) * mostYoung {
		n := rnd.IntN(jobs)
		j := dayJob(n, states[rnd.IntN(len(states))], int64(step), int64(step+5))
		key := j.Identity().String()
		if read, err := schemas.Unmarshal(foldtest.Encode(t, j)); err == nil { // as the topic gives it
			j = read.(*schemas.Job)
		}
		if rnd.IntN(5) == 0 {
			delete(all, key)
			table.delete(key)
		} else {
			all[key] = j
			table.put(key, j)
		}
		if check(n); step%10 == 0 {
			check(rnd.IntN(jobs))
		}
	}
	for n := range jobs {
		check(n)
	}
	if len(table.places) < 1000 || len(table.blocks) < 10 {
		t.Errorf("%d records are packed in %d blocks", len(table.places), len(table.blocks))
	}
	for key := range all {
		table.delete(key)
	}
	for i, b := range table.blocks {
		if b.packed != nil || b.live != 0 {
			t.Fatalf("block %d stays, with %d records", i, b.live)
		}
	}
}

package analysis

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/weirhpc/weir/analysis/like"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/table"

	"github.com/weirhpc/weir/analysis/archive"
)

// TestLikeTakesLittleMemory: of a job and a metric, its ranks and the distribution of them all are in memory. Both are
// 44 B. An archive of years has 200,000 jobs.
func TestLikeTakesLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	const jobs, metrics = 20_000, 16
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	r := rand.New(rand.NewPCG(16, 24))
	before := heap()
	l := &liker{names: make([]string, metrics), of: archive.Timeline[*likely]{}}
	for i := range jobs {
		of := &likely{LikeRow{JobID: fmt.Sprint(i), Queue: "q"}, like.Unsigned(metrics)}
		for m := range metrics {
			var d [11]float64
			for k := range d {
				d[k] = r.ExpFloat64()
			}
			of.signature.Set(m, d)
		}
		l.of.Add(schemas.JobKey{JobID: of.JobID}, table.Life{To: 1}, of)
		l.all = append(l.all, of)
	}
	space := l.space("q")
	if each := (heap() - before) / (jobs * metrics); each > 130 {
		t.Errorf("%d B a job and metric", each)
	}
	l.mine = l.all[7]
	if nearest := l.nearest(LikeAsk{Limit: 10}); len(nearest) != 10 {
		t.Errorf("%+v", nearest)
	}
	runtime.KeepAlive(space)
}

package find

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
)

// BenchmarkFinder folds an interval of 185 jobs with 40 metrics each, by the shipped rules.
func BenchmarkFinder(b *testing.B) {
	const jobs, metrics = 185, 40
	names := []string{
		"cpu_user", "cpu_system", "cpu_idle", "cpu_iowait", "clock", "mem_bw", "flops_any", "vectorization_ratio",
		"swap_pages", "mem_used", "job_mem_peak", "acc_utilization", "cpu_load", "disk_bytes", "lustre_read_bw",
		"lustre_write_bw", "nfs_read_bw", "nfs_write_bw",
	}
	var known []rules.Known
	for _, n := range names {
		known = append(known, rules.Known{Name: n, Scope: schemas.ScopeCore})
	}
	set, err := rules.Compile(known, nil)
	if err != nil {
		b.Fatal(err)
	}
	for n := len(names); n < metrics; n++ {
		names = append(names, fmt.Sprintf("metric%d", n))
	}
	slices.Sort(names)
	types, _ := nodetypes.New(nil)
	nobody := func(schemas.JobKey) *schemas.Job { return nil }
	f, err := newFinder(foldtest.Cluster, set, typesOf(types), false, nobody, nil, slices.Values[[]*schemas.FindState](nil))
	if err != nil {
		b.Fatal(err)
	}
	var values [][]byte
	offset := int64(0)
	for at := int64(0); b.Loop(); at++ {
		b.StopTimer()
		values = values[:0]
		for job := range jobs {
			s := loadOf(fmt.Sprint(job), findEpoch+at*10_000, 10_000, 0.5)
			one := s.Metrics[0]
			s.Metrics = s.Metrics[:0]
			for _, n := range names {
				one.Name = n
				s.Metrics = append(s.Metrics, one)
			}
			values = append(values, foldtest.Encode(b, s))
		}
		b.StartTimer()
		for _, v := range values {
			f.Apply(fold.Entry{Offset: offset, AppendedMs: findEpoch + (at+1)*10_000, Value: v})
			offset++
		}
	}
}

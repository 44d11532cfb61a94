package page

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/machine"
)

// madeUpMachine is a month of 1,500 jobs. Each name ends with what is given.
func madeUpMachine(name string) *machine.Input {
	from := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	in := &machine.Input{
		MachineHour: 64 * 200, MachineGPUs: 80, Judged: true,
		Energy: machine.Energy{Joules: 3.6e11, Of: "nodes"},
	}
	in.FromMs, in.ToMs, in.MinCores, in.MinTime = from, from+30*dayMs, 8, 10*time.Minute
	in.WithoutQueues = []string{"test" + name}
	in.Rules = []machine.Rule{
		{ID: "idle-cores", Title: "Cores without work" + name, Needs: []string{"cpu_idle"}},
		{ID: "io-wait", Title: "Cores wait for input and output" + name, Needs: []string{"cpu_system"}},
		{ID: "swapping", Title: "Pages are swapped" + name, Needs: []string{"swap_pages"}},
		{ID: "memory-bound", Title: "Memory bandwidth is the limit" + name, Needs: []string{"flops_any"}},
		{ID: "unused-gpu", Title: "GPU without work" + name, Needs: []string{"acc_utilization"}},
	}
	r := rand.New(rand.NewPCG(8, 9))
	accounts := []string{"phys-a", "phys-b", "chem", "bio-informatics", "engineering", ""}
	for i := range 1500 {
		class := r.IntN(7)
		user := []string{"alice", "bob", "carol", "dave", "erin"}[r.IntN(5)]
		peak := 0.03 * math.Exp(0.7*r.NormFloat64()) * (1 + 0.15*float64(class))
		if class == 3 && i%4 == 0 {
			user, peak = "slow", 0.001
		}
		start := from + r.Int64N(29*dayMs)
		j := machine.Job{
			JobKey: schemas.JobKey{JobID: fmt.Sprint(10_000+i) + name}, User: user + name,
			Account: accounts[r.IntN(len(accounts))] + name, Queue: "normal", Cores: 32 << class, StartMs: start,
			EndMs: start + 600_000 + r.Int64N(12*3_600_000), Type: config.NodeType{ThreadsPerCore: 1, PeakFlops: 3e12},
			Means: map[string]machine.Mean{
				"cpu_idle": {
					Mean:    0.3 * r.Float64(),
					PerNode: 64,
				},
				"cpu_user":   {Mean: 0.3 + 0.4*r.Float64(), PerNode: 64},
				"cpu_system": {Mean: 0.3 * math.Pow(r.Float64(), 4), PerNode: 64},
				"flops_any": {
					Mean:    peak * 3e12 / 64,
					PerNode: 64,
				},
				"bytes_per_cycle": {Mean: 0.4 * r.Float64(), PerNode: 2},
			},
		}
		if i%5 == 0 {
			j.GPUs = 4
		}
		if i%10 == 0 {
			j.Queue = "test" + name
		}
		if i%3 == 0 {
			j.Means["swap_pages"] = machine.Mean{PerNode: 1}
		}
		in.Jobs = append(in.Jobs, j)
		for k, often := range []int{5, 9, 200, 12} {
			if i%often == 1 {
				in.Found = append(
					in.Found,
					machine.Found{JobKey: j.JobKey, StartMs: j.StartMs, Rule: in.Rules[k].ID, Severity: r.Float64()},
				)
			}
		}
	}
	for h := range int64(30 * 24) {
		free := 1500 + 1000*math.Sin(float64(h)/60)
		in.Hours = append(
			in.Hours,
			machine.Hour{
				StartMs:       from + h*3_600_000,
				Hours:         12_600,
				IdleCoreHours: free + 1500 + 300*math.Sin(float64(h)/24),
			},
			machine.Hour{StartMs: from + h*3_600_000, Rest: true, Hours: free, IdleCoreHours: free},
		)
		in.GPUHours = append(in.GPUHours, machine.Hour{StartMs: from + h*3_600_000, Hours: 78, IdleCoreHours: free / 50},
			machine.Hour{StartMs: from + h*3_600_000, Rest: true, Hours: free / 100, IdleCoreHours: free / 100})
	}
	return in
}

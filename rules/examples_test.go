package rules

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

var update = flag.Bool("update", false, "write the examples again")

// short keeps four digits.
func short(v float64) *float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return &v
}

// text makes the file of a scene.
func (s scene) text(t *testing.T) []byte {
	t.Helper()
	s.cores, s.threads, s.minutes, s.stepMs = max(s.cores, 8), max(s.threads, 1), max(s.minutes, 42), max(s.stepMs,
		60_000)
	start, end := int64(begin), int64(begin)+int64(s.minutes)*60_000
	cores, gpus, perNode := int64(s.nodes*s.cores), int32(s.nodes*s.gpus), s.gpus
	if s.asked > 0 {
		cores = s.asked
	}
	j := exampleJob{
		Cluster: "alpha", JobID: "4711", User: "alice", Account: "phys", Queue: "normal", Start: &start, End: &end,
		State: schemas.StateCompleted, Reason: s.reason, Cores: &cores, Gpus: &gpus,
		Node: &exampleNode{
			CPUs: s.cores, ThreadsPerCore: s.threads, GPUs: &perNode, Memory: 206_158_430_208,
			PeakFlops: 4e10 * float64(s.cores), PeakMemBW: 2.56e11,
		},
	}
	if s.state != "" {
		j.State = s.state
	}
	if s.limitS > 0 {
		j.TimeLimitS = &s.limitS
	}
	if s.request > 0 {
		j.MemRequestedBytes = &s.request
	}
	for n := range s.nodes {
		j.Nodes = append(j.Nodes, "n"+strconv.Itoa(1001 + n)[1:])
	}
	var b bytes.Buffer
	line(t, &b, j)
	r := rand.New(rand.NewPCG(16, uint64(len(s.name))))
	for at := start; at < end; at += s.stepMs {
		for _, row := range s.rows(r, at, j.Nodes) {
			line(t, &b, row)
		}
	}
	return b.Bytes()
}

var nulls = regexp.MustCompile(`,"[a-z0-9_]+":null`)

func line(t *testing.T, b *bytes.Buffer, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(nulls.ReplaceAll(text, nil))
	b.WriteByte('\n')
}

func (s scene) rows(r *rand.Rand, at int64, nodes []string) (rows []schemas.Row) {
	head := schemas.Row{
		Cluster: "alpha", JobID: "4711", IntervalStart: at, IntervalMs: s.stepMs, Method: schemas.MethodExact,
		Parts: 1, PartsReported: 1, NodesExpected: int32(s.nodes), NodesReported: int32(s.nodes),
	}
	if s.split {
		head.Method, head.Parts, head.PartsReported = schemas.MethodEstimated, 2, 2
	}
	if len(s.metrics) == 0 {
		return []schemas.Row{head}
	}
	var names []string
	for name := range s.metrics {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		m, row, unit := s.metrics[name], head, "1"
		each := m.each
		if each == 0 {
			each = s.cores
		}
		var all []float64
		low, high := math.Inf(1), math.Inf(-1)
		var lowNode, highNode string
		on := s.nodes
		if m.on > 0 {
			on = m.on
		}
		for n := range on {
			sum := 0.0
			for k := range each {
				v := m.of(r, int(at-begin)/60_000, n, k)
				all, sum = append(all, v), sum+v
			}
			if mean := sum / float64(each); mean < low {
				low, lowNode = mean, nodes[n]
			}
			if mean := sum / float64(each); mean > high {
				high, highNode = mean, nodes[n]
			}
		}
		count, none, count32, scope := int64(len(all)), int64(0), int32(on), m.scope
		row.Metric, row.Unit, row.Scope, row.Nodes, row.Count, row.Invalid = &name, &unit, &scope, &count32,
			&count, &none
		row.LowNode, row.HighNode, row.LowNodeMean, row.HighNodeMean = &lowNode, &highNode, short(low), short(high)
		s.deciles(&row, all)
		rows = append(rows, row)
	}
	return rows
}

// deciles sets mean, deciles and, where the job is split, bounds of two ranks on each side.
func (s scene) deciles(row *schemas.Row, all []float64) {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	row.Mean = short(sum / float64(len(all)))
	slices.Sort(all)
	cells := [...]**float64{
		&row.D0, &row.D1, &row.D2, &row.D3, &row.D4, &row.D5, &row.D6, &row.D7, &row.D8, &row.D9, &row.D10,
	}
	for k, cell := range cells {
		at := max(0, (k*len(all)+9)/10-1)
		*cell = short(all[at])
		if s.split {
			off := 1
			if k == 0 || k == 10 {
				off = 0
			}
			row.Lo = append(row.Lo, *short(all[max(0, at-off)]))
			row.Hi = append(row.Hi, *short(all[min(len(all)-1, at+off)]))
		}
	}
}

// TestShippedExamples: every shipped rule has an example that it finds, with certainty, and one that it does not, as
// `weir rules check` runs them. -update writes them.
func TestShippedExamples(t *testing.T) {
	if *update {
		for _, s := range scenes {
			if err := os.WriteFile(filepath.Join(Examples, s.name+".jsonl"), s.text(t), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	set := shippedSet(t)
	if len(set.Rules) != 19 {
		t.Errorf("%d rules are shipped, not 19", len(set.Rules))
	}
	used := map[string]bool{}
	for i := range set.Rules {
		r := &set.Rules[i]
		if len(r.Fires) == 0 || len(r.Silent) == 0 {
			t.Errorf("%s has no firing or no silent example", r.ID)
		}
		for _, name := range slices.Concat(r.Fires, r.Silent) {
			used[name] = true
			text, err := fs.ReadFile(ShippedExamples(), path.Join(Examples, name))
			if err != nil {
				t.Fatal(err)
			}
			e, err := ReadExample(text, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			found, why := set.Try(r.ID, e)
			switch wanted := slices.Contains(r.Fires, name); {
			case wanted && found == nil:
				t.Errorf("%s does not find its example %s: %s", r.ID, name, why)
			case !wanted && found != nil:
				t.Errorf("%s finds its silent example %s: %+v", r.ID, name, found)
			case !wanted && strings.HasPrefix(why, "not evaluated: guard"), !wanted && strings.Contains(why,
				"no metric"):
				t.Errorf("%s is silent about %s for a reason that proves nothing: %s", r.ID, name, why)
			case wanted:
				if err := found.Validate(); err != nil || found.Certainty != schemas.Certain || !found.Final {
					t.Errorf("%s: %v, %+v", name, err, found)
				}
				t.Logf("%-4s %.2f %s | %s | %s", found.Class, found.Severity, found.Rule, found.Hint, found.Slurm)
			default:
				t.Logf("silent %s: %s", name, why)
			}
		}
	}
	files, err := fs.ReadDir(ShippedExamples(), Examples)
	if err != nil || len(files) != len(used) {
		t.Errorf("%d examples, of which rules name %d: %v", len(files), len(used), err)
	}
}

var catalogue = []Known{
	{"acc_utilization", "1", "gpu"},
	{"clock", "Hz", "core"},
	{"cpu_idle", "1", "core"},
	{"cpu_iowait", "1", "core"},
	{"cpu_load", "1", "node"},
	{"cpu_system", "1", "core"},
	{"cpu_user", "1", "core"},
	{"disk_bytes", "B/s", "node"},
	{"flops_any", "FLOP/s", "core"},
	{"job_mem_peak", "B", "job"},
	{"lustre_read_bw", "B/s", "node"},
	{"lustre_write_bw", "B/s", "node"},
	{"mem_bw", "B/s", "socket"},
	{"mem_used", "B", "node"},
	{"nfs_read_bw", "B/s", "node"},
	{"nfs_write_bw", "B/s", "node"},
	{"swap_pages", "1/s", "node"},
	{"vectorization_ratio", "1", "core"},
}

func shippedSet(t testing.TB, files ...Source) *Set {
	t.Helper()
	s, err := Compile(catalogue, nil, files...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

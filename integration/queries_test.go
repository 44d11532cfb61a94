package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/analysis/query"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"

	whole "github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/analysis/overview"
)

// askedJob is a job of the archive that TestQueriesPage asks, with all its values.
type askedJob struct {
	JobID     string   `json:"job_id"`
	Restart   int32    `json:"restart"`
	User      string   `json:"user"`
	Account   string   `json:"account"`
	Queue     string   `json:"queue"`
	Nodes     []string `json:"nodes"`
	Cores     int64    `json:"cores"`
	TimeLimit *int64   `json:"time_limit_s"`
	Memory    *int64   `json:"mem_requested_bytes"`
	Submit    int64    `json:"submit"`
	Start     int64    `json:"start"`
	End       int64    `json:"end"`
	// Values are by interval, metric and node. A node that did not report is missing.
	Values []map[string]map[string][]float64 `json:"values"`
	// Findings are severities by rule.
	Findings map[string]float64 `json:"findings"`

	level float64 // of its use of cores; 0: the level of the older jobs
}

// askedUnits are the metrics of the jobs, with unit and scope.
var askedUnits = map[string][2]string{
	"cpu_user": {"1", schemas.ScopeCore}, "cpu_system": {"1", schemas.ScopeCore}, "cpu_idle": {"1", schemas.ScopeCore},
	"mem_used": {"B", schemas.ScopeNode}, "peak_share_flops": {"1", schemas.ScopeNode},
	"bytes_per_cycle": {"B", schemas.ScopeSocket}, "disk_bytes": {"B/s", schemas.ScopeNode},
	"acc_utilization": {"1", schemas.ScopeGPU},
}

const (
	askedMs    = 60_000
	askedTopic = "weir." + schemas.TopicJobSummary
)

// TestQueriesPage runs each query and each program of docs/queries.md on an archive with known values. A program
// without weir's code recomputes the answers from the values.
func TestQueriesPage(t *testing.T) {
	withoutBrokers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	modules := "import duckdb, numpy, pandas, polars, pyarrow, pytz"
	if out, err := outsidePython(ctx, t, "-c", modules).CombinedOutput(); err != nil {
		withoutModules(t, "THE PAGE OF QUERIES WAS NOT TRIED", strings.TrimSpace(string(out))+" "+err.Error())
	}
	there := filepath.Join(t.TempDir(), "it's [an] archive?")
	dir := filepath.Join(there, "archive")
	jobs := askedArchive(t, dir)
	truth, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(there, "truth.json"), truth, 0o600); err != nil {
		t.Fatal(err)
	}
	python := func(args ...string) string {
		t.Helper()
		out, err := outsidePython(ctx, t, append([]string{"outside/queries.py"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	views := func(name string) string {
		t.Helper()
		text, err := query.ViewsOf(dir)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(there, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	python("empty", views("before.sql"))
	writeTables(t, dir, jobs)
	python("dashboard", "../deploy/grafana/jobs.json", dir)
	python("tables", dir, filepath.Join(there, "truth.json"))
	after := views("after.sql")
	t.Logf("%s", python("page", "../docs/queries.md", after, filepath.Join(there, "truth.json")))
	rows := filepath.Join(there, "report.json")
	writeReport(t, dir, rows)
	t.Logf("%s", python("report", "../docs/queries.md", after, rows, filepath.Join(there, "truth.json")))
	t.Logf("%s", python("files", after, filepath.Join(there, "truth.json")))
}

// writeReport writes the rows of `weir report system` for the archive of a machine with 30 CPUs.
func writeReport(t *testing.T, dir, path string) {
	t.Helper()
	cfg := config.Default()
	cfg.Machine = []config.NodeType{{Name: "thin", Nodes: "m[1-3]", CPUs: 10}}
	midnight := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	report, err := overview.Load(t.Context(), cfg, overview.Ask{
		Dir: dir, From: midnight.AddDate(0, 0, -1), To: midnight.AddDate(0, 0, 1),
		Options: whole.Options{
			MinCores: 8, MinTime: 10 * time.Minute, WithoutQueues: []string{"test", "devel", "debug"},
		},
		Set: &rules.Set{Rules: []rules.Rule{
			{ID: "idle-cores", Needs: []string{"cpu_idle"}}, {ID: "slow-node", Needs: []string{"cpu_user"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for e, rows := json.NewEncoder(file), report.Rows(); len(rows) > 0; rows = rows[1:] {
		err = cmp.Or(err, e.Encode(rows[0]))
	}
	if err = cmp.Or(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// askedArchive makes an archive with jobs of two dates, the first of which is compacted.
func askedArchive(t *testing.T, dir string) []askedJob {
	t.Helper()
	jobs := askedJobs()
	all := slices.Concat(jobs, []askedJob{machineOf(jobs, schemas.JobSystem), machineOf(jobs, schemas.JobRest)})
	byDate := map[string][]schemas.Row{}
	for i := range all {
		for k := range all[i].Values {
			s := all[i].summary(k)
			date := time.UnixMilli(s.IntervalStart).UTC().Format(time.DateOnly)
			byDate[date] = append(byDate[date], s.Rows()...)
		}
	}
	previous := ""
	for i, date := range []string{"2026-01-04", "2026-01-05", "2026-01-06"} {
		f := sink.Footer{
			Topic: askedTopic, Start: int64(i), Next: int64(i + 1), Rows: int64(len(byDate[date])),
			PreviousDate: previous,
		}
		if err := sink.Append(dir, askedTopic, date, byDate[date], f); err != nil {
			t.Fatal(err)
		}
		previous = date
	}
	if err := compact.Run(t.Context(), compact.Options{Dir: dir, Topic: askedTopic}); err != nil {
		t.Fatal(err)
	}
	return jobs
}

// askedJobs returns jobs of two hours around a midnight. Node n2 is slow, and sometimes silent.
func askedJobs() (jobs []askedJob) {
	r := rand.New(rand.NewPCG(14, 5))
	midnight := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).UnixMilli()
	for i := range 12 {
		j := askedJob{
			JobID: fmt.Sprint(4700 + i), User: []string{"ada", "bob", "cyd"}[i%3],
			Account: []string{"astro", "bio"}[i%2],
			Queue:   []string{"normal", "normal", "debug"}[i/4], Start: midnight + int64(r.IntN(90)-60)*askedMs,
		}
		nodes, cores := 2+i%4, 2+i%3
		for n := range nodes {
			j.Nodes = append(j.Nodes, fmt.Sprintf("n%d", (i+n)%6))
		}
		slices.Sort(j.Nodes)
		j.Cores = int64(nodes * cores)
		if i%4 != 0 {
			limit, memory := int64(1800*(1+i%4)), int64(4<<30)
			j.TimeLimit, j.Memory = &limit, &memory
		}
		switch i {
		case 3:
			j.Start = midnight - 50*askedMs
		case 7: // another job with the id of 4703
			j.JobID, j.Start = "4703", midnight+5*askedMs
		case 8: // far from midnight
			j.Start = midnight - 300*askedMs
		case 10: // a life of 4711 before the last one
			j.JobID, j.Start = "4711", midnight-55*askedMs
		case 11:
			j.Restart, j.Start = 1, midnight-20*askedMs
		}
		j.Submit, j.End = j.Start-int64(i)*30_000, j.Start+int64(20+i)*askedMs
		if i != 9 { // which was never measured
			for range 20 + i {
				j.Values = append(j.Values, j.draw(r, cores))
			}
		}
		jobs = append(jobs, j)
	}
	return append(jobs, askedClass(r, midnight)...)
}

// askedClass returns jobs of one size class with findings. There are enough of them to identify users who are off their
// class.
func askedClass(r *rand.Rand, midnight int64) (jobs []askedJob) {
	for i := range 24 {
		j := askedJob{
			JobID: fmt.Sprint(4800 + i), User: []string{"ada", "bob", "cyd"}[i%3],
			Account: []string{"astro", "bio"}[i%2], Queue: "normal", Start: midnight + int64(10*(i%6))*askedMs,
			Nodes: []string{"n3", "n4"}, Cores: 8, level: 0.5, Findings: map[string]float64{},
		}
		switch {
		case i < 6:
			j.User, j.Account, j.level = "eve", "astro", 0.9
		case i < 12:
			j.User, j.Account, j.level = "fay", "chem", 0.1
			j.Findings["idle-cores"] = 0.25 + r.Float64()/2
		}
		if i%5 == 0 {
			j.Findings["slow-node"] = r.Float64() / 2
		}
		j.Submit, j.End = j.Start-60_000, j.Start+15*askedMs
		for range 15 {
			j.Values = append(j.Values, j.draw(r, 4))
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// draw makes the values of an interval.
func (j *askedJob) draw(r *rand.Rand, cores int) map[string]map[string][]float64 {
	all := map[string]map[string][]float64{}
	for metric := range askedUnits {
		all[metric] = map[string][]float64{}
	}
	for _, node := range j.Nodes {
		if node == "n2" && r.IntN(10) == 0 {
			continue
		}
		for range cores {
			user := 0.9 * r.Float64()
			if j.level > 0 {
				user = j.level * (0.9 + 0.05*r.Float64())
			}
			if node == "n2" {
				user /= 2
			}
			system := 0.1 * r.Float64()
			for metric, v := range map[string]float64{
				"cpu_user": user, "cpu_system": system, "cpu_idle": 1 - user - system,
			} {
				all[metric][node] = append(all[metric][node], v)
			}
		}
		all["mem_used"][node] = []float64{float64(int64(1+r.IntN(3)) << 30)}
		all["peak_share_flops"][node] = []float64{max(j.level, 0.3) * r.Float64() / 5}
		all["bytes_per_cycle"][node] = []float64{4 * r.Float64(), 4 * r.Float64()}
		all["disk_bytes"][node] = []float64{1e6 * r.Float64()}
		all["acc_utilization"][node] = []float64{r.Float64(), r.Float64()}
	}
	return all
}

// machineOf returns the pseudo-job of all cores, or of the cores outside of jobs.
func machineOf(jobs []askedJob, id string) askedJob {
	m := askedJob{JobID: id, Start: math.MaxInt64}
	last := int64(0)
	for _, j := range jobs {
		m.Start, last = min(m.Start, j.Start), max(last, j.End)
	}
	idle := map[string][]float64{"n9": {1, 1}}
	for at := m.Start; at < last; at += askedMs {
		nodes := map[string][]float64{}
		if id == schemas.JobRest {
			nodes = idle
		} else {
			for _, j := range jobs {
				if k := (at - j.Start) / askedMs; at >= j.Start && k < int64(len(j.Values)) {
					for node, values := range j.Values[k]["cpu_idle"] {
						nodes[node] = append(nodes[node], values...)
					}
				}
			}
			nodes["n9"] = idle["n9"]
		}
		m.Values = append(m.Values, map[string]map[string][]float64{"cpu_idle": nodes})
	}
	return m
}

// summary returns the summary of an interval.
func (j *askedJob) summary(k int) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: "c", JobID: j.JobID, Restart: j.Restart, IntervalStart: j.Start + int64(k)*askedMs,
		IntervalMs: askedMs,
		Method:     schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: int32(len(j.Nodes)),
	}
	for metric, byNode := range j.Values[k] {
		var values, means []float64
		m := schemas.JobSummaryMetric{
			Name: metric, Unit: askedUnits[metric][0], Scope: askedUnits[metric][1], Nodes: int32(len(byNode)),
		}
		low, high := math.Inf(1), math.Inf(-1)
		for _, node := range sortedKeys(byNode) {
			of := byNode[node]
			mean := 0.0
			for _, v := range of {
				mean += v / float64(len(of))
			}
			values, means = append(values, of...), append(means, mean)
			if mean < low {
				low, m.LowNode = mean, &node
			}
			if mean > high {
				high, m.HighNode = mean, &node
			}
		}
		s.NodesReported = max(s.NodesReported, m.Nodes)
		if len(values) > 0 {
			d, c := quantile.Certify(values, quantile.Large)
			deciles, certified, zero := d.Deciles[:], schemas.NewCertified(c.Eps, c.Order, c.Knots, c.Atoms), 0.0
			stddev, between := quantile.Stddev(d.M2, d.Count), quantile.Reduce(means)
			nodeStddev := quantile.Stddev(between.M2, between.Count)
			m.Count, m.Mean, m.Stddev, m.NodeStddev, m.RankError = d.Count, &d.Mean, &stddev, &nodeStddev, &zero
			m.Deciles, m.Certified = &deciles, &certified
		}
		s.Metrics = append(s.Metrics, m)
	}
	if s.NodesExpected == 0 { // a pseudo-job
		s.NodesExpected = s.NodesReported
	}
	slices.SortFunc(s.Metrics, func(a, b schemas.JobSummaryMetric) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	var keys []K
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

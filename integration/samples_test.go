package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// TestSamples kills `weir samples` again and again while simulated nodes publish. Then DuckDB finds every published
// value exactly once, and the queries of the page return answers that agree with the records.
func TestSamples(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if out, err := outsidePython(ctx, t, "-c", "import duckdb").CombinedOutput(); err != nil {
		withoutModules(t, "SAMPLES WERE NOT READ BY DUCKDB", strings.TrimSpace(string(out))+" "+err.Error())
	}
	m := newMachine(t)
	at, _ := m.findBrokers()
	s := systemOn(t, at)
	s.cfg.Sink.Period, s.cfg.Sink.RollBytes = time.Second, 1<<20
	file := s.configFile()
	one := m.add("samples-a", nil, "samples", "--config", file)
	two := m.add("samples-b", nil, "samples", "--config", file)
	balance, nodes := s.startBalancer(), s.startNodes()
	one.start()
	for i := range 4 {
		before := len(s.sampleFiles())
		s.eventually("more files", func() bool { return len(s.sampleFiles()) > before })
		s.produce(s.unusable(int32(i))...)
		one.kill()
		one.start()
		if i == 1 {
			two.start()
		}
	}
	s.eventually("records of some intervals", func() bool { return len(s.read(schemas.TopicCounters)) > 200 })
	nodes.stop()
	balance.stop()
	endSinks(func() int { return one.count(cutShort) + two.count(cutShort) }, func() { endAll(one, two) }, one.start)
	s.judgeSamples(ctx)
}

func (s *system) sampleFiles() []string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.cfg.Sink.Dir, "samples", "date=*", "*.parquet"))
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

// unusable are records from which no samples can be made.
func (s *system) unusable(partition int32) []*kgo.Record {
	s.t.Helper()
	b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: "other", Node: "n", JobID: "j", IntervalStart: time.Now().UnixMilli() / 1000 * 1000, IntervalMs: 1000,
	}}
	other, err := schemas.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	b.Cluster, b.IntervalStart = s.cfg.Cluster, b.IntervalStart+3600_000
	ahead, err := schemas.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	unknown := slices.Clone(ahead)
	unknown[2] ^= 0xFF
	var records []*kgo.Record
	for _, value := range [][]byte{other, ahead, unknown, []byte("garbage")} {
		records = append(records, &kgo.Record{
			Topic: s.cfg.Prefix + schemas.TopicCounters, Partition: partition, Value: value,
		})
	}
	return records
}

// outsideSample is a row as read by DuckDB, and as recomputed from a record.
type outsideSample struct {
	Partition, Restart                      int32
	Position, Start, Length, Sampled        int64
	Cluster, Node, Job, Metric, Unit, Scope string
	CPUs                                    []int32
	Values                                  []float64
}

const everySample = `select "partition", restart, position, epoch_ms(interval_start), interval_ms, epoch_us(sampled_at),
  cluster, node, job_id, metric, unit, scope, cpus, values from 'archive/samples/*/*.parquet'`

// judgeSamples compares the archive with the topic, and runs the queries of the page.
func (s *system) judgeSamples(ctx context.Context) {
	t := s.t
	t.Helper()
	var want []outsideSample
	for _, r := range s.read(schemas.TopicCounters) {
		v, _ := schemas.Unmarshal(r.Value)
		b, ok := v.(*schemas.CounterBatch)
		if !ok {
			continue
		}
		for _, metric := range b.Metrics {
			row := outsideSample{
				r.Partition, b.Restart, r.Offset, b.IntervalStart, b.IntervalMs, b.SampledAt,
				b.Cluster, b.Node, b.JobID, metric.Name, metric.Unit, metric.Scope, nil, metric.Values,
			}
			if metric.Scope == schemas.ScopeCore {
				row.CPUs = b.Cpus
			}
			want = append(want, row)
		}
	}
	var got []outsideSample
	for _, r := range s.duckdb(ctx, everySample) {
		var g outsideSample
		var values []json.RawMessage
		for k, to := range []any{
			&g.Partition, &g.Restart, &g.Position, &g.Start, &g.Length, &g.Sampled,
			&g.Cluster, &g.Node, &g.Job, &g.Metric, &g.Unit, &g.Scope, &g.CPUs, &values,
		} {
			if err := json.Unmarshal(r[k], to); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range values {
			g.Values = append(g.Values, hexadecimal(t, v))
		}
		got = append(got, g)
	}
	for _, rows := range [][]outsideSample{want, got} {
		slices.SortFunc(rows, func(a, b outsideSample) int {
			return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Position, b.Position),
				strings.Compare(a.Metric, b.Metric))
		})
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" || len(want) == 0 {
		t.Fatalf("%d rows of %d, (-want +got):\n%.3000s", len(got), len(want), diff)
	}
	bad := int64(0)
	for _, path := range s.sampleFiles() {
		f, err := sink.ReadFooter(path)
		if err != nil {
			t.Fatal(err)
		}
		if bad += f.UndecodableCount; f.Gap {
			t.Errorf("%s is a gap", path)
		}
	}
	if bad != 16 {
		t.Errorf("%d records are listed as undecodable, want 16", bad)
	}
	s.judgePage(ctx, want)
}

// duckdb returns the rows of a query. Doubles are hexadecimal: JSON has no NaN.
func (s *system) duckdb(ctx context.Context, query string) (rows [][]json.RawMessage) {
	s.t.Helper()
	const program = "import duckdb, json, sys\n" +
		"hexed = lambda v: v.hex() if isinstance(v, float) else [hexed(x) for x in v] if isinstance(v, list) else v\n" +
		"print(json.dumps([[hexed(v) for v in r] for r in duckdb.sql(sys.argv[1]).fetchall()]))"
	cmd := outsidePython(ctx, s.t, "-c", program, query)
	cmd.Dir = filepath.Dir(s.cfg.Sink.Dir) // it contains archive/
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &rows) != nil {
		s.t.Fatalf("%s: %v: %s", query, err, errs.String())
	}
	return rows
}

func hexadecimal(t *testing.T, text json.RawMessage) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// judgePage runs the queries of docs/archive.md on a job of several nodes, and on a metric that some cores lack.
func (s *system) judgePage(ctx context.Context, rows []outsideSample) {
	t := s.t
	t.Helper()
	const metric = "sim_gaps"
	nodes := map[string]map[string]bool{}
	for _, r := range rows {
		if nodes[r.Job] == nil {
			nodes[r.Job] = map[string]bool{}
		}
		nodes[r.Job][r.Node] = true
	}
	job := slices.MaxFunc(slices.Sorted(maps.Keys(nodes)), func(a, b string) int {
		return cmp.Compare(len(nodes[a]), len(nodes[b]))
	})
	type core struct {
		node string
		cpu  int32
	}
	type cell struct {
		core
		second int64
	}
	heat, below, byInterval := map[cell][]float64{}, map[core][]float64{}, map[int64][]float64{}
	for pass := range 2 {
		for _, r := range rows {
			if r.Job != job || r.Metric != metric {
				continue
			}
			for i, v := range r.Values {
				c := core{r.Node, r.CPUs[i]}
				switch {
				case math.IsNaN(v):
				case pass == 0:
					at := cell{c, r.Start / 60000 * 60}
					heat[at] = append(heat[at], v)
					byInterval[r.Start] = append(byInterval[r.Start], v)
				default:
					below[c] = append(below[c], v-median(byInterval[r.Start]))
				}
			}
		}
	}
	page, err := os.ReadFile("../docs/archive.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Raw samples\n")
	section, _, _ = strings.Cut(section, "\n## ")
	queries := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(queries) != 2 {
		t.Fatalf("%d queries", len(queries))
	}
	ask := func(i int) [][]json.RawMessage {
		t.Helper()
		here := strings.NewReplacer("'4711'", "'"+job+"'", "'cpu_user'", "'"+metric+"'")
		return s.duckdb(ctx, here.Replace(queries[i][1]))
	}
	of := func(r []json.RawMessage) (c core) {
		t.Helper()
		if err := errors.Join(json.Unmarshal(r[0], &c.node), json.Unmarshal(r[1], &c.cpu)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	cells := ask(0)
	for _, r := range cells {
		at := cell{core: of(r)}
		if err := json.Unmarshal(r[2], &at.second); err != nil || !near(hexadecimal(t, r[3]), mean(heat[at])) {
			t.Errorf("%v: %s, want %v; %v", at, r[3], mean(heat[at]), err)
		}
	}
	slowest := slices.SortedFunc(maps.Keys(below), func(a, b core) int {
		return cmp.Compare(mean(below[a]), mean(below[b]))
	})
	answer := ask(1)
	for i, r := range answer {
		if c := of(r); c != slowest[i] || !near(hexadecimal(t, r[2]), mean(below[c])) {
			t.Errorf("place %d: %v, %s; want %v, %v", i, c, r[2], slowest[i], mean(below[slowest[i]]))
		}
	}
	if len(cells) != len(heat) || len(answer) != 10 || len(slowest) < 64 {
		t.Errorf("%d of %d cells, %d cores of %d", len(cells), len(heat), len(answer), len(slowest))
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

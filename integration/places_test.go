package integration

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

var placesSeed = flag.Uint64("places-seed", 0, "seed of the log of one hostile node; 0: another one each time")

// honest are the metrics of all honest nodes. The site's own are not in weir's catalogue.
var honest = []schemas.CounterBatchMetric{
	{Name: "cpu_user", Unit: "1", Scope: schemas.ScopeCore},
	{Name: "mem_used", Unit: "B", Scope: schemas.ScopeNode},
	{Name: "site_flow", Unit: "l/s", Scope: schemas.ScopeNode},
	{Name: "zz_site", Unit: "W", Scope: schemas.ScopeCore},
}

// truth holds the values of a metric that honest nodes sent in an interval, for a job or for the machine.
type truth struct {
	values []float64
	nodes  map[string]bool
}

// placesLog is a log of counters of honest nodes and one hostile node.
type placesLog struct {
	foldLog
	hostile string
	sent    map[summaryKey]map[string]*truth
	forged  map[summaryKey]int64 // values of genuine metrics that the hostile node marks as reported
}

// honestly sends the record of an honest node, and notes its values.
func (l *placesLog) honestly(partition int32, node, job string, start int64) {
	b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: foldCluster, Node: node, IntervalStart: start, IntervalMs: foldT, JobID: job, Cpus: []int32{0, 1},
	}}
	for _, m := range honest {
		m.Values = []float64{l.r.NormFloat64(), l.r.NormFloat64()}
		if m.Scope == schemas.ScopeNode {
			m.Values = m.Values[:1]
		}
		b.Metrics = append(b.Metrics, m)
		for _, id := range []string{job, schemas.JobSystem} {
			at := l.of(id, start)
			if at[m.Name] == nil {
				at[m.Name] = &truth{nodes: map[string]bool{}}
			}
			at[m.Name].values = append(at[m.Name].values, m.Values...)
			at[m.Name].nodes[node] = true
		}
	}
	l.put(partition, start, b)
}

func placesKey(job string, start int64) summaryKey {
	return summaryKey{schemas.JobKey{JobID: job}, start}
}

func (l *placesLog) of(job string, start int64) map[string]*truth {
	if l.sent[placesKey(job, start)] == nil {
		l.sent[placesKey(job, start)] = map[string]*truth{}
	}
	return l.sent[placesKey(job, start)]
}

// forge sends a record of the hostile node, with any content that a valid record may have.
func (l *placesLog) forge(partition int32, job string, start int64) {
	cpus := make([]int32, []int{1, 2, 3, 4, 700}[l.r.IntN(5)])
	for i := range cpus {
		cpus[i] = int32(i)
	}
	b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: foldCluster, Node: l.hostile, IntervalStart: start, IntervalMs: foldT, JobID: job, Cpus: cpus,
	}}
	add := func(name, unit, scope string) {
		n := map[string]int{
			schemas.ScopeCore: len(cpus), schemas.ScopeSocket: 1 + l.r.IntN(1024), schemas.ScopeGPU: 1 + l.r.IntN(9),
		}[scope]
		values := make([]float64, max(1, n))
		for i := range values {
			values[i] = []float64{1e9, -1e9, math.NaN(), math.Inf(1), 0, l.r.NormFloat64()}[l.r.IntN(6)]
		}
		b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{Name: name, Unit: unit, Scope: scope, Values: values})
	}
	scopes := []string{
		schemas.ScopeCore, schemas.ScopeSocket, schemas.ScopeGPU, schemas.ScopeJob, schemas.ScopeNode,
	}
	for _, m := range honest {
		switch {
		case l.r.IntN(3) == 0:
		case m.Scope == schemas.ScopeNode && l.r.IntN(2) == 0: // the genuine one, which it says that the job reported
			add(m.Name, m.Unit, m.Scope)
			b.Reported = append(b.Reported, m.Name)
			l.forged[placesKey(job, start)]++
		default:
			add(m.Name, []string{"", "-", "zzz"}[l.r.IntN(3)], scopes[l.r.IntN(len(scopes))])
		}
	}
	prefix := []string{"-", "m", "z", fmt.Sprintf("-%s-", job)}[l.r.IntN(4)]
	for i := range []int{0, 20, schemas.MaxMetrics}[l.r.IntN(3)] {
		if len(b.Metrics) == schemas.MaxMetrics {
			break
		}
		name := fmt.Sprintf("%s%04d", prefix, i)
		add(name, "1", schemas.ScopeNode)
		if len(b.Reported) < schemas.MaxReported && l.r.IntN(40) == 0 {
			b.Reported = append(b.Reported, name)
		}
	}
	slices.Sort(b.Reported)
	slices.SortFunc(b.Metrics, func(a, b schemas.CounterBatchMetric) int { return cmp.Compare(a.Name, b.Name) })
	if l.r.IntN(3) > 0 {
		l.put(partition, start, b)
		return
	}
	local := &schemas.NodeSummary{NodeHeader: b.NodeHeader, Reported: b.Reported}
	for i := range b.Metrics {
		m := reducedOf(l.hostile, &b.Metrics[i])
		if m.Count > 0 && l.r.IntN(3) == 0 { // no record reveals it as a lie
			mean := (*m.Deciles)[l.r.IntN(11)]
			m.Mean, m.Stddev = &mean, new([]float64{0, 1e9, 1e200}[l.r.IntN(3)])
		}
		local.Metrics = append(local.Metrics, m)
	}
	l.put(partition, start, local)
}

// interval writes one interval. Some jobs have three honest nodes or more in each of their partitions, and the hostile
// node in one partition. Other jobs have the hostile node alone. The records of an interval come in any order.
func (l *placesLog) interval(start int64) {
	from := [foldCollectors]int{}
	for p := range from {
		from[p] = len(l.log[p])
	}
	var ticks [foldCollectors]schemas.Tick
	listed := map[string]map[int32]bool{}
	expect := func(partition int32, job string, parts, jobNodes int, node string) {
		t := &ticks[partition]
		i := slices.IndexFunc(t.Jobs, func(j schemas.TickJob) bool { return j.JobID == job })
		if i < 0 {
			i = len(t.Jobs)
			t.Jobs = append(t.Jobs, schemas.TickJob{JobID: job, Parts: int32(parts), JobNodes: int32(jobNodes)})
		}
		t.Jobs[i].Nodes = append(t.Jobs[i].Nodes, node)
		if listed[node] == nil {
			listed[node] = map[int32]bool{}
		}
		listed[node][partition] = true
	}
	for j := range 3 {
		job, parts, each := fmt.Sprint("job-", j), 1+l.r.IntN(foldCollectors), 3+l.r.IntN(3)
		first, guest := l.r.IntN(foldCollectors), l.r.IntN(parts)
		for p := range parts {
			at := int32((first + p) % foldCollectors)
			for n := range each {
				node := fmt.Sprintf("n%d-%d-%d", j, p, n)
				expect(at, job, parts, parts*each+1, node)
				l.honestly(at, node, job, start)
			}
			if p == guest {
				expect(at, job, parts, parts*each+1, l.hostile)
				l.forge(at, job, start)
			}
		}
	}
	for p := range int32(foldCollectors) {
		for j := range l.r.IntN(6) {
			job := fmt.Sprintf("alone-%d-%d", p, j)
			expect(p, job, l.r.IntN(4)/3^1, 1, l.hostile)
			l.forge(p, job, start)
		}
		l.forge(p, "unlisted", start)
	}
	for p := range ticks {
		log := l.log[p][from[p]:]
		l.r.Shuffle(len(log), func(i, k int) { log[i].Value, log[k].Value = log[k].Value, log[i].Value })
		t := &ticks[p]
		t.IntervalStart, t.IntervalMs, t.MachineNodes = start, foldT, int32(len(listed))
		for node, partitions := range listed {
			if len(partitions) > 1 && partitions[int32(p)] {
				t.Shared = append(t.Shared, node)
			}
		}
		slices.Sort(t.Shared)
		l.put(int32(p), start, t)
	}
}

// TestOneNodeSpoilsNothing: one node of a random log sends any content that a valid record may have. The jobs that it
// shares with others, and _system, keep all values of the other nodes. A replay and an audit agree with the folds.
func TestOneNodeSpoilsNothing(t *testing.T) {
	t.Parallel()
	rounds, seed := 8, *placesSeed
	if seed != 0 {
		rounds = 1
	} else {
		seed = uint64(time.Now().UnixNano())
	}
	for range rounds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { oneNodeSpoilsNothing(t, seed) })
		seed++
	}
}

func oneNodeSpoilsNothing(t *testing.T, seed uint64) {
	l := &placesLog{
		foldLog: foldLog{t: t, r: rand.New(rand.NewPCG(seed, 5))},
		sent:    map[summaryKey]map[string]*truth{}, forged: map[summaryKey]int64{},
	}
	l.hostile = []string{"a", "n0-0-1x", "z"}[l.r.IntN(3)]
	for i := range int64(3) {
		l.interval(foldStart + i*foldT)
	}
	b := bookkeep(t, &l.foldLog, nil)
	topic := b.collected()
	for key, metrics := range l.sent {
		s := topic[key]
		if s == nil {
			t.Fatalf("there is no summary of %v", key)
		}
		for name, want := range metrics {
			l.compare(key, s, name, want)
		}
	}
	report, _ := b.audited()
	for _, d := range report.Differences {
		t.Error(d)
	}
	terms := replayTerms()
	terms.AsCollected = true
	_, all, _ := b.replayed(terms)
	if len(all) != len(topic) {
		t.Errorf("%d summaries are replayed, the topic has %d", len(all), len(topic))
	}
	for _, s := range all {
		compareReplay(t, s, topic[keyOf(s)])
	}
	l.inAnotherOrder(topic)
}

// compare compares a metric of a summary with the values from honest nodes.
func (l *placesLog) compare(key summaryKey, s *schemas.JobSummary, name string, want *truth) {
	l.t.Helper()
	i := slices.IndexFunc(s.Metrics, func(m schemas.JobSummaryMetric) bool { return m.Name == name })
	of := honest[slices.IndexFunc(honest, func(m schemas.CounterBatchMetric) bool { return m.Name == name })]
	if i < 0 {
		l.t.Errorf("%v lacks %s among %d metrics", key, name, len(s.Metrics))
		return
	}
	// If a collector has no honest node, the hostile node's value of a genuine metric counts in its own job.
	m, values := &s.Metrics[i], int64(len(want.values))
	if m.Unit != of.Unit || m.Scope != of.Scope || m.Count < values || m.Count > values+l.forged[key] ||
		int(m.Nodes) < len(want.nodes) {
		l.t.Errorf("%v: %s has unit %q, scope %s, %d values of %d nodes; the honest ones sent %d of %d", key, name,
			m.Unit, m.Scope, m.Count, m.Nodes, len(want.values), len(want.nodes))
		return
	}
	low, high := (*m.Deciles)[0], (*m.Deciles)[10]
	if m.Count == values && (low != slices.Min(want.values) || high != slices.Max(want.values)) {
		l.t.Errorf("%v: %s is from %v to %v", key, name, low, high)
	}
}

// inAnotherOrder folds the log once more, with the records of each interval turned around, and expects the same bytes.
func (l *placesLog) inAnotherOrder(topic map[summaryKey]*schemas.JobSummary) {
	other := foldLog{t: l.t, r: l.r}
	for p, log := range l.log {
		var records []*kgo.Record
		for _, r := range log {
			copied := *r
			records = append(records, &copied)
		}
		for from, i := 0, 0; i < len(records); i++ {
			if v, _ := schemas.Unmarshal(records[i].Value); strings.HasSuffix(fmt.Sprintf("%T", v), "Tick") {
				for a, z := from, i-1; a < z; a, z = a+1, z-1 {
					records[a].Value, records[z].Value = records[z].Value, records[a].Value
				}
				from = i + 1
			}
		}
		other.log[p] = records
	}
	again := bookkeep(l.t, &other, nil).collected()
	for _, key := range slices.Collect(maps.Keys(topic)) {
		if again[key] == nil || !bytes.Equal(encoded(l.t, again[key]), encoded(l.t, topic[key])) {
			l.t.Errorf("%v: another order of arrival gives another summary", key)
		}
	}
}

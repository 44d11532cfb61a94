package schemas

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/linkedin/goavro/v2"

	"github.com/weirhpc/weir/naming"

	"github.com/twmb/avro"
)

// draw makes legal records by chance. Half of the numbers are at a limit.
type draw struct{ *rand.Rand }

func (d draw) between(low, high int64) int64 {
	switch d.IntN(4) {
	case 0:
		return low
	case 1:
		return high
	}
	if span := uint64(high) - uint64(low) + 1; span > 0 {
		return low + int64(d.Uint64N(span))
	}
	return int64(d.Uint64()) // any
}

func (d draw) natural() int32 { return int32(d.between(0, math.MaxInt32)) }

func (d draw) name() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-"
	b := []byte{letters[d.IntN(26)]} // also a job's: no underscore first
	for range d.IntN(64) {
		b = append(b, letters[d.IntN(len(letters))])
	}
	return string(b)
}

func (d draw) names(most int) []string {
	seen := map[string]bool{}
	var names []string
	for range d.IntN(most + 1) {
		if n := d.name(); !seen[n] {
			seen[n] = true
			names = append(names, n)
		}
	}
	return names
}

// text has what JSON escapes, and what takes two units of UTF-16.
func (d draw) text(most int) string {
	runes := []rune("aZ09 _\"\\/<>&'µéß漢𝜇🙂\ufffd")
	var s []rune
	for n := d.IntN(most/4 + 1); n > 0; n-- { // of four bytes each at most
		s = append(s, runes[d.IntN(len(runes))])
	}
	return string(s)
}

func (d draw) float() float64 {
	for {
		if v := []float64{
			0, math.Copysign(0, -1), 0.1, -1e-7, 1e21, 123456789, math.MaxFloat64, -math.MaxFloat64,
			math.SmallestNonzeroFloat64,
			math.Float64frombits(d.Uint64()),
		}[d.IntN(10)]; finite(v) {
			return v
		}
	}
}

func (d draw) ascending(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = d.float()
	}
	slices.Sort(v)
	return v
}

// maybe is nil, or what a function draws.
func maybe[T any](d draw, of func() T) *T {
	if d.IntN(3) == 0 {
		return nil
	}
	return new(of())
}

func (d draw) place() (start, length int64) {
	length = d.between(1, maxIntervalMs)
	return d.between(0, maxTimeMs/length) * length, length
}

func (d draw) key() JobKey {
	return JobKey{[]string{d.name(), d.name(), JobRest}[d.IntN(3)], d.natural()}
}

func (d draw) cpus() []int32 {
	seen := map[int32]bool{}
	var cpus []int32
	for range d.IntN(6) {
		if c := d.natural(); !seen[c] {
			seen[c] = true
			cpus = append(cpus, c)
		}
	}
	return cpus
}

func (d draw) header() NodeHeader {
	start, length := d.place()
	job := d.key()
	return NodeHeader{
		d.name(), d.name(), d.text(64), d.text(64), d.between(0, math.MaxInt64), start, length,
		d.between(0, maxTimeMs*1000),
		d.between(0, maxTimeMs), job.JobID, job.Restart, d.between(0, MaxEpoch), d.cpus(),
	}
}

func (d draw) scope() string {
	return []string{ScopeCore, ScopeNode, ScopeSocket, ScopeGPU, ScopeJob}[d.IntN(5)]
}

// places is how many values a metric of a scope may have in a record of so many CPUs.
func (d draw) places(scope string, cpus int) int {
	switch scope {
	case ScopeCore:
		return cpus
	case ScopeSocket, ScopeGPU:
		return []int{1, 2, 8, 1024}[d.IntN(4)]
	}
	return 1
}

func (d draw) batch() Record {
	b := &CounterBatch{NodeHeader: d.header()}
	for _, name := range d.names(4) {
		m := CounterBatchMetric{name, d.text(64), d.scope(), nil}
		m.Values = make([]float64, d.places(m.Scope, len(b.Cpus)))
		for i := range m.Values {
			m.Values[i] = []float64{d.float(), d.float(), math.NaN()}[d.IntN(3)]
		}
		b.Metrics = append(b.Metrics, m)
		if m.Scope == ScopeNode && d.IntN(2) == 0 && len(b.Reported) < MaxReported {
			b.Reported = append(b.Reported, name)
		}
	}
	slices.Sort(b.Reported)
	return b
}

func (d draw) certified(values []float64) (c Certified) {
	if d.IntN(2) == 0 {
		c.Atoms = []Atom{{values[0], int64(len(values)) - 1}, {values[len(values)-1], 1}}
		return c
	}
	c.Eps, c.OrderStatistics = 0.25, []float64{values[0], values[len(values)-1]}
	for i, v := range values {
		c.Knots = append(c.Knots, Knot{v, int64(i) + 1})
	}
	return c
}

func (d draw) nodeSummary() Record {
	s := &NodeSummary{NodeHeader: d.header()}
	for _, name := range d.names(4) {
		m := NodeSummaryMetric{JobSummaryMetric: JobSummaryMetric{Name: name, Unit: d.text(64), Scope: d.scope()}}
		belong := min(d.places(m.Scope, len(s.Cpus)), 11)
		if n := d.IntN(belong + 1); n > 0 {
			deciles := d.ascending(11)
			m.Count, m.Nodes, m.Deciles, m.Mean = int64(n), 1, &deciles, &deciles[d.IntN(11)]
			m.Stddev, m.NodeStddev = maybe(d, func() float64 { return math.Abs(d.float()) }), new(0.0)
			m.LowNode, m.HighNode, m.RankError = &s.Node, &s.Node, maybe(d, func() float64 { return 0 })
			if n > 1 {
				m.Certified = d.certified(append(deciles[:1:1], deciles[11-n+1:]...))
			}
		}
		m.Invalid = d.between(0, int64(belong)-m.Count)
		s.Metrics = append(s.Metrics, m)
		if m.Scope == ScopeNode && d.IntN(2) == 0 && len(s.Reported) < MaxReported {
			s.Reported = append(s.Reported, name)
		}
	}
	slices.Sort(s.Reported)
	return s
}

func (d draw) summary() Record {
	start, length := d.place()
	job := d.key()
	s := &JobSummary{
		d.name(), job.JobID, job.Restart, start, length, []string{MethodNode, MethodExact, MethodEstimated}[d.IntN(3)],
		d.natural(), d.natural(), d.natural(), d.natural(), nil,
	}
	eleven := func() []float64 { return d.ascending(11) }
	deviation := func() float64 { return math.Abs(d.float()) }
	for _, name := range d.names(4) {
		m := JobSummaryMetric{
			Name: name, Unit: d.text(64), Scope: d.scope(), Invalid: d.between(0, maxTotal), Nodes: d.natural(),
			Stddev: maybe(d, deviation), NodeStddev: maybe(d, deviation), LowNode: maybe(d, d.name),
			HighNode:  maybe(d, d.name),
			RankError: maybe(d, d.Float64), Lo: maybe(d, eleven), Hi: maybe(d, eleven),
		}
		if m.LowNode != nil {
			m.LowNodeMean = maybe(d, d.float)
		}
		if m.HighNode != nil {
			m.HighNodeMean = maybe(d, d.float)
		}
		if d.IntN(3) > 0 {
			m.Count, m.Mean, m.Deciles = d.between(1, maxTotal), new(d.float()), new(eleven())
			m.Certified = maybe(d, func() Certified { return d.certified(d.ascending(3)) })
		}
		s.Metrics = append(s.Metrics, m)
	}
	return s
}

func (d draw) partial() Record {
	start, length := d.place()
	job := d.key()
	nodes := d.between(0, MaxNodes)
	expected := d.between(0, nodes)
	p := &JobPartial{
		d.name(), job.JobID, job.Restart, start, length, d.natural(), int32(d.between(1, maxParts)), int32(nodes),
		int32(expected),
		int32(d.between(0, expected)), nil, nil,
	}
	for _, name := range d.names(4) {
		m := JobPartialMetric{
			Name: name, Unit: d.text(64), Scope: d.scope(), Invalid: d.between(0, maxCount),
			NodeMeans: d.between(0, maxCount),
		}
		if d.IntN(3) > 0 {
			m.Count = d.between(1, maxCount)
			m.Nodes = int32(d.between(0, min(m.Count, MaxNodes)))
			m.Mean, m.M2, m.NodeMean, m.NodeM2 = new(d.float()), new(math.Abs(d.float())), new(d.float()),
				new(math.Abs(d.float()))
			ends := d.ascending(2)
			m.LowNode, m.HighNode, m.LowNodeMean, m.HighNodeMean = new(d.name()), new(d.name()), &ends[0], &ends[1]
			m.Certified = d.certified(d.ascending(1 + d.IntN(12)))
		}
		p.Metrics = append(p.Metrics, m)
	}
	for _, n := range d.names(3) {
		p.Shared = append(p.Shared, SharedNode{n, d.IntN(2) == 0})
	}
	return p
}

func (d draw) tick() Record {
	start, length := d.place()
	k := &Tick{start, length, d.between(0, MaxEpoch), nil, d.names(3), d.IntN(2) == 0, int32(d.between(0, MaxNodes))}
	for i, job := range d.names(4) {
		nodes := d.names(3)
		k.Jobs = append(k.Jobs, TickJob{
			job, int32(i), int32(d.between(0, maxParts)),
			int32(d.between(int64(len(nodes)), MaxNodes)), nodes,
		})
	}
	return k
}

func (d draw) route() Record {
	r := &Route{d.name(), d.between(0, MaxEpoch), d.between(0, maxTimeMs), d.natural(), nil}
	for _, job := range d.names(4) {
		r.Entries = append(r.Entries, RouteEntry{
			job, d.natural(), d.cpus(), d.natural(),
			[]string{ModeCollect, ModeLocal}[d.IntN(2)], d.cpus(), []string{"", job}[d.IntN(2)],
		})
	}
	return r
}

func (d draw) long() int64 { return d.between(math.MinInt64, math.MaxInt64) }

func (d draw) progress() Record {
	p := &Progress{Position: d.between(0, math.MaxInt64)}
	p.From, p.Hold = d.between(0, p.Position), d.between(0, p.Position)
	p.TopicID, p.Open, p.Unreadable, p.Stopped = d.text(64), d.between(0, math.MaxInt64), d.long(), d.text(4096)
	p.Closed, p.Closing, p.ClosedIntervalMs, p.UnreadableSince = maybe(d, d.long), maybe(d, d.long), d.long(), d.long()
	for counts, i := reflect.ValueOf(&p.Counts).Elem(), 0; i < counts.NumField(); i++ {
		counts.Field(i).SetInt(d.long())
	}
	for range d.IntN(3) {
		p.Rejected = append(p.Rejected, d.long())
		job := d.key()
		p.Loads = append(p.Loads, JobLoad{job.JobID, job.Restart, max(1, d.natural()), d.between(0, maxLoadBytes)})
	}
	return p
}

func (d draw) job() Record {
	return &Job{
		d.name(), d.natural(), d.text(4096), d.text(64), d.text(64), d.text(64), d.names(3), d.cpus(),
		maybe(d, d.long), maybe(d, d.long),
		maybe(d, d.long), d.text(64), d.text(4096),
		maybe(d, func() int64 { return d.between(0, maxCores) }), maybe(d, d.natural),
		maybe(d, func() int64 { return d.between(0, maxSeconds) }),
		maybe(d, func() int64 { return d.between(0, maxBytes) }), maybe(d, func() bool { return d.IntN(2) > 0 }),
		maybe(d, d.name), maybe(d, d.natural),
	}
}

func (d draw) bytes(most int) []byte {
	b := make([]byte, d.IntN(most+1))
	for i := range b {
		b[i] = byte(d.IntN(256))
	}
	return b
}

func (d draw) finding() Record {
	intervals := d.between(0, math.MaxInt64)
	evaluated := d.between(0, intervals)
	matched := d.between(0, evaluated)
	worst := []float64{0, 1, d.Float64()}[d.IntN(3)]
	f := &Finding{
		d.name(), d.name(), d.natural(), d.name(), d.name(), d.text(1000), d.text(1000), d.text(1000),
		[]string{FindingOpen, FindingClosed}[d.IntN(2)], d.IntN(2) > 0, []string{Certain, Possible}[d.IntN(2)],
		[]string{ClassLow, ClassMed, ClassHigh}[d.IntN(3)], worst * []float64{0, 1, d.Float64()}[d.IntN(3)], worst,
		d.between(0, maxTimeMs), d.between(0, maxTimeMs), d.between(0, maxTimeMs), d.between(1, maxIntervalMs),
		intervals, evaluated, matched, maybe(d, d.name), d.between(0, matched), nil,
		maybe(d, func() int64 { return d.between(0, maxTimeMs) }),
	}
	for _, name := range d.names(16) {
		f.Evidence = append(f.Evidence, FindingEvidence{name + ".d5", d.float(), d.float(), d.float()})
	}
	return f
}

// legal has a way to draw each record.
var legal = map[string]func(d draw) Record{
	"CounterBatch": draw.batch, "NodeSummary": draw.nodeSummary, "JobSummary": draw.summary,
	"JobPartial": draw.partial, "Tick": draw.tick,
	"Route": draw.route, "Progress": draw.progress, "Job": draw.job,
	"Gap": func(d draw) Record {
		return &Gap{
			d.name(), d.text(64), d.between(0, maxTimeMs), d.between(0, maxTimeMs),
			d.between(0, math.MaxInt64), d.text(4096),
		}
	},
	"Finding": draw.finding,
	"FindState": func(d draw) Record {
		return &FindState{
			d.name(), d.name(), d.natural(), d.between(0, maxTimeMs), d.between(0, math.MaxInt64), d.IntN(2) > 0,
			d.bytes(100), d.bytes(9000),
		}
	},
	"Notice": func(d draw) Record {
		hours := func() float64 { return float64(d.between(0, maxHours)) }
		return &Notice{
			d.name(), d.name(), d.natural(), []string{ChannelMail, ChannelWebhook, ChannelComment}[d.IntN(3)],
			[]string{
				NoticeGathering, NoticeWaiting, NoticeSending, NoticeSent, NoticeFailed, NoticeSkipped,
			}[d.IntN(6)], d.text(maxTextBytes), []string{"", d.name()}[d.IntN(2)], d.natural(), d.between(0, maxTimeMs),
			d.between(0, maxTimeMs), d.between(0, maxTimeMs), d.text(maxTextBytes), d.text(maxTextBytes), d.name(),
			d.text(MaxFindingText), d.text(MaxFindingText), d.text(MaxFindingText), d.name(),
			d.between(1, math.MaxInt64), d.between(0, maxTimeMs), hours(), hours(), hours(), hours(), d.name(), hours(),
			hours(),
		}
	},
	"Reject": func(d draw) Record {
		return &Reject{d.text(4096), d.natural(), d.long(), d.text(4096), d.text(64), d.bytes(maxHeadBytes)}
	},
	"BalanceState": func(d draw) Record {
		start, length := d.place()
		return &BalanceState{d.between(0, MaxEpoch), start, length}
	},
	"Trigger": func(d draw) Record {
		start, length := d.place()
		return &Trigger{d.name(), start, length, d.between(0, maxTimeMs)}
	},
	"NodeFacts": func(d draw) Record {
		gpus, nics := make([]NodeGPU, d.IntN(4)), make([]NodeNIC, d.IntN(4))
		for i := range gpus {
			gpus[i] = NodeGPU{d.text(maxFactBytes), d.between(0, maxBytes)}
		}
		for i := range nics {
			nics[i] = NodeNIC{d.text(maxFactBytes), d.between(0, maxRate)}
		}
		return &NodeFacts{
			d.name(), d.name(), []string{FactsAgent, FactsSlurm}[d.IntN(2)], d.text(64), d.between(0, maxTimeMs),
			d.text(maxFactBytes), d.text(maxFactBytes), d.text(maxFactBytes), int32(d.between(0, maxCPUs)),
			int32(d.between(0, maxThreads)), int32(d.between(0, maxDevices)), int32(d.between(0, maxDevices)),
			d.between(0, maxBytes), float64(d.between(0, maxPeak)), d.text(maxFactBytes),
			float64(d.between(0, maxPeak)), d.text(maxFactBytes), gpus, nics,
		}
	},
	"TopologyOrder": func(d draw) Record {
		nodes := make([]string, d.IntN(20))
		for i := range nodes {
			nodes[i] = "n" + strconv.Itoa(i)
		}
		return &TopologyOrder{
			d.name(), d.between(0, maxTimeMs), net.JoinHostPort(d.name(), strconv.Itoa(1+d.IntN(65535))),
			append(make([]byte, minSecretBytes), d.bytes(maxSecretBytes-minSecretBytes)...),
			1 + d.between(0, MaxOrderSeconds-1),
			nodes,
		}
	},
	"Watermark": func(d draw) Record {
		start, length := d.place()
		return &Watermark{d.natural(), start, length}
	},
}

// forLegal calls each with records that are legal by chance.
func forLegal(t *testing.T, rounds uint64, each func(t *testing.T, name string, seed uint64, r Record)) {
	t.Helper()
	if len(legal) != len(table.byName) {
		t.Fatalf("%d of %d records are drawn", len(legal), len(table.byName))
	}
	for name, of := range legal {
		t.Run(name, func(t *testing.T) {
			for seed := range rounds {
				each(t, name, seed, of(draw{rand.New(rand.NewPCG(seed, 13))}))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// sameRecord compares lists of CPUs as a whole: cmp takes a second for the longest one, item by item.
var sameRecord = cmp.Options{
	cmpopts.EquateEmpty(), cmpopts.EquateNaNs(),
	cmp.FilterValues(func(a, b []int32) bool { return len(a) > 0 && len(b) > 0 }, cmp.Comparer(slices.Equal[[]int32])),
}

// TestLegalRecordsComeBack, to the bit: through our codec, and through goavro both ways.
func TestLegalRecordsComeBack(t *testing.T) {
	forLegal(t, 60, func(t *testing.T, name string, _ uint64, r Record) {
		b, err := MarshalChecked(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Unmarshal(b)
		if err != nil || !cmp.Equal(r, back, sameRecord) {
			t.Fatalf("%v\n%s", err, cmp.Diff(r, back, sameRecord))
		}
		if !bytes.Equal(mustMarshal(t, back), b) {
			t.Error("what came back has other bytes")
		}
		e := table.byName["weir.v1."+name]
		c := cachedOracle(t, e)
		native, rest, err := c.NativeFromBinary(b[headerBytes:])
		if err != nil || len(rest) > 0 {
			t.Fatalf("goavro does not read it: %v, %d bytes left", err, len(rest))
		}
		if theirs, err := c.BinaryFromNative(e.header(), native); err != nil || !bytes.Equal(theirs, b) {
			t.Errorf("goavro writes\n%x, we\n%x: %v", theirs, b, err)
		}
	})
}

var oracles = map[*entry]*goavro.Codec{}

func cachedOracle(t *testing.T, e *entry) *goavro.Codec {
	t.Helper()
	if oracles[e] == nil {
		oracles[e] = oracle(t, e)
	}
	return oracles[e]
}

// TestOlderWritersAreRead: what a process of yesterday says of a record of today arrives, and what it cannot say is
// zero.
func TestOlderWritersAreRead(t *testing.T) {
	for _, e := range table.byFingerprint {
		name := strings.TrimPrefix(e.name, "weir.v1.")
		if e == table.byName[e.name] {
			continue
		}
		for seed := range uint64(100) {
			want := legal[name](draw{rand.New(rand.NewPCG(seed, 14))})
			native, _, err := cachedOracle(t, table.byName[e.name]).NativeFromBinary(mustMarshal(t, want)[headerBytes:])
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := cachedOracle(t, e).BinaryFromNative(e.header(), native)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			root := e.schema().Root()
			forget(root, reflect.ValueOf(want).Elem())
			got, err := Unmarshal(theirs)
			if err != nil || !cmp.Equal(want, got, sameRecord) {
				t.Fatalf("%s, seed %d: %v\n%s", name, seed, err, cmp.Diff(want, got, sameRecord))
			}
		}
	}
}

// forget blanks what a schema does not have.
func forget(n *avro.SchemaNode, v reflect.Value) {
	switch n.Type {
	case "record":
		has := map[string]*avro.SchemaNode{}
		for i := range n.Fields {
			has[n.Fields[i].Name] = &n.Fields[i].Type
		}
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.Anonymous {
				continue
			}
			if of := has[f.Tag.Get("avro")]; of != nil {
				forget(of, v.FieldByIndex(f.Index))
			} else {
				v.FieldByIndex(f.Index).SetZero()
			}
		}
	case "array":
		for i := range v.Len() {
			forget(n.Items, v.Index(i))
		}
	}
}

// TestJSONSaysWhatTheRecordSays: each field under its name, to the last bit, and the same text each time.
func TestJSONSaysWhatTheRecordSays(t *testing.T) {
	forLegal(t, 30, func(t *testing.T, name string, _ uint64, r Record) {
		b := mustMarshal(t, r)
		full, text, err := JSON(b)
		if err != nil || full != "weir.v1."+name {
			t.Fatal(full, err)
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var got map[string]any
		if err := d.Decode(&got); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if _, ok := got["head_schema"]; ok {
			delete(got, "head_schema")
		} else if name == "Reject" {
			t.Error("no head_schema")
		}
		want := plain(reflect.ValueOf(r).Elem()).(map[string]any)
		if name == "NodeSummary" { // its struct shares fields that its schema does not have
			for _, m := range want["metrics"].([]any) {
				delete(m.(map[string]any), "low_node_mean")
				delete(m.(map[string]any), "high_node_mean")
			}
		}
		if diff := cmp.Diff(want, numbered(got, r)); diff != "" {
			t.Errorf("%s\n%s", diff, text)
		}
		if _, again, err := JSON(b); err != nil || !bytes.Equal(again, text) {
			t.Errorf("a second time it says\n%s, first\n%s", again, text)
		}
	})
}

// plain is a value as JSON has it, with all numbers as text: what is nil, or not a number, is null.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Struct:
		fields := map[string]any{}
		for _, f := range reflect.VisibleFields(v.Type()) {
			if name := f.Tag.Get("avro"); name != "" && name != "-" {
				fields[name] = plain(v.FieldByIndex(f.Index))
			}
		}
		return fields
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return base64.StdEncoding.EncodeToString(v.Bytes())
		}
		list := []any{}
		for i := range v.Len() {
			list = append(list, plain(v.Index(i)))
		}
		return list
	case reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Float64:
		if math.IsNaN(v.Float()) {
			return nil
		}
		return "float " + strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return v.Interface()
}

// numbered writes the numbers of decoded JSON as plain does. Which are floats, the record says.
func numbered(got any, like any) any {
	return numberedAs(got, reflect.TypeOf(like).Elem())
}

func numberedAs(got any, t reflect.Type) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := got.(type) {
	case map[string]any:
		types := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			types[f.Tag.Get("avro")] = f.Type
		}
		for name := range v {
			if types[name] == nil {
				return "a field that the record has not: " + name
			}
			v[name] = numberedAs(v[name], types[name])
		}
	case []any:
		for i := range v {
			v[i] = numberedAs(v[i], t.Elem())
		}
	case json.Number:
		if t.Kind() != reflect.Float64 {
			return v.String()
		}
		f, err := strconv.ParseFloat(v.String(), 64)
		if err != nil {
			return err.Error()
		}
		return "float " + strconv.FormatFloat(f, 'g', -1, 64)
	}
	return got
}

// TestRowsHaveEveryColumn: a column has the name of the field that it shows, in the summary or in its metric.
func TestRowsHaveEveryColumn(t *testing.T) {
	for seed := range uint64(300) {
		s := draw{rand.New(rand.NewPCG(seed, 15))}.summary().(*JobSummary)
		before := mustMarshal(t, s)
		rows := s.Rows()
		if len(rows) != max(1, len(s.Metrics)) {
			t.Fatalf("seed %d: %d rows of %d metrics", seed, len(rows), len(s.Metrics))
		}
		summary := plain(reflect.ValueOf(s).Elem()).(map[string]any)
		for i := range rows {
			metric := map[string]any{}
			if len(s.Metrics) > 0 {
				metric = plain(reflect.ValueOf(s.Metrics[i])).(map[string]any)
			}
			for column, got := range cells(&rows[i]) {
				want, ok := summary[column]
				switch decile, numbered := strings.CutPrefix(column, "d"); {
				case ok:
				case column == "metric":
					want = metric["name"]
				case (column == "lo" || column == "hi") && (metric["lo"] == nil || metric["hi"] == nil):
					want = []any{} // bounds come in pairs
				case numbered && metric["deciles"] != nil:
					k, err := strconv.Atoi(decile)
					if err != nil {
						t.Fatal(column)
					}
					want = metric["deciles"].([]any)[k]
				default:
					want = metric[column]
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("seed %d, row %d: %s is %v, want %v", seed, i, column, got, want)
				}
			}
		}
		if !bytes.Equal(mustMarshal(t, s), before) {
			t.Errorf("seed %d: the summary has changed", seed)
		}
	}
	short := &JobSummary{Metrics: []JobSummaryMetric{{Name: "m", Deciles: &[]float64{1, 2}}}} // as nobody may send it
	if r := short.Rows()[0]; *r.Metric != "m" || r.D0 != nil {
		t.Errorf("%+v", r)
	}
}

// cells are a row's values by column. Both names of a column agree, that of Parquet and that of JSON.
func cells(r *Row) map[string]any {
	cells := map[string]any{}
	for v, i := reflect.ValueOf(r).Elem(), 0; i < v.NumField(); i++ {
		tag := v.Type().Field(i).Tag
		if name, _, _ := strings.Cut(tag.Get("parquet"), ","); name == tag.Get("json") {
			cells[name] = plain(v.Field(i))
		}
	}
	return cells
}

// FuzzNames: a name is a name by its letters and its length, and never a path. Text becomes text that a record may
// have.
func FuzzNames(f *testing.F) {
	f.Add(x64, 61) // just as long as it may be
	f.Add(x64, 60)
	for _, s := range slices.Concat(goodNames, badNames, goodJobs, badJobs, goodTexts, badTexts, badUnits) {
		f.Add(s, 64)
	}
	letters := regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)
	control := regexp.MustCompile(
		`[\x00-\x1f\x7f\x{80}-\x{9f}\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}\x{feff}]`)
	f.Fuzz(func(t *testing.T, s string, most int) {
		name := letters.MatchString(s) && !strings.HasSuffix(s, "\n") && s != "." && s != ".."
		if naming.Valid(s) != name || ValidJobID(s) != (name && s[0] != '_') {
			t.Errorf("%q: a name: %v, a job's: %v", s, naming.Valid(s), ValidJobID(s))
		}
		if validUnit(s) && (len(s) > 64 || control.MatchString(s)) || validText(s) &&
			(len(s) > 4096 || control.MatchString(s)) {
			t.Errorf("%q may change a terminal", s)
		}
		switch shown := ShownJobID(s); {
		case ValidJobID(s) && shown != s:
			t.Errorf("%q is shown as %q", s, shown)
		case !ValidJobID(s) && (shown[0] != '"' || len(shown) > 900 || control.MatchString(shown)):
			t.Errorf("%q is shown as %q", s, shown)
		}
		most = 3 + int(uint16(most))%4093
		clean := CleanText(s, most)
		if len(clean) > most || !validText(clean) {
			t.Errorf("%q becomes %q, of at most %d bytes", s, clean, most)
		}
		if isPrintable(s) && len(s) <= most && clean != strings.ReplaceAll(s, "\ufffd", "?") {
			t.Errorf("%q was good and becomes %q", s, clean)
		}
		if again := CleanText(clean, most); again != clean {
			t.Errorf("%q becomes %q, and then %q", s, clean, again)
		}
	})
}

// TestTwice compares with the loop over all pairs.
func TestTwice(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 16))
		items := make([]int, r.IntN(40))
		for i := range items {
			items[i] = r.IntN(1 + r.IntN(200))
		}
		if seed%3 == 0 {
			slices.Sort(items)
		}
		there := map[int]int{}
		for _, v := range items {
			there[v]++
		}
		i := twice(len(items), func(a, b int) int { return items[a] - items[b] })
		if i >= 0 && there[items[i]] < 2 || i < 0 && len(there) < len(items) {
			t.Errorf("seed %d: %d is said to be twice in %v", seed, i, items)
		}
	}
	items := slices.Sorted(slices.Values(shortNames(1000)))
	if n := testing.AllocsPerRun(10, func() {
		twice(len(items),
			func(a, b int) int { return strings.Compare(items[a], items[b]) })
	}); n > 0 {
		t.Errorf("%v allocations where the items ascend", n)
	}
}

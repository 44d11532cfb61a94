package sink

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

func marshal(t testing.TB, r schemas.Record) []byte {
	t.Helper()
	b, err := schemas.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// randomSummary returns a valid summary of job at interval: each optional value is there or not by chance.
func randomSummary(rnd *rand.Rand, cluster, job string, interval int64) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: cluster, JobID: job, Restart: rnd.Int32N(2), IntervalStart: interval, IntervalMs: 1000,
		Method: []string{schemas.MethodNode, schemas.MethodExact, schemas.MethodEstimated}[rnd.IntN(3)],
		Parts:  1 + rnd.Int32N(3), PartsReported: rnd.Int32N(4),
		NodesExpected: rnd.Int32N(100), NodesReported: rnd.Int32N(100),
	}
	number := func() *float64 { v := rnd.NormFloat64(); return &v }
	fraction := func() *float64 { v := rnd.Float64(); return &v } // neither a deviation nor a rank error is negative
	sorted := func() *[]float64 {
		v := make([]float64, 11)
		for i := range v {
			v[i] = rnd.NormFloat64()
		}
		slices.Sort(v)
		return &v
	}
	for i := range rnd.IntN(5) {
		m := schemas.JobSummaryMetric{
			Name: fmt.Sprintf("metric_%d", rnd.IntN(1000)*10+i), Unit: "1", Scope: schemas.ScopeCore,
			Invalid: rnd.Int64N(3),
		}
		if rnd.IntN(4) > 0 {
			name := fmt.Sprintf("node%d", i)
			m.Count, m.Nodes, m.Mean, m.Stddev, m.NodeStddev = 1+rnd.Int64N(1000), 1, number(), fraction(), fraction()
			m.Deciles, m.LowNode, m.HighNode = sorted(), &name, &name
			m.LowNodeMean, m.HighNodeMean = number(), number()
		}
		if m.Count > 0 && rnd.IntN(2) == 0 {
			m.RankError, m.Lo, m.Hi = fraction(), sorted(), sorted()
		}
		if m.Count > 0 && rnd.IntN(2) == 0 {
			m.Certified = randomCertified(rnd, *sorted())
		}
		s.Metrics = append(s.Metrics, m)
	}
	return s
}

func TestFileRoundTrip(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 10 {
		var rows []schemas.Row
		for i := range rnd.IntN(200) {
			rows = append(rows, randomSummary(rnd, "c", fmt.Sprintf("job%d", rnd.IntN(20)), int64(i)*1000).Rows()...)
		}
		sortRows(rows)
		f := Footer{
			Topic: "weir.job-summary", Partition: 3, Start: 10, Next: 12 + rnd.Int64N(1000),
			Rows: int64(len(rows)), PreviousDate: "2026-11-20",
		}
		if len(rows) > 0 {
			f.FirstInterval, f.LastInterval = 0, 199_000
			f.Undecodable, f.UndecodableCount = []Undecodable{{11, "not \"good\"\n\x01"}}, 1
		}
		path := filepath.Join(t.TempDir(), "f")
		var b bytes.Buffer
		if err := encode(&b, rows, &f); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		got, footer, err := ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(rows, got, equateEmptyRows()); diff != "" {
			t.Fatalf("rows (-want +got):\n%s", diff)
		}
		if diff := gocmp.Diff(f, footer, equateEmptyRows()); diff != "" {
			t.Fatalf("footer (-want +got):\n%s", diff)
		}
	}
}

// equateEmptyRows makes a nil slice of rows or undecodable ones equal to an empty one.
func equateEmptyRows() gocmp.Options {
	return gocmp.Options{
		gocmp.FilterValues(func(a, b []schemas.Row) bool { return len(a) == 0 && len(b) == 0 }, gocmp.Ignore()),
		gocmp.FilterValues(func(a, b []Undecodable) bool { return len(a) == 0 && len(b) == 0 }, gocmp.Ignore()),
	}
}

func TestCreatedByNamesTheBuild(t *testing.T) {
	b := sample(t)
	m, _, err := decodeFooter(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(m.CreatedBy, "build )") || !strings.HasPrefix(m.CreatedBy, "weir version 1") {
		t.Errorf("created_by is %q", m.CreatedBy)
	}
}

func TestSortRows(t *testing.T) {
	a, b := "a", "b"
	rows := []schemas.Row{
		{JobID: "2"},
		{JobID: "1", Metric: &b, IntervalStart: 1},
		{JobID: "1", Metric: &a, IntervalStart: 2},
		{JobID: "1", Metric: &a, IntervalStart: 1},
		{JobID: "1", Restart: 1},
		{JobID: "1", IntervalStart: 5},
	}
	sortRows(rows)
	var got []string
	for _, r := range rows {
		metric := "null"
		if r.Metric != nil {
			metric = *r.Metric
		}
		got = append(got, fmt.Sprintf("%s/%d %s %d", r.JobID, r.Restart, metric, r.IntervalStart))
	}
	want := []string{"1/0 null 5", "1/0 a 1", "1/0 a 2", "1/0 b 1", "1/1 null 0", "2/0 null 0"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// sample returns a small file.
func sample(t testing.TB) []byte {
	t.Helper()
	rows := randomSummary(rand.New(rand.NewPCG(1, 2)), "c", "7", 5000).Rows()
	var b bytes.Buffer
	if err := encode(&b, rows, &Footer{Topic: "t", Start: 1, Next: 2, Rows: int64(len(rows))}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTornFile(t *testing.T) {
	t.Parallel()
	whole := sample(t)
	path := filepath.Join(t.TempDir(), "f")
	for n := 0; n < len(whole); n += 1 + n%23 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadFile(path); !errors.Is(err, ErrBadFile) {
			t.Fatalf("the first %d of %d bytes: %v, want ErrBadFile", n, len(whole), err)
		}
	}
	if _, _, err := ReadFile(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v, want ErrNotExist", err)
	}
}

func TestParseFooter(t *testing.T) {
	f := Footer{Topic: "t", Start: 1, Next: 2}
	kv, err := f.keyValues()
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range append(kv, [][2]string{
		{"weir.format", "2"}, {"weir.next", "1"}, {"weir.start", "-1"}, {"weir.partition", "4294967296"},
	}...) {
		lookup := func(key string) (string, bool) {
			if key == change[0] {
				return change[1], !slices.Contains(kv, change) // its own value: left out
			}
			i := slices.IndexFunc(kv, func(p [2]string) bool { return p[0] == key })
			return kv[max(i, 0)][1], i >= 0
		}
		if _, err := parseFooter(lookup); err == nil {
			t.Errorf("a footer with %s changed or missing is taken", change[0])
		}
	}
}

func FuzzDecodeFile(f *testing.F) {
	whole := sample(f)
	f.Add(whole)
	small := *bytes.NewBuffer(nil) // without rows: most of what is tried is then the footer
	if err := encode[schemas.Row](&small, nil, &Footer{Topic: "t", Start: 1, Next: 2, Gap: true}); err != nil {
		f.Fatal(err)
	}
	f.Add(small.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := allocated(b); got > flipBudget(len(b)) { // nor a panic or a hang
			t.Errorf("%d bytes allocated for a file of %d", got, len(b))
		}
	})
}

// intervalRows is one interval of 185 jobs with 20 metrics each: 3,700 rows.
func intervalRows() []schemas.Row {
	rnd := rand.New(rand.NewPCG(3, 4))
	var rows []schemas.Row
	for job := range 185 {
		s := randomSummary(rnd, "c", fmt.Sprint(1000+job), 5000)
		s.Metrics = nil
		for m := range 20 {
			v := make([]float64, 15)
			for i := range v {
				v[i] = rnd.NormFloat64()
			}
			slices.Sort(v)
			deciles, node := v[:11], fmt.Sprint("node", job)
			s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{
				Name: fmt.Sprint("metric_", m), Unit: "1", Scope: schemas.ScopeCore, Count: 1024, Nodes: 8,
				Mean: &v[11], Stddev: &v[12], NodeStddev: &v[13], LowNode: &node, HighNode: &node,
				LowNodeMean: &v[11], HighNodeMean: &v[12], Deciles: &deciles, RankError: &v[14],
			})
		}
		rows = append(rows, s.Rows()...)
	}
	slices.SortFunc(rows, func(a, b schemas.Row) int { return cmp.Compare(a.JobID, b.JobID) })
	return rows
}

func BenchmarkEncodeInterval(b *testing.B) {
	rows := intervalRows()
	b.ReportAllocs()
	for b.Loop() {
		sortRows(rows)
		if err := encode(io.Discard, rows, &Footer{Topic: "t", Start: 1, Next: 2, Rows: int64(len(rows))}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
}

// footerAt is the footer of a file with one record.
func footerAt(start int64, rows []schemas.Row) Footer {
	return Footer{Topic: "t", Start: start, Next: start + 1, Rows: int64(len(rows)), PreviousDate: "2026-11-21"}
}

func BenchmarkCommitInterval(b *testing.B) {
	rows := intervalRows()
	a := newArchive(b.TempDir(), "t", nil)
	if err := a.open(); err != nil {
		b.Fatal(err)
	}
	var bytes, start int64
	for b.Loop() {
		if err := a.commit("2026-11-21", rows, footerAt(start, rows)); err != nil {
			b.Fatal(err)
		}
		info, err := os.Stat(a.path("2026-11-21", 0, start))
		if err != nil {
			b.Fatal(err)
		}
		bytes += info.Size()
		start++
	}
	b.ReportMetric(float64(bytes)/float64(start)/float64(len(rows)), "B/row")
}

func BenchmarkChainOf1000Files(b *testing.B) {
	rows := intervalRows()[:100]
	a := newArchive(b.TempDir(), "t", nil)
	if err := a.open(); err != nil {
		b.Fatal(err)
	}
	for start := range int64(1000) {
		if err := a.commit("2026-11-21", rows, footerAt(start, rows)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := a.tails(); err != nil {
			b.Fatal(err)
		}
	}
}

// olderRows are what testdata/format-1.parquet holds, which the release before this one wrote.
func olderRows() []schemas.Row {
	name, unit, scope, low, high := "cpi", "1", "core", "n1", "n2"
	nodes, count, invalid, mean, deviation, bound := int32(2), int64(96), int64(1), 1.5, 0.25, 0.01
	d := [11]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	head := schemas.Row{
		Cluster: "c", JobID: "4711", Restart: 1, IntervalStart: 1_700_000_000_000, IntervalMs: 10_000,
		Method: schemas.MethodEstimated, Parts: 2, PartsReported: 2, NodesExpected: 3, NodesReported: 2,
	}
	full := head
	full.Metric, full.Unit, full.Scope, full.LowNode, full.HighNode = &name, &unit, &scope, &low, &high
	full.Nodes, full.Count, full.Invalid = &nodes, &count, &invalid
	full.Mean, full.Stddev, full.NodeStddev = &mean, &deviation, &deviation
	full.D0, full.D1, full.D2, full.D3, full.D4, full.D5 = &d[0], &d[1], &d[2], &d[3], &d[4], &d[5]
	full.D6, full.D7, full.D8, full.D9, full.D10 = &d[6], &d[7], &d[8], &d[9], &d[10]
	exact := full
	exact.JobID = "4712"
	full.RankError, full.Lo, full.Hi = &bound, d[:], d[:]
	return []schemas.Row{head, full, exact}
}

// TestOlderFileIsRead: files that the release before this one wrote stay readable, with all that they say.
func TestOlderFileIsRead(t *testing.T) {
	rows, f, err := ReadFile("testdata/format-1.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if want := olderRows(); !reflect.DeepEqual(rows, want) {
		t.Errorf("rows %+v, want %+v", rows, want)
	}
	want := Footer{
		Topic: "weir.job-summary", Partition: 3, Start: 7, Next: 12, Rows: 3,
		FirstInterval: 1_700_000_000_000, LastInterval: 1_700_000_000_000,
		Undecodable: []Undecodable{{9, "malformed"}}, UndecodableCount: 1, PreviousDate: "2023-11-13",
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("footer %+v, want %+v", f, want)
	}
}

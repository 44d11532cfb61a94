package sink

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// randomCertified has one of the three forms of a certified summary.
func randomCertified(rnd *rand.Rand, ascending []float64) *schemas.Certified {
	c := &schemas.Certified{Eps: rnd.Float64()}
	switch rnd.IntN(3) {
	case 0:
		c.Eps = 0
		for _, v := range ascending {
			c.Atoms = append(c.Atoms, schemas.Atom{Value: v, Count: 1 + rnd.Int64N(1000)})
		}
		return c
	case 1:
		c.OrderStatistics = ascending
	}
	for i, v := range ascending {
		c.Knots = append(c.Knots, schemas.Knot{Value: v, Rank: int64(i) + 1})
	}
	return c
}

// TestFilesKeepCertifiedSummaries: rows read from a file merge as the summaries did that the topic had.
func TestFilesKeepCertifiedSummaries(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	s := &schemas.JobSummary{
		Cluster: "c", JobID: "1", IntervalStart: 5000, IntervalMs: 1000, Method: schemas.MethodExact, Parts: 1,
	}
	want := map[string]*schemas.Certified{}
	for name, values := range map[string]int{"atoms": 5, "curve": 1000, "joined": 1000, "nothing": 0} {
		m := schemas.JobSummaryMetric{Name: name, Unit: "1", Scope: schemas.ScopeCore}
		if values > 0 {
			column := make([]float64, values)
			for i := range column {
				column[i] = rnd.NormFloat64()
			}
			d, c := quantile.Certify(column, quantile.Large)
			if name == "joined" {
				c, _ = quantile.Recompress([]quantile.Summary{c}, quantile.Small)
			}
			deciles, certified := d.Deciles[:], schemas.NewCertified(c.Eps, c.Order, c.Knots, c.Atoms)
			m.Count, m.Nodes, m.Mean, m.Deciles, m.Certified = d.Count, 1, &d.Mean, &deciles, &certified
		}
		want[name] = m.Certified
		s.Metrics = append(s.Metrics, m)
	}
	a := newArchive(t.TempDir(), "t", nil)
	if err := a.open(); err != nil {
		t.Fatal(err)
	}
	it := decode("c", &kgo.Record{Value: marshal(t, s)})
	sortRows(it.rows)
	if err := a.commit(it.date, it.rows, Footer{Topic: "t", Start: 1, Next: 2, Rows: int64(len(it.rows))}); err != nil {
		t.Fatal(err)
	}
	rows, _, err := ReadFile(a.path(it.date, 0, 1))
	if err != nil || len(rows) != len(want) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i := range rows {
		got := rows[i].Certified()
		if diff := gocmp.Diff(want[*rows[i].Metric], got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", *rows[i].Metric, diff)
		}
	}
	rows[0].Eps, rows[0].KnotRanks = new(0.5), []int64{1}
	if c := rows[0].Certified(); c != nil {
		t.Errorf("a rank without a value is %+v", c)
	}
}

// TestFilesWithoutCertifiedSummariesAreRead: so many columns had the files of before.
func TestFilesWithoutCertifiedSummariesAreRead(t *testing.T) {
	const before = 35
	rows, _, err := ReadFile("testdata/format-1.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Certified() != nil {
			t.Errorf("%+v", r)
		}
	}
	var b bytes.Buffer
	if err := encode[schemas.Row](&b, nil, &Footer{Topic: "t", Next: 1}); err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range file.Schema().Fields() {
		names = append(names, f.Name())
	}
	// Readers that take columns by their place go on.
	want := []string{
		"eps", "order_statistics", "knot_values", "knot_ranks", "atom_values", "atom_counts", "low_node_mean",
		"high_node_mean",
	}
	if len(names) != before+len(want) || !slices.Equal(names[before:], want) {
		t.Errorf("%d columns, the last of them %v", len(names), names[before:])
	}
}

// TestDraftsCountCertifiedSummaries: the memory of rows that wait for their file is bounded by sink.roll_bytes.
func TestDraftsCountCertifiedSummaries(t *testing.T) {
	bare := schemas.Row{}
	full := schemas.Row{Eps: new(0.5), KnotValues: make([]float64, 37), KnotRanks: make([]int64, 37)}
	if more := memory(&full) - memory(&bare); more < 37*32+88 {
		t.Errorf("a certified summary counts as %d bytes", more)
	}
}

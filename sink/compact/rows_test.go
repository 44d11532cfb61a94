package compact

import (
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// TestColumnsAreThoseOfTheArchive: a new column of the archive must be known to compaction too.
func TestColumnsAreThoseOfTheArchive(t *testing.T) {
	var names, known []string
	for field := range reflect.TypeFor[schemas.Row]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("parquet"), ",")
		names = append(names, name)
	}
	for _, c := range columns {
		known = append(known, c.name)
	}
	if diff := cmp.Diff(names, known); diff != "" {
		t.Errorf("columns of the archive, and those that are merged (-want +got):\n%s", diff)
	}
}

// TestHashSeesEveryColumn: a value that changes, or becomes null, changes the hash.
func TestHashSeesEveryColumn(t *testing.T) {
	var r row
	at := reflect.ValueOf(&r.Row).Elem()
	hashes := func() [2]uint64 { return [2]uint64{r.hash(), r.summaryHash(r.hash())} }
	seen := map[[2]uint64]string{hashes(): "nothing"}
	for i := range at.NumField() {
		field, name := at.Field(i), at.Type().Field(i).Name
		switch field.Kind() {
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.String:
			field.SetString("x")
		default:
			field.SetInt(1)
		}
		if other, ok := seen[hashes()]; ok {
			t.Errorf("%s does not change the hash: as with %s", name, other)
		}
		seen[hashes()] = name
	}
}

// randomRows returns rows with nulls of every kind, lists and equal keys.
func randomRows(rnd *rand.Rand, n int) []schemas.Row {
	text := func(of string) *string {
		if rnd.IntN(4) == 0 {
			return nil
		}
		s := of + string(rune('a'+rnd.IntN(3)))
		return &s
	}
	number := func() *float64 {
		if rnd.IntN(4) == 0 {
			return nil
		}
		v := rnd.NormFloat64()
		return &v
	}
	list := func() (v []float64) {
		if rnd.IntN(3) > 0 {
			return nil
		}
		for range 1 + rnd.IntN(12) {
			v = append(v, rnd.NormFloat64())
		}
		return v
	}
	whole := func() *int64 { v := rnd.Int64(); return &v }
	wholes := func(n int) (v []int64) {
		for range n {
			v = append(v, rnd.Int64())
		}
		return v
	}
	rows := make([]schemas.Row, n)
	for i := range rows {
		nodes := rnd.Int32()
		rows[i] = schemas.Row{
			Cluster: "c", JobID: string(rune('a' + rnd.IntN(4))), Restart: rnd.Int32N(2),
			IntervalStart: dayMs + rnd.Int64N(5)*1000, IntervalMs: 1000,
			Metric: text("m"), Unit: text("u"), Scope: text("s"), Method: "EXACT", Parts: rnd.Int32(),
			PartsReported: rnd.Int32(), NodesExpected: rnd.Int32(), NodesReported: rnd.Int32(), Nodes: &nodes,
			Count: whole(), Mean: number(), Stddev: number(), NodeStddev: number(),
			LowNode: text("l"), HighNode: text("h"), LowNodeMean: number(), HighNodeMean: number(),
			D0: number(), D5: number(),
			D10: number(), RankError: number(), Lo: list(), Hi: list(),
			Eps: number(), OrderStatistics: list(), KnotValues: list(), AtomValues: list(),
		}
		rows[i].KnotRanks, rows[i].AtomCounts = wholes(len(rows[i].KnotValues)), wholes(len(rows[i].AtomValues))
		if rnd.IntN(2) == 0 {
			rows[i].Nodes, rows[i].Count = nil, nil
		} else {
			rows[i].Invalid = whole()
		}
	}
	return rows
}

// TestRowsSurvive compacts random rows, in one level of merges and in two, and compares them with the library's reader
// of typed rows.
func TestRowsSurvive(t *testing.T) {
	for _, files := range []int{3, 70, 1}[:kafkatest.Cases(3, 1)] {
		rnd := rand.New(rand.NewPCG(7, uint64(files)))
		dir := t.TempDir()
		var want []schemas.Row
		for i := range int64(files) {
			rows := randomRows(rnd, []int{0, 1, 40, 700}[rnd.IntN(4)])
			want = append(want, rows...)
			f := sink.Footer{Topic: testTopic, Start: i, Next: i + 1, Rows: int64(len(rows)), PreviousDate: testDate}
			if err := sink.Append(dir, testTopic, testDate, rows, f); err != nil {
				t.Fatal(err)
			}
		}
		compactTest(t, dir, int64(files))
		paths, err := filepath.Glob(filepath.Join(sink.DatePath(dir, testDate), "*"))
		if err != nil || len(paths) != 1 {
			t.Fatalf("files: %v, %v, want one", paths, err)
		}
		got, footer, err := sink.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		c := footer.Compacted
		if c == nil || len(c.Inputs) != files || len(c.Ranges) != 1 || c.Ranges[0].Next != int64(files) {
			t.Errorf("footer %+v", footer.Compacted)
		}
		if !slices.IsSortedFunc(got, byKey) {
			t.Error("not sorted")
		}
		for _, rows := range [][]schemas.Row{want, got} { // rows with equal keys may change places
			slices.SortFunc(rows, func(a, b schemas.Row) int {
				if c := byKey(a, b); c != 0 {
					return c
				}
				return int(a.Parts) - int(b.Parts)
			})
		}
		for i := range want { // the rollups have them
			w := &want[i]
			w.Eps, w.OrderStatistics, w.KnotValues, w.KnotRanks = nil, nil, nil, nil
			w.AtomValues, w.AtomCounts = nil, nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%d files: rows (-want +got):\n%.2000s", files, diff)
		}
	}
}

func byKey(a, b schemas.Row) int { return sink.CompareRows(&a, &b) }

// TestEncodingOfCompactedFiles: what the page promises of a file.
func TestEncodingOfCompactedFiles(t *testing.T) {
	dir := t.TempDir()
	f := sink.Footer{Topic: testTopic, Next: 1, Rows: 500, PreviousDate: testDate}
	if err := sink.Append(dir, testTopic, testDate, randomRows(rand.New(rand.NewPCG(1, 1)), 500), f); err != nil {
		t.Fatal(err)
	}
	compactTest(t, dir, 1)
	file, err := sink.Open(filepath.Join(sink.DatePath(dir, testDate), sink.CompactedName(testTopic, 0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range file.Metadata().RowGroups[0].Columns {
		m := c.MetaData
		if m.Codec.String() != "ZSTD" || m.BloomFilterOffset != 0 {
			t.Errorf("%v: codec %v, bloom filter at %d", m.PathInSchema, m.Codec, m.BloomFilterOffset)
		}
		split := slices.Contains(m.Encoding, parquet.ByteStreamSplit.Encoding())
		if isDouble := m.Type.String() == "DOUBLE"; isDouble != split {
			t.Errorf("%v: bytes are split: %v", m.PathInSchema, split)
		}
	}
}

// TestHashOfOlderRows: the footer of a compacted file has the hash of its rows. A row that lacks the columns of a newer
// weir must keep it, or each older file would be found to be damaged.
func TestHashOfOlderRows(t *testing.T) {
	r := row{Row: schemas.Row{
		Cluster: "c", JobID: "7", IntervalStart: dayMs, IntervalMs: 1000, Metric: new("m"), LowNode: new("n1"),
		Mean: new(0.5), D5: new(0.25), Lo: []float64{1, 2},
	}}
	const before = uint64(0xdd9c55ba4403ddd5) // as the release before the columns computes it
	if got := r.hash(); got != before {
		t.Errorf("hash %#x, want %#x", got, before)
	}
	r.LowNodeMean = new(0.5)
	low := r.hash()
	r.LowNodeMean, r.HighNodeMean = nil, new(0.5)
	if high := r.hash(); low == before || high == before || low == high {
		t.Errorf("hashes %#x and %#x with a mean", low, high)
	}
}

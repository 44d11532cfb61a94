package sink_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/findings"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"
)

const bytesTopic = "weir.job-summary"

var bytesDay = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// TestBytes: the same records make the same files, byte by byte, in all tables of the archive. Archives live longer than
// any weir, and several versions write to one. If an upgrade of the Parquet library changes bytes, compare the rows with
// DuckDB, and then put the new hashes into testdata/archive.sums.
func TestBytes(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors round means and deviations in another way")
	}
	dir := t.TempDir()
	appendSummaries(t, dir)
	writeTables(t, dir)
	got := "# as sinks write it\n" + hashes(t, dir)
	if err := compact.Run(t.Context(), compact.Options{Dir: dir, Topic: bytesTopic}); err != nil {
		t.Fatal(err)
	}
	err := totals.Run(t.Context(), totals.Options{
		Dir: dir, Topic: bytesTopic,
		Frontier: func(context.Context, totals.Archived) (totals.Frontier, error) {
			return totals.Frontier{ThroughMs: math.MaxInt64}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got += "# compacted, with totals\n" + hashes(t, dir)
	want, err := os.ReadFile("testdata/archive.sums")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// appendSummaries appends two small files for each of three dates. The third date keeps the chain open.
func appendSummaries(t *testing.T, dir string) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(7, 7))
	next, previous := int64(0), ""
	for file := range 6 {
		day := bytesDay.AddDate(0, 0, file/2)
		start := day.Add(time.Duration(file%2) * 11 * time.Hour).UnixMilli()
		var rows []schemas.Row
		for job := range 4 {
			for interval := range int64(3) {
				s := summary(rnd, fmt.Sprint("10", job), start+interval*10_000)
				rows = append(rows, s.Rows()...)
			}
		}
		f := sink.Footer{
			Topic: bytesTopic, Start: next, Next: next + 12, Rows: int64(len(rows)), FirstInterval: start,
			LastInterval: start + 20_000, PreviousDate: previous, TopicID: "id",
		}
		if file == 1 {
			f.Undecodable, f.UndecodableCount = []sink.Undecodable{{Offset: 13, Reason: "of cluster x, not c"}}, 1
		}
		date := day.Format(time.DateOnly)
		if err := sink.Append(dir, bytesTopic, date, rows, f); err != nil {
			t.Fatal(err)
		}
		next, previous = f.Next, date
	}
}

// summary has a metric of few values, one of many with a certified summary, and one without values.
func summary(rnd *rand.Rand, job string, start int64) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: "c", JobID: job, IntervalStart: start, IntervalMs: 10_000, Method: schemas.MethodExact, Parts: 1,
		PartsReported: 1, NodesExpected: 2, NodesReported: 2,
	}
	for name, values := range []int{5, 400, 0} {
		m := schemas.JobSummaryMetric{Name: fmt.Sprint("m", name), Unit: "1", Scope: schemas.ScopeCore}
		if values > 0 {
			column := make([]float64, values)
			for i := range column {
				column[i] = math.Floor(rnd.Float64() * 4096)
			}
			d, c := quantile.Certify(column, quantile.Large)
			deciles, certified := d.Deciles[:], schemas.NewCertified(c.Eps, c.Order, c.Knots, c.Atoms)
			m.Count, m.Nodes, m.Mean, m.Deciles, m.Certified = d.Count, 2, &d.Mean, &deciles, &certified
			m.Stddev, m.NodeStddev, m.LowNode, m.HighNode = new(12.5), new(0.25), new("n1"), new("n2")
			m.LowNodeMean, m.HighNodeMean = new(1.5), new(3.5)
		}
		s.Metrics = append(s.Metrics, m)
	}
	return s
}

// writeTables writes jobs and findings, and writes some of them anew.
func writeTables(t *testing.T, dir string) {
	t.Helper()
	start := bytesDay.UnixMilli()
	var ended []schemas.Job
	var found []schemas.Finding
	for i := range int64(40) {
		j := schemas.Job{
			JobID: fmt.Sprint(100 + i), User: fmt.Sprint("user", i%3), Nodes: []string{"n1", fmt.Sprint("n", i)},
			State: schemas.StateCompleted, Start: new(start + i), End: new(start + (20+i)*3_600_000),
		}
		if i%2 == 0 {
			j.Cpus, j.Cores, j.Gpus = []int32{0, 1, int32(i)}, new(i), new(int32(i))
			j.ArrayJob, j.ArrayTask, j.Exclusive = new("100"), new(int32(i)), new(true)
		}
		ended = append(ended, j)
		f := schemas.Finding{
			Cluster: "c", JobID: j.JobID, Rule: []string{"serial", "swapping"}[i%2], RuleHash: "00ff", Title: "slow",
			State: schemas.FindingOpen, Final: true, Certainty: schemas.Certain, Class: schemas.ClassMed,
			Severity: 0.25, Worst: 0.5, AsOf: *j.End, IntervalMs: 10_000, Intervals: 9, Evaluated: 8, Matched: 7,
		}
		if i%3 == 0 {
			f.JobStart, f.Node, f.Hint = j.Start, new("n1"), "ask for 12 cores"
			f.Evidence = []schemas.FindingEvidence{{Name: "cpu_idle.d9", Low: 0.5, Mean: 0.75, High: float64(i)}}
		}
		found = append(found, f)
	}
	write := func() {
		t.Helper()
		if err := jobs.Write(t.Context(), dir, "weir.jobs", "c", ended); err != nil {
			t.Fatal(err)
		}
		if err := findings.Write(t.Context(), dir, "weir.findings", found); err != nil {
			t.Fatal(err)
		}
	}
	write()
	for range 5 { // later records: one moves to another date, one changes, one has a namesake
		ended, found = append(ended, ended[len(ended)-40]), append(found, found[len(found)-40])
	}
	last := len(ended) - 1
	ended[last].End, found[last].AsOf = new(*ended[last].End+48*3_600_000), found[last].AsOf+48*3_600_000
	ended[last-1].Reason, found[last-1].Title = "changed", "changed"
	ended[last-2].Start, ended[last-2].End = new(*ended[last-2].End+5), new(*ended[last-2].End+3_600_000)
	write()
}

// hashes returns a line for each file of the archive: a hash of its bytes, and its path. The writer's build does not
// count.
func hashes(t *testing.T, dir string) string {
	t.Helper()
	build := regexp.MustCompile(`.weir version \d+\(build [^)]*\)`)
	var lines strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".parquet") {
			if !bytes.Contains(b, []byte("weir version ")) {
				return fmt.Errorf("%s: who wrote it?", path)
			}
			b = slices.Clone(b[:len(b)-8]) // the footer's length depends on the build
			b = build.ReplaceAllFunc(b, func(v []byte) []byte { return bytes.Split(v[1:], []byte("(build"))[0] })
		}
		sum := sha256.Sum256(b)
		_, err = fmt.Fprintf(&lines, "%s %s\n", hex.EncodeToString(sum[:8]), strings.TrimPrefix(path, dir+"/"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines.String()
}

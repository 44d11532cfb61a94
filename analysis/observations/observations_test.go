package observations

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

const (
	observedStart  = 1_767_225_600_000 // 2026-01-01
	observedLength = 60_000
)

// observedSummary is an interval of a job: metric a is 10 i + k for its statistic k, metric rate is 1000 i.
func observedSummary(job string, i int) *schemas.JobSummary {
	deciles := make([]float64, 11)
	for k := range deciles {
		deciles[k] = float64(10*i + k)
	}
	mean, rate, skew := float64(10*i)+.5, 1000*float64(i), 100.0
	skews := slices.Repeat([]float64{skew}, 11)
	return &schemas.JobSummary{
		Cluster: "c", JobID: job, IntervalStart: observedStart + int64(i)*observedLength, IntervalMs: observedLength,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 2, NodesReported: 2,
		Metrics: []schemas.JobSummaryMetric{
			{Name: "a", Unit: "1", Scope: "node", Count: 2, Nodes: 2, Mean: &mean, Deciles: &deciles},
			{Name: "rate", Unit: "1/s", Scope: "node", Count: 1, Nodes: 1, Mean: &rate},
			{Name: skewMetric, Unit: "us", Scope: "node", Count: 2, Nodes: 2, Mean: &skew, Deciles: &skews},
		},
	}
}

// observedArchive is an archive of some summaries.
func observedArchive(t *testing.T, all []*schemas.JobSummary) string {
	t.Helper()
	dir := t.TempDir()
	var rows []schemas.Row
	for _, s := range all {
		rows = append(rows, s.Rows()...)
	}
	f := sink.Footer{Topic: "weir." + schemas.TopicJobSummary, Next: 1, Rows: int64(len(rows))}
	if err := sink.Append(dir, f.Topic, "2026-01-01", rows, f); err != nil {
		t.Fatal(err)
	}
	return dir
}

func observeArchive(t *testing.T, a Ask) *selection.Table {
	t.Helper()
	table, err := Archive(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestObserveArchive: incomplete and torn intervals are out and counted, pseudo-jobs and jobs without the response too.
func TestObserveArchive(t *testing.T) {
	var all []*schemas.JobSummary
	for i := range 12 {
		s := observedSummary("4711", i)
		switch i {
		case 2:
			s.NodesReported = 1
		case 4:
			s.Parts = 2
		case 7: // its last reading was late, and is the first one of the next interval
			(*s.Metrics[2].Deciles)[10] = 1000*observedLength/10 + 1
		case 9:
			s.Metrics[0].Mean = nil
		}
		other := observedSummary("4712", i)
		other.Metrics = other.Metrics[:1]
		all = append(all, s, other, observedSummary(schemas.JobSystem, i), observedSummary(schemas.JobRest, i))
	}
	dir := observedArchive(t, all)
	table := observeArchive(t, Ask{Dir: dir, Responses: []string{"rate"}})
	var intervals []int64
	for _, at := range table.Start {
		intervals = append(intervals, (at-observedStart)/observedLength)
	}
	if want := []int64{0, 1, 3, 5, 6, 9, 10, 11}; !slices.Equal(intervals, want) {
		t.Errorf("intervals %v, want %v", intervals, want)
	}
	notes := []string{
		"12 intervals read", "2 of them left out: nodes or shares of collectors are missing",
		"2 of them left out: a reading was further than a tenth of the interval from its boundary",
	}
	if !slices.Equal(table.Notes, notes) || !slices.Equal(table.Units, []string{"4711/0"}) {
		t.Errorf("%q, %q", table.Notes, table.Units)
	}
	if len(table.Metrics) != 1 || table.Metrics[0].Name != "a" || len(table.Responses) != 1 {
		t.Fatalf("%+v", table)
	}
	for k, statistic := range Statistics() {
		c := table.Metrics[0].Columns[k]
		want := []float64{.5, 0, 5, 10}[k] + 10*3
		if c.Statistic != statistic || c.Values[2] != want {
			t.Errorf("%s: %v, want %v in interval 3", c.Statistic, c.Values, want)
		}
	}
	if v := table.Metrics[0].Columns[0].Values[5]; !math.IsNaN(v) || table.Responses[0].Values[3] != 5000 {
		t.Errorf("a missing mean is %v; responses %v", v, table.Responses[0].Values)
	}
	both := observeArchive(t, Ask{Dir: dir, Statistics: []string{"d5", statisticNodes}})
	if !slices.Equal(both.Units, []string{"4711/0", "4712/0"}) || len(both.Metrics) != 2 ||
		!reflect.DeepEqual(both.Metrics[0].Columns[1].Values[0], 2.0) {
		t.Errorf("units %q, metrics %+v", both.Units, both.Metrics)
	}
	if !slices.Contains(both.Notes, "measured on part of the nodes: 1 of the metrics, such as rate") {
		t.Errorf("notes %q", both.Notes)
	}
}

// A span and a filter choose rows; where nothing is left, the error says so.
func TestObserveArchiveChooses(t *testing.T) {
	var all []*schemas.JobSummary
	for i := range 6 {
		all = append(all, observedSummary("4711", i), observedSummary("4712", i))
	}
	dir := observedArchive(t, all)
	row := jobs.Row{Cluster: "c", JobID: "4712", User: "ada", Queue: "long", End: observedStart + 10*observedLength}
	if err := jobs.Put(t.Context(), dir, "weir."+schemas.TopicJobs, "", []jobs.Row{row}); err != nil {
		t.Fatal(err)
	}
	at := func(i int64) time.Time { return time.UnixMilli(observedStart + i*observedLength) }
	filter := func(text string) JobFilter {
		f, err := ParseJobFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, c := range map[string]struct {
		ask  Ask
		rows int
	}{
		"all":           {Ask{}, 12},
		"span":          {Ask{From: at(2), To: at(4)}, 4},
		"job":           {Ask{Jobs: filter("4711")}, 6},
		"jobs":          {Ask{Jobs: filter("4711,4712,4713")}, 12},
		"user":          {Ask{Jobs: filter("user=ada,queue=long")}, 6},
		"user and job":  {Ask{Jobs: filter("4711,user=ada")}, 0},
		"another queue": {Ask{Jobs: filter("user=ada,queue=short")}, 0},
		"later":         {Ask{From: at(6)}, 0},
		"given " +
			"response": {Ask{Given: []Given{{Name: "y", Values: []selection.ResponseValue{{
			JobID: "4712",
			At:    observedStart,
		}}}}}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			c.ask.Dir = dir
			table, err := Archive(t.Context(), c.ask)
			switch {
			case c.rows == 0 && !errors.Is(err, errNoRows):
				t.Errorf("got %v, %v", table, err)
			case c.rows > 0 && (err != nil || table.Rows() != c.rows):
				t.Errorf("%v, %+v", err, table)
			}
		})
	}
	for text, says := range map[string]string{
		"user": "", "user=": "neither", "uid=3": "neither", "../x": "neither", "4711,,": "neither",
	} {
		if _, err := ParseJobFilter(text); (err == nil) != (says == "") {
			t.Errorf("%q: %v", text, err)
		}
	}
	_, err := Archive(t.Context(), Ask{Dir: dir, Responses: []string{"rat"}})
	if !errors.Is(err, errResponse) || !strings.Contains(err.Error(), `no job has metric "rat"`) {
		t.Errorf("%v", err)
	}
	_, err = Archive(t.Context(), Ask{Dir: t.TempDir()})
	if !errors.Is(err, errNoRows) || !strings.Contains(err.Error(), "has no summaries") {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = Archive(ended, Ask{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// However many intervals there are, the table stays within its bound: it has every 2nd, 4th, … of them, and says so.
func TestObservationsAreBounded(t *testing.T) {
	ask := &Ask{Statistics: Statistics()}
	whole, thin := observe(ask), observe(ask)
	thin.most = 100
	for i := range 50 {
		for _, o := range []*observations{whole, thin} {
			for _, r := range observedSummary("7", i).Rows() {
				o.archivedRow("7/0", o.unit("7/0"), &r)
			}
			o.bound()
			if len(o.rows)*len(o.columns) > o.most {
				t.Fatalf("%d rows of %d columns", len(o.rows), len(o.columns))
			}
		}
	}
	all, err := whole.table()
	if err != nil {
		t.Fatal(err)
	}
	few, err := thin.table()
	if err != nil {
		t.Fatal(err)
	}
	if all.Rows() != 50 || few.Rows() != 13 || !strings.Contains(strings.Join(few.Notes, " "), "every 4. interval "+
		"is used") {
		t.Errorf("%d and %d rows: %q", all.Rows(), few.Rows(), few.Notes)
	}
	for i, at := range few.Start {
		k := slices.Index(all.Start, at)
		if k < 0 || few.Metrics[0].Columns[2].Values[i] != all.Metrics[0].Columns[2].Values[k] {
			t.Errorf("row %d is of no interval, or of another one", i)
		}
	}
}

// TestObserveCounters: a row is an interval of a node. A node has the response that another one of its job reported.
func TestObserveCounters(t *testing.T) {
	b := topicstest.NewBrokers(t, "")
	batch := func(job, node string, i int, metrics ...schemas.CounterBatchMetric) *schemas.CounterBatch {
		start := observedStart + int64(i)*observedLength
		return &schemas.CounterBatch{
			NodeHeader: schemas.NodeHeader{
				Cluster: "c", Node: node, BootID: "b", RunID: "r", Seq: int64(i), IntervalStart: start,
				IntervalMs: observedLength, SampledAt: 1000 * (start + observedLength), SentAt: start + observedLength,
				JobID: job, Epoch: 1, Cpus: []int32{0, 1, 2},
			},
			Metrics: metrics,
		}
	}
	cores := func(values ...float64) schemas.CounterBatchMetric {
		return schemas.CounterBatchMetric{Name: "a", Unit: "1", Scope: schemas.ScopeCore, Values: values}
	}
	rate := schemas.CounterBatchMetric{Name: "rate", Unit: "1/s", Scope: schemas.ScopeNode, Values: []float64{7}}
	late := batch("47", "n1", 2, cores(9, 9, 9), rate)
	late.SampledAt += 1000 * (observedLength/10 + 1)
	for _, r := range []*schemas.CounterBatch{
		batch("47", "n1", 0, cores(3, math.NaN(), 1), rate), batch("47", "n2", 0, cores(8, 4, 6)), late,
		batch("47", "n1", 3, cores(9, 9, 9), rate), batch("47", "n1", 4, cores(2, 2, 5), rate),
		batch("48", "n3", 0, cores(1, 1, 1)), batch(schemas.JobRest, "n1", 0, cores(1, 1, 1), rate),
	} {
		b.Put(t, schemas.TopicCounters, []byte("c0"), r)
	}
	b.Raw(t, schemas.TopicCounters, nil, []byte("no record"))
	table, err := Counters(t.Context(), b.Config, Ask{Responses: []string{"rate"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, at := range table.Start {
		var row []float64
		for _, c := range table.Metrics[0].Columns {
			row = append(row, c.Values[i])
		}
		got = append(got, fmt.Sprintf("%s %d: %v, rate %g", table.Units[table.Unit[i]],
			(at-observedStart)/observedLength, row, table.Responses[0].Values[i]))
	}
	want := []string{
		"47/0 n1 0: [2 1 1 3], rate 7", "47/0 n1 4: [3 2 2 5], rate 7", "47/0 n2 0: [6 4 6 8], rate 7",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(table.Notes) != 2 || !strings.HasPrefix(table.Notes[1], "2 of them left out: a reading was further") {
		t.Errorf("%q", table.Notes)
	}
}

// A value of a file belongs to the interval that its time lies in. The last one of an interval counts.
func TestJoin(t *testing.T) {
	table := func() *selection.Table {
		return &selection.Table{
			Start: []int64{1000, 2000, 4000, 1000}, Unit: []int32{0, 0, 0, 1}, Units: []string{"7/0", "7/1"},
		}
	}
	lengths := []int64{1000, 1000, 1000, 1000}
	value := func(restart string, at int64, v float64) selection.ResponseValue {
		return selection.ResponseValue{JobID: "7", Restart: restart, At: at, Value: v}
	}
	given := []Given{{Name: "y", Notes: []string{"read"}, Values: []selection.ResponseValue{
		value("0", 1999, 5), value("0", 1000, 4), value("0", 3500, 6), value("0", 4000, 7), value("1", 1000, 8),
		value("2", 1000, 9),
	}}}
	joined := table()
	if err := Join(joined, given, lengths); err != nil {
		t.Fatal(err)
	}
	y := joined.Responses[0].Values
	if y[0] != 5 || !math.IsNaN(y[1]) || y[2] != 7 || y[3] != 8 {
		t.Errorf("%v", y)
	}
	want := []string{
		"y: read", "y: 2 of 6 values are in no interval that was read",
		"y: 1 values are followed by another of their interval, which counts",
	}
	if !slices.Equal(joined.Notes, want) {
		t.Errorf("%q", joined.Notes)
	}
	exact := table()
	if err := Join(exact, given, nil); err != nil || exact.Responses[0].Values[0] != 4 {
		t.Errorf("%v, %v", err, exact.Responses)
	}
	stray := []Given{{Name: "y", Values: []selection.ResponseValue{value("0", 9, 1)}}}
	if err := Join(table(), stray, lengths); !errors.Is(err, errResponse) || !strings.Contains(err.Error(), "job 7/0") {
		t.Errorf("%v", err)
	}
	if err := Join(joined, given, lengths); !errors.Is(err, errResponse) {
		t.Errorf("twice: %v", err)
	}
}

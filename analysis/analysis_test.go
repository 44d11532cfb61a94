package analysis

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

func summary(job string, restart int32, start int64, metrics ...string) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: "c", JobID: job, Restart: restart, IntervalStart: start, IntervalMs: 1000, Method: schemas.MethodExact,
		Parts: 1, PartsReported: 1, NodesExpected: 3, NodesReported: 2,
	}
	for _, m := range metrics {
		s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{Name: m, Unit: "1", Scope: schemas.ScopeNode})
	}
	return s
}

func TestJobRows(t *testing.T) {
	known := map[schemas.JobKey]*schemas.Job{
		{JobID: "a"}:    {JobID: "a", State: "RUNNING", User: "ada"},
		{JobID: "bad"}:  {JobID: "bad", State: "SKIPPED", Reason: "unknown node n9"},
		{JobID: "old"}:  {JobID: "old", State: "COMPLETED"},
		{JobID: "done"}: {JobID: "done", State: "COMPLETED", User: "eve"},
	}
	rows := jobRows(known, []*schemas.JobSummary{
		summary("a", 0, 2000, "x", "y"), summary("a", 0, 1000, "x"), // out of order: the later interval counts
		summary("done", 0, 1000), summary(schemas.JobRest, 0, 2000),
	})
	var got []string
	for _, r := range rows {
		line := r.JobID + " " + r.State + " " + r.User + r.Reason
		if r.IntervalStart != nil {
			line += " " + *r.Method
		}
		got = append(got, line)
	}
	want := []string{"_rest   EXACT", "a RUNNING ada EXACT", "bad SKIPPED unknown node n9", "done COMPLETED eve EXACT"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if *rows[1].IntervalStart != 2000 || rows[1].Metrics != 2 {
		t.Errorf("%+v", rows[1])
	}
}

func TestLastRows(t *testing.T) {
	all := []*schemas.JobSummary{
		summary("a", 0, 3000, "x"), summary("a", 0, 1000, "x"), summary("a", 0, 2000, "x", "y"), summary("a", 1, 9000), summary("b", 0, 9000, "x"),
	}
	var got []int64
	for _, r := range lastRows(all, "a", 2) {
		got = append(got, r.IntervalStart)
	}
	if diff := cmp.Diff([]int64{2000, 2000, 3000, 9000}, got); diff != "" {
		t.Error(diff)
	}
	if rows := lastRows(all, "none", 2); rows != nil {
		t.Errorf("%v", rows)
	}
}

func TestTailRecord(t *testing.T) {
	b, err := schemas.Marshal(&schemas.Watermark{Collector: 3, IntervalStart: 2000, IntervalMs: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		value        []byte
		schema, want string
	}{
		"record":      {b, "weir.v1.Watermark", `{"collector":3,"interval_ms":1000,"interval_start":2000}`},
		"tombstone":   {nil, "", `null`},
		"schema text": {[]byte("{\n \"type\": \"record\"\n}"), "", `{"type":"record"}`},
		"rubbish":     {[]byte("rubbish"), "", `null`},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := json.Marshal(tailRecord(&kgo.Record{Topic: "weir.x", Partition: 1, Offset: 7, Key: []byte("k"), Value: c.value}))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Key, Schema string
				Offset      int64
				Value       json.RawMessage
				Error       string
			}
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatal(err)
			}
			if got.Schema != c.schema || string(got.Value) != c.want || got.Key != "k" || got.Offset != 7 || (got.Error != "") != (name == "rubbish") {
				t.Errorf("%s", line)
			}
		})
	}
}

func TestIntervalLine(t *testing.T) {
	l := IntervalLine{Jobs: map[string]int{}}
	l.add(summary("a", 0, 0, "x", "y"))
	l.add(summary(schemas.JobRest, 0, 0, "x"))
	if text := l.String(); !strings.Contains(text, "1 EXACT") || !strings.Contains(text, "nodes 4/6") || !strings.Contains(text, "metrics 3") {
		t.Error(text)
	}
}

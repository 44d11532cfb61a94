package analysis

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
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

// TestTailShowsRejects: two kilobytes of escapes a record are unreadable, and a control character may change a terminal.
func TestTailShowsRejects(t *testing.T) {
	tick, err := schemas.Marshal(&schemas.Tick{IntervalStart: 1000, IntervalMs: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		head           []byte
		shown, carried string
	}{
		"a record": {
			tick, `"head":"` + hex.EncodeToString(tick) + `","head_schema":"weir.v1.Tick"`,
			`"head":"` + base64.StdEncoding.EncodeToString(tick) + `","head_schema":"weir.v1.Tick"`,
		},
		"rubbish": {
			bytes.Repeat([]byte{0x1b, 0xff}, 512), `"head":"` + strings.Repeat("1bff", 12) + `... of 1024 bytes","head_schema":null`,
			`"head":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0x1b, 0xff}, 512)) + `","head_schema":null`,
		},
		"nothing": {nil, `"head":"","head_schema":null`, `"head":"","head_schema":null`},
	} {
		value, err := schemas.Marshal(&schemas.Reject{Topic: "weir.counters", Partition: 3, Offset: 99, Reason: "malformed", Hash: "00ff", Head: c.head})
		if err != nil {
			t.Fatal(err)
		}
		r := tailRecord(&kgo.Record{Topic: "weir.rejects", Value: value})
		if text := r.Text(); !strings.Contains(text, c.shown) || !strings.Contains(text, `"reason":"malformed"`) || len(text) > 300 {
			t.Errorf("%s is shown as\n%s, want in it\n%s", name, text, c.shown)
		}
		if !strings.Contains(string(r.Value), c.carried) {
			t.Errorf("%s in JSON is\n%s, want in it\n%s", name, r.Value, c.carried)
		}
	}
}

// TestTailIsPrintable: a record that is refused is shown all the same, and must not change the terminal.
func TestTailIsPrintable(t *testing.T) {
	value, err := schemas.Marshal(&schemas.Gap{Node: "n\u009b2J", Reason: "\x7f\u202e"})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range [][]byte{value, []byte("{\"\u009b\": 1}"), []byte("\u009b")} {
		r := tailRecord(&kgo.Record{Topic: "weir.x", Value: v})
		if text := r.Text(); strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || text == "" {
			t.Errorf("%q", text)
		}
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

func TestJudge(t *testing.T) {
	cfg := config.Default()
	start, age := int64(1_700_000_000_000), int64(2000)
	behind := start - 5*cfg.Interval.Milliseconds()
	good := func() *Status {
		return &Status{
			TickMs: &start, TickAgeMs: &age, Collect: map[string]int64{}, Merge: map[string]int64{},
			Partitions: []PartitionStatus{{Stage: "collect", Owner: "a", ClosedMs: &start, Lag: 3}, {Stage: "merge", Owner: "a"}},
			Sink:       []SinkStatus{{Position: 1, End: 9}},
		}
	}
	old := int64(60_000)
	for name, c := range map[string]struct {
		change func(s *Status)
		says   string
	}{
		"all is well":  {func(*Status) {}, ""},
		"no Tick":      {func(s *Status) { s.TickMs, s.TickAgeMs = nil, nil }, "no interval was ever closed"},
		"old Tick":     {func(s *Status) { s.TickAgeMs = &old }, "ended 1m0s ago"},
		"no owner":     {func(s *Status) { s.Partitions[1].Owner = "" }, "merge: nobody owns partition 0"},
		"behind":       {func(s *Status) { s.Partitions[0].ClosedMs = &behind }, "collect: partition 0 is behind by 3 offsets"},
		"sink behind":  {func(s *Status) { s.Sink[0].Behind = true }, "archived up to 1 of 9"},
		"lost":         {func(s *Status) { s.Collect["lost"] = 7 }, "retention took 7 offsets"},
		"silent nodes": {func(s *Status) { s.Silent = []string{"n1", "n2"} }, "2 nodes are silent: [n1 n2]"},
		"no route":     {func(s *Status) { s.Routeless = []string{"n3"} }, "1 nodes have no route: [n3]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good()
			c.change(s)
			s.judge(cfg)
			if text := strings.Join(s.Wrong, "; "); c.says == "" && text != "" || !strings.Contains(text, c.says) || len(s.Wrong) > 1 {
				t.Errorf("%q, want %q alone", text, c.says)
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

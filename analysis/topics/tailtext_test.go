package topics

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// TestTailInWords: what people follow is one line that they can read, whatever names are in it.
func TestTailInWords(t *testing.T) {
	t.Parallel()
	at, node := int64(1_795_000_000_000), "n\x1b[2J7"
	deciles := []float64{0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}
	metric := func(name, unit string) schemas.JobSummaryMetric {
		return schemas.JobSummaryMetric{Name: name, Unit: unit, Scope: schemas.ScopeCore, Count: 4, Deciles: &deciles}
	}
	for want, record := range map[string]any{
		"interval 2026-11-18 11:06:40Z, 1 of 2 nodes, EXACT, 4 metrics: cpu_user 0.5 (0.02 to 1), " +
			"mem_bw 0.5 (0.02 to 1) B/s, x, ...": &schemas.JobSummary{
			Cluster: "c", JobID: "7", IntervalStart: at, IntervalMs: 10000, Method: schemas.MethodExact,
			NodesExpected: 2, NodesReported: 1, Metrics: []schemas.JobSummaryMetric{
				metric("cpu_user", "1"), metric("mem_bw", "B/s"), {Name: "x"}, metric("y", "1"),
			},
		},
		"interval 2026-11-18 11:06:40Z, 2 of 2 nodes, ESTIMATED, 1 of 3 parts, 0 metrics": &schemas.JobSummary{
			Cluster: "c", JobID: "7", IntervalStart: at, Method: schemas.MethodEstimated, Parts: 3, PartsReported: 1,
			NodesExpected: 2, NodesReported: 2,
		},
		"RUNNING of ada, 2 nodes, queue long, started 2026-11-18 11:06:40Z": &schemas.Job{
			JobID: "7", User: "ada", Queue: "long", Nodes: []string{"a", "b"}, State: "RUNNING", Start: &at,
		},
		`open 0.83 idle-cores: Cores are idle, since 2026-11-18 11:06:40Z, node n?[2J7, final`: &schemas.Finding{
			JobID: "7", Rule: "idle-cores", Title: "Cores are idle", State: "open", Severity: 0.834, Final: true,
			FirstInterval: at, Node: &node,
		},
	} {
		text, ok := readable(record)
		if got := schemas.Printable(text); !ok || got != want {
			t.Errorf("%T: %q, want %q", record, got, want)
		}
	}
	if _, ok := readable(&schemas.Tick{}); ok {
		t.Error("a Tick is for programs")
	}
	job := &schemas.Job{JobID: "7", User: "ada", State: "RUNNING", Nodes: []string{}, Cpus: []int32{}}
	b, err := schemas.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	r := recordOf(&kgo.Record{Topic: "jobs", Value: b})
	if r.Text() != "RUNNING of ada, 0 nodes" || !strings.Contains(string(r.Value), `"user":"ada"`) {
		t.Errorf("%q, %s", r.Text(), r.Value)
	}
}

// TestTailShowsRejects: two kilobytes of escapes a record are unreadable, and a control character may change a
// terminal.
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
			bytes.Repeat([]byte{0x1b, 0xff}, 512), `"head":"` + strings.Repeat("1bff",
				12) + `... of 1024 bytes","head_schema":null`,
			`"head":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0x1b, 0xff},
				512)) + `","head_schema":null`,
		},
		"nothing": {nil, `"head":"","head_schema":null`, `"head":"","head_schema":null`},
	} {
		value, err := schemas.Marshal(&schemas.Reject{
			Topic: "weir.counters", Partition: 3, Offset: 99,
			Reason: "malformed", Hash: "00ff", Head: c.head,
		})
		if err != nil {
			t.Fatal(err)
		}
		r := recordOf(&kgo.Record{Topic: "weir.rejects", Value: value})
		if text := r.Text(); !strings.Contains(text, c.shown) || !strings.Contains(text,
			`"reason":"malformed"`) || len(text) > 300 {
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
		r := recordOf(&kgo.Record{Topic: "weir.x", Value: v})
		if text := r.Text(); strings.ContainsFunc(text,
			func(r rune) bool { return !unicode.IsPrint(r) }) || text == "" {
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
			line, err := json.Marshal(recordOf(&kgo.Record{
				Topic: "weir.x", Partition: 1, Offset: 7,
				Key: []byte("k"), Value: c.value,
			}))
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
			if got.Schema != c.schema || string(got.Value) != c.want || got.Key != "k" || got.Offset != 7 ||
				(got.Error != "") != (name == "rubbish") {
				t.Errorf("%s", line)
			}
		})
	}
}

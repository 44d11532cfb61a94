package sink

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

func TestDecode(t *testing.T) {
	const ms = 1795305600000 // 2026-11-22 00:00 UTC
	good := &schemas.JobSummary{
		Cluster: "c", JobID: "7", IntervalStart: ms, IntervalMs: 1000, Method: schemas.MethodExact, Parts: 1,
	}
	foreign := *good
	foreign.Cluster = "other"
	for name, c := range map[string]struct {
		value  []byte
		rows   int
		reason string
		date   string
	}{
		"summary":    {marshal(t, good), 1, "", "2026-11-22"},
		"of another": {marshal(t, &foreign), 0, "of cluster other, not c", "2026-11-23"},
		"another record": {
			marshal(t, &schemas.Watermark{IntervalMs: 1000}), 0, "Watermark is not a JobSummary", "2026-11-23",
		},
		"no record":       {[]byte("hello"), 0, schemas.ErrNotSingleObject.Error(), "2026-11-23"},
		"no value at all": {nil, 0, schemas.ErrNotSingleObject.Error(), "2026-11-23"},
	} {
		t.Run(name, func(t *testing.T) {
			it := decode("c", &kgo.Record{Value: c.value, Offset: 3, Timestamp: time.UnixMilli(ms + 24*3600*1000)})
			rightReason := strings.Contains(it.reason, c.reason) && (it.reason == "") == (c.reason == "")
			if len(it.rows) != c.rows || !rightReason || it.date != c.date || it.marker {
				t.Errorf("decode: %d rows, reason %q, date %s, want %d, %q, %s",
					len(it.rows), it.reason, it.date, c.rows, c.reason, c.date)
			}
		})
	}
	if date := dateOf(1 << 62); date != "1970-01-01" {
		t.Errorf("a timestamp far beyond all clocks goes to %s", date)
	}
}

// TestTextThatIsNotUTF8: one such byte makes a whole file unreadable to DuckDB, so no row may have it, whoever wrote
// it.
func TestTextThatIsNotUTF8(t *testing.T) {
	number, deciles := 1.5, make([]float64, 11)
	low, high := "lownode", "highnode"
	good := marshal(t, &schemas.JobSummary{
		Cluster: "c", JobID: "jobseven", IntervalStart: 5000, IntervalMs: 1000, Method: schemas.MethodExact, Parts: 1,
		Metrics: []schemas.JobSummaryMetric{{
			Name: "metricname", Unit: "unittext", Scope: schemas.ScopeCore, Nodes: 1, Count: 1,
			Mean: &number, Deciles: &deciles, LowNode: &low, HighNode: &high,
		}},
	})
	if it := decode("c", &kgo.Record{Value: good}); len(it.rows) != 1 {
		t.Fatalf("the record itself: %s", it.reason)
	}
	for _, text := range []string{"jobseven", "metricname", "unittext", low, high} {
		bad := bytes.Replace(good, []byte(text), append([]byte{0xB5}, text[1:]...), 1) // a micro sign in Latin-1
		if bytes.Equal(good, bad) {
			t.Fatalf("%s is not in the record", text)
		}
		if it := decode("c", &kgo.Record{Value: bad}); len(it.rows) > 0 || it.reason == "" || it.newer {
			t.Errorf("a byte of %s that is not UTF-8 reaches %d rows, reason %q", text, len(it.rows), it.reason)
		}
	}
}

func TestDraft(t *testing.T) {
	rows := func(offset int64, date string, n int) item[schemas.Row] {
		return item[schemas.Row]{offset: offset, date: date, rows: make([]schemas.Row, n)}
	}
	bad := func(offset int64, date string) item[schemas.Row] {
		return item[schemas.Row]{offset: offset, date: date, reason: "why"}
	}
	marker := func(offset int64) item[schemas.Row] { return item[schemas.Row]{offset: offset, marker: true} }
	type items []item[schemas.Row]
	type file struct {
		Date                    string
		Start, Next, Rows, Bads int64
	}
	for name, c := range map[string]struct {
		items items
		files []file
		left  file // in hand
	}{
		"nothing": {nil, nil, file{Start: 5, Next: 5}},
		"markers alone make no file, but are behind us": {items{marker(5), marker(6)}, nil, file{Start: 5, Next: 7}},
		"markers belong to the file before them": {
			items{rows(5, "a", 2), marker(6)}, nil, file{"a", 5, 7, 2, 0},
		},
		"a date ends the file, forward and back": {
			items{rows(5, "a", 2), marker(6), rows(7, "b", 1), rows(8, "a", 1)},
			[]file{{"a", 5, 7, 2, 0}, {"b", 7, 8, 1, 0}},
			file{"a", 8, 9, 1, 0},
		},
		"aborted records leave no trace": {items{rows(9, "a", 1), marker(10)}, nil, file{"a", 5, 11, 1, 0}},
		"undecodable ones never end a file": {
			items{rows(5, "a", 1), bad(6, "b"), rows(7, "a", 1)}, nil, file{"a", 5, 8, 2, 1},
		},
		"undecodable ones alone make a file": {items{bad(5, "b")}, nil, file{"b", 5, 6, 0, 1}},
		"the first record decides the directory": {
			items{bad(5, "b"), rows(6, "a", 1)}, []file{{"b", 5, 6, 0, 1}}, file{"a", 6, 7, 1, 0},
		},
		"what was taken is not taken again": {
			items{rows(5, "a", 1), rows(5, "a", 1), rows(4, "b", 1)}, nil, file{"a", 5, 6, 1, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newDraft[schemas.Row](0, tail{next: 5, date: "z"})
			now := time.Unix(1000, 0)
			shape := func() file {
				f := p.footer("t")
				return file{p.date, f.Start, f.Next, f.Rows, f.UndecodableCount}
			}
			var files []file
			for _, it := range c.items {
				if it.offset >= p.next && p.ends(it) {
					files = append(files, shape())
					p = newDraft[schemas.Row](0, tail{next: p.next, date: p.date})
				}
				p.add(it, now)
			}
			if diff := cmp.Diff(c.files, files); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.left, shape()); diff != "" {
				t.Errorf("in hand (-want +got):\n%s", diff)
			}
			const period = 10 * time.Second
			if p.due(now.Add(9*time.Second), period) || p.due(now.Add(period), period) == p.empty() {
				t.Errorf("a file is due after a period, if there is one")
			}
		})
	}
}

func TestPlace(t *testing.T) {
	fresh := newDraft[schemas.Row]
	held := fresh(3, tail{next: 10, date: ""})
	held.add(item[schemas.Row]{offset: 10, date: "a", rows: make([]schemas.Row, 1)}, time.Unix(0, 0))
	for name, c := range map[string]struct {
		draft      *draft[schemas.Row]
		start, end int64
		same       bool
		next       int64
		err        error
	}{
		"first start":                    {fresh(3, tail{next: unread, date: ""}), 40, 50, false, 40, nil},
		"first start, empty log":         {fresh(3, tail{next: unread, date: ""}), 0, 0, false, 0, nil},
		"nothing archived, log moved on": {fresh(3, tail{next: 40, date: ""}), 60, 70, false, 60, nil},
		"inside":                         {fresh(3, tail{next: 45, date: "a"}), 40, 50, true, 45, nil},
		"at the end":                     {fresh(3, tail{next: 50, date: "a"}), 40, 50, true, 50, nil},
		"at the start":                   {fresh(3, tail{next: 40, date: "a"}), 40, 50, false, 40, nil},
		"overtaken":                      {fresh(3, tail{next: 39, date: "a"}), 40, 50, false, 39, errOvertaken},
		"overtaken with rows in hand":    {held, 40, 50, true, 11, errOvertaken},
		"ahead of a topic":               {fresh(3, tail{next: 51, date: "a"}), 40, 50, false, 51, errBeyondEnd},
		"ahead of the archived topic":    {fresh(3, tail{next: 51, date: "a"}), 40, 50, true, 51, errEndLost},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.draft.place(c.start, c.end, c.same)
			if !errors.Is(err, c.err) || c.draft.next != c.next {
				t.Errorf("place: next %d, %v; want %d, %v", c.draft.next, err, c.next, c.err)
			}
			if errors.Is(c.err, errOvertaken) && !strings.Contains(err.Error(), "weir sink accept-gap 3") {
				t.Errorf("the remedy is missing: %v", err)
			}
			if errors.Is(c.err, errOvertaken) && !strings.Contains(err.Error(), "nobody can tell any more") {
				t.Errorf("it claims a loss that may be none: %v", err)
			}
		})
	}
}

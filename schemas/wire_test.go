package schemas

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWalk pins what the walk takes of each type, byte by byte: the decoder behind it must not be the one that finds
// out.
func TestWalk(t *testing.T) {
	varint := func(v int64) []byte { return binary.AppendVarint(nil, v) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	number := &shape{kind: "int"}
	list := &shape{kind: "array", fields: []*shape{number}}
	two := &shape{kind: "array", fields: []*shape{number}, most: 2}
	maybe := &shape{kind: "union", fields: []*shape{{kind: "null"}, {kind: "int"}}}
	two64 := join(bytes.Repeat([]byte{0x80}, 9), []byte{2}) // 2^64
	for _, c := range []struct {
		name  string
		shape *shape
		body  []byte
		want  error
	}{
		{"int", number, varint(0), nil},
		{"the greatest int", number, varint(math.MaxInt32), nil},
		{"the least int", number, varint(math.MinInt32), nil},
		{"above all ints", number, varint(math.MaxInt32 + 1), errVarint},
		{"below all ints", number, varint(math.MinInt32 - 1), errVarint},
		{"no int", number, nil, errTruncated},
		{"half an int", number, []byte{0x80}, errTruncated},
		{"more than an int", number, []byte{0, 0}, errTrailing},
		{"long", &shape{kind: "long"}, varint(math.MaxInt64), nil},
		{"the least long", &shape{kind: "long"}, varint(math.MinInt64), nil},
		{"a longer one", &shape{kind: "long"}, two64, errVarint},
		{"no long", &shape{kind: "long"}, nil, errTruncated},
		{"double", &shape{kind: "double"}, make([]byte, 8), nil},
		{"seven bytes of a double", &shape{kind: "double"}, make([]byte, 7), errTruncated},
		{"nine", &shape{kind: "double"}, make([]byte, 9), errTrailing},
		{"false", &shape{kind: "boolean"}, []byte{0}, nil},
		{"true", &shape{kind: "boolean"}, []byte{1}, nil},
		{"neither", &shape{kind: "boolean"}, []byte{2}, errBoolean},
		{"no boolean", &shape{kind: "boolean"}, nil, errTruncated},
		{"null", &shape{kind: "null"}, nil, nil},
		{"more than null", &shape{kind: "null"}, []byte{0}, errTrailing},
		{"no text", &shape{kind: "string"}, varint(0), nil},
		{"text", &shape{kind: "string"}, join(varint(2), []byte("ab")), nil},
		{"short text", &shape{kind: "bytes"}, join(varint(3), []byte("ab")), errTruncated},
		{"text of no length", &shape{kind: "bytes"}, nil, errTruncated},
		{"text of a negative length", &shape{kind: "string"}, join(varint(-1), []byte("ab")), errTruncated},
		{"the last symbol", &shape{kind: "enum", symbols: 3}, varint(2), nil},
		{"a symbol beyond", &shape{kind: "enum", symbols: 3}, varint(3), errIndex},
		{"a negative symbol", &shape{kind: "enum", symbols: 3}, varint(-1), errIndex},
		{"no symbol", &shape{kind: "enum", symbols: 3}, nil, errTruncated},
		{"the null branch", maybe, varint(0), nil},
		{"the other branch", maybe, join(varint(1), varint(7)), nil},
		{"a branch beyond", maybe, join(varint(2), varint(7)), errIndex},
		{"a negative branch", maybe, varint(-1), errIndex},
		{"a branch without its value", maybe, varint(1), errTruncated},
		{"no branch", maybe, nil, errTruncated},
		{"an empty list", list, varint(0), nil},
		{"a list", list, join(varint(2), varint(7), varint(8), varint(0)), nil},
		{"two blocks", list, join(varint(1), varint(7), varint(1), varint(8), varint(0)), nil},
		{"a block with its bytes", list, join(varint(-2), varint(2), varint(7), varint(8), varint(0)), nil},
		{"a block without them", list, varint(-2), errTruncated},
		{"a block of bytes that is too long", list, join(varint(-2), two64), errVarint},
		{"no list", list, nil, errTruncated},
		{"a list without an end", list, join(varint(1), varint(7)), errTruncated},
		{"a list of more than there is", list, join(varint(3), varint(7), varint(0)), errTruncated},
		{"as many as there are bytes, too short", list, join(varint(2), varint(7), varint(0)), errTruncated},
		{"a list of almost everything", list, join(varint(math.MaxInt64), varint(7)), errTruncated},
		{"a list whose number has no negative", list, join(varint(math.MinInt64), varint(1), varint(7)), errTruncated},
		{"a list with a bad item", list, join(varint(1), two64, varint(0)), errVarint},
		{"as many as it may have", two, join(varint(2), varint(7), varint(8), varint(0)), nil},
		{"one more", two, join(varint(3), varint(7), varint(8), varint(9), varint(0)), errTooMany},
		{
			"one more, in blocks", two, join(varint(2), varint(7), varint(8), varint(1), varint(9), varint(0)),
			errTooMany,
		},
		{"a record", &shape{kind: "record", fields: []*shape{number, maybe}}, join(varint(7), varint(0)), nil},
		{"half a record", &shape{kind: "record", fields: []*shape{number, maybe}}, varint(7), errTruncated},
	} {
		top := *c.shape
		top.constant = 1 << 20
		if err := top.check(c.body); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s, %x: %v, want %v", c.name, c.body, err, c.want)
		}
	}
}

// TestWalkSpends: the budget is what the values take in memory, to the byte.
func TestWalkSpends(t *testing.T) {
	number := &shape{kind: "int", size: 4}
	for _, c := range []struct {
		name   string
		shape  shape
		body   []byte
		budget int
	}{
		{"text", shape{kind: "string"}, []byte{6, 'a', 'b', 'c'}, 2 * 3},
		{
			"a pointer",
			shape{kind: "union", fields: []*shape{{kind: "null"}, {kind: "double", size: 8}}},
			append([]byte{2}, make([]byte, 8)...), 8,
		},
		{"no pointer", shape{kind: "union", fields: []*shape{{kind: "null"}, {kind: "double", size: 8}}}, []byte{0}, 0},
		{"an empty list", shape{kind: "array", fields: []*shape{number}}, []byte{0}, 24},
		{"a list", shape{kind: "array", fields: []*shape{number}}, []byte{6, 0, 0, 0, 0}, 24 + 3*4 + 3*4},
		// The items of the first block are copied with those of the second.
		{
			"two blocks",
			shape{kind: "array", fields: []*shape{number}},
			[]byte{4, 0, 0, 2, 0, 0},
			24 + 2*4 + 2*4 + 24 + 3*4 + 1*4,
		},
		{
			"a record",
			shape{kind: "record", fields: []*shape{{kind: "string"}, {kind: "string"}}},
			[]byte{2, 'a', 4, 'b', 'c'},
			2 * 3,
		},
	} {
		for perByte := range 3 { // a budget grows with the body
			s := c.shape
			s.perByte, s.constant = perByte, c.budget-perByte*len(c.body)
			if err := s.check(c.body); err != nil {
				t.Errorf("%s does not do with %d: %v", c.name, c.budget, err)
			}
			if s.constant--; c.budget == 0 {
				continue
			}
			if err := s.check(c.body); !errors.Is(err, errTooLarge) {
				t.Errorf("%s does with less than %d: %v", c.name, c.budget, err)
			}
		}
	}
}

// TestWhatIsNoRecord is refused by what is wrong with it first.
func TestWhatIsNoRecord(t *testing.T) {
	good := mustMarshal(t, &Watermark{1, 0, 1000})
	with := func(at int, c byte) []byte {
		b := slices.Clone(good)
		b[at] = c
		return b
	}
	// A Reject may be of any length on the wire, so it reaches the limit of all records.
	long := func(bytes int) []byte {
		r := &Reject{Head: make([]byte, bytes)}
		return mustMarshal(t, r)[:bytes:bytes]
	}
	reject := &Reject{Head: make([]byte, MaxRecordBytes-100)}
	reject.Head = make([]byte, len(reject.Head)+MaxRecordBytes-len(mustMarshal(t, reject)))
	largest := mustMarshal(t, reject)
	reject.Head = append(reject.Head, 0)
	for name, c := range map[string]struct {
		b    []byte
		want error
		says string
	}{
		"nothing":            {nil, ErrNotSingleObject, "not an Avro single-object value"},
		"half a header":      {good[:9], ErrNotSingleObject, "not an Avro single-object value"},
		"a header":           {good[:10], errMalformed, "weir.v1.Watermark"},
		"another first byte": {with(0, 0xC2), ErrNotSingleObject, "not an Avro"},
		"another version":    {with(1, 2), ErrNotSingleObject, "not an Avro"},
		"another schema":     {with(9, good[9]+1), ErrUnknownSchema, "unknown schema fingerprint"},
		"the last byte":      {good[:len(good)-1], errMalformed, "weir.v1.Watermark: malformed record: truncated"},
		"one more byte":      {append(slices.Clone(good), 0), errMalformed, "bytes after the record"},
		"the longest record": {largest, ErrInvalid, "weir.v1.Reject: invalid record: head"},
		"a longer one": {
			mustMarshal(t, reject), errOversized,
			"weir.v1.Reject: record too large: 4193281 bytes of at most 4193280",
		},
		"cut": {long(1 << 16), errMalformed, "truncated"},
	} {
		_, err := Unmarshal(c.b)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.want, c.says)
		}
		if errors.Is(err, ErrInvalid) {
			continue // JSON shows it
		}
		if _, _, jsonErr := JSON(c.b); jsonErr == nil || jsonErr.Error() != err.Error() {
			t.Errorf("%s: JSON says %v, Unmarshal %v", name, jsonErr, err)
		}
	}
	if name, _, err := JSON(good[:12]); name != "weir.v1.Watermark" || err == nil {
		t.Errorf("the schema of a cut record is %q, %v", name, err)
	}
	batch := fullBatch(1025, 0)
	if _, err := Unmarshal(mustMarshal(t, batch)); !errors.Is(err, ErrInvalid) || errors.Is(err, errMalformed) {
		t.Errorf("too many metrics: %v", err)
	}
	var of Record = foreign{}
	if _, err := Marshal(of); !errors.Is(err, ErrUnknownSchema) || !strings.Contains(err.Error(), "schemas.foreign") {
		t.Error(err)
	}
	if _, err := MarshalChecked(of); !errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}
}

// foreign is a record that no schema describes.
type foreign struct{}

func (foreign) Validate() error { return nil }

func TestSchemasAreListedInOrder(t *testing.T) {
	all := All()
	if len(all) != len(table.byFingerprint) {
		t.Errorf("%d of %d schemas", len(all), len(table.byFingerprint))
	}
	if !slices.IsSortedFunc(all, func(a, b Schema) int {
		return strings.Compare(a.Name+" "+a.Fingerprint, b.Name+" "+b.Fingerprint)
	}) {
		t.Error("out of order")
	}
	for _, s := range all {
		if len(s.Fingerprint) != 16 || !strings.Contains(s.Text, `"`+strings.TrimPrefix(s.Name, "weir.v1.")+`"`) {
			t.Errorf("%+v", s)
		}
	}
}

// TestTopicSettings: each is what a part relies on.
func TestTopicSettings(t *testing.T) {
	z := Sizes{
		Collectors: 4, Routes: 2, Partials: 1, JobSummary: 3, Replication: 2, CountersRetention: time.Hour,
		SummaryRetention: 48 * time.Hour,
	}
	logged := map[string]string{ // the others keep the last record of each key, for ever
		TopicCounters: "3600000", TopicPartials: "3600000", TopicJobSummary: "172800000", TopicRejects: "172800000",
		TopicTriggers: "3600000", TopicOrders: "3600000",
	}
	for _, segment := range []int64{0, 1 << 20} {
		z.SegmentBytes = segment
		for _, topic := range Topics("p.", z) {
			name := strings.TrimPrefix(topic.Name, "p.")
			want := map[string]string{
				"cleanup.policy": "compact", "max.message.bytes": "4194304",
				"min.insync.replicas": "1",
			}
			if name == TopicCounters {
				want["max.message.bytes"] = "8388608"
			}
			if ms, ok := logged[name]; ok {
				want["cleanup.policy"], want["retention.ms"] = "delete", ms
			}
			switch name {
			case TopicCounters, TopicPartials, TopicTriggers, TopicOrders: // whose times are judged
				want["message.timestamp.type"] = "LogAppendTime"
			}
			if segment > 0 {
				want["segment.bytes"] = "1048576"
			}
			if name == TopicFindings || name == TopicFindState || name == TopicFacts ||
				name == TopicNotices { // written again and again
				want["segment.ms"] = "3600000"
				want["segment.bytes"] = cmp.Or(want["segment.bytes"], "67108864")
			}
			for key, value := range want {
				if topic.Config[key] != value {
					t.Errorf("%s: %s is %q, want %q", name, key, topic.Config[key], value)
				}
			}
			if len(topic.Config) != len(want) || topic.Values == "" || name == topic.Name {
				t.Errorf("%s has %v, want %v", topic.Name, topic.Config, want)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	job := &Job{JobID: "4711", Restart: 2}
	header := &NodeHeader{JobID: "4711", Restart: 2}
	if k := job.Identity(); k != header.Job() || string(k.Key()) != "4711/2" || k.String() != "4711/2" {
		t.Errorf("%v, %v", k, header.Job())
	}
	if string(CollectorKey(0)) != "c0" || string(CollectorKey(63)) != "c63" || string(PartitionKey(7)) != "7" {
		t.Errorf("%s %s %s", CollectorKey(0), CollectorKey(63), PartitionKey(7))
	}
	some, all := RouteEntry{Cpus: []int32{0}}, RouteEntry{}
	for _, c := range []struct {
		entries []RouteEntry
		want    bool
	}{{nil, true}, {[]RouteEntry{some, some}, true}, {[]RouteEntry{all}, false}, {[]RouteEntry{some, all}, false}} {
		if got := (&Route{Entries: c.entries}).SendsRest(); got != c.want {
			t.Errorf("%v sends a rest: %v", c.entries, got)
		}
	}
}

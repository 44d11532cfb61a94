// Package schemas is the contract between the parts of weir. It contains the Avro schemas of the records, their Go
// structs, the codec between both, and the table of topics. It is the only package that knows Avro.
//
// A value is Avro single-object encoded: two marker bytes, the CRC-64-AVRO fingerprint of the schema, the body. The
// fingerprint alone identifies the schema, so topics may mix records, and no registry is needed.
package schemas

import (
	"cmp"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/linkedin/goavro/v2"
	"github.com/twmb/avro"
)

//go:embed *.avsc older/*.avsc
var files embed.FS

var (
	// ErrNotSingleObject is returned when a value does not begin with the single-object marker and a fingerprint.
	ErrNotSingleObject = errors.New("not an Avro single-object value")
	// ErrUnknownSchema is returned if no shipped schema has a value's fingerprint.
	ErrUnknownSchema = errors.New("unknown schema fingerprint")
	// errMalformed is returned when a body does not decode as its schema, to its last byte.
	errMalformed = errors.New("malformed record")
	// ErrInvalid is returned if a record decodes but contains values that no weir process writes.
	ErrInvalid = errors.New("invalid record")
	// errOversized is returned for a record of more than MaxRecordBytes.
	errOversized = errors.New("record too large")
)

// Record is one of the records that travel, as a pointer.
type Record interface {
	// Validate returns the fault of the record, with the field's name, or nil if it may be used.
	Validate() error
}

const headerBytes = 10 // marker and fingerprint

// entry is one schema ever shipped, with the data derived from its text.
type entry struct {
	name                 string // full name, weir.v1.<Name>
	text                 string // the .avsc file
	schema               *avro.Schema
	shape                *shape
	head                 [headerBytes]byte // of every value
	zero                 func() Record
	isBatch, hasReported bool // it is a CounterBatch, and includes that field: see decodeBatch
	isSummary            bool // it is the newest JobSummary: see decodeSummary
	// dynamic is the goavro codec, made when first asked for: only `weir tail` and the tests want it.
	dynamic func() (*goavro.Codec, error)
}

// table holds every schema ever shipped: the current ones by name, all by fingerprint. When a record gets a field, its
// previous schema goes to older/NAME-FINGERPRINT.avsc. It is decoded into the same struct. There the field stays at its
// zero, which is also its default.
var table = newTable()

// schemaTable finds the schema to write a record with by name, and the one that a value was written with by
// fingerprint. Nothing changes it after the start, so goroutines share it without a lock.
type schemaTable struct {
	byName        map[string]*entry
	byFingerprint map[uint64]*entry
}

func newTable() schemaTable {
	zero := map[string]func() Record{
		"BalanceState":  func() Record { return new(BalanceState) },
		"CounterBatch":  func() Record { return new(CounterBatch) },
		"FindState":     func() Record { return new(FindState) },
		"Finding":       func() Record { return new(Finding) },
		"Gap":           func() Record { return new(Gap) },
		"Job":           func() Record { return new(Job) },
		"JobPartial":    func() Record { return new(JobPartial) },
		"JobSummary":    func() Record { return new(JobSummary) },
		"NodeSummary":   func() Record { return new(NodeSummary) },
		"Progress":      func() Record { return new(Progress) },
		"Reject":        func() Record { return new(Reject) },
		"Route":         func() Record { return new(Route) },
		"Tick":          func() Record { return new(Tick) },
		"TopologyOrder": func() Record { return new(TopologyOrder) },
		"Trigger":       func() Record { return new(Trigger) },
		"Watermark":     func() Record { return new(Watermark) },
	}
	t := schemaTable{byName: map[string]*entry{}, byFingerprint: map[uint64]*entry{}}
	add := func(file, name string) *entry {
		text, err := files.ReadFile(file)
		if err != nil {
			panic(err) // the file is embedded, so this cannot fail once the tests have passed
		}
		e := &entry{name: "weir.v1." + name, text: string(text), schema: avro.MustParse(string(text)), zero: zero[name]}
		e.shape, e.dynamic = newShape(e.schema, reflect.TypeOf(e.zero()).Elem()), sync.OnceValues(e.compile)
		t.byFingerprint[e.fingerprint()] = e
		e.head = [headerBytes]byte{0xC3, 0x01}
		binary.LittleEndian.PutUint64(e.head[2:], e.fingerprint())
		e.isBatch = name == "CounterBatch"
		e.hasReported = slices.ContainsFunc(e.schema.Root().Fields, func(f avro.SchemaField) bool {
			return f.Name == "reported"
		})
		return e
	}
	for name := range zero {
		t.byName["weir.v1."+name] = add(name+".avsc", name)
	}
	t.byName["weir.v1.JobSummary"].isSummary = true
	older, err := files.ReadDir("older")
	if err != nil {
		panic(err) // as above
	}
	for _, f := range older {
		name, _, _ := strings.Cut(f.Name(), "-")
		add("older/"+f.Name(), name)
	}
	return t
}

func (e *entry) fingerprint() uint64 {
	h := avro.NewRabin()
	_, _ = h.Write(e.schema.Canonical()) // a hash does not fail
	return h.Sum64()
}

// nameOf returns the full name of a record's schema, or the Go type of any other value. It is a switch rather than the
// type's name, so that renaming a struct does not change the wire format.
func nameOf(r Record) string {
	switch r.(type) {
	case *BalanceState:
		return "weir.v1.BalanceState"
	case *CounterBatch:
		return "weir.v1.CounterBatch"
	case *FindState:
		return "weir.v1.FindState"
	case *Finding:
		return "weir.v1.Finding"
	case *Gap:
		return "weir.v1.Gap"
	case *Job:
		return "weir.v1.Job"
	case *JobPartial:
		return "weir.v1.JobPartial"
	case *JobSummary:
		return "weir.v1.JobSummary"
	case *NodeSummary:
		return "weir.v1.NodeSummary"
	case *Progress:
		return "weir.v1.Progress"
	case *Reject:
		return "weir.v1.Reject"
	case *Route:
		return "weir.v1.Route"
	case *Tick:
		return "weir.v1.Tick"
	case *TopologyOrder:
		return "weir.v1.TopologyOrder"
	case *Trigger:
		return "weir.v1.Trigger"
	case *Watermark:
		return "weir.v1.Watermark"
	}
	return fmt.Sprintf("%T", r)
}

// Marshal encodes a record as a single-object value. It fails only for a record that no schema describes, such as an
// enum with a symbol of its own.
func Marshal(r Record) ([]byte, error) {
	e, ok := table.byName[nameOf(r)]
	if !ok {
		return nil, fmt.Errorf("encoding %s: %w", nameOf(r), ErrUnknownSchema)
	}
	switch r := r.(type) {
	case *CounterBatch:
		return appendBatch(e.head[:], r), nil
	case *JobSummary:
		if b, ok := appendSummary(e.head[:], r); ok {
			return b, nil
		}
	}
	b, err := e.schema.AppendSingleObject(nil, r)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", e.name, err)
	}
	return b, nil
}

// MarshalChecked encodes a record. It fails exactly if Unmarshal of its bytes would, so that no unreadable record is
// committed. Errors wrap ErrInvalid, or report that the record is too large.
func MarshalChecked(r Record) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", nameOf(r), err)
	}
	b, err := Marshal(r)
	if err != nil {
		return nil, err
	}
	switch r.(type) {
	case *CounterBatch, *JobSummary: // their own codecs read what they write
		if len(b) <= MaxRecordBytes {
			return b, nil
		}
	}
	if _, err := lookupChecked(b); err != nil {
		return nil, err
	}
	return b, nil
}

// Unmarshal decodes and validates a single-object value of any schema ever shipped. The result does not alias b. The
// metrics of a CounterBatch or JobSummary share one array of values, and one text: a caller that keeps a few of them
// should clone these. Errors wrap ErrNotSingleObject, ErrUnknownSchema or ErrInvalid, or report that b is too large or
// malformed.
//
// For any bytes, it allocates at most 35 × len(b) + 1 MiB. The factor follows from the schemas: a job in the oldest
// form of a Route takes 28 times its shortest encoding. The runtime rounds allocations up by a quarter at most. Records
// of metrics need less (TestBounds).
func Unmarshal(b []byte) (Record, error) {
	e, err := lookup(b)
	if err == nil && len(b) <= MaxRecordBytes {
		if r, ok := e.decodeOwn(b[headerBytes:]); ok {
			return e.valid(r)
		}
	}
	if e, err = lookupChecked(b); err != nil {
		return nil, err
	}
	r := e.zero()
	if _, err := e.schema.Decode(b[headerBytes:], r); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", e.name, errMalformed, err)
	}
	return e.valid(r)
}

// decodeOwn decodes the body of a record that has a codec of its own. It is not ok if the general codec must decide.
func (e *entry) decodeOwn(body []byte) (Record, bool) {
	switch {
	case e.isBatch:
		return decodeBatch(body, e.hasReported)
	case e.isSummary:
		return decodeSummary(body)
	}
	return nil, false
}

// valid returns a record that may be used.
func (e *entry) valid(r Record) (Record, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	return r, nil
}

// lookupChecked returns the schema of a value, and checks the value's size and shape. With an error it returns the
// schema if it is known.
func lookupChecked(b []byte) (*entry, error) {
	e, err := lookup(b)
	if err != nil {
		return nil, err
	}
	if len(b) > MaxRecordBytes {
		return e, fmt.Errorf("%s: %w: %d bytes of at most %d", e.name, errOversized, len(b), MaxRecordBytes)
	}
	err = e.shape.check(b[headerBytes:])
	switch {
	case errors.Is(err, ErrInvalid):
		return e, fmt.Errorf("%s: %w", e.name, err)
	case err != nil:
		return e, fmt.Errorf("%s: %w: %w", e.name, errMalformed, err)
	}
	return e, nil
}

// lookup finds the schema of a value by its first ten bytes alone. It does not look beyond them, so even a truncated
// value gets a name for the log.
func lookup(b []byte) (*entry, error) {
	if len(b) < headerBytes || b[0] != 0xC3 || b[1] != 0x01 {
		return nil, ErrNotSingleObject
	}
	fingerprint := binary.LittleEndian.Uint64(b[2:])
	e, ok := table.byFingerprint[fingerprint]
	if !ok {
		return nil, fmt.Errorf("%w %016x", ErrUnknownSchema, fingerprint)
	}
	return e, nil
}

// Schema is one shipped schema: its full name, its fingerprint in hex and its text.
type Schema struct {
	Name, Fingerprint, Text string
}

// All returns every schema ever shipped, sorted by name and fingerprint.
func All() []Schema {
	var all []Schema
	for fingerprint, e := range table.byFingerprint {
		all = append(all, Schema{e.name, fmt.Sprintf("%016x", fingerprint), e.text})
	}
	slices.SortFunc(all, func(a, b Schema) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return all
}

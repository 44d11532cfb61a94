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
	"strconv"
	"strings"
	"sync"

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
	// errOversized is returned for a record of more than MaxRecordBytes, or a CounterBatch of more than MaxBatchBytes.
	errOversized = errors.New("record too large")
)

// Record is one of the records that travel, as a pointer.
type Record interface {
	// Validate returns the fault of the record, with the field's name, or nil if it may be used.
	Validate() error
}

const headerBytes = 10 // marker and fingerprint

// entry is one schema ever shipped.
type entry struct {
	name        string // full name, weir.v1.<Name>
	text        string // the .avsc file
	fingerprint uint64
	hex         string            // the fingerprint, as people write it
	head        [headerBytes]byte // of every value
	zero        func() Record
	isBatch     bool // it is a CounterBatch: see decodeBatch
	isSummary   bool // it is the newest JobSummary: see decodeSummary
	// parsed returns the data derived from the text. Parsing all schemas takes 4 MB and 15 ms, and an agent needs few
	// of them. So each is parsed when first needed.
	parsed func() *parsed
}

// parsed is the data derived from the text of a schema.
type parsed struct {
	schema      *avro.Schema
	shape       *shape
	hasReported bool // it includes the field reported of a CounterBatch
}

// most is the largest number of bytes of a value.
func (e *entry) most() int {
	if e.isBatch {
		return MaxBatchBytes
	}
	return MaxRecordBytes
}

func (e *entry) schema() *avro.Schema { return e.parsed().schema }
func (e *entry) shape() *shape        { return e.parsed().shape }
func (e *entry) hasReported() bool    { return e.parsed().hasReported }

// parse panics if the text is no schema, or does not fit the struct. The files are embedded, so this cannot happen once
// the tests have passed.
func (e *entry) parse() *parsed {
	schema := avro.MustParse(e.text)
	return &parsed{
		schema: schema, shape: newShape(schema, reflect.TypeOf(e.zero()).Elem()),
		hasReported: slices.ContainsFunc(schema.Root().Fields, func(f avro.SchemaField) bool {
			return f.Name == "reported"
		}),
	}
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

// kind is a record's Go type, with the fingerprint of its current schema. TestFingerprints compares the fingerprints
// with the schemas, and reports those of changed schemas.
type kind struct {
	fingerprint uint64
	zero        func() Record
}

var kinds = map[string]kind{
	"BalanceState":  {0x608439018d88f54e, func() Record { return new(BalanceState) }},
	"CounterBatch":  {0xbcc070302c887a04, func() Record { return new(CounterBatch) }},
	"FindState":     {0x5ff69999f129bb68, func() Record { return new(FindState) }},
	"Finding":       {0x8db96c5f9f0d6dcd, func() Record { return new(Finding) }},
	"Gap":           {0x8aec1fa4ab5d41b6, func() Record { return new(Gap) }},
	"Job":           {0x0a9ac64bc230e40a, func() Record { return new(Job) }},
	"JobPartial":    {0x2eb0b5c2587ae16e, func() Record { return new(JobPartial) }},
	"JobSummary":    {0x54cd2803d070afb8, func() Record { return new(JobSummary) }},
	"NodeFacts":     {0x07a4ccd6bc07871a, func() Record { return new(NodeFacts) }},
	"NodeSummary":   {0xdc5e2cb7b7e6787e, func() Record { return new(NodeSummary) }},
	"Notice":        {0x3dd55e4011097dad, func() Record { return new(Notice) }},
	"Progress":      {0x810dccec936c9629, func() Record { return new(Progress) }},
	"Reject":        {0xd2ff91663f766718, func() Record { return new(Reject) }},
	"Route":         {0xe96a5d4b2c87a34d, func() Record { return new(Route) }},
	"Tick":          {0x507a994bc73f53d3, func() Record { return new(Tick) }},
	"TopologyOrder": {0x6da1ce19fc5fe848, func() Record { return new(TopologyOrder) }},
	"Trigger":       {0x112058f01c32b98f, func() Record { return new(Trigger) }},
	"Watermark":     {0x9d70ffeb40713cc3, func() Record { return new(Watermark) }},
}

func newTable() schemaTable {
	t := schemaTable{byName: map[string]*entry{}, byFingerprint: map[uint64]*entry{}}
	add := func(file, name string, fingerprint uint64) *entry {
		text, err := files.ReadFile(file)
		if err != nil {
			panic(err) // the file is embedded, so this cannot fail once the tests have passed
		}
		e := &entry{name: "weir.v1." + name, text: string(text), fingerprint: fingerprint, zero: kinds[name].zero}
		e.hex = fmt.Sprintf("%016x", fingerprint)
		e.parsed, e.isBatch = sync.OnceValue(e.parse), name == "CounterBatch"
		e.head = [headerBytes]byte{0xC3, 0x01}
		binary.LittleEndian.PutUint64(e.head[2:], fingerprint)
		t.byFingerprint[fingerprint] = e
		return e
	}
	for name, k := range kinds {
		t.byName["weir.v1."+name] = add(name+".avsc", name, k.fingerprint)
	}
	t.byName["weir.v1.JobSummary"].isSummary = true
	older, err := files.ReadDir("older")
	if err != nil {
		panic(err) // as above
	}
	for _, f := range older {
		name, hex, _ := strings.Cut(strings.TrimSuffix(f.Name(), ".avsc"), "-")
		fingerprint, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			panic(err) // as above
		}
		add("older/"+f.Name(), name, fingerprint)
	}
	return t
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
	case *NodeFacts:
		return "weir.v1.NodeFacts"
	case *NodeSummary:
		return "weir.v1.NodeSummary"
	case *Notice:
		return "weir.v1.Notice"
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
	b, err := e.schema().AppendSingleObject(nil, r)
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
	case *CounterBatch: // its own codec reads what it writes
		if len(b) <= MaxBatchBytes {
			return b, nil
		}
	case *JobSummary: // likewise
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
	e, r, err := decode(b)
	if err != nil {
		return nil, err
	}
	return e.valid(r)
}

// Decode is Unmarshal, but it also returns a record that Validate refuses.
func Decode(b []byte) (Record, error) {
	_, r, err := decode(b)
	return r, err
}

func decode(b []byte) (*entry, Record, error) {
	e, err := lookup(b)
	if err == nil && len(b) <= e.most() {
		if r, ok := e.decodeOwn(b[headerBytes:]); ok {
			return e, r, nil
		}
	}
	if e, err = lookupChecked(b); err != nil {
		return nil, nil, err
	}
	r := e.zero()
	if _, err := e.schema().Decode(b[headerBytes:], r); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", e.name, errMalformed, err)
	}
	return e, r, nil
}

// decodeOwn decodes the body of a record that has a codec of its own. It is not ok if the general codec must decide.
func (e *entry) decodeOwn(body []byte) (Record, bool) {
	switch {
	case e.isBatch:
		return decodeBatch(body, e.hasReported())
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
	if len(b) > e.most() {
		return e, fmt.Errorf("%s: %w: %d bytes of at most %d", e.name, errOversized, len(b), e.most())
	}
	err = e.shape().check(b[headerBytes:])
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

// SchemaOf returns the schema of a value by its first ten bytes alone. It returns ErrNotSingleObject or
// ErrUnknownSchema.
func SchemaOf(b []byte) (Schema, error) {
	e, err := lookup(b)
	if err != nil {
		return Schema{}, err
	}
	return e.shipped(), nil
}

// Check returns the schema of a value and its body, which aliases b. It checks the size of the value and the shape of
// the body. A decoder that reserves the memory for any claimed count may read a body that passed. It returns the errors
// of Unmarshal, without those of Validate; the schema is empty if it is unknown.
func Check(b []byte) (s Schema, body []byte, err error) {
	e, err := lookupChecked(b)
	if e != nil {
		s = e.shipped()
	}
	if err != nil {
		return s, nil, err
	}
	return s, b[headerBytes:], nil
}

func (e *entry) shipped() Schema { return Schema{e.name, e.hex, e.text} }

// Canonical returns the parsing canonical form of the schema, from which its fingerprint is computed. It returns
// ErrUnknownSchema unless weir shipped a schema with this fingerprint.
func (s Schema) Canonical() (string, error) {
	for _, e := range table.byFingerprint {
		if e.hex == s.Fingerprint {
			return string(e.schema().Canonical()), nil
		}
	}
	return "", fmt.Errorf("%w %s", ErrUnknownSchema, s.Fingerprint)
}

// All returns every schema ever shipped, sorted by name and fingerprint.
func All() []Schema {
	var all []Schema
	for _, e := range table.byFingerprint {
		all = append(all, e.shipped())
	}
	slices.SortFunc(all, func(a, b Schema) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return all
}

// Package second reads values by goavro. goavro shares no code with weir's codecs, so a comparison finds a fault that a
// reader and a writer of weir have in common. It reads values without a Go struct too, as JSON.
//
// It is a package of its own so that programs on compute nodes do not link goavro.
package second

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/linkedin/goavro/v2"

	"github.com/weirhpc/weir/schemas"
)

// Disagreement is a difference between goavro's reading of a value and one of weir's.
type Disagreement struct {
	Reader string // of weir: Decode, or BatchReader, by which collect reads a CounterBatch
	Field  string // the first one that differs, such as metrics[2].values[17]; empty: weir or goavro refuses the value
	Weir   string // the field's value
	Goavro string // the field's value
}

// String returns the disagreement as one line.
func (d Disagreement) String() string {
	field := ""
	if d.Field != "" {
		field = d.Field + ": "
	}
	return fmt.Sprintf("%sweir's %s reads %s, goavro %s", field, d.Reader, d.Weir, d.Goavro)
}

// Reader decodes values by goavro and by weir, and compares the fields. Only one goroutine may use it. The zero
// value is ready.
type Reader struct {
	// Decode takes the place of schemas.Decode, for tests. It may be nil.
	Decode func(b []byte) (schemas.Record, error)

	batches schemas.BatchReader
	fields  map[reflect.Type][]avroField
}

// avroField is a field of a struct, by its name in the schema.
type avroField struct {
	name  string
	index []int
}

// Compare returns the differences between goavro's reading of a value and weir's: one for each reader of weir at most.
// Numbers must agree to the bit. A value with an older schema must leave all newer fields at their zero.
//
// It returns the errors of Unmarshal, other than ErrInvalid, for a value that it did not hand to goavro: goavro would
// reserve the memory for any claimed count.
func (s *Reader) Compare(b []byte) ([]Disagreement, error) {
	schema, body, err := schemas.Check(b)
	if err != nil {
		return nil, err
	}
	c, err := codecOf(schema)
	if err != nil {
		return nil, err
	}
	theirs, refused := readBody(c, body)
	decoder := s.Decode
	if decoder == nil {
		decoder = schemas.Decode
	}
	record, err := decoder(b)
	var found []Disagreement
	add := func(d *Disagreement, reader string) {
		if d != nil {
			d.Reader = reader
			found = append(found, *d)
		}
	}
	add(s.judge(theirs, refused, record, err), "Decode")
	if batch, is := record.(*schemas.CounterBatch); is && batch.Validate() == nil {
		packed, err := s.unpack(b, batch)
		add(s.judge(theirs, refused, packed, err), "BatchReader")
	}
	return found, nil
}

var errTrailing = errors.New("bytes after the record")

// readBody decodes a body by goavro, to its last byte.
func readBody(c *goavro.Codec, body []byte) (any, error) {
	native, rest, err := c.NativeFromBinary(body)
	if err == nil && len(rest) > 0 {
		err = errTrailing
	}
	return native, err
}

// unpack reads a batch by the BatchReader. The fields that a PackedBatch leaves out come from batch.
func (s *Reader) unpack(b []byte, batch *schemas.CounterBatch) (schemas.Record, error) {
	var packed schemas.PackedBatch
	if _, err := s.batches.Read(b, &packed); err != nil {
		return nil, err
	}
	r := &schemas.CounterBatch{NodeHeader: packed.NodeHeader, Reported: packed.Reported}
	r.BootID, r.RunID, r.Cpus = batch.BootID, batch.RunID, batch.Cpus
	for i, m := range packed.Layout.Metrics {
		r.Metrics = append(r.Metrics, schemas.CounterBatchMetric{
			Name: m.Name, Unit: m.Unit, Scope: m.Scope, Values: packed.AppendValues(nil, i),
		})
	}
	return r, nil
}

// judge compares a record, or the error of its reader, with goavro's reading.
func (s *Reader) judge(theirs any, refused error, ours schemas.Record, err error) *Disagreement {
	switch {
	case err != nil && refused != nil:
		return nil
	case err != nil:
		return &Disagreement{Weir: fmt.Sprintf("nothing (%v)", err), Goavro: "a record"}
	case refused != nil:
		return &Disagreement{Weir: "a record", Goavro: fmt.Sprintf("nothing (%v)", refused)}
	}
	return s.compare(theirs, reflect.ValueOf(ours).Elem())
}

// compare compares a value of goavro with a value of a record.
func (s *Reader) compare(theirs any, ours reflect.Value) *Disagreement {
	same := false
	switch ours.Kind() {
	case reflect.Struct:
		if fields, ok := theirs.(map[string]any); ok {
			return s.compareFields(fields, ours)
		}
	case reflect.Pointer: // a union with null
		if branch, ok := theirs.(map[string]any); ok && !ours.IsNil() && len(branch) == 1 {
			for _, v := range branch {
				return s.compare(v, ours.Elem())
			}
		}
		same = theirs == nil && ours.IsNil()
	case reflect.Slice:
		if items, ok := theirs.([]any); ok && len(items) == ours.Len() {
			return s.compareItems(items, ours)
		}
		if raw, ok := theirs.([]byte); ok && ours.Type().Elem().Kind() == reflect.Uint8 {
			same = bytes.Equal(raw, ours.Bytes())
		}
	case reflect.Float64:
		v, ok := theirs.(float64)
		same = ok && math.Float64bits(v) == math.Float64bits(ours.Float())
	default: // text, whole numbers, truth values
		same = theirs == ours.Interface()
	}
	if same {
		return nil
	}
	return &Disagreement{Weir: shown(ours.Interface()), Goavro: shown(theirs)}
}

func (s *Reader) compareFields(theirs map[string]any, ours reflect.Value) *Disagreement {
	read := 0
	for _, f := range s.fieldsOf(ours.Type()) {
		v, there := theirs[f.name]
		field := ours.FieldByIndex(f.index)
		if !there {
			if field.IsZero() {
				continue
			}
			return &Disagreement{Field: f.name, Weir: shown(field.Interface()), Goavro: "no such field"}
		}
		read++
		if d := s.compare(v, field); d != nil {
			return d.within(f.name)
		}
	}
	if read < len(theirs) {
		return &Disagreement{
			Weir: fmt.Sprintf("%d of the schema's fields", read), Goavro: strconv.Itoa(len(theirs)),
		}
	}
	return nil
}

func (s *Reader) compareItems(theirs []any, ours reflect.Value) *Disagreement {
	if values, ok := ours.Interface().([]float64); ok { // nearly all of a CounterBatch
		for i, v := range values {
			if their, ok := theirs[i].(float64); !ok || math.Float64bits(their) != math.Float64bits(v) {
				d := &Disagreement{Weir: shown(v), Goavro: shown(theirs[i])}
				return d.within(fmt.Sprintf("[%d]", i))
			}
		}
		return nil
	}
	for i, v := range theirs {
		if d := s.compare(v, ours.Index(i)); d != nil {
			return d.within(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

// within puts the name of the surrounding field, or an index, before the field's path.
func (d *Disagreement) within(outer string) *Disagreement {
	switch {
	case d.Field == "" || d.Field[0] == '[':
		d.Field = outer + d.Field
	default:
		d.Field = outer + "." + d.Field
	}
	return d
}

// fieldsOf returns the fields of a struct that travel.
func (s *Reader) fieldsOf(t reflect.Type) []avroField {
	fields, known := s.fields[t]
	if known {
		return fields
	}
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("avro"); name != "" {
			fields = append(fields, avroField{name, f.Index})
		}
	}
	if s.fields == nil {
		s.fields = map[reflect.Type][]avroField{}
	}
	s.fields[t] = fields
	return fields
}

// mostShown is the greatest length of a value in a Disagreement, in bytes.
const mostShown = 80

// shown returns a value for a message. Floating-point numbers have all their digits, and the payload of a NaN.
func shown(v any) string {
	var text string
	switch v := v.(type) {
	case nil:
		return "null"
	case float64:
		if text = strconv.FormatFloat(v, 'g', -1, 64); math.IsNaN(v) {
			text = fmt.Sprintf("NaN(%016x)", math.Float64bits(v))
		}
	case string:
		text = strconv.Quote(v)
	case []byte:
		text = fmt.Sprintf("%d bytes %x", len(v), v)
	case []any:
		return fmt.Sprintf("%d items", len(v))
	default:
		switch r := reflect.ValueOf(v); r.Kind() {
		case reflect.Slice:
			return fmt.Sprintf("%d items", r.Len())
		case reflect.Pointer:
			if r.IsNil() {
				return "null"
			}
			return shown(r.Elem().Interface())
		}
		text = fmt.Sprint(v)
	}
	return schemas.CleanText(text, mostShown)
}

// CheckText returns an error unless goavro computes weir's canonical form and fingerprint of a schema from a text. So
// the text may differ from Text in documentation, defaults, order and white space alone, as that of a registry may.
func CheckText(s schemas.Schema, text string) error {
	c, err := compile(text)
	if err != nil {
		return fmt.Errorf("schema %s %s: goavro does not read it: %w", s.Name, s.Fingerprint, err)
	}
	ours, err := s.Canonical()
	if err != nil {
		return fmt.Errorf("schema %s: %w", s.Name, err)
	}
	if theirs := c.CanonicalSchema(); ours != theirs {
		at := common(ours, theirs)
		return fmt.Errorf("schema %s %s: from byte %d on, its canonical form is %.40q by weir, %.40q by goavro",
			s.Name, s.Fingerprint, at, ours[at:], theirs[at:])
	}
	if theirs := fmt.Sprintf("%016x", c.Rabin); theirs != s.Fingerprint {
		return fmt.Errorf("schema %s: its fingerprint is %s by weir, %s by goavro", s.Name, s.Fingerprint, theirs)
	}
	return nil
}

// common returns the number of bytes that both texts begin with.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

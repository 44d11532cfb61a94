package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/twmb/avro"
)

// A shape walks the bytes of a record before anything is decoded. It finds truncated, oversized and trailing bytes. It
// adds up the memory of the Go value: an empty string is one byte on the wire and sixteen in memory.
type shape struct {
	kind    string
	fields  []*shape // record: fields; union: branches; array: the items' shape
	symbols int      // enum
	size    int      // of the Go value itself, without the memory that it points to
	most    int      // array: the number of items that a record may have; 0: any

	// The budget of a body, for the shape of a whole record: perByte × its length + constant. It is the most that a
	// body with one block an array can need, so only hostile bodies exceed it.
	perByte, constant int
}

// The costs of decoding and validating beside the values themselves.
const (
	arrayBytes   = 24 // the decoder makes a slice header for each block of an array, and for an empty array
	itemBytes    = 4  // Validate sorts the positions of items in order to find one that is there twice
	textFactor   = 2  // the decoder cuts strings from blocks of 1,024 bytes and may waste half of each
	baseConstant = 64 << 10
)

var (
	errTruncated = errors.New("truncated")
	errTrailing  = errors.New("bytes after the record")
	errTooLarge  = errors.New("would need too much memory")
	errTooMany   = invalid("metrics", "more than %d", MaxMetrics)
	errVarint    = errors.New("bad variable-length integer")
	errIndex     = errors.New("union branch or enum symbol out of range")
	errBoolean   = errors.New("boolean that is neither 0 nor 1")
)

// newShape returns the shape of a record that is decoded into the struct t.
func newShape(s *avro.Schema, t reflect.Type) *shape {
	top := shapeOf(s.Root(), t)
	for top.perByte = 1; top.exceeds(top.perByte); top.perByte++ {
	}
	top.constant = baseConstant + max(0, top.size+top.excess(top.perByte))
	return top
}

// shapeOf follows schema and struct side by side. The schema determines the bytes on the wire, the struct the bytes in
// memory. It panics if they disagree.
func shapeOf(n *avro.SchemaNode, t reflect.Type) *shape {
	s := &shape{kind: n.Type, symbols: len(n.Symbols), size: int(t.Size())}
	switch n.Type {
	case "record":
		types := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			types[f.Tag.Get("avro")] = f.Type
		}
		for i := range n.Fields {
			f := &n.Fields[i]
			// A struct without the field panics here, in the first test.
			s.fields = append(s.fields, shapeOf(&f.Type, types[f.Name]))
			if f.Name == "metrics" {
				s.fields[i].most = MaxMetrics
			}
		}
	case "array":
		s.fields = []*shape{shapeOf(n.Items, t.Elem())}
	case "union":
		for i := range n.Branches {
			s.fields = append(s.fields, shapeOf(&n.Branches[i], t.Elem()))
		}
	case "enum", "string", "bytes", "int", "long", "double", "boolean", "null":
	default:
		panic(fmt.Sprintf("schemas: no shape for Avro type %q", n.Type)) // an .avsc uses a new type: extend this switch
	}
	return s
}

// excess returns the most by which the memory that a value points to can pass perByte × its bytes on the wire. Items of
// an array without a bound on their number do not count. exceeds checks these.
func (s *shape) excess(perByte int) int {
	switch s.kind {
	case "record":
		sum := 0
		for _, f := range s.fields {
			sum += f.excess(perByte)
		}
		return sum
	case "array":
		return arrayBytes - perByte + s.most*max(0, s.fields[0].itemExcess(perByte))
	case "union":
		most := 0 // null
		for _, f := range s.fields {
			if f.kind != "null" {
				most = max(most, f.size+f.excess(perByte))
			}
		}
		return most - perByte
	case "double":
		return -8 * perByte
	case "null":
		return 0
	}
	return -perByte // one byte at least; more bytes of a string need no more than textFactor each
}

// itemExcess returns the excess of an item of an array.
func (s *shape) itemExcess(perByte int) int { return s.size + itemBytes + s.excess(perByte) }

// exceeds reports whether enough items of an array, or enough bytes of a string, pass any budget with this perByte.
func (s *shape) exceeds(perByte int) bool {
	if perByte < textFactor || s.kind == "array" && s.most == 0 && s.fields[0].itemExcess(perByte) > 0 {
		return true
	}
	return slices.ContainsFunc(s.fields, func(f *shape) bool { return f.exceeds(perByte) })
}

// bound returns the most that Unmarshal allocates for a body of so many bytes. It is the budget and a quarter more,
// since the runtime rounds the sizes of allocations up.
func (s *shape) bound(bytes int) int { return (s.perByte*bytes + s.constant) / 4 * 5 }

// walk is one pass over a body: the bytes that are left, and the memory that may still be needed.
type walk struct {
	rest   []byte
	budget int
}

// check returns nil if body is one record of this shape, to its last byte, that decodes within the budget.
func (s *shape) check(body []byte) error {
	w := walk{rest: body, budget: s.perByte*len(body) + s.constant}
	if err := w.value(s); err != nil {
		return err
	}
	if len(w.rest) > 0 {
		return errTrailing
	}
	return nil
}

// value walks one value. It takes from the budget before it goes on, so hostile counts fail before anything is
// allocated for them.
func (w *walk) value(s *shape) error {
	switch s.kind {
	case "record":
		for _, f := range s.fields {
			if err := w.value(f); err != nil {
				return err
			}
		}
		return nil
	case "array":
		return w.array(s)
	case "union":
		i, err := w.index(len(s.fields))
		if err != nil {
			return err
		}
		branch := s.fields[i]
		if branch.kind == "null" {
			return nil
		}
		if err := w.spend(1, branch.size); err != nil {
			return err
		}
		return w.value(branch)
	case "enum":
		_, err := w.index(s.symbols)
		return err
	case "string", "bytes":
		return w.text()
	case "double":
		return w.skip(8)
	case "boolean":
		if len(w.rest) < 1 {
			return errTruncated
		}
		if w.rest[0] > 1 {
			return errBoolean
		}
		w.rest = w.rest[1:]
		return nil
	case "null":
		return nil
	default: // int, long
		n, err := w.long()
		if err == nil && s.kind == "int" && n != int64(int32(n)) {
			err = errVarint
		}
		return err
	}
}

// text walks a string or bytes.
func (w *walk) text() error {
	n, err := w.long()
	if err != nil {
		return err
	}
	if err := w.skip(n); err != nil {
		return err
	}
	return w.spend(textFactor, int(n))
}

// skip leaves n bytes out. A negative n is a length that only hostile bytes have.
func (w *walk) skip(n int64) error {
	if n < 0 || n > int64(len(w.rest)) {
		return errTruncated
	}
	w.rest = w.rest[n:]
	return nil
}

// array walks the blocks of an array. For each block, the decoder makes room for its items and copies the items before.
// So many small blocks would cost the square of their number.
func (w *walk) array(s *shape) error {
	items := s.fields[0]
	for have := 0; ; {
		n, err := w.block()
		if err != nil || n == 0 && have > 0 {
			return err
		}
		if have += n; s.most > 0 && have > s.most {
			return errTooMany
		}
		if err := w.spend(1, arrayBytes+have*items.size+n*itemBytes); err != nil || n == 0 {
			return err
		}
		for range n {
			if err := w.value(items); err != nil {
				return err
			}
		}
	}
}

// block reads the number of items in an array's next block.
func (w *walk) block() (int, error) {
	n, err := w.long()
	if err != nil || n == 0 {
		return 0, err
	}
	if n < 0 { // a block with its size in bytes, for readers that want to skip it
		if _, err := w.long(); err != nil {
			return 0, err
		}
		n = -n
	}
	if n < 0 || n > int64(len(w.rest)) { // no item of ours is empty on the wire
		return 0, errTruncated
	}
	return int(n), nil
}

// spend takes items × bytes from the budget. Both are bounded by the body's length, so the product does not overflow.
func (w *walk) spend(items, bytes int) error {
	if w.budget -= items * bytes; w.budget < 0 {
		return errTooLarge
	}
	return nil
}

// index reads the number of a union's branch or of an enum's symbol, below n.
func (w *walk) index(n int) (int64, error) {
	i, err := w.long()
	if err == nil && (i < 0 || i >= int64(n)) {
		err = errIndex
	}
	return i, err
}

// long reads an int or a long. Avro writes both alike, so the caller checks the range of an int.
func (w *walk) long() (int64, error) {
	v, n := binary.Varint(w.rest) // zig-zag, least significant group first, as in Avro
	if n == 0 {
		return 0, errTruncated
	}
	if n < 0 {
		return 0, errVarint
	}
	w.rest = w.rest[n:]
	return v, nil
}

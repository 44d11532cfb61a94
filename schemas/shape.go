package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/avro"
)

// A shape walks the bytes of a record before anything is decoded. It finds truncated, oversized and trailing bytes,
// and it adds up what the Go value would need: an empty string is one byte on the wire and sixteen in memory, so a
// hostile body of them would cost a decoder many times its length.
type shape struct {
	kind     string
	fields   []*shape // record: fields; union: branches; array: the items' shape
	symbols  int      // enum
	memBytes int      // of the Go value itself, without what it points to
}

// Allocation allowed for a body: what real records need lies below it (TestRealRecordsFitTheBudget).
const (
	budgetPerByte  = 4
	budgetConstant = 64 << 10
)

var (
	errTruncated = errors.New("truncated")
	errTrailing  = errors.New("bytes after the record")
	errTooLarge  = errors.New("would need too much memory")
	errVarint    = errors.New("bad variable-length integer")
	errIndex     = errors.New("union branch or enum symbol out of range")
	errBoolean   = errors.New("boolean that is neither 0 nor 1")
)

func newShape(s *avro.Schema) *shape { return shapeOf(s.Root()) }

func shapeOf(n *avro.SchemaNode) *shape {
	s := &shape{kind: n.Type}
	switch n.Type {
	case "record":
		for i := range n.Fields {
			f := shapeOf(&n.Fields[i].Type)
			s.fields = append(s.fields, f)
			s.memBytes += f.memBytes
		}
	case "array":
		s.fields = []*shape{shapeOf(n.Items)}
		s.memBytes = 24
	case "union":
		s.memBytes = 8 // a pointer
		for i := range n.Branches {
			s.fields = append(s.fields, shapeOf(&n.Branches[i]))
		}
	case "enum":
		s.symbols, s.memBytes = len(n.Symbols), 16
	case "string":
		s.memBytes = 16
	case "bytes":
		s.memBytes = 24
	case "int", "long", "double":
		s.memBytes = 8
	case "boolean":
		s.memBytes = 1
	case "null":
	default:
		panic(fmt.Sprintf("schemas: no shape for Avro type %q", n.Type)) // an .avsc uses a new type: extend this switch
	}
	return s
}

type walk struct {
	rest   []byte
	budget int
}

// check returns nil if body is one record of this shape, to its last byte, that decodes within the budget.
func (s *shape) check(body []byte) error {
	w := walk{rest: body, budget: budgetPerByte*len(body) + budgetConstant}
	if err := w.value(s); err != nil {
		return err
	}
	if len(w.rest) > 0 {
		return errTrailing
	}
	return nil
}

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
		return w.array(s.fields[0])
	case "union":
		i, err := w.index(len(s.fields))
		if err != nil {
			return err
		}
		if err := w.spend(1, s.fields[i].memBytes); err != nil {
			return err
		}
		return w.value(s.fields[i])
	case "enum":
		_, err := w.index(s.symbols)
		return err
	case "string", "bytes":
		n, err := w.long()
		if err != nil {
			return err
		}
		if n < 0 || n > int64(len(w.rest)) {
			return errTruncated
		}
		w.rest = w.rest[n:]
		return w.spend(1, int(n))
	case "double":
		if len(w.rest) < 8 {
			return errTruncated
		}
		w.rest = w.rest[8:]
		return nil
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

// array walks the blocks of an array. A decoder that did not know of the later blocks has to grow its slice, and
// copies: from the second block on, items count three times.
func (w *walk) array(items *shape) error {
	for weight := 1; ; weight = 3 {
		n, err := w.long()
		if err != nil || n == 0 {
			return err
		}
		if n < 0 { // a block with its size in bytes, for readers that want to skip it
			if _, err := w.long(); err != nil {
				return err
			}
			n = -n
		}
		if n < 0 || n > int64(len(w.rest)) { // no item of ours is empty on the wire
			return errTruncated
		}
		if err := w.spend(int(n)*weight, items.memBytes); err != nil {
			return err
		}
		for range n {
			if err := w.value(items); err != nil {
				return err
			}
		}
	}
}

func (w *walk) spend(items, bytes int) error {
	if w.budget -= items * bytes; w.budget < 0 {
		return errTooLarge
	}
	return nil
}

func (w *walk) index(n int) (int64, error) {
	i, err := w.long()
	if err == nil && (i < 0 || i >= int64(n)) {
		err = errIndex
	}
	return i, err
}

func (w *walk) long() (int64, error) {
	v, n := binary.Varint(w.rest) // zig-zag, least significant group first: as Avro has it
	if n == 0 {
		return 0, errTruncated
	}
	if n < 0 {
		return 0, errVarint
	}
	w.rest = w.rest[n:]
	return v, nil
}

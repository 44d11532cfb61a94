package sink

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

const (
	maxDepth     = 16       // of structures in a footer; ours have 6
	listBudget   = 64 << 20 // of the lists in a footer, with footerBudget for each of its bytes
	footerBudget = 64
	structBytes  = 1 << 10 // of a structure in a list: none of the format's is larger in memory
	scalarBytes  = 24
)

var (
	errThrift    = errors.New("not a Thrift structure")
	errListBytes = errors.New("a list that is longer than its bytes")
)

// thriftWalk walks a structure of the compact Thrift protocol, without a schema. It refuses sets, maps and lists of
// booleans, which no Parquet footer holds.
type thriftWalk struct {
	rest   []byte
	budget int
}

// structure walks to the end of a structure.
func (w *thriftWalk) structure(depth int) error {
	if depth > maxDepth {
		return errThrift
	}
	for {
		b, err := w.take(1)
		if err != nil || b[0] == 0 {
			return err
		}
		if b[0]>>4 == 0 { // the field's number follows
			if _, err := w.varint(); err != nil {
				return err
			}
		}
		if err := w.value(thrift.Type(b[0]&0xF), depth); err != nil {
			return err
		}
	}
}

// value walks one value. Lists and structs count their depth, because hostile bytes may nest them without end.
func (w *thriftWalk) value(kind thrift.Type, depth int) error {
	size := uint64(0)
	var err error
	switch kind {
	case thrift.TRUE, thrift.FALSE: // the type is the value
	case thrift.I8:
		size = 1
	case thrift.DOUBLE:
		size = 8
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = w.varint()
	case thrift.BINARY:
		size, err = w.varint()
	case thrift.LIST:
		return w.list(depth + 1)
	case thrift.STRUCT:
		return w.structure(depth + 1)
	default:
		return errThrift
	}
	if err == nil {
		_, err = w.take(size)
	}
	return err
}

// list takes the memory of its items from the budget before it walks them. A count of a few bytes could otherwise
// reserve gigabytes in the decoder.
func (w *thriftWalk) list(depth int) error {
	b, err := w.take(1)
	if err != nil {
		return err
	}
	kind, n := thrift.Type(b[0]&0xF), uint64(b[0]>>4)
	if n == 15 {
		if n, err = w.varint(); err != nil {
			return err
		}
	}
	cost := scalarBytes
	switch kind {
	case thrift.TRUE, thrift.FALSE:
		return errThrift
	case thrift.STRUCT, thrift.LIST:
		cost = structBytes
	}
	if n > uint64(len(w.rest)) {
		return errListBytes
	}
	if w.budget -= int(n) * cost; w.budget < 0 {
		return errListBytes
	}
	for range n {
		if err := w.value(kind, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *thriftWalk) take(n uint64) ([]byte, error) {
	if n > uint64(len(w.rest)) {
		return nil, io.ErrUnexpectedEOF
	}
	b := w.rest[:n]
	w.rest = w.rest[n:]
	return b, nil
}

func (w *thriftWalk) varint() (uint64, error) {
	v, n := binary.Uvarint(w.rest)
	if n <= 0 {
		return 0, errThrift
	}
	w.rest = w.rest[n:]
	return v, nil
}

// decodeThrift decodes the structure that b begins with into v, and returns the bytes behind it.
func decodeThrift(b []byte, v any) (rest []byte, err error) {
	w := thriftWalk{rest: b, budget: listBudget + footerBudget*len(b)}
	if err := w.structure(0); err != nil {
		return nil, err
	}
	return w.rest, thrift.Unmarshal(new(thrift.CompactProtocol), b[:len(b)-len(w.rest)], v)
}

package schemas

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// Reading and writing the Avro forms in CounterBatch and JobSummary, without reflection.

// bodyReader reads a body. Without memory it only counts.
type bodyReader struct {
	body   []byte
	at     int // bytes read so far
	failed bool
	into   *bodyMemory

	text, metrics, values int // counted: bytes of all texts, and items
}

// bodyMemory is shared by the fields of one record.
type bodyMemory struct {
	text   strings.Builder // holds all texts without growing, so that earlier ones stay valid
	values []float64       // likewise
}

// fail ends the reading.
func (r *bodyReader) fail() {
	r.failed, r.at = true, len(r.body)
}

// long reads an int or a long.
func (r *bodyReader) long() int64 {
	if r.at < len(r.body) && r.body[r.at] < 0x80 { // most lengths
		u := uint64(r.body[r.at])
		r.at++
		return int64(u>>1) ^ -int64(u&1)
	}
	v, n := binary.Varint(r.body[r.at:])
	if n <= 0 {
		r.fail()
		return 0
	}
	r.at += n
	return v
}

func (r *bodyReader) int() int32 {
	v := r.long()
	if v != int64(int32(v)) {
		r.fail()
	}
	return int32(v)
}

// bytes reads a string, and returns its bytes in the body.
func (r *bodyReader) bytes() []byte {
	n := r.long()
	if n < 0 || n > int64(len(r.body)-r.at) {
		r.fail()
		return nil
	}
	r.at += int(n)
	return r.body[r.at-int(n) : r.at]
}

// double reads a double.
func (r *bodyReader) double() float64 {
	if len(r.body)-r.at < 8 {
		r.fail()
		return 0
	}
	r.at += 8
	return math.Float64frombits(binary.LittleEndian.Uint64(r.body[r.at-8:]))
}

// string reads a string.
func (r *bodyReader) string() string {
	text := r.bytes()
	r.text += len(text)
	if r.into == nil || len(text) == 0 {
		return ""
	}
	r.into.text.Write(text)
	return r.into.text.String()[r.into.text.Len()-len(text):]
}

// items reads the number of items in the only block of an array. Each takes width bytes at least.
func (r *bodyReader) items(width int) int {
	n := r.long()
	if n < 0 || n > int64((len(r.body)-r.at)/width) {
		r.fail()
		return 0
	}
	return int(n)
}

// end reads the end of an array, which follows unless it is empty.
func (r *bodyReader) end(items int) {
	if items > 0 && r.long() != 0 {
		r.fail()
	}
}

// doubles reads an array of doubles.
func (r *bodyReader) doubles() []float64 {
	n := r.items(8)
	raw := r.body[r.at : r.at+8*n]
	r.at += len(raw)
	r.end(n)
	r.values += n
	if r.into == nil || n == 0 {
		return nil
	}
	at := len(r.into.values)
	r.into.values = r.into.values[:at+n]
	values := r.into.values[at : at+n : at+n]
	readDoubles(values, raw)
	return values
}

// readDoubles fills values from their bytes.
func readDoubles(values []float64, raw []byte) {
	for i := range values {
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
	}
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendVarint(to, int64(len(text))), text...)
}

func appendDouble(to []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(to, math.Float64bits(v))
}

// appendDoubles appends an array of doubles.
func appendDoubles(to []byte, values []float64) []byte {
	if len(values) > 0 {
		to = binary.AppendVarint(to, int64(len(values)))
		at := len(to)
		to = slices.Grow(to, 8*len(values))[:at+8*len(values)]
		raw := to[at:]
		for _, v := range values {
			binary.LittleEndian.PutUint64(raw, math.Float64bits(v))
			raw = raw[8:]
		}
	}
	return append(to, 0)
}

// appendItems appends an array: one block, unless it is empty, and its end.
func appendItems[T any](to []byte, items []T, one func(to []byte, item *T) []byte) []byte {
	if len(items) > 0 {
		to = binary.AppendVarint(to, int64(len(items)))
		for i := range items {
			to = one(to, &items[i])
		}
	}
	return append(to, 0)
}

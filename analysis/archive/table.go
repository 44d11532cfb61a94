package archive

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// slab keeps values that rows point at, with few allocations. Texts that repeat are kept once.
type slab struct {
	floats []float64
	longs  []int64
	ints   []int32
	texts  map[string]*string
}

func newSlab() *slab { return &slab{texts: map[string]*string{}} }

func (s *slab) text(v parquet.Value) *string {
	b := v.ByteArray()
	if t := s.texts[string(b)]; t != nil {
		return t
	}
	t := string(b)
	s.texts[t] = &t
	return &t
}

// room is the number of values that are allocated at a time.
const room = 1024

// keep returns a pointer to a value that stays.
func keep[T any](in *[]T, v T) *T {
	if len(*in) == cap(*in) {
		*in = make([]T, 0, room)
	}
	*in = append(*in, v)
	return &(*in)[len(*in)-1]
}

// list returns the values of a list, or nil if there are none.
func list[T any](in *[]T, v []parquet.Value, of func(parquet.Value) T) []T {
	if len(v) == 1 && v[0].IsNull() {
		return nil
	}
	if cap(*in)-len(*in) < len(v) {
		*in = make([]T, 0, max(room, len(v)))
	}
	from := len(*in)
	for _, one := range v {
		*in = append(*in, of(one))
	}
	return (*in)[from:len(*in):len(*in)]
}

// set puts the values of a column into the cell of a row. A null leaves the cell as it is.
func (s *slab) set(cell any, v []parquet.Value) {
	if v[0].IsNull() {
		return
	}
	switch c := cell.(type) {
	case *string:
		*c = *s.text(v[0])
	case **string:
		*c = s.text(v[0])
	case *int32:
		*c = v[0].Int32()
	case **int32:
		*c = keep(&s.ints, v[0].Int32())
	case *int64:
		*c = v[0].Int64()
	case **int64:
		*c = keep(&s.longs, v[0].Int64())
	case *float64:
		*c = v[0].Double()
	case **float64:
		*c = keep(&s.floats, v[0].Double())
	case *bool:
		*c = v[0].Boolean()
	case **bool:
		b := v[0].Boolean()
		*c = &b
	case *[]float64:
		*c = list(&s.floats, v, parquet.Value.Double)
	case *[]int64:
		*c = list(&s.longs, v, parquet.Value.Int64)
	case *[]int32:
		*c = list(&s.ints, v, parquet.Value.Int32)
	case *[]string:
		var texts []string
		for _, one := range v {
			texts = append(texts, *s.text(one))
		}
		*c = texts
	}
}

// kindOf returns the Parquet kind of a Go type. Pointers and lists are stored as their elements.
func kindOf(t reflect.Type) (kind parquet.Kind, ok bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return parquet.ByteArray, true
	case reflect.Int32:
		return parquet.Int32, true
	case reflect.Int64:
		return parquet.Int64, true
	case reflect.Float64:
		return parquet.Double, true
	case reflect.Bool:
		return parquet.Boolean, true
	}
	return 0, false
}

// column is a field of a row, and the column of its name.
type column struct {
	name  string
	index int // of the field
	kind  parquet.Kind
}

// columnsOf returns the columns that the tags of a row type name: the columns in only, or all if only is nil.
func columnsOf[R any](only []string) (all []column) {
	t := reflect.TypeFor[R]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("parquet"), ",")
		kind, known := kindOf(t.Field(i).Type)
		if name != "" && known && (only == nil || slices.Contains(only, name)) {
			all = append(all, column{name, i, kind})
		}
	}
	return all
}

// readTable returns the rows of spans, in order. Columns that are not requested, or that the file lacks, stay empty.
func readTable[R any](f *file, group parquet.RowGroup, spans []span, columns []column, s *slab) ([]R, error) {
	n := int64(0)
	for _, s := range spans {
		n += s.to - s.from
	}
	rows := make([]R, n)
	for _, c := range columns {
		chunk := f.chunk(group, c.name)
		if chunk == nil || n == 0 {
			continue
		}
		if chunk.Type().Kind() != c.kind {
			return nil, fmt.Errorf("column %s has another type than weir's", c.name)
		}
		at := int64(0)
		err := read(chunk, spans, func(_ int64, v []parquet.Value) {
			s.set(reflect.ValueOf(&rows[at]).Elem().Field(c.index).Addr().Interface(), v)
			at++
		})
		if err == nil && at != n {
			err = fmt.Errorf("%d rows, not %d", at, n)
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	return rows, nil
}

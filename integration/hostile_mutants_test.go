package integration

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// mutant is a record derived from a real one.
type mutant struct {
	kind  string // schema, and the mutation
	value []byte
}

// mutants returns every kind of mutant of a record: of its bytes, and of each of its fields.
func mutants(name string, value []byte) []mutant {
	all := []mutant{{name + " as it was", value}}
	add := func(kind string, value []byte) { all = append(all, mutant{name + " " + kind, value}) }
	at := func(percent int) int { return min(10+(len(value)-10)*percent/100, len(value)-1) }
	for _, bit := range []int{0, 9, 17, 40, 79} { // of the marker and the fingerprint
		add(fmt.Sprintf("header bit %d", bit), flipped(value, bit))
	}
	for percent := 0; percent < 100; percent += 5 {
		add(fmt.Sprintf("bit at %d %%", percent), flipped(value, 8*at(percent)+percent/5%8))
	}
	for _, percent := range []int{0, 1, 10, 25, 50, 75, 90, 99} {
		add(fmt.Sprintf("cut at %d %%", percent), value[:at(percent)])
		for what, varint := range map[string][]byte{
			"the greatest count":   binary.AppendVarint(nil, math.MaxInt64),
			"the least count":      binary.AppendVarint(nil, math.MinInt64),
			"a count of a billion": binary.AppendVarint(nil, 1_000_000_000),
			"an endless varint":    slices.Repeat([]byte{0xff}, 12),
		} {
			add(fmt.Sprintf("%s at %d %%", what, percent), slices.Concat(value[:at(percent)], varint,
				value[at(percent):]))
			add(fmt.Sprintf("%s in place of what is at %d %%", what, percent),
				slices.Concat(value[:at(percent)], varint))
		}
	}
	for _, n := range []int{0, 1, 2, 9, 10} {
		add(fmt.Sprintf("%d bytes of it", n), value[:n])
	}
	for _, n := range []int{1, 8, 100_000} {
		add(fmt.Sprintf("%d bytes longer", n), append(slices.Clone(value), make([]byte, n)...))
	}
	add("twice", slices.Concat(value, value))
	for _, other := range schemas.All() {
		if n, err := strconv.ParseUint(other.Fingerprint, 16, 64); err == nil {
			changed := slices.Clone(value)
			binary.LittleEndian.PutUint64(changed[2:], n)
			add("as "+other.Name+" "+other.Fingerprint, changed)
		}
	}
	if r, err := schemas.Unmarshal(value); err == nil {
		for _, m := range fieldMutants(r) {
			add(m.kind, m.value)
		}
	}
	return all
}

func flipped(value []byte, bit int) []byte {
	changed := slices.Clone(value)
	changed[bit/8] ^= 1 << (bit % 8)
	return changed
}

// fieldMutants puts extremes into each field of a record, one at a time. Records that cannot be encoded are left out.
func fieldMutants(r schemas.Record) (all []mutant) {
	try := func(kind string, v reflect.Value, extreme any) {
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		v.Set(reflect.ValueOf(extreme).Convert(v.Type()))
		if value, err := schemas.Marshal(r); err == nil {
			all = append(all, mutant{kind, value})
		}
		v.Set(before)
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).Tag.Get("avro") != "-" {
					walk(path+"."+v.Type().Field(i).Name, v.Field(i))
				}
			}
		case reflect.Pointer:
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem())) // a null field gets a value, and becomes null again
				walk(path, v.Elem())
				v.SetZero()
				return
			}
			walk(path, v.Elem())
			try(path+" null", v, reflect.Zero(v.Type()).Interface())
		case reflect.Slice:
			if v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
				walk(path+"[0]", v.Index(0))
				try(path+" twice", v, reflect.AppendSlice(reflect.AppendSlice(reflect.Zero(v.Type()), v),
					v).Interface())
			}
			try(path+" empty", v, reflect.Zero(v.Type()).Interface())
		case reflect.Int32, reflect.Int64:
			for _, n := range []int64{
				0, -1, 1, math.MaxInt64, math.MinInt64, math.MaxInt32, math.MinInt32,
				4_000_000_000_000,
			} {
				if !v.OverflowInt(n) {
					try(fmt.Sprintf("%s %d", path, n), v, n)
				}
			}
		case reflect.Float64:
			for _, f := range []float64{
				math.NaN(), math.Inf(1), math.Inf(-1), 1e308, -1e308, 5e-324,
				math.Copysign(0, -1),
			} {
				try(fmt.Sprintf("%s %g", path, f), v, f)
			}
		case reflect.String:
			for _, s := range []string{
				"", "\xff\xfe", "caf\xe9", "a\x00b", "../../etc", "..", "_system", "_rest", "%s%n", "\u202e",
				"'; drop", strings.Repeat("x", 65),
				strings.Repeat("y", 100_000),
			} {
				try(fmt.Sprintf("%s %.20q", path, s), v, s)
			}
		case reflect.Bool:
			try(path+" not", v, !v.Bool())
		}
	}
	walk("", reflect.ValueOf(r).Elem())
	return all
}

// TestMutants makes sure that there are many kinds, and none twice.
func TestMutants(t *testing.T) {
	low := "n1"
	ten := []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	one := 1.0
	value, err := schemas.Marshal(&schemas.JobSummary{
		Cluster: "c", JobID: "j", IntervalStart: 1000, IntervalMs: 1000, Method: schemas.MethodExact,
		Metrics: []schemas.JobSummaryMetric{
			{
				Name: "m", Unit: "1", Scope: schemas.ScopeNode, Count: 1, Nodes: 1, Mean: &one, LowNode: &low,
				HighNode: &low, Deciles: &ten, LowNodeMean: &one, HighNodeMean: &one,
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	refused := 0
	for _, m := range mutants("JobSummary", value) {
		if seen[m.kind] {
			t.Errorf("%s: there twice", m.kind)
		}
		seen[m.kind] = true
		if _, err := schemas.Unmarshal(m.value); err != nil {
			refused++
		}
	}
	if len(seen) < 200 || refused < 100 || refused == len(seen) {
		t.Errorf("%d kinds, %d of them refused", len(seen), refused)
	}
}

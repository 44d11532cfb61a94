package second

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// golden returns a record of every schema ever shipped, as its writer wrote it, by the name of its file.
func golden(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../testdata/*.avro")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		values[filepath.Base(f)] = b
	}
	if len(values) != len(schemas.All()) {
		t.Fatalf("%d records of %d schemas", len(values), len(schemas.All()))
	}
	return values
}

// leaves calls see for every value of a record that can be wrong by itself, with its path.
func leaves(path string, v reflect.Value, see func(path string, v reflect.Value)) {
	inner := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if name := f.Tag.Get("avro"); name != "" {
				leaves(inner(name), v.FieldByIndex(f.Index), see)
			}
		}
	case reflect.Pointer:
		if see(path, v); !v.IsNil() {
			leaves(path, v.Elem(), see)
		}
	case reflect.Slice:
		see(path, v)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			leaves(path+"["+strconv.Itoa(i)+"]", v.Index(i), see)
		}
	default:
		see(path, v)
	}
}

// spoil changes a value as little as possible.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(math.Float64bits(v.Float()) ^ 1))
	case reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() ^ 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			return
		}
		v.SetZero()
	default:
		panic(v.Kind())
	}
}

// TestWrongCodecIsFound: in records of every schema ever shipped, each field in turn is read wrongly by weir, by as
// little as possible. The second reader names the field.
func TestWrongCodecIsFound(t *testing.T) {
	tried := 0
	for name, b := range golden(t) {
		r, err := schemas.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		leaves("", reflect.ValueOf(r).Elem(), func(path string, _ reflect.Value) { paths = append(paths, path) })
		for nth, path := range paths {
			s := Reader{Decode: func(b []byte) (schemas.Record, error) {
				wrong, err := schemas.Decode(b)
				i := 0
				leaves("", reflect.ValueOf(wrong).Elem(), func(_ string, v reflect.Value) {
					if i++; i == nth+1 {
						spoil(v)
					}
				})
				return wrong, err
			}}
			found, err := s.Compare(b)
			if err != nil || len(found) == 0 || found[0].Reader != "Decode" || found[0].Field != path {
				t.Errorf("%s: %s was read wrongly: %v, %v", name, path, found, err)
			}
			tried++
		}
	}
	if t.Logf("%d fields", tried); tried < 400 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// TestOneReaderFails: a value that one of both codecs refuses is a disagreement. A value that weir's check of the shape
// refuses never reaches goavro.
func TestOneReaderFails(t *testing.T) {
	errBroken := errors.New("broken")
	s := Reader{Decode: func([]byte) (schemas.Record, error) { return nil, errBroken }}
	b := golden(t)["Watermark-9d70ffeb40713cc3.avro"]
	found, err := s.Compare(b)
	if want := "weir's Decode reads nothing (broken), goavro a record"; err != nil || len(found) != 1 ||
		found[0].String() != want {
		t.Errorf("%v, %v; want %q", found, err, want)
	}
	if _, err := s.Compare(append(b, 0)); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("a byte too many: %v", err)
	}
	if _, err := s.Compare([]byte("{}")); !errors.Is(err, schemas.ErrNotSingleObject) {
		t.Errorf("no record: %v", err)
	}
}

// TestWrongBatchReaderIsFound: collect reads batches by a reader of its own, which is compared too. It keeps layouts
// between records, and a layout that changed by mistake shows.
func TestWrongBatchReaderIsFound(t *testing.T) {
	var s Reader
	b := golden(t)["CounterBatch-bcc070302c887a04.avro"]
	if found, err := s.Compare(b); err != nil || len(found) > 0 {
		t.Fatalf("%v, %v", found, err)
	}
	var packed schemas.PackedBatch
	if _, err := s.batches.Read(b, &packed); err != nil {
		t.Fatal(err)
	}
	packed.Layout.Metrics[0].Unit = "furlong"
	found, err := s.Compare(b)
	if err != nil || len(found) != 1 || found[0].Reader != "BatchReader" || found[0].Field != "metrics[0].unit" {
		t.Errorf("%v, %v", found, err)
	}
}

// TestGoavroComputesTheFingerprints: from the text of every schema ever shipped, goavro computes weir's canonical form
// and fingerprint. A text with another field has neither.
func TestGoavroComputesTheFingerprints(t *testing.T) {
	for _, s := range schemas.All() {
		if err := CheckText(s, s.Text); err != nil {
			t.Error(err)
		}
		other := strings.Replace(s.Text, `"name": "interval_start"`, `"name": "began"`, 1)
		if other == s.Text {
			other = strings.Replace(s.Text, `"type": "long"`, `"type": "int"`, 1)
		}
		if err := CheckText(s, other); err == nil || !strings.Contains(err.Error(), "canonical form") {
			t.Errorf("%s with another field: %v", s.Name, err)
		}
		undocumented := strings.ReplaceAll(strings.ReplaceAll(s.Text, `"doc"`, `"note"`), "\n", " ")
		if err := CheckText(s, undocumented); err != nil {
			t.Errorf("%s without documentation: %v", s.Name, err)
		}
	}
	forged := schemas.All()[0]
	forged.Fingerprint = schemas.All()[1].Fingerprint
	if err := CheckText(forged, forged.Text); err == nil {
		t.Error("a fingerprint of another schema passes")
	}
	if err := CheckText(forged, "{"); err == nil {
		t.Error("no schema at all passes")
	}
}

// BenchmarkReader has the cost of a second reading, by schema.
func BenchmarkReader(b *testing.B) {
	for name, value := range golden(b) {
		b.Run(strings.TrimSuffix(name, ".avro"), func(b *testing.B) {
			var s Reader
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Compare(value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

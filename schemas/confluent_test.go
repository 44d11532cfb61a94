package schemas

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/avro"
)

// TestConfluentForm: the head alone differs, and the way back gives the same bytes. It is compared with the golden
// records of every schema that a public topic ever had.
func TestConfluentForm(t *testing.T) {
	for _, topic := range PublicTopics() {
		for _, s := range OfTopic(topic) {
			file := fmt.Sprintf("testdata/%s-%s.avro", strings.TrimPrefix(s.Name, "weir.v1."), s.Fingerprint)
			golden, err := os.ReadFile(filepath.FromSlash(file))
			if err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(golden)
			value, ok := ToConfluent(golden, 0x01020304)
			if want := append([]byte{0, 1, 2, 3, 4}, golden[10:]...); !ok || !bytes.Equal(value, want) {
				t.Errorf("%s: %x, want %x", file, value, want)
			}
			back, ok := FromConfluent(value, Fingerprint(golden))
			if !ok || !bytes.Equal(back, golden) {
				t.Errorf("%s comes back as %x", file, back)
			}
			if key := hex.EncodeToString(golden[2:10]); s.Key() != key {
				t.Errorf("%s: key %s, want %s", file, s.Key(), key)
			}
			back[0], value[1] = 0xFF, 0xFF
			if !bytes.Equal(golden, before) {
				t.Errorf("%s: a result shares the bytes", file)
			}
		}
	}
}

// TestNoConfluentForm: what is in neither form is left alone, and a header that is wrong is refused by the decoder.
func TestNoConfluentForm(t *testing.T) {
	good := mustMarshal(t, &Watermark{1, 0, 1000})
	value, _ := ToConfluent(good, 7)
	fingerprint := Fingerprint(good)
	for name, c := range map[string]struct{ b, fingerprint []byte }{
		"nothing":                {nil, fingerprint},
		"half a head":            {value[:4], fingerprint},
		"id 0":                   {[]byte{0, 0, 0, 0, 0, 1}, fingerprint},
		"another first byte":     {slices.Concat([]byte{1}, value[1:]), fingerprint},
		"the single-object form": {good, fingerprint},
		"no header":              {value, nil},
		"a short header":         {value, fingerprint[:7]},
		"a long header":          {value, append(slices.Clone(fingerprint), 0)},
	} {
		if to, ok := FromConfluent(c.b, c.fingerprint); ok || to != nil {
			t.Errorf("%s becomes %x", name, to)
		}
		if _, err := Unmarshal(c.b); name != "the single-object form" && !errors.Is(err, ErrNotSingleObject) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{"nothing": nil, "half a head": good[:9], "the Confluent form": value} {
		if to, ok := ToConfluent(b, 7); ok || to != nil {
			t.Errorf("%s becomes %x", name, to)
		}
	}
	if _, ok := ToConfluent(good, 0); ok {
		t.Error("id 0 is written")
	}
	head, _ := FromConfluent(value[:5], fingerprint)
	if _, err := Unmarshal(head); !errors.Is(err, errMalformed) {
		t.Errorf("a head alone: %v", err)
	}
	unknown, _ := FromConfluent(value, []byte("unknown!"))
	if _, err := Unmarshal(unknown); !errors.Is(err, ErrUnknownSchema) {
		t.Errorf("an unknown fingerprint: %v", err)
	}
}

// FuzzConfluent: any value and any header give an error or a record of the schema that the header names.
func FuzzConfluent(f *testing.F) {
	for _, s := range All() {
		file := fmt.Sprintf("testdata/%s-%s.avro", strings.TrimPrefix(s.Name, "weir.v1."), s.Fingerprint)
		if b, err := os.ReadFile(filepath.FromSlash(file)); err == nil {
			value, _ := ToConfluent(b, 1)
			f.Add(value, Fingerprint(b))
		}
	}
	f.Add([]byte{0, 0, 0, 0, 1}, []byte{})
	f.Fuzz(func(t *testing.T, b, fingerprint []byte) {
		single, ok := FromConfluent(b, fingerprint)
		if !ok {
			if single != nil {
				t.Fatalf("%x is refused and given", single)
			}
			return
		}
		if !bytes.Equal(Fingerprint(single), fingerprint) || !bytes.Equal(single[10:], b[5:]) {
			t.Fatalf("%x of %x and %x", single, b, fingerprint)
		}
		r, err := Unmarshal(single)
		if err != nil {
			return
		}
		if e, known := lookup(single); known != nil || e.name != nameOf(r) {
			t.Fatalf("%x is read as %T", single, r)
		}
	})
}

// TestOfTopicIsInOrder: each schema of a public topic can read what the one before has written, which registries call
// BACKWARD. Readers of before can read what the next one writes, so FULL holds too.
func TestOfTopicIsInOrder(t *testing.T) {
	seen := 0
	for _, topic := range PublicTopics() {
		all := OfTopic(topic)
		if len(all) == 0 || all[len(all)-1].Text != table.byName[all[0].Name].text {
			t.Fatalf("%s: %d schemas, and the last is not the one that is written", topic, len(all))
		}
		for i := range all[1:] {
			older, newer := avro.MustParse(all[i].Text), avro.MustParse(all[i+1].Text)
			if err := avro.CheckCompatibility(older, newer); err != nil {
				t.Errorf("%s: %s cannot read %s: %v", topic, all[i+1].Fingerprint, all[i].Fingerprint, err)
			}
			if err := avro.CheckCompatibility(newer, older); err != nil {
				t.Errorf("%s: %s cannot read %s: %v", topic, all[i].Fingerprint, all[i+1].Fingerprint, err)
			}
			seen++
		}
	}
	if seen < 4 {
		t.Errorf("%d pairs were compared", seen)
	}
	if len(OfTopic(TopicCounters)) > 0 {
		t.Error("counters are public")
	}
}

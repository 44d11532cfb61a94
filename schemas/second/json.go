package second

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/linkedin/goavro/v2"

	"github.com/weirhpc/weir/schemas"
)

// codecs holds goavro's codecs by the fingerprint of their schema. Making one is slow.
var codecs sync.Map

// codecOf returns goavro's codec of a shipped schema. Two goroutines may make it at once; one of both codecs stays.
func codecOf(s schemas.Schema) (*goavro.Codec, error) {
	if c, ok := codecs.Load(s.Fingerprint); ok {
		return c.(*goavro.Codec), nil
	}
	c, err := compile(s.Text)
	if err != nil {
		return nil, fmt.Errorf("compiling %s: %w", s.Name, err)
	}
	codecs.Store(s.Fingerprint, c)
	return c, nil
}

// compile makes the codec of a schema without its logical types. So times stay integers, as in the record: a reader can
// compute with them. And goavro's canonical form is the standard's: of a logical type it keeps an object.
func compile(text string) (*goavro.Codec, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // defaults stay as they are
	var schema any
	if err := d.Decode(&schema); err != nil {
		return nil, err
	}
	dropLogicalTypes(schema)
	plain, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	return goavro.NewCodecForStandardJSONFull(string(plain))
}

func dropLogicalTypes(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		delete(s, "logicalType")
		for _, v := range s {
			dropLogicalTypes(v)
		}
	case []any:
		for _, v := range s {
			dropLogicalTypes(v)
		}
	}
}

// JSON returns the full name of the schema that b was written with, and its value as plain JSON. Times are in
// milliseconds (sampled_at: microseconds), unions have no branch, NaN is null, bytes are in base64. A Reject has a
// further field, head_schema: the full name of the schema that its head begins with, or null.
//
// JSON accepts the same values as schemas.Unmarshal, and also records that Validate refuses, so that a user can look at
// a rejected record. It returns the same errors as schemas.Unmarshal.
func JSON(b []byte) (name string, value json.RawMessage, err error) {
	schema, body, err := schemas.Check(b) // must come first: goavro reserves the memory for any claimed count
	if err != nil {
		return schema.Name, nil, err
	}
	c, err := codecOf(schema)
	if err != nil {
		return schema.Name, nil, err
	}
	native, _, err := c.NativeFromBinary(body)
	if err != nil {
		return schema.Name, nil, fmt.Errorf("%s: malformed record: %w", schema.Name, err)
	}
	value, err = c.TextualFromNative(nil, native)
	if err == nil {
		value, err = readable(value, native)
	}
	if err != nil {
		return schema.Name, nil, fmt.Errorf("%s as JSON: %w", schema.Name, err)
	}
	return schema.Name, value, nil
}

// readable sorts the names in JSON objects, so that the same record always reads the same. goavro's order is random. It
// also writes bytes as base64; Avro's JSON uses an escape for each byte.
func readable(text json.RawMessage, native any) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // digits stay as they are
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	fields, _ := native.(map[string]any)
	for name, value := range fields {
		if b, ok := value.([]byte); ok {
			v[name] = b
		}
	}
	if head, ok := fields["head"].([]byte); ok {
		v["head_schema"] = nil
		if schema, err := schemas.SchemaOf(head); err == nil {
			v["head_schema"] = schema.Name
		}
	}
	return json.Marshal(v)
}

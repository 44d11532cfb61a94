package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/linkedin/goavro/v2"
)

func (e *entry) compile() (*goavro.Codec, error) {
	// Times stay the integers that they are in the record: a reader can compute with them.
	plain := strings.NewReplacer(`, "logicalType": "timestamp-millis"`, "", `, "logicalType": "timestamp-micros"`, "").Replace(e.text)
	c, err := goavro.NewCodecForStandardJSONFull(plain)
	if err != nil {
		return nil, fmt.Errorf("compiling %s: %w", e.name, err)
	}
	return c, nil
}

// JSON returns the full name of the schema that b was written with, and its value as plain JSON: times in
// milliseconds (sampled_at: microseconds), unions without their branch, NaN as null. It takes what Unmarshal takes, and
// also records that Validate refuses, so that a rejected record can be looked at. Errors are those of Unmarshal.
func JSON(b []byte) (name string, value json.RawMessage, err error) {
	e, err := lookup(b)
	if err != nil {
		return "", nil, err
	}
	// The walk comes first: goavro would reserve whatever a hostile count asks for.
	if err := e.shape.check(b[headerBytes:]); err != nil {
		return e.name, nil, fmt.Errorf("%s: %w: %w", e.name, ErrMalformed, err)
	}
	c, err := e.dynamic()
	if err != nil {
		return e.name, nil, err
	}
	native, _, err := c.NativeFromBinary(b[headerBytes:])
	if err != nil {
		return e.name, nil, fmt.Errorf("%s: %w: %w", e.name, ErrMalformed, err)
	}
	value, err = c.TextualFromNative(nil, native)
	if err == nil {
		value, err = sorted(value)
	}
	if err != nil {
		return e.name, nil, fmt.Errorf("%s as JSON: %w", e.name, err)
	}
	return e.name, value, nil
}

// sorted puts the names of JSON objects in order, which goavro draws by chance: the same record reads the same.
func sorted(text json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // digits stay as they are
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

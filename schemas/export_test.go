package schemas

import (
	"encoding/json"
	"testing"
)

// JSON is second.JSON. A test inside this package cannot import second, which imports the package: TestMain sets it.
var JSON func(b []byte) (name string, value json.RawMessage, err error)

// ForSamples calls each for records of every schema: the samples and random legal ones.
func ForSamples(t *testing.T, each func(t *testing.T, value []byte)) {
	t.Helper()
	for _, r := range samples() {
		each(t, mustMarshal(t, r))
	}
	forLegal(t, 20, func(t *testing.T, _ string, _ uint64, r Record) { each(t, mustMarshal(t, r)) })
}

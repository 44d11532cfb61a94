package cli

import (
	"testing"
	"time"
)

// TestAges: services and audits take days too.
func TestAges(t *testing.T) {
	for text, want := range map[string]time.Duration{"7d": 7 * 24 * time.Hour, "0s": 0, "-1h": -time.Hour} {
		var a Age
		if err := a.Set(text); err != nil || time.Duration(a) != want {
			t.Errorf("%q: %v, %v", text, a, err)
		}
	}
	if err := new(Age).Set("soon"); err == nil {
		t.Error("soon is a length of time")
	}
}

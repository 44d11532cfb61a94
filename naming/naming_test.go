package naming

import (
	"os"
	"strings"
	"testing"
)

func TestValid(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, ".": false, "..": false, "...": true,
		"a": true, "A-b_c.d:9": true, "a/b": false, "ä": false, "a b": false, "a\n": false,
		strings.Repeat("x", MaxBytes): true, strings.Repeat("x", MaxBytes+1): false,
	} {
		if Valid(name) != want {
			t.Errorf("%q is a name: want %v", name, want)
		}
	}
}

func TestPathless(t *testing.T) {
	_, err := os.Open("/nowhere/at/all")
	if got := Pathless(err); got == nil || strings.Contains(got.Error(), "nowhere") {
		t.Errorf("got %v", got)
	}
	if Pathless(nil) != nil {
		t.Error("no error becomes one")
	}
}

// TestMeant: a slip of the hand is answered by the names that are near it, and nothing else is guessed.
func TestMeant(t *testing.T) {
	keys := map[string]int{"collectors": 1, "kafka.sasl.password_file": 2, "interval": 3}
	for name, want := range map[string]string{
		"colectors":           ": did you mean collectors?",
		"kafka.sasl.password": ": did you mean kafka.sasl.password_file?",
		"completely_else":     "",
	} {
		if got := Meant(name, keys); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

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

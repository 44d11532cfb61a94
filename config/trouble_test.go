package config

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestTroubleIsSaidOncePerKind: what was only away may come back and refuse us, and that must be said.
func TestTroubleIsSaidOncePerKind(t *testing.T) {
	away, refused := errors.New("connection refused"), fmt.Errorf("asking: %w", kerr.SaslAuthenticationFailed)
	var trouble Trouble
	for i, c := range []struct {
		err   error
		worth bool
	}{{away, true}, {away, false}, {errors.New("i/o timeout"), false}, {refused, true}, {refused, false}, {away, true}} {
		if got := trouble.Worth(c.err); got != c.worth {
			t.Errorf("%d, %v: worth saying: %v", i, c.err, got)
		}
	}
	if !trouble.Over() || trouble.Over() || !trouble.Worth(away) {
		t.Error("it is not over, or does not begin again")
	}
}

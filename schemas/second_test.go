package schemas_test

import (
	"os"
	"testing"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/schemas/second"
)

func TestMain(m *testing.M) {
	schemas.JSON = second.JSON
	os.Exit(m.Run())
}

// TestSecondReaderAgrees: goavro reads samples and random records of every schema as weir does.
func TestSecondReaderAgrees(t *testing.T) {
	var s second.Reader
	schemas.ForSamples(t, func(t *testing.T, value []byte) {
		if found, err := s.Compare(value); err != nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
	})
}

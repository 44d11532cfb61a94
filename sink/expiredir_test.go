package sink

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
)

// TestExpiryInAnyDirectory: characters that a pattern would understand may be in the directory's name.
func TestExpiryInAnyDirectory(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "a[b", "a[1]"} {
		var logged kafkatest.Log
		cfg := config.Default()
		cfg.Sink.Dir = filepath.Join(t.TempDir(), name)
		e := newExpiry(cfg, samplesDir, cfg.Samples.Retention, logged.Logger())
		left, day := e.old("1970-01-01"), filepath.Join(e.root(), "date=1970-01-02")
		for start, dir := range []string{left, day} {
			if err := os.MkdirAll(dir, 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fileName(e.topic, 0, int64(start))), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.pass(t.Context(), time.Unix(100*86400, 0)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, dir := range []string{left, day} {
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s stays: %v", name, dir, err)
			}
		}
	}
}

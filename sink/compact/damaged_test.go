package compact

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// TestDamagedRollupsAreAnError: a damaged footer of rollups is an error at worst. It never stops a run for all dates.
func TestDamagedRollupsAreAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rollups.parquet")
	w, err := newRollupWriter(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.add(&Rollup{Cluster: "c", JobID: "1"}); err != nil {
		t.Fatal(err)
	}
	if err := w.close(rollupsFooter{topic: testTopic, generation: 1}, w.file.Sync); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	footer := len(whole) - 8 - int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	for at := footer; at < len(whole); at += damageEvery {
		for _, mask := range []byte{1, 0x80} {
			whole[at] ^= mask
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := footerOfRollups(path); err != nil {
				refused++
			}
			whole[at] ^= mask
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
}

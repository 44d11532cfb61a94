package archive

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/schemas"
)

// TestReplacedFile: rows of a file are not looked for in another one that has its name by now.
func TestReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	write := func(rows int) {
		t.Helper()
		if err := parquet.WriteFile(path+"-new", make([]schemas.Row, rows)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"-new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	use := func() error { return (&handle{path: path, was: was}).use(func(*file) error { used++; return nil }) }
	if err := use(); err != nil || used != 1 {
		t.Errorf("the same file: %v", err)
	}
	write(2)
	if err := use(); !errors.Is(err, fs.ErrNotExist) || used != 1 {
		t.Errorf("another file: %v", err)
	}
}

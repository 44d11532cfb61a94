package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/schemas"
)

// TestJobPage writes a page over an older one. A page that cannot be written leaves the older one, and nothing else.
func TestJobPage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "job.html")
	if err := os.WriteFile(file, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePage(file, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return io.ErrUnexpectedEOF
	}); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names the file", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "older" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if err := jobPage(file, &view.Job{Job: schemas.Job{JobID: "4711"}}, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "<title>Job 4711</title>") || !strings.HasSuffix(string(text), "</html>\n") {
		t.Errorf("the page is %.200q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%d files are left, %v", len(files), err)
	}
	if err := jobPage(filepath.Join(dir, "none", "job.html"), &view.Job{}, nil); err == nil || !strings.Contains(err.Error(), "--html") {
		t.Errorf("a directory that is not there gives %v", err)
	}
}

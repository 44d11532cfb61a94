package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	pages "github.com/weirhpc/weir/analysis/page"
	"github.com/weirhpc/weir/analysis/view"
)

// jobPage writes the HTML page of a job to a file. Peers may be nil: the page then has no rank among others.
func jobPage(file string, j *view.Job, peers *view.Peers) error {
	return writePage(file, func(w io.Writer) error {
		return pages.Job(w, j, pages.Options{Now: time.Now(), Version: versionText(), Peers: peers})
	})
}

// writePage replaces the file by a whole one, so that nobody opens half a page.
func writePage(file string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".weir-page-*")
	if err != nil {
		return fmt.Errorf("--html %q: the page needs a directory that weir may write to: %w", file, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("--html %q: %w", file, err)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil { // a page is for others too; CreateTemp keeps it from them
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

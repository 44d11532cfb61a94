package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weirhpc/weir/analysis"
	system "github.com/weirhpc/weir/analysis/machine"
	pages "github.com/weirhpc/weir/analysis/page"
	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/config"
)

// jobPage writes the HTML page of a job to a file. Peers may be nil: the page then has no rank among others.
func jobPage(file string, j *view.Job, peers *view.Peers) error {
	return writePage(file, func(w io.Writer) error {
		return pages.Job(w, j, pages.Options{Now: time.Now(), Version: versionText(), Peers: peers})
	})
}

// A page has room for more bins than a terminal. Ranks are among the jobs of a season.
const (
	pageBins = 240
	peerDays = 90
)

// jobsPage writes the page of a job, or of several together. Ranks are of the archive, if there is one.
func jobsPage(ctx context.Context, cfg config.Config, ask analysis.Ask, file string, jobs []*view.Job) error {
	j := jobs[0]
	if len(jobs) > 1 {
		all, err := view.Merge(jobs)
		if err != nil {
			return fmt.Errorf("merging the jobs: %w", err)
		}
		return jobPage(file, all, nil)
	}
	if ask.Dir == "" {
		return jobPage(file, j, nil)
	}
	peers, err := analysis.LoadPeers(ctx, cfg, ask.Dir, j, peerDays)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("comparing the job with others: %w", err)
	}
	return jobPage(file, j, peers)
}

// systemPage writes the HTML page of the machine to a file.
func systemPage(file string, r *system.Report) error {
	return writePage(file, func(w io.Writer) error {
		return pages.System(w, r, pages.Options{Now: time.Now(), Version: versionText()})
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

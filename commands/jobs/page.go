package jobs

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

	"github.com/weirhpc/weir/config"

	system "github.com/weirhpc/weir/report/machine"
	pages "github.com/weirhpc/weir/report/page"
	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
)

// jobPage writes the HTML page of a job to a file. If peers is nil, the page shows no rank among other jobs.
func jobPage(file string, j *view.Job, peers *view.Peers) error {
	return writePage(file, func(w io.Writer) error {
		return pages.Job(w, j, pages.Options{Now: time.Now(), Version: cli.VersionText(), Peers: peers})
	})
}

// A page offers room for more bins than a terminal. Ranks are among the jobs of a season.
const (
	pageBins = 240
	peerDays = 90
)

// jobsPage writes the page of a job, or of several together. Ranks come from the archive, if there is one.
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
		return pages.System(w, r, pages.Options{Now: time.Now(), Version: cli.VersionText()})
	})
}

// writePage replaces the page of --html.
func writePage(file string, write func(io.Writer) error) error {
	return WriteWhole("--html", file, write)
}

// WriteWhole replaces the file of an option in one step, so that nobody opens half of it. A device or a pipe, such as
// /dev/stdout, is written to instead.
func WriteWhole(option, file string, write func(io.Writer) error) (err error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		return writeDevice(option, file, write)
	}
	target := file
	if err == nil {
		if target, err = filepath.EvalSymlinks(file); err != nil { // a link stays a link
			return fmt.Errorf("%s %q: %w", option, file, err)
		}
	}
	// os.CreateTemp would make a file that only its owner may read. The umask decides about this one.
	name := filepath.Join(filepath.Dir(target), fmt.Sprintf(".weir-page-%d-%d", os.Getpid(), time.Now().UnixNano()))
	mode := os.FileMode(0o666)
	if info != nil {
		mode = info.Mode().Perm()
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("%s %q: the file needs a directory that weir may write to: %w", option, file, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(name)
			err = fmt.Errorf("%s %q: %w", option, file, err)
		}
	}()
	if info != nil { // an existing file keeps its mode, whatever the umask
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if err := write(f); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(name, target)
}

// writeDevice writes to an existing device or pipe.
func writeDevice(option, file string, write func(io.Writer) error) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(write(f), f.Close())
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", option, file, err)
	}
	return nil
}

package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
func jobsPage(ctx context.Context, cfg config.Config, v analysis.Viewer, ask analysis.Ask, file string,
	jobs []*view.Job,
) error {
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
	peers, err := analysis.LoadPeers(ctx, cfg, v, ask.Dir, j, peerDays)
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
	return cli.WriteWhole("--html", file, write)
}

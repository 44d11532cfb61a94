package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

var errNoRule = errors.New("there is no such rule")

// FindHistory evaluates a rule over the jobs of the archive that ended since a time. A rule in find.off is tried too.
func FindHistory(ctx context.Context, cfg config.Config, f *FindFlags, w io.Writer) error {
	since, err := cli.TimeFlag("since", f.Since, time.Now())
	if err != nil {
		return cli.Usage(err)
	}
	if f.Rules != "" {
		cfg.Find.Rules = f.Rules
	}
	cfg.Find.Possible = cfg.Find.Possible || f.Possible
	set, err := alone(cfg, f.Rule)
	if err != nil {
		return err
	}
	var found []foundJob
	note := func(j rules.Job, all []schemas.Finding) error {
		for i := range all {
			if all[i].Rule == f.Rule && all[i].State == schemas.FindingOpen {
				found = append(found, foundJob{findingOf(&all[i]), j.User, j.Account, j.Queue})
			}
		}
		return nil
	}
	judged, err := analysis.History(ctx, cfg, everybody(), f.Dir, set, since, note)
	if err != nil {
		return err
	}
	slices.SortStableFunc(found, func(a, b foundJob) int {
		switch {
		case a.Severity > b.Severity:
			return -1
		case a.Severity < b.Severity:
			return 1
		}
		return 0
	})
	if f.JSON {
		return cli.PrintJSON(w, found)
	}
	return printFound(w, f.Rule, found, judged)
}

// foundJob is a finding, with the owner and the queue of its job.
type foundJob struct {
	findingRow
	User    string `json:"user"`
	Account string `json:"account"`
	Queue   string `json:"queue"`
}

// alone returns the set of one rule and the rules that silence it, so that it finds the same as in the whole set.
func alone(cfg config.Config, rule string) (*rules.Set, error) {
	cfg.Find.Off = slices.DeleteFunc(slices.Clone(cfg.Find.Off), func(id string) bool { return id == rule })
	all, err := reading.RuleSet(cfg)
	if err != nil {
		return nil, err
	}
	var names []string
	off := slices.Clone(cfg.Find.Off)
	for i := range all.Rules {
		r := &all.Rules[i]
		names = append(names, r.ID)
		if r.ID != rule && !slices.Contains(r.Silences, rule) && r.SourceName == rules.ShippedName {
			off = append(off, r.ID)
		}
	}
	if !slices.Contains(names, rule) {
		return nil, cli.Usage(fmt.Errorf("%w: %.60q; `weir rules list` has %s", errNoRule, rule,
			strings.Join(names, ", ")))
	}
	cfg.Find.Off = off
	return reading.RuleSet(cfg)
}

func printFound(w io.Writer, rule string, found []foundJob, judged int) error {
	t := cli.NewTable(0)
	t.Line("JOB\tRESTART\tUSER\tACCOUNT\tQUEUE\tCLASS\tSEVERITY\tMATCHED\tEVALUATED\tCERTAINTY\tHINT")
	for i := range found {
		r := &found[i]
		t.Line("%s\t%d\t%s\t%s\t%s\t%s\t%.2f\t%d\t%d\t%s\t%s", r.JobID, r.Restart, cli.OrDash(r.User),
			cli.OrDash(r.Account),
			cli.OrDash(r.Queue), r.Class, r.Severity, r.Matched, r.Evaluated, r.Certainty, r.Hint)
	}
	if err := t.Print(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s holds for %d of %d jobs\n", rule, len(found), judged)
	return err
}

// FindLike lists the jobs that are most similar to another one.
func FindLike(ctx context.Context, cfg config.Config, f *FindFlags, w io.Writer) error {
	id, _, err := analysis.SplitID(f.Like)
	if err == nil && !naming.Valid(id) {
		err = fmt.Errorf("%q must match [A-Za-z0-9._:-]{1,64}", id)
	}
	if err != nil {
		return cli.Usage(fmt.Errorf("--like: %w", err))
	}
	ask := analysis.LikeAsk{Dir: f.Dir, JobID: f.Like, Queue: f.Queue, Limit: f.Limit}
	var back cli.Age // today is of no matter to a job that ended long ago
	if back.Set(f.Since) == nil && back > 0 {
		ask.Back = time.Duration(back)
	} else if ask.Since, err = cli.TimeFlag("since", f.Since, time.Now()); err != nil {
		return cli.Usage(err)
	}
	all, err := analysis.Like(ctx, cfg, everybody(), ask)
	if err != nil {
		return err
	}
	if f.JSON {
		return cli.PrintJSON(w, all)
	}
	if len(all) == 0 {
		when := "since " + ask.Since.UTC().Format(time.DateOnly)
		if ask.Back > 0 {
			when = "later than " + f.Since + " before it"
		}
		_, err := fmt.Fprintf(w, "No job that ended %s is like %s: %s. --since names an earlier time.\n",
			when, f.Like, unlike(f.Queue))
		return err
	}
	t := cli.NewTable(0)
	t.Line("JOB\tRESTART\tUSER\tQUEUE\tNAME\tCORES\tDISTANCE\tAT LEAST\tAT MOST\tMETRICS")
	for i := range all {
		j := &all[i]
		t.Line("%s\t%d\t%s\t%s\t%s\t%s\t%.3f\t%.3f\t%.3f\t%d", j.JobID, j.Restart, cli.OrDash(j.User),
			cli.OrDash(j.Queue),
			cli.OrDash(j.Name), cores(j.Cores), j.Distance, j.Low, j.High, j.Metrics)
	}
	return t.Print(w)
}

// unlike returns the reason that no job can be compared with another one.
func unlike(queue string) string {
	if queue != "" {
		return "none of queue " + schemas.Printable(queue) + " has its type of node and its metrics"
	}
	return "none has its type of node and its metrics"
}

func cores(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// FindFlags are the flags of the three uses of `weir find`.
type FindFlags struct {
	Live           bool
	Like           string // job
	Rule           string // the argument
	Since, Queue   string
	Dir, Rules     string
	Possible, JSON bool
	Limit          int
}

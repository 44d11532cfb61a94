package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/commands/cli"
)

var (
	errNoJobs    = errors.New("none of the jobs has an interval; `weir jobs` lists the jobs with intervals")
	errNoTask    = errors.New("no job is one of the tasks")
	errManyTasks = errors.New("too many tasks")
)

// maxTasks bounds the tasks of a job array that are shown at once.
const maxTasks = 10_000

// arrayTasks returns the tasks of an argument such as 184300_[1-60]. Any other argument is the ID of a job, and has no
// tasks. Both forms may end in @ and a date, on which the job or each task began.
func arrayTasks(arg string) (id string, tasks []int64, date string, err error) {
	arg, date, err = analysis.SplitID(arg)
	if err != nil {
		return "", nil, "", err
	}
	id, tasks, err = tasksOf(arg)
	return id, tasks, date, err
}

func tasksOf(arg string) (id string, tasks []int64, err error) {
	id, list, is := strings.Cut(arg, "_[")
	if !is {
		id = arg
	}
	if !naming.Valid(id) {
		return "", nil, fmt.Errorf("job ID %q must match [A-Za-z0-9._:-]{1,64}", arg)
	}
	if !is {
		return id, nil, nil
	}
	list, ended := strings.CutSuffix(list, "]")
	if tasks, err = topology.ExpandRanges(list); err != nil || !ended {
		return "", nil, fmt.Errorf("job ID %q must name its tasks as in %s_[1-60] or %s_[1,4,7-9]", arg, id, id)
	}
	if len(tasks) > maxTasks {
		return "", nil, fmt.Errorf("job ID %q has %d tasks: name at most %d at once", arg, len(tasks), maxTasks)
	}
	return id, tasks, nil
}

// typed are the forms in which squeue and sacct print a part of a job: a task of an array, a step, or both.
var typed = regexp.MustCompile(`^([A-Za-z0-9:-]+?)(?:_(\d{1,9}))?(?:\.(?:batch|extern|interactive|\d{1,9}))?$`)

// component is a part of a heterogeneous job. Slurm numbers these parts in a row.
var component = regexp.MustCompile(`^(\d{1,18})\+(\d{1,4})((?:\.\w+)?(?:@.*)?)$`)

// separate returns one job an argument: squeue prints 12+1 for job 13, and people type lists with commas.
func separate(args []string) (all []string) {
	for _, arg := range args {
		all = slices.AppendSeq(all, topology.Items(arg))
	}
	for i, arg := range all {
		if p := component.FindStringSubmatch(arg); p != nil {
			first, _ := strconv.ParseInt(p[1], 10, 64)
			offset, _ := strconv.ParseInt(p[2], 10, 64)
			all[i] = strconv.FormatInt(first+offset, 10) + p[3]
		}
	}
	return all
}

// partOf returns the job and the task that an ID names as squeue and sacct print it, such as 12_3 or 12.batch. It is
// empty if the ID has no such form.
func partOf(id string) (job string, tasks []int64) {
	p := typed.FindStringSubmatch(id)
	if p == nil || p[1] == id {
		return "", nil
	}
	if p[2] != "" {
		task, _ := strconv.ParseInt(p[2], 10, 64)
		tasks = []int64{task}
	}
	return p[1], tasks
}

// numbers returns the IDs of jobs and arrays that the arguments may name.
func numbers(args []string) (ids []string) {
	for _, arg := range args {
		id, _, _, _ := arrayTasks(arg) // jobIDs has accepted it
		ids = append(ids, id)
		if job, _ := partOf(id); job != "" {
			ids = append(ids, job)
		}
	}
	return ids
}

// taskIDs returns the jobs that the arguments name, each once and in their order. The number of a job array stands for
// all of its tasks.
func taskIDs(ctx context.Context, sources *analysis.Sources, args []string) (ids []string, err error) {
	seen := map[string]bool{}
	add := func(id, date string) {
		if date != "" {
			id += "@" + date
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, arg := range args {
		id, tasks, date, _ := arrayTasks(arg)
		found, whole, err := sources.Tasks(ctx, id)
		if err != nil {
			return nil, err
		}
		if tasks == nil && !whole && !sources.Knows(id) {
			if id, tasks, found, err = wholeOf(ctx, sources, id); err != nil {
				return nil, err
			}
		}
		switch {
		case tasks == nil && !whole:
			add(id, date)
			continue
		case tasks == nil:
			tasks = slices.Sorted(maps.Keys(found))
		case !slices.ContainsFunc(tasks, func(task int64) bool { return found[task] != "" }):
			return nil, fmt.Errorf("%w %s", errNoTask, arg)
		}
		for _, task := range tasks {
			if job, is := found[task]; is {
				add(job, date)
			}
		}
		if len(ids) > maxTasks {
			return nil, fmt.Errorf("%w: job array %s has %d: name at most %d at once, such as %s_[1-%d]", errManyTasks,
				id, len(found), maxTasks, id, maxTasks)
		}
	}
	return ids, nil
}

// wholeOf returns the job of which an unknown ID names a part, as squeue and sacct print it, and the task, if it names
// one. It returns the ID itself if there is no such job or task.
func wholeOf(ctx context.Context, s *analysis.Sources, id string) (
	job string, tasks []int64, found map[int64]string, err error,
) {
	job, tasks = partOf(id)
	if job == "" {
		return id, nil, nil, nil
	}
	if found, _, err = s.Tasks(ctx, job); err != nil {
		return "", nil, nil, err
	}
	if tasks == nil && !s.Knows(job) || tasks != nil && found[tasks[0]] == "" {
		return id, nil, nil, nil
	}
	return job, tasks, found, nil
}

// bins returns the number of bins for each of n jobs shown together, so that all of them fit into memory.
func bins(n, most int) int {
	const inAll, least = 60_000, 8
	return min(most, max(least, inAll/n))
}

// loadJobs reads each job. If several are asked for, jobs without an interval are left out.
func loadJobs(
	c *cobra.Command, sources *analysis.Sources, set *rules.Set, ids []string, ask analysis.Ask,
) (jobs []*view.Job, err error) {
	ask.MaxBins = bins(len(ids), ask.MaxBins)
	err = eachJob(c, ids, func(id string) error {
		j, err := sources.Load(c.Context(), set, id, ask)
		if err == nil {
			jobs = append(jobs, j)
		}
		return err
	})
	return jobs, err
}

// patience is the time after which a waiting person sees a sign of life.
const patience = 5 * time.Second

// eachJob calls fn with each job. If several are asked for, jobs without an interval are reported, and only if all of
// them lack intervals is that an error.
func eachJob(c *cobra.Command, ids []string, fn func(id string) error) error {
	var empty []string
	said := time.Now()
	for i, id := range ids {
		if time.Since(said) > patience {
			said = time.Now()
			cli.Say(c.ErrOrStderr(), "weir: %d of %d jobs are read", i, len(ids))
		}
		err := fn(id)
		switch {
		case len(ids) > 1 && errors.Is(err, analysis.ErrNoInterval):
			empty = append(empty, err.Error())
		case err != nil:
			return err
		}
	}
	sayFirst(c, empty, "have no interval")
	if len(ids) > 1 && len(empty) == len(ids) {
		return errNoJobs
	}
	return nil
}

// sayFirst reports the lines of the first jobs, and the number of the others that share the problem.
func sayFirst(c *cobra.Command, lines []string, what string) {
	const most = 5
	for i, line := range lines {
		if i == most {
			cli.Say(c.ErrOrStderr(), "weir: %d more jobs %s", len(lines)-most, what)
			return
		}
		cli.Say(c.ErrOrStderr(), "weir: %s", line)
	}
}

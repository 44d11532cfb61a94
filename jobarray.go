package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/topology"
)

var errNoJobs = errors.New("none of the jobs has an interval; `weir jobs` lists those that have any")

// maxTasks is how many tasks of a job array are shown at once.
const maxTasks = 10_000

// arrayTasks returns the tasks that an argument such as 184300_[1-60] names. Any other argument is the ID of a job, and
// has no tasks.
func arrayTasks(arg string) (id string, tasks []int64, err error) {
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

// jobs returns the jobs that the arguments name, each once and in their order.
func (f *jobFlags) jobs(c *cobra.Command, cfg config.Config, args []string) (ids []string, err error) {
	dir, topic := analysis.Where(cfg, f.dir)
	for _, arg := range args {
		id, tasks, _ := arrayTasks(arg) // jobIDs has checked it
		if tasks == nil {
			ids = append(ids, id)
			continue
		}
		found, err := analysis.ArrayJobs(c.Context(), cfg, dir, topic, id)
		if err != nil {
			return nil, err
		}
		before := len(ids)
		for _, task := range tasks {
			if job, is := found[task]; is {
				ids = append(ids, job)
			}
		}
		if len(ids) == before {
			return nil, fmt.Errorf("no job is one of the tasks %s", arg)
		}
	}
	seen := map[string]bool{}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		twice := seen[id]
		seen[id] = true
		return twice
	})
	return ids, nil
}

// allTasks returns the tasks of a job array by their numbers. It returns an error if there is no such array.
func (f *jobFlags) allTasks(c *cobra.Command, cfg config.Config, id string, none error) ([]string, error) {
	dir, topic := analysis.Where(cfg, f.dir)
	found, err := analysis.ArrayJobs(c.Context(), cfg, dir, topic, id)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, none
	}
	if len(found) > maxTasks {
		return nil, fmt.Errorf("job array %s has %d tasks: name some of them, such as %s_[1-%d]", id, len(found), id,
			maxTasks)
	}
	var ids []string
	for _, task := range slices.Sorted(maps.Keys(found)) {
		ids = append(ids, found[task])
	}
	return ids, nil
}

// loadJobs reads each job once. Of several, those without an interval are reported and left out. An ID of args that is
// that of a job array is all of its tasks. In Slurm one of the tasks is a job of that ID too: ids has it where it was
// named as a task.
func (f *jobFlags) loadJobs(
	c *cobra.Command, cfg config.Config, set *rules.Set, args, ids []string, ask analysis.Ask,
) ([]*view.Job, error) {
	var jobs []*view.Job
	var empty []error
	loaded, expanded := map[string]bool{}, map[string]bool{}
	for at := 0; at < len(ids); at++ {
		id := ids[at]
		if loaded[id] {
			continue
		}
		j, err := analysis.Load(c.Context(), cfg, set, id, ask)
		if !expanded[id] && (errors.Is(err, analysis.ErrNoJob) || isArray(j, id) && slices.Contains(args, id)) {
			expanded[id] = true
			tasks, none := f.allTasks(c, cfg, id, err)
			if len(tasks) > 0 {
				ids = slices.Concat(ids[:at+1], tasks, ids[at+1:])
				continue
			}
			err = none
		}
		loaded[id] = true
		switch {
		case err == nil:
			jobs = append(jobs, j)
		case len(ids) > 1 && errors.Is(err, analysis.ErrNoInterval):
			empty = append(empty, err)
		default:
			return nil, err
		}
	}
	sayEmpty(c, empty)
	if len(jobs) == 0 {
		return nil, errNoJobs
	}
	return jobs, nil
}

// isArray reports whether a job has the number of its array.
func isArray(j *view.Job, id string) bool {
	return j != nil && j.ArrayJob != nil && *j.ArrayJob == id
}

// sayEmpty reports the jobs without an interval.
func sayEmpty(c *cobra.Command, empty []error) {
	const most = 5
	for i, err := range empty {
		if i == most {
			say(c.ErrOrStderr(), "weir: %d more jobs have no interval", len(empty)-most)
			return
		}
		say(c.ErrOrStderr(), "weir: %v", err)
	}
}

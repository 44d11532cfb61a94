// Package observations makes the tables from which metrics are selected, from the archive or from topic counters.
package observations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/selection"
)

// Given are values of a response that an application wrote into a file.
type Given struct {
	Name   string
	Values []selection.ResponseValue
	Notes  []string
}

// Ask selects observations.
type Ask struct {
	Dir        string // the archive
	From, To   time.Time
	Jobs       JobFilter
	Statistics []string // nil: all of Statistics; besides these, statisticNodes
	Responses  []string // metrics
	Given      []Given
	Progress   func(text string) // receives progress messages; may be nil
}

// statisticNodes is the number of nodes that had a metric. No method takes it as a term. `weir metrics drift` asks for
// it: a metric of canary nodes alone compares with nothing that is of all nodes.
const statisticNodes = "nodes"

// Statistics returns the names of the statistics of a metric over the values of a row.
func Statistics() []string { return []string{"mean", "d0", "d5", "d10"} }

// errNoRows is returned if no row is left to select from.
var errNoRows = errors.New("no complete interval")

// JobFilter chooses jobs. An empty one chooses all but the pseudo-jobs.
type JobFilter struct {
	IDs    []string
	Fields map[string]string // user, account, queue or name
}

// filterFields are the fields of a job that a filter may name.
var filterFields = []string{"user", "account", "queue", "name"}

var errFilter = errors.New("neither the ID of a job nor one of user=, account=, queue=, name=")

// ParseJobFilter reads comma-separated job IDs and fields. A job matches if it has one of the IDs, if any are given,
// and all of the fields.
func ParseJobFilter(text string) (f JobFilter, err error) {
	if text == "" {
		return f, nil
	}
	f.Fields = map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		field, value, is := strings.Cut(part, "=")
		switch {
		case is && slices.Contains(filterFields, field) && value != "":
			f.Fields[field] = value
		case !is && naming.Valid(part):
			f.IDs = append(f.IDs, part)
		default:
			return f, fmt.Errorf("%.80q is %w", part, errFilter)
		}
	}
	return f, nil
}

// takes reports whether a job with this ID may be chosen.
func (f *JobFilter) takes(id string) bool {
	return id != schemas.JobSystem && id != schemas.JobRest && (len(f.IDs) == 0 || slices.Contains(f.IDs, id))
}

// matches reports whether all fields match a job.
func (f *JobFilter) matches(j *schemas.Job) bool {
	of := map[string]string{"user": j.User, "account": j.Account, "queue": j.Queue, "name": j.Name}
	for field, want := range f.Fields {
		if of[field] != want {
			return false
		}
	}
	return true
}

// Join adds responses that applications wrote into files. A value belongs to the interval that contains its time.
// lengths are the lengths of the rows' intervals; without them, a value's time must equal the time of the row.
func Join(t *selection.Table, given []Given, lengths []int64) error {
	for _, g := range given {
		if slices.ContainsFunc(t.Responses, func(r selection.Response) bool { return r.Name == g.Name }) {
			return fmt.Errorf("%w: two responses are called %.80q: rename a file", errResponse, g.Name)
		}
		values, stray, several := joined(t, &g, lengths)
		if stray == len(g.Values) {
			return fmt.Errorf("%w: none of the %d values of %s is in an interval of its job: the first is of job "+
				"%s/%s at "+
				"%s, and rows go from %s to %s", errResponse, stray, g.Name, g.Values[0].JobID,
				cmp.Or(g.Values[0].Restart, "0"), utcMs(g.Values[0].At), utcMs(slices.Min(t.Start)),
				utcMs(slices.Max(t.Start)))
		}
		for _, n := range g.Notes {
			t.Notes = append(t.Notes, g.Name+": "+n)
		}
		if stray > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %d of %d values are in no interval that was read", g.Name, stray,
				len(g.Values)))
		}
		if several > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %d values are followed by another of their interval, which "+
				"counts",
				g.Name, several))
		}
		t.Responses = append(t.Responses, selection.Response{Name: g.Name, Values: values})
	}
	return nil
}

var errResponse = errors.New("the response cannot be joined")

func utcMs(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// joined returns the values of a response by row. Stray values belong to none. Of several values of an interval the
// last one counts.
func joined(t *selection.Table, g *Given, lengths []int64) (values []float64, stray, several int) {
	of := map[string][]int{} // rows of each life, in the order of time
	for i := range t.Start {
		of[lifeOf(t, i)] = append(of[lifeOf(t, i)], i)
	}
	for _, rows := range of {
		slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(t.Start[a], t.Start[b]) })
	}
	values = make([]float64, t.Rows())
	at := make([]int64, t.Rows())
	for i := range values {
		values[i] = math.NaN()
	}
	for _, v := range g.Values {
		rows := of[""] // a table without units is of one job
		if t.Unit != nil {
			rows = of[selection.UnitName(v.JobID, v.Restart, "")]
		}
		k, found := slices.BinarySearchFunc(rows, v.At, func(row int, at int64) int {
			return cmp.Compare(t.Start[row], at)
		})
		if !found && (k == 0 || lengths == nil || v.At >= t.Start[rows[k-1]]+lengths[rows[k-1]]) {
			stray++
			continue
		}
		if !found {
			k--
		}
		start := t.Start[rows[k]]
		for k > 0 && t.Start[rows[k-1]] == start { // nodes of the job have the interval too
			k--
		}
		had := false
		for ; k < len(rows) && t.Start[rows[k]] == start; k++ {
			row := rows[k]
			if math.IsNaN(values[row]) || v.At >= at[row] {
				had = had || !math.IsNaN(values[row])
				values[row], at[row] = v.Value, v.At
			} else {
				had = true
			}
		}
		if had {
			several++
		}
	}
	return values, stray, several
}

// lifeOf is the life of a job that a row is of: its unit without the node.
func lifeOf(t *selection.Table, row int) string {
	if t.Unit == nil {
		return ""
	}
	life, _, _ := strings.Cut(t.Units[t.Unit[row]], " ")
	return life
}

// chosen returns the lives of jobs that a filter's fields choose, or nil if no field is named. The records come from
// the archive, or from the topic if a reader is given.
func (a *Ask) chosen(ctx context.Context, each func(func(*schemas.Job)) error) (
	map[schemas.JobKey]bool, error,
) {
	if len(a.Jobs.Fields) == 0 {
		return nil, ctx.Err()
	}
	lives := map[schemas.JobKey]bool{}
	err := each(func(j *schemas.Job) {
		if a.Jobs.matches(j) {
			lives[j.Identity()] = true
		}
	})
	return lives, err
}

// report hands on a text about the progress.
func (a *Ask) report(format string, args ...any) {
	if a.Progress != nil {
		a.Progress(fmt.Sprintf(format, args...))
	}
}

// bounds are the asked times in milliseconds.
func (a *Ask) bounds() (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !a.From.IsZero() {
		from = a.From.UnixMilli()
	}
	if !a.To.IsZero() {
		to = a.To.UnixMilli()
	}
	return from, to
}

// archivedJob is a job of the archive, as far as a filter looks at it.
func archivedJob(r *jobs.Row) *schemas.Job {
	return &schemas.Job{
		JobID: r.JobID, Restart: r.Restart, Name: r.Name, User: r.User, Account: r.Account, Queue: r.Queue,
	}
}

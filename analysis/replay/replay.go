// Package replay folds the log of counters anew: the intervals that it still holds, for chosen jobs, with metrics that
// were never recorded. All values of a split job are in the log, so its deciles are exact.
//
// Fold is the pure part. It takes the records of all partitions in the order that it asks for, interval by interval. So
// it holds the intervals that are open, and no others. run.go reads the topic, archive.go writes Parquet files.
//
// It reads each partition twice, 64 intervals apart. The reading ahead finds the records that came late, so that they
// count in their own interval.
//
// The fates of records come from package recount, as in an audit. Package fold passes on the metrics that a node
// reduced.
package replay

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/analysis"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/derive"
)

// Choice names a job: one of its restarts, or all.
type Choice struct {
	JobID   string
	Restart int32  // EveryRestart: all
	Date    string // when it began, by analysis.SplitID; empty if no other job had the id
}

// EveryRestart is the restart of a Choice of all.
const EveryRestart = -1

var errChoice = errors.New("must be ID or ID/RESTART, for example 4711 or 4711/1")

// ParseChoice reads ID or ID/RESTART. ID may also be ID@DATE.
func ParseChoice(text string) (Choice, error) {
	name, restart, one := strings.Cut(text, "/")
	id, date, err := analysis.SplitID(name)
	c := Choice{id, EveryRestart, date}
	if err != nil {
		return c, fmt.Errorf("job %q: %w", text, err)
	}
	if one {
		n, err := strconv.ParseInt(restart, 10, 32)
		if err != nil || n < 0 {
			return c, fmt.Errorf("job %q: %w", text, errChoice)
		}
		c.Restart = int32(n)
	}
	if !naming.Valid(id) {
		return c, fmt.Errorf("job %q: %w", text, errChoice)
	}
	return c, nil
}

// String returns the job as ParseChoice reads it.
func (c Choice) String() string {
	if c.Restart == EveryRestart {
		return c.name()
	}
	return fmt.Sprintf("%s/%d", c.name(), c.Restart)
}

// name returns the job as analysis.SplitID reads it.
func (c Choice) name() string {
	if c.Date == "" {
		return c.JobID
	}
	return c.JobID + "@" + c.Date
}

func (c Choice) is(job schemas.JobKey) bool {
	return c.JobID == job.JobID && (c.Restart == EveryRestart || c.Restart == job.Restart)
}

// Terms are the scope of a replay.
type Terms struct {
	Cluster    string
	Collectors int32 // partitions of counters
	// From and To bound interval_start: [From, To).
	From, To int64
	Jobs     []Choice // none: all
	// Lives are of the chosen jobs, if namesakes are to be left out.
	Lives   map[Choice]analysis.Lives
	Metrics []string    // none: all
	Set     *derive.Set // nil: no metrics are computed
	// AsCollected leaves out late records, as collect did.
	AsCollected bool
	// Sketch is the most bytes of a certified summary; 0: there are none.
	Sketch int
}

// wants reports whether a job's interval is folded.
func (t *Terms) wants(job schemas.JobKey, start int64) bool {
	return len(t.Jobs) == 0 || slices.ContainsFunc(t.Jobs, func(c Choice) bool { return t.is(c, job, start) })
}

// is reports whether a job's interval is of a chosen job.
func (t *Terms) is(c Choice, job schemas.JobKey, start int64) bool {
	lives, known := t.Lives[c]
	return c.is(job) && (!known || lives.Has(job.Restart, start))
}

func (t *Terms) wantsMetric(name string) bool {
	return len(t.Metrics) == 0 || slices.Contains(t.Metrics, name)
}

func (t *Terms) within(start int64) bool { return start >= t.From && start < t.To }

// Tally counts the records of the chosen jobs and intervals by their fate, and the outputs made of them.
type Tally struct {
	Intervals  int64 `json:"intervals"`
	Summaries  int64 `json:"summaries"`
	Rows       int64 `json:"rows"`
	Summarized int64 `json:"summarized"`
	LateTaken  int64 `json:"late_taken"` // of Summarized: collect left these out
	Late       int64 `json:"late"`       // left out
	Dropped    int64 `json:"dropped"`
	Duplicate  int64 `json:"duplicate"`
	Misrouted  int64 `json:"misrouted"`
	Ended      int64 `json:"ended"`
	Rejected   int64 `json:"rejected"`
	// Unfinished counts jobs of intervals that not all partitions have closed.
	Unfinished int64 `json:"unfinished"`
}

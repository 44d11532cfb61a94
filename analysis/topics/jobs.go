package topics

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// JobRow is a job with its last summary, if there is one. Field names are the archive's columns, and the fields of the
// record Job.
type JobRow struct {
	JobID         string  `json:"job_id"`
	Restart       int32   `json:"restart"`
	State         string  `json:"state"` // empty for pseudo-jobs, and for a job whose record is gone
	Reason        string  `json:"reason"`
	User          string  `json:"user"`
	Name          string  `json:"name"`
	IntervalStart *int64  `json:"interval_start"` // of the last summary; null if there is none
	IntervalMs    *int64  `json:"interval_ms"`
	Method        *string `json:"method"`
	Parts         *int32  `json:"parts"`
	PartsReported *int32  `json:"parts_reported"`
	NodesExpected *int32  `json:"nodes_expected"`
	NodesReported *int32  `json:"nodes_reported"`
	Metrics       *int    `json:"metrics"`
}

// Jobs returns the jobs that the scheduler knows or that had a summary in the last intervals, by id and restart.
// Completed jobs without a recent summary are left out. Jobs are left out, too, for which may is false: it takes the
// scheduler's record, or nil if there is none, and the last millisecond of the last interval, or now if there is none.
func Jobs(ctx context.Context, cfg config.Config, may func(j *schemas.Job, ms int64) bool) ([]JobRow, error) {
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	r, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	known, err := r.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	last, err := r.LastSummaries(ctx, bare)
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixMilli()
	return slices.DeleteFunc(jobRows(known, last), func(r JobRow) bool {
		at := now
		if r.IntervalStart != nil {
			at = *r.IntervalStart + *r.IntervalMs - 1
		}
		return !may(known[schemas.JobKey{JobID: r.JobID, Restart: r.Restart}], at)
	}), nil
}

// LastSummaries returns the last summary of each job that had one in the last intervals. Keep reduces each summary to
// the part that stays in memory.
func (r *Reader) LastSummaries(
	ctx context.Context, keep func(*schemas.JobSummary) *schemas.JobSummary,
) ([]*schemas.JobSummary, error) {
	now, last := time.Now(), newest{map[string]*schemas.JobSummary{}, map[string]bool{}, keep}
	oldest := Recent(r.Config, now)
	// Most jobs have a summary of the last three intervals, so that nine in twelve need no decoding.
	_, err := r.Back(ctx, r.Config.Prefix+schemas.TopicJobSummary, now.Add(-3*r.Config.Interval), last.add,
		func(since time.Time) (time.Time, bool) {
			last.readBack(since)
			return oldest, since.After(oldest)
		})
	return slices.Collect(maps.Values(last.of)), err
}

// Earlier is a time that is twice as long ago.
func Earlier(now, since time.Time) time.Time { return now.Add(-2 * now.Sub(since)) }

// newest finds the last summary of each job in a topic that is read backwards, by the records' keys.
type newest struct {
	of    map[string]*schemas.JobSummary
	final map[string]bool // no summary of an earlier window can be a later one
	keep  func(*schemas.JobSummary) *schemas.JobSummary
}

// add notes a summary. It does not decode further summaries once a job's newest summary is final. It skips a summary
// that cannot be decoded: the archive's footers and `weir tail` show it.
func (n newest) add(r *kgo.Record) error {
	if n.final[string(r.Key)] {
		return nil
	}
	v, err := schemas.Unmarshal(r.Value)
	if s, ok := v.(*schemas.JobSummary); err == nil && ok {
		if old := n.of[string(r.Key)]; old == nil || old.IntervalStart <= s.IntervalStart {
			n.of[string(r.Key)] = n.keep(s)
		}
	}
	return nil
}

// readBack is called once all records since a time were read. Earlier records belong to intervals that had ended by
// then.
func (n newest) readBack(since time.Time) {
	for key, s := range n.of {
		n.final[key] = s.IntervalStart >= since.UnixMilli()
	}
}

// unread stands for metrics when only their number is shown.
var unread [schemas.MaxMetrics]schemas.JobSummaryMetric

// bare returns the part of a summary that a JobRow shows. It keeps no memory of the decoded record, since there are
// very many.
func bare(s *schemas.JobSummary) *schemas.JobSummary {
	b := *s
	b.Cluster, b.JobID, b.Method, b.Metrics = "", strings.Clone(s.JobID), strings.Clone(s.Method),
		unread[:len(s.Metrics)]
	return &b
}

// jobRows returns a row for each job that has not ended or has a summary. A job may be both, or only one of them: a
// summary may follow the job's end, and a waiting job has no summary yet.
func jobRows(known map[schemas.JobKey]*schemas.Job, summaries []*schemas.JobSummary) []JobRow {
	rows := map[schemas.JobKey]*JobRow{}
	for key, j := range known {
		if !schemas.Over(j.State) {
			rows[key] = &JobRow{JobID: key.JobID, Restart: key.Restart}
		}
	}
	for _, s := range summaries {
		key := schemas.JobKey{JobID: s.JobID, Restart: s.Restart}
		row := rows[key]
		if row == nil {
			row = &JobRow{JobID: s.JobID, Restart: s.Restart}
			rows[key] = row
		}
		if row.IntervalStart == nil || *row.IntervalStart <= s.IntervalStart {
			row.IntervalStart, row.IntervalMs, row.Method = &s.IntervalStart, &s.IntervalMs, &s.Method
			row.Parts, row.PartsReported = &s.Parts, &s.PartsReported
			row.NodesExpected, row.NodesReported, row.Metrics = &s.NodesExpected, &s.NodesReported, new(len(s.Metrics))
		}
	}
	sorted := make([]JobRow, 0, len(rows))
	for key, row := range rows {
		if j := known[key]; j != nil {
			row.State, row.Reason, row.User, row.Name = j.State, j.Reason, j.User, j.Name
		}
		sorted = append(sorted, *row)
	}
	slices.SortFunc(sorted, func(a, b JobRow) int {
		return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
	})
	return sorted
}

// isOf reports whether a record is of a job, by its key: job_id/restart.
func isOf(r *kgo.Record, jobID string) bool {
	id, _, found := bytes.Cut(r.Key, []byte("/"))
	return found && string(id) == jobID
}

// Job returns the rows of a job's last intervals, oldest first. These are at most n intervals of its last restart, and
// at most n of each earlier restart in the same time. It reads as far back as n intervals need, for a minute at most.
// If there are fewer intervals, why is the reason.
func Job(ctx context.Context, cfg config.Config, jobID string, n int) (rows []schemas.Row, why string, err error) {
	r, err := Open(ctx, cfg)
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	all := func(*schemas.JobSummary) bool { return true }
	return r.NewestRows(ctx, jobID, n, all, func(ctx context.Context) (map[schemas.JobKey]*schemas.Job, error) {
		return r.jobs(ctx, func(record *kgo.Record) bool { return isOf(record, jobID) })
	})
}

// NewestRows is Job for the summaries that mine accepts. The function records returns the job's records, and is called
// if they are needed.
func (r *Reader) NewestRows(ctx context.Context, jobID string, n int, mine func(*schemas.JobSummary) bool,
	records func(context.Context) (map[schemas.JobKey]*schemas.Job, error),
) (rows []schemas.Row, why string, err error) {
	limited, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	cfg := r.Config
	now, h := time.Now(), history{jobID: jobID, n: n, mine: mine}
	// Rows of the last intervals may not be there yet.
	window := max(time.Minute, time.Duration(min(n, int(longest/cfg.Interval))+4)*cfg.Interval)
	var failed error
	topic := cfg.Prefix + schemas.TopicJobSummary
	h.begin, err = r.Back(limited, topic, now.Add(-window), h.add, func(since time.Time) (time.Time, bool) {
		if h.window(since); h.enough() {
			return since, false
		}
		if !h.asked {
			var known map[schemas.JobKey]*schemas.Job
			known, failed = records(limited)
			h.scheduled(known)
		}
		return Earlier(now, since), failed == nil && !h.whole()
	})
	if !h.since.IsZero() && limited.Err() != nil && ctx.Err() == nil {
		err, failed = nil, nil // out of time: the records read so far are worth showing
	}
	if err = cmp.Or(err, failed); err != nil {
		return nil, "", err
	}
	return lastRows(h.all[:h.read], jobID, n), h.fewer(cfg), nil
}

// longest is the longest retention that a topic may have.
const longest = 10 * 365 * 24 * time.Hour

// lastRows returns the rows of the last n intervals of each restart, the oldest first. The intervals of each restart
// count separately, so that the first rows of a new restart do not hide the end of the previous one.
func lastRows(all []*schemas.JobSummary, jobID string, n int) []schemas.Row {
	var rows []schemas.Row
	mine := slices.DeleteFunc(slices.Clone(all), func(s *schemas.JobSummary) bool { return s.JobID != jobID })
	slices.SortStableFunc(mine, func(a, b *schemas.JobSummary) int {
		return cmp.Or(cmp.Compare(a.Restart, b.Restart), cmp.Compare(a.IntervalStart, b.IntervalStart))
	})
	of := map[int32]int{}
	for _, s := range mine {
		of[s.Restart]++
	}
	for _, s := range mine {
		if of[s.Restart]--; of[s.Restart] < n { // n intervals of the same restart are newer
			rows = append(rows, s.Rows()...)
		}
	}
	return rows
}

package archive

import (
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
)

// JobOf converts a job of the archive to its record in the topic.
func JobOf(r *jobs.Row) *schemas.Job {
	end, state := r.End, r.State
	if !schemas.Over(state) {
		state = schemas.StateCompleted // only jobs that have ended are there
	}
	return &schemas.Job{
		JobID: r.JobID, Restart: r.Restart, Name: r.Name, User: r.User, Account: r.Account, Queue: r.Queue,
		Nodes: r.Nodes, Cpus: r.Cpus, Submit: r.Submit, Start: r.Start, End: &end, State: state, Reason: r.Reason,
		Cores: r.Cores, Gpus: r.Gpus, TimeLimitS: r.TimeLimitS, MemRequestedBytes: r.MemRequestedBytes,
		Exclusive: r.Exclusive, ArrayJob: r.ArrayJob, ArrayTask: r.ArrayTask,
	}
}

// Sane reports whether the interval of a row is plausible, since the archive is not checked otherwise.
func Sane(r *schemas.Row) bool {
	const far = 1 << 43 // the year 2248
	return r.IntervalMs > 0 && r.IntervalMs <= 366*24*3_600_000 && r.IntervalStart >= 0 && r.IntervalStart < far
}

// MetricOf is the metric of a row; empty for a row without one.
func MetricOf(r *schemas.Row) string {
	if r.Metric == nil {
		return ""
	}
	return *r.Metric
}

// DateAt is the date of the archive to which a time in Unix milliseconds belongs.
func DateAt(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }

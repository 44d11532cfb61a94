// Package jobs keeps the jobs of topic jobs in the archive, for ever: one row for each life of a job after its end. The
// topic forgets them after some days.
package jobs

import (
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/table"
)

// Row is a job after its end, with its last state. Fields that the scheduler does not report are nil.
type Row struct {
	Cluster   string   `parquet:"cluster,dict" json:"cluster"`
	JobID     string   `parquet:"job_id,dict" json:"job_id"`
	Restart   int32    `parquet:"restart" json:"restart"`
	Name      string   `parquet:"name,dict" json:"name"`
	User      string   `parquet:"user,dict" json:"user"`
	Account   string   `parquet:"account,dict" json:"account"`
	Queue     string   `parquet:"queue,dict" json:"queue"`
	Nodes     []string `parquet:"nodes,list" parquet-element:",dict" json:"nodes"`
	NodeCount int32    `parquet:"node_count" json:"node_count"`
	Cpus      []int32  `parquet:"cpus,optional,list" json:"cpus"` // on each node; nil: all

	Cores             *int64 `parquet:"cores,optional" json:"cores"`
	Gpus              *int32 `parquet:"gpus,optional" json:"gpus"`
	TimeLimitS        *int64 `parquet:"time_limit_s,optional" json:"time_limit_s"`
	MemRequestedBytes *int64 `parquet:"mem_requested_bytes,optional" json:"mem_requested_bytes"`
	Exclusive         *bool  `parquet:"exclusive,optional" json:"exclusive"`

	Submit *int64 `parquet:"submit,optional,timestamp(millisecond)" json:"submit"`
	Start  *int64 `parquet:"start,optional,timestamp(millisecond)" json:"start"`
	End    int64  `parquet:"end,timestamp(millisecond)" json:"end"`

	State  string `parquet:"state,dict" json:"state"`
	Reason string `parquet:"reason,dict" json:"reason"`
	// Position is the offset in topic jobs of the record that the row was made of; table.Earlier for one of another
	// topic.
	Position int64 `parquet:"position" json:"position"`

	ArrayJob  *string `parquet:"array_job,optional,dict" json:"array_job"` // of a task of an array
	ArrayTask *int32  `parquet:"array_task,optional" json:"array_task"`
}

func (r *Row) number() table.Number {
	return table.Number{Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart}
}

// Life returns when the job ran. For a job without a start, only its last millisecond is known. So two such records
// with different ends belong to two jobs.
func (r *Row) Life() table.Life {
	if r.Start != nil && *r.Start > 0 {
		return table.Life{From: *r.Start, To: r.End}
	}
	return table.Life{From: r.End - 1, To: r.End}
}

// date returns the date of the row's file.
func (r *Row) date() string { return time.UnixMilli(r.End).UTC().Format(time.DateOnly) }

// lastTime is the end of the year 2100. No job ends later, and years have four digits.
var lastTime = time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// rowOf returns the row of a record of topic jobs. It returns false if the job never ran or has not ended.
func rowOf(cluster string, j *schemas.Job, offset int64) (Row, bool) {
	if !schemas.Over(j.State) || possible(j.End) == nil || !schemas.ValidJobID(j.JobID) || j.Restart < 0 {
		return Row{}, false
	}
	return Row{
		Cluster: cluster, JobID: j.JobID, Restart: j.Restart,
		Name: j.Name, User: j.User, Account: j.Account, Queue: j.Queue,
		Nodes: j.Nodes, NodeCount: int32(len(j.Nodes)), Cpus: j.Cpus,
		Cores: j.Cores, Gpus: j.Gpus, TimeLimitS: j.TimeLimitS, MemRequestedBytes: j.MemRequestedBytes,
		Exclusive: j.Exclusive, Submit: possible(j.Submit), Start: possible(j.Start), End: *j.End,
		State: j.State, Reason: j.Reason, Position: offset, ArrayJob: j.ArrayJob, ArrayTask: j.ArrayTask,
	}, true
}

// possible returns a time, or nil if it is before 1970 or too late.
func possible(ms *int64) *int64 {
	if ms == nil || *ms < 0 || *ms >= lastTime {
		return nil
	}
	return ms
}

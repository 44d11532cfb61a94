package jobs

import "github.com/weirhpc/weir/report/view"

// nodeRow is a node of a job, for programs. Unknown values are null.
type nodeRow struct {
	Cluster   string   `json:"cluster"`
	JobID     string   `json:"job_id"`
	Restart   int32    `json:"restart"`
	Node      string   `json:"node"`
	Intervals int64    `json:"intervals"`
	Busy      *float64 `json:"busy"`       // share of cores with work
	MemoryMax *float64 `json:"memory_max"` // bytes
	GPUs      *float64 `json:"gpus"`       // share of time in which they worked
	GPUMemory *float64 `json:"gpu_memory"` // bytes of one of its GPUs, the mean
	Network   *float64 `json:"network"`    // bytes a second, received and sent
	Source    string   `json:"source"`
}

// nodeRows are the nodes of a job, the worst first.
func nodeRows(j *view.Job) []nodeRow {
	if j.ByNode == nil {
		return nil
	}
	rows := make([]nodeRow, 0, len(j.ByNode.Lines))
	for i := range j.ByNode.Lines {
		l := &j.ByNode.Lines[i]
		rows = append(rows, nodeRow{
			Cluster: j.Cluster, JobID: j.JobID, Restart: j.Restart, Node: l.Node, Intervals: l.Intervals,
			Busy: finite(&l.Busy), MemoryMax: finite(&l.Memory), GPUs: finite(&l.GPU), GPUMemory: finite(&l.GPUMemory),
			Network: finite(&l.Network), Source: j.ByNode.Source,
		})
	}
	return rows
}

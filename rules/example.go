package rules

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

// Examples is the folder of the recorded examples, beside the file of their rule.
const Examples = "examples"

//go:embed examples/*.jsonl
var shippedExamples embed.FS

// ShippedExamples are the recorded examples of the rules that weir ships.
func ShippedExamples() fs.FS { return shippedExamples }

// errExample is wrapped by the errors of an example.
var errExample = errors.New("not an example")

// Bounds on an example.
const (
	maxLineBytes = 1 << 20
	maxLines     = 1 << 20
)

// Example is a recorded job.
type Example struct {
	Job       Job
	intervals []Interval
}

// exampleJob is the first line of an example: a record of topic jobs, with an optional node type.
type exampleJob struct {
	Cluster           string       `json:"cluster"`
	JobID             string       `json:"job_id"`
	Restart           int32        `json:"restart"`
	Name              string       `json:"name,omitempty"`
	User              string       `json:"user"`
	Account           string       `json:"account"`
	Queue             string       `json:"queue"`
	Nodes             []string     `json:"nodes"`
	Start             *int64       `json:"start"`
	End               *int64       `json:"end"`
	State             string       `json:"state"`
	Reason            string       `json:"reason,omitempty"`
	Cores             *int64       `json:"cores,omitempty"`
	Gpus              *int32       `json:"gpus,omitempty"`
	TimeLimitS        *int64       `json:"time_limit_s,omitempty"`
	MemRequestedBytes *int64       `json:"mem_requested_bytes,omitempty"`
	Node              *exampleNode `json:"node,omitempty"`
}

type exampleNode struct {
	CPUs           int     `json:"cpus,omitempty"`
	ThreadsPerCore int     `json:"threads_per_core,omitempty"`
	GPUs           *int    `json:"gpus,omitempty"`
	Memory         int64   `json:"memory,omitempty"`
	PeakFlops      float64 `json:"peak_flops,omitempty"`
	PeakMemBW      float64 `json:"peak_mem_bw,omitempty"`
}

// job returns the facts about the job. Without a node type in the example, the job takes the type of the configuration.
func (e *exampleJob) job(t *nodetypes.Types) Job {
	j := schemas.Job{
		JobID: e.JobID, Restart: e.Restart, Name: e.Name, User: e.User, Account: e.Account, Queue: e.Queue,
		Nodes: e.Nodes, Start: e.Start, End: e.End, State: e.State, Reason: e.Reason, Cores: e.Cores, Gpus: e.Gpus,
		TimeLimitS: e.TimeLimitS, MemRequestedBytes: e.MemRequestedBytes,
	}
	if e.Node != nil {
		n := *e.Node
		t, _ = nodetypes.New([]config.NodeType{{ // without a hostlist it has no error
			CPUs: n.CPUs, ThreadsPerCore: n.ThreadsPerCore, GPUs: n.GPUs, Memory: n.Memory, PeakFlops: n.PeakFlops,
			PeakMemBW: n.PeakMemBW,
		}})
	}
	return JobOf(e.Cluster, &j, t)
}

// ReadExample reads a recorded job: a line with the Job record, and the lines of `weir job ID --json`.
func ReadExample(text []byte, t *nodetypes.Types) (*Example, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLineBytes)
	var e *Example
	var rows []schemas.Row
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if e == nil {
			var j exampleJob
			if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
				return nil, fmt.Errorf("%w: line %d is no job: %w", errExample, n, err)
			}
			if !naming.Valid(j.JobID) {
				return nil, fmt.Errorf("%w: line %d: job_id %.80q is not a name", errExample, n, j.JobID)
			}
			e = &Example{Job: j.job(t)}
			continue
		}
		var r schemas.Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%w: line %d is no row of `weir job ID --json`: %w", errExample, n, err)
		}
		if rows = append(rows, r); len(rows) > maxLines {
			return nil, fmt.Errorf("%w: more than %d lines", errExample, maxLines)
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errExample, err)
	case e == nil:
		return nil, fmt.Errorf("%w: it is empty: the first line is a record of topic jobs", errExample)
	}
	e.group(rows)
	return e, nil
}

// group collects rows into intervals, in the order of time.
func (e *Example) group(rows []schemas.Row) {
	slices.SortStableFunc(rows, func(a, b schemas.Row) int { return int(a.IntervalStart - b.IntervalStart) })
	for begin := 0; begin < len(rows); {
		end := begin + 1
		for end < len(rows) && rows[end].IntervalStart == rows[begin].IntervalStart {
			end++
		}
		var iv Interval
		FromRows(rows[begin:end], &iv)
		e.intervals = append(e.intervals, iv)
		begin = end
	}
}

// Try runs all rules over an example, and returns the rule's finding at its end. If there is none, why is the reason.
func (s *Set) Try(rule string, e *Example) (found *schemas.Finding, why string) {
	w := s.NewWatch(e.Job, false)
	for i := range e.intervals {
		w.Add(&e.intervals[i])
	}
	for _, f := range w.End(nil) {
		if f.Rule == rule && f.State == schemas.FindingOpen {
			return &f, ""
		}
	}
	for _, r := range w.NotEvaluated() {
		if r.Rule == rule {
			return nil, "not evaluated: " + r.Why
		}
	}
	return nil, w.silence(rule)
}

// silence returns the reason that an evaluated rule found nothing.
func (w *Watch) silence(rule string) string {
	for i := range w.set.Rules {
		r, t := &w.set.Rules[i], &w.states[i].tallies[0]
		switch {
		case r.ID != rule:
		case w.shadowed(i, 0) && t.open:
			return "another rule silences it"
		case r.Job:
			return fmt.Sprintf("it held at %d of %d marks", t.matched, t.evaluated)
		default:
			return fmt.Sprintf("it held in %d of %d intervals", t.matched, t.evaluated)
		}
	}
	return "there is no such rule"
}

// Package rules evaluates rules over the summaries of a job. A finding names a problem of the job, and its certainty. A
// Watch folds one life of a job. It knows no clock and no Kafka, so the live service and history find the same.
package rules

import (
	"strings"
	"sync"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/schemas"
)

// Known is a metric that rules may name.
type Known struct{ Name, Unit, Scope string }

// Set is a compiled set of rules. It is safe for concurrent use.
type Set struct {
	Rules  []Rule
	Guards Guards

	layout layout
	frames sync.Pool // of *frame
}

// Guards are conditions that must hold before a rule counts, unless the rule sets its own.
type Guards struct {
	AfterMs    int64   // time after the job's start from which intervals count
	Last       bool    // an interval counts only once a later one, or the end, is known
	DurationMs int64   // least age of the job
	Intervals  int64   // least number of evaluated intervals
	Seen       float64 // least share of evaluated complete intervals among those that came
	Complete   float64 // least share of nodes that reported among those expected
}

// Source is the text of a rule file. Its name is for messages.
type Source struct {
	Name string
	Text []byte
}

// Rule is a compiled rule. Its fields are for readers; the programs are private.
type Rule struct {
	ID, Title, Hint, Slurm string
	Hash                   string // of the canonical text with parameters
	From                   string // the source of its threshold
	Needs                  []string
	Share                  float64
	Job                    bool   // over the whole life, not an interval
	By                     string // low_node, high_node, or empty
	Same                   bool   // all matches must be at the same node
	Silences               []string

	Fires, Silent []string // names of its recorded examples

	program
}

// Job is a job as rules see it. Unknown facts are 0, -1 or empty; GPUs are known from 0.
type Job struct {
	Key                                  schemas.JobKey
	Cluster, Name, User, Account, Queue  string
	State                                string
	Nodes                                []string
	StartMs, EndMs, LimitS, MemRequested int64
	Cores                                int64
	Gpus                                 int
	Node                                 config.NodeType // zero if the nodes have no type, or several
}

// Severity is the result of a rule for one interval.
type Severity struct {
	Rule      int // in Set.Rules
	Value     float64
	Evaluated bool
	Why       string // the reason if it was not evaluated
}

// Reason is the reason that a rule was not evaluated.
type Reason struct{ Rule, Why string }

// JobOf returns the facts about a job of the scheduler.
func JobOf(cluster string, j *schemas.Job, t *nodetypes.Types) Job {
	k := Job{
		Key: j.Identity(), Cluster: cluster, Name: j.Name, User: j.User, Account: j.Account, Queue: j.Queue,
		State: j.State, Nodes: j.Nodes, Node: t.Of(j.Nodes),
		StartMs: valueOr(j.Start, 0), EndMs: valueOr(j.End, 0), LimitS: valueOr(j.TimeLimitS, -1),
		MemRequested: valueOr(j.MemRequestedBytes, -1), Cores: valueOr(j.Cores, -1), Gpus: -1,
	}
	if strings.Contains(j.Reason, schemas.ReasonUnlisted) {
		k.State = "" // it is unknown whether it has finished
	}
	switch {
	case j.Gpus != nil:
		k.Gpus = int(*j.Gpus)
	case k.Node.GPUs != nil && *k.Node.GPUs == 0:
		k.Gpus = 0 // its node type lists none
	}
	return k
}

// valueOr returns a number of the scheduler, or unknown if it is missing.
func valueOr(v *int64, unknown int64) int64 {
	if v == nil {
		return unknown
	}
	return *v
}

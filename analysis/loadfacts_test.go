package analysis

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// nodeRule needs a fact about the nodes of a job.
const nodeRule = `
guards: {after: 0s, last: false, duration: 0s, intervals: 1, seen: 0, complete: 0}
rules:
  - id: many
    title: "many"
    from: "a test"
    needs: [cpu_user]
    each: cpu_user.mean < node.memory
    share: 0
    severity: {of: cpu_user.mean, from: 0, to: 1}
    hint: "h"
`

// TestFactsReachTheRules: without `machine`, rules know the nodes of a job by the facts that its agents report. Facts
// under another node's key, and facts that no node has, decide nothing.
func TestFactsReachTheRules(t *testing.T) {
	b := topicstest.NewBrokers(t, t.TempDir())
	b.Config.Cluster = "c"
	m := measure(rand.New(rand.NewPCG(33, 1)), "47", 0, loadStart, 60_000, 30, "cpu_user")
	b.Put(t, schemas.TopicJobs, m.job.Identity().Key(), &m.job)
	b.Summaries(t, m.summaries)
	known := []rules.Known{{Name: "cpu_user", Unit: "1", Scope: schemas.ScopeCore}}
	set, err := rules.Compile(known, shippedIDs(), rules.Source{Name: "x", Text: []byte(nodeRule)})
	if err != nil {
		t.Fatal(err)
	}
	load := func() (config.NodeType, string) {
		t.Helper()
		j, err := Load(t.Context(), b.Config, everybody, set, "47", Ask{Topic: true, Restart: -1})
		if err != nil {
			t.Fatal(err)
		}
		var why []string
		for _, r := range j.NotEvaluated {
			why = append(why, r.Why)
		}
		return j.Type, strings.Join(why, "; ")
	}
	if of, why := load(); of.Memory != 0 || why != "machine.memory is not set" {
		t.Errorf("without facts: %+v, %q", of, why)
	}
	facts := func(node string, memory int64) *schemas.NodeFacts {
		return &schemas.NodeFacts{
			Cluster: "c", Node: node, Source: schemas.FactsAgent, CPUs: 4, ThreadsPerCore: 2, Memory: memory,
		}
	}
	for _, node := range m.job.Nodes {
		b.Put(t, schemas.TopicFacts, []byte(node), facts(node, 64<<30))
	}
	b.Put(t, schemas.TopicFacts, []byte("a2"), facts("evil", 1))
	b.Put(t, schemas.TopicFacts, []byte("a2"), facts("a2", -1))
	b.Raw(t, schemas.TopicFacts, []byte("a1"), []byte("rubbish"))
	of, why := load()
	if of.Memory != 64<<30 || of.ThreadsPerCore != 2 || of.GPUs == nil || *of.GPUs != 0 || why != "" {
		t.Errorf("with facts: %+v, %q", of, why)
	}
	lists, err := LoadLines(t.Context(), b.Config, everybody, ListAsk{Topic: true})
	if err != nil || len(lists.Rows) != 0 { // it has ended, and the archive lacks it
		t.Errorf("%+v, %v", lists, err)
	}
	b.Config.Machine = []config.NodeType{{Name: "mine", Memory: 32 << 30}}
	if of, _ := load(); of.Memory != 32<<30 || of.CPUs != 4 {
		t.Errorf("the configuration does not count first: %+v", of)
	}
}

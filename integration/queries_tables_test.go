package integration

import (
	"context"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/rules"
)

// writeTables writes the archive's facts about jobs, and makes their totals.
func writeTables(t *testing.T, dir string, all []askedJob) {
	t.Helper()
	var rows []jobs.Row
	for i := range all {
		j := &all[i]
		rows = append(rows, jobs.Row{
			Cluster: "c", JobID: j.JobID, Restart: j.Restart, Name: "job " + j.JobID, User: j.User, Account: j.Account,
			Queue: j.Queue, Nodes: j.Nodes, NodeCount: int32(len(j.Nodes)), Cores: &j.Cores, TimeLimitS: j.TimeLimit,
			MemRequestedBytes: j.Memory, Submit: &j.Submit, Start: &j.Start, End: j.End, State: "COMPLETED",
			Position: int64(i),
		})
	}
	if err := jobs.Put(t.Context(), dir, "weir."+schemas.TopicJobs, "", rows); err != nil {
		t.Fatal(err)
	}
	if err := findings.Write(t.Context(), dir, "weir."+schemas.TopicFindings, askedFindings(all)); err != nil {
		t.Fatal(err)
	}
	err := totals.Run(t.Context(), totals.Options{
		Dir: dir, Topic: askedTopic, Wait: time.Minute,
		Frontier: func(context.Context, totals.Archived) (totals.Frontier, error) {
			return totals.Frontier{ThroughMs: time.Now().UnixMilli()}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// askedFindings are the final findings of the jobs, by rule.
func askedFindings(all []askedJob) (records []schemas.Finding) {
	for i := range all {
		j := &all[i]
		for _, rule := range sortedKeys(j.Findings) {
			severity, n := j.Findings[rule], int64(len(j.Values))
			records = append(records, schemas.Finding{
				Cluster: "c", JobID: j.JobID, Restart: j.Restart, Rule: rule, RuleHash: "0123456789abcdef", Title: rule,
				State: schemas.FindingOpen, Final: true, Certainty: schemas.Certain, Class: rules.Class(severity),
				Severity: severity, Worst: severity, FirstInterval: j.Start + askedMs, LastInterval: j.End - askedMs,
				AsOf: j.End - askedMs, IntervalMs: askedMs, Intervals: n, Evaluated: n - 2, Matched: n - 2,
			})
		}
	}
	return records
}

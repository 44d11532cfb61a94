package analysis

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// JobRow is a job with its last summary, if it has one. Names are the archive's columns, and those of the record Job.
type JobRow struct {
	JobID         string  `json:"job_id"`
	Restart       int32   `json:"restart"`
	State         string  `json:"state"` // empty for pseudo-jobs, and for a job whose record is gone
	Reason        string  `json:"reason"`
	User          string  `json:"user"`
	Name          string  `json:"name"`
	IntervalStart *int64  `json:"interval_start"` // of the last summary; null where there is none
	IntervalMs    *int64  `json:"interval_ms"`
	Method        *string `json:"method"`
	Parts         *int32  `json:"parts"`
	PartsReported *int32  `json:"parts_reported"`
	NodesExpected *int32  `json:"nodes_expected"`
	NodesReported *int32  `json:"nodes_reported"`
	Metrics       int     `json:"metrics"`
}

// Jobs returns the jobs that the scheduler knows or that had a summary in the last intervals, by id and restart.
// Completed jobs without a recent summary are left out.
func Jobs(ctx context.Context, cfg config.Config) ([]JobRow, error) {
	known, err := jobRecords(ctx, cfg)
	if err != nil {
		return nil, err
	}
	summaries, err := summariesSince(ctx, cfg, recent(cfg))
	if err != nil {
		return nil, err
	}
	return jobRows(known, summaries), nil
}

func jobRows(known map[schemas.JobKey]*schemas.Job, summaries []*schemas.JobSummary) []JobRow {
	rows := map[schemas.JobKey]*JobRow{}
	for key, j := range known {
		if j.State != "COMPLETED" {
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
			row.NodesExpected, row.NodesReported, row.Metrics = &s.NodesExpected, &s.NodesReported, len(s.Metrics)
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

// jobRecords returns the last record of each job.
func jobRecords(ctx context.Context, cfg config.Config) (map[schemas.JobKey]*schemas.Job, error) {
	byKey := map[string]*schemas.Job{}
	err := readSince(ctx, cfg, cfg.Prefix+schemas.TopicJobs, time.Time{}, func(r *kgo.Record) error {
		delete(byKey, string(r.Key)) // a tombstone has no value
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if j, ok := v.(*schemas.Job); ok {
				byKey[string(r.Key)] = j
			}
		}
		return nil
	})
	known := make(map[schemas.JobKey]*schemas.Job, len(byKey))
	for _, j := range byKey {
		known[schemas.JobKey{JobID: j.JobID, Restart: j.Restart}] = j
	}
	return known, err
}

// Job returns the rows of a job's last intervals, at most n of them for each restart, oldest first.
func Job(ctx context.Context, cfg config.Config, jobID string, n int) ([]schemas.Row, error) {
	all, err := summariesSince(ctx, cfg, recent(cfg))
	if err != nil {
		return nil, err
	}
	return lastRows(all, jobID, n), nil
}

func lastRows(all []*schemas.JobSummary, jobID string, n int) []schemas.Row {
	var rows []schemas.Row
	mine := slices.DeleteFunc(slices.Clone(all), func(s *schemas.JobSummary) bool { return s.JobID != jobID })
	slices.SortStableFunc(mine, func(a, b *schemas.JobSummary) int {
		return cmp.Or(cmp.Compare(a.Restart, b.Restart), cmp.Compare(a.IntervalStart, b.IntervalStart))
	})
	for i, s := range mine {
		after := 0 // summaries of the same life that follow
		for _, later := range mine[i+1:] {
			if later.Restart == s.Restart {
				after++
			}
		}
		if after < n {
			rows = append(rows, s.Rows()...)
		}
	}
	return rows
}

package jobs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/table"
)

// files are the files of the table. Before version 3, a namesake replaced the row of the earlier job.
var files = table.New(table.Table[Row]{
	Name: "jobs", Version: 3, Hashes: true, Number: (*Row).number, Life: (*Row).Life, Date: (*Row).date,
	Position: func(r *Row) *int64 { return &r.Position },
})

// NewMetrics registers the metrics of this package. A registry accepts them only once.
func NewMetrics(registry prometheus.Registerer) *table.Metrics {
	return table.NewMetrics(registry, "jobs", "Jobs that have ended and are not known to be in the archive.")
}

// Run keeps the jobs of topic jobs in the archive until ctx ends, as table.Follower does. So it never loses a job that
// is still in the topic.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *table.Metrics) {
	newFollower(cfg, log, metrics).Run(ctx)
}

func newFollower(cfg config.Config, log *slog.Logger, metrics *table.Metrics) *table.Follower[Row] {
	return table.NewFollower(cfg, log, metrics, schemas.TopicJobs, files, func(j *schemas.Job, at int64) (Row, bool) {
		return rowOf(cfg.Cluster, j, at)
	})
}

// Path returns the file with the jobs that ended on a date, of the archive in dir.
func Path(dir, date string) string { return files.Path(dir, date) }

// Dates returns the dates that have a file of jobs, oldest first.
func Dates(dir string) (dates []string, err error) { return files.Dates(dir) }

// Stat returns how many jobs the file of a date claims to have, and its size in bytes. It reads the footer alone.
func Stat(dir, date string) (jobs, bytes int64, err error) { return files.Stat(dir, date) }

// Each calls fn with every job of a date, as table.Table does.
func Each(dir, date string, fn func(*Row) error) error { return files.Each(dir, date, fn) }

// Check reads the file of a date as Each does, and returns the number of its jobs.
func Check(dir, date string) (jobs int64, err error) { return files.Check(dir, date) }

// Find returns the lives of all jobs with an id from the archive in dir, the earliest first, as table.Table does. If
// files are damaged, it returns the rows of the others, and an error.
func Find(ctx context.Context, dir, jobID string) (rows []Row, err error) {
	rows, err = files.Find(ctx, dir, jobID)
	slices.SortFunc(rows, inTime)
	return rows, err
}

// inTime orders lives of jobs with one id by their start, or by their end if the start is unknown.
func inTime(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Life().From, b.Life().From), cmp.Compare(a.Restart, b.Restart),
		cmp.Compare(a.Cluster, b.Cluster))
}

// Put writes rows of jobs into the archive in dir, as a sink does after reading their records. It fails if the file of
// one of their dates cannot be used.
func Put(ctx context.Context, dir, topic, topicID string, rows []Row) error {
	return files.Put(ctx, dir, topic, topicID, rows)
}

// Write writes records of jobs into the archive in dir, as Put does. Their places in the slice are their offsets.
func Write(ctx context.Context, dir, topic, cluster string, records []schemas.Job) error {
	var rows []Row
	for offset := range records {
		if r, over := rowOf(cluster, &records[offset], int64(offset)); over {
			rows = append(rows, r)
		}
	}
	return Put(ctx, dir, topic, "", rows)
}

// Life is when a job ran.
type Life struct {
	schemas.JobKey
	StartMs *int64 // nil: it never started
	EndMs   int64
}

// Lives returns when the jobs ran that ended on a date; none if there is no file. It reads four columns.
func Lives(dir, date string) (lives []Life, err error) {
	type columns struct {
		JobID   string `parquet:"job_id,dict"`
		Restart int32  `parquet:"restart"`
		Start   *int64 `parquet:"start,optional,timestamp(millisecond)"`
		End     int64  `parquet:"end,timestamp(millisecond)"`
	}
	err = table.Columns(files, dir, date, func(c *columns) {
		lives = append(lives, Life{schemas.JobKey{JobID: c.JobID, Restart: c.Restart}, c.Start, c.End})
	}, "job_id", "restart", "start", "end")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return lives, err
}

package findings

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/table"
)

// files are the files of the table. Before version 2, findings of a namesake replaced the rows of the earlier job.
var files = table.New(table.Table[Row]{
	Name: "findings", Version: 2, Number: (*Row).number, Life: (*Row).life, Date: (*Row).date,
	Position: func(r *Row) *int64 { return &r.Position },
})

// NewMetrics registers the metrics of this package. A registry accepts them only once.
func NewMetrics(registry prometheus.Registerer) *table.Metrics {
	return table.NewMetrics(registry, "findings", "Final findings that are not known to be in the archive.")
}

// Run keeps the final findings of topic findings in the archive until ctx ends, as table.Follower does.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *table.Metrics) {
	newFollower(cfg, log, metrics).Run(ctx)
}

func newFollower(cfg config.Config, log *slog.Logger, metrics *table.Metrics) *table.Follower[Row] {
	return table.NewFollower(cfg, log, metrics, schemas.TopicFindings, files, rowOf)
}

// Path returns the file with the findings of a date, of the archive in dir.
func Path(dir, date string) string { return files.Path(dir, date) }

// Dates returns the dates that have a file of findings, oldest first.
func Dates(dir string) (dates []string, err error) { return files.Dates(dir) }

// Stat returns how many findings the file of a date claims to have, and its size in bytes. It reads the footer alone.
func Stat(dir, date string) (findings, bytes int64, err error) { return files.Stat(dir, date) }

// Each calls fn with every finding of a date, as table.Table does.
func Each(dir, date string, fn func(*Row) error) error { return files.Each(dir, date, fn) }

// Write writes the final ones of some findings into the archive in dir, as a sink does after reading their records.
// Their places in the slice are their offsets. It fails if the file of one of their dates cannot be used.
func Write(ctx context.Context, dir, topic string, records []schemas.Finding) error {
	var rows []Row
	for offset := range records {
		if r, final := rowOf(&records[offset], int64(offset)); final {
			rows = append(rows, r)
		}
	}
	return files.Put(ctx, dir, topic, "", rows)
}

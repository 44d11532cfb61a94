package sink

import (
	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// table is a table of the archive that is made of one topic. It is all that differs between the services that write
// one: the loop, the drafts and the chain of files are the same. R is a row.
type table[R any] struct {
	dir        string // below sink.dir
	topic      string
	partitions int    // of the topic, as the configuration has it
	setting    string // that has this number
	decode     func(*kgo.Record) item[R]
	sort       func([]R)
	options    []parquet.WriterOption // beside those of all tables
}

// encoder returns the encoder of sorted rows.
func (t *table[R]) encoder(rows []R) encodeFunc { return encoder(rows, t.options...) }

// summaries is the table of the topic job-summary.
func summaries(cfg config.Config) table[schemas.Row] {
	return table[schemas.Row]{
		dir: summariesDir, topic: cfg.Prefix + schemas.TopicJobSummary,
		partitions: cfg.Partitions.JobSummary, setting: "partitions.job_summary",
		decode: func(r *kgo.Record) item[schemas.Row] { return decode(cfg.Cluster, r) },
		sort:   sortRows,
	}
}

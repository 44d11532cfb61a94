package sink

import (
	"io"
	"log/slog"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// stream is a topic and the table of the archive that is made of it. It is all that differs between the sink and the
// samples service: the loop, the drafts and the chain of files are the same. R is a row, as a draft holds it.
type stream[R any] struct {
	dir        string // below sink.dir
	topic      string
	partitions int    // configured for the topic
	setting    string // name of the setting with this number
	decode     func(*kgo.Record) item[R]
	encode     func(w io.Writer, rows []R, f *Footer) error // sorts them first
	optional   bool                                         // rows may be missing: gaps do not stop the service
}

func (t *stream[R]) encoder(rows []R) encodeFunc {
	return func(w io.Writer, f *Footer) error { return t.encode(w, rows, f) }
}

// summaries is the stream of the summaries.
func summaries(cfg config.Config) stream[schemas.Row] {
	return stream[schemas.Row]{
		dir: summariesDir, topic: cfg.Prefix + schemas.TopicJobSummary,
		partitions: cfg.Partitions.JobSummary, setting: "partitions.job_summary",
		decode: func(r *kgo.Record) item[schemas.Row] { return decode(cfg.Cluster, r) },
		encode: func(w io.Writer, rows []schemas.Row, f *Footer) error {
			sortRows(rows)
			return encode(w, rows, f)
		},
	}
}

// newSink takes before, which is called ahead of each action on the disk. Tests let it fail, or end the sink there.
func newSink[R any](
	cfg config.Config, t stream[R], log *slog.Logger, metrics *Metrics, before func(action, path string) error,
) *sink[R] {
	a := newArchive(cfg.Sink.Dir, t.topic, before)
	a.root = filepath.Join(cfg.Sink.Dir, t.dir)
	return &sink[R]{
		cfg: cfg, stream: t, log: log.With("topic", t.topic), metrics: metrics, archive: a,
		period:  cfg.FilePeriod(),
		brokers: kafka.NewBrokers(log), ends: map[int32]int64{}, patience: drainLimit,
		waits: map[int32]*wait{}, look: lookEvery, reported: map[string]bool{},
	}
}

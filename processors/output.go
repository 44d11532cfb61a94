package processors

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/schemas"
)

// maxReasonBytes bounds the reason of a Reject, which may quote the record, and the reason of a stop.
const maxReasonBytes = 512

// encodeOutput encodes an output, and cuts one that is too large or invalid. Its shared nodes go first. Then half of
// its metrics go, from the end, again and again, until none is left. The rest always fits. A loop that failed here
// would meet the same output for ever. surplus is how many metrics are left out.
func encodeOutput(o schemas.Record) (value []byte, surplus int64, err error) {
	if value, err = schemas.MarshalChecked(o); err == nil {
		return value, 0, nil
	}
	shorter := func() bool { return false }
	switch full := o.(type) {
	case *schemas.JobSummary:
		s := *full
		o, shorter = &s, func() bool { return halve(&s.Metrics, &surplus) }
	case *schemas.Finding:
		f := *full
		o, shorter = &f, func() bool {
			long := f.Hint != "" || f.Slurm != "" || f.Evidence != nil
			f.Hint, f.Slurm, f.Evidence = "", "", nil
			return long
		}
	case *schemas.JobPartial:
		p := *full
		o, shorter = &p, func() bool {
			if p.Shared != nil {
				p.Shared = nil
				return true
			}
			return halve(&p.Metrics, &surplus)
		}
	}
	for err != nil && shorter() {
		value, err = schemas.MarshalChecked(o)
	}
	return value, surplus, err
}

// halve leaves out the second half of metrics, and reports whether there were any.
func halve[M any](metrics *[]M, surplus *int64) bool {
	n := len(*metrics)
	*metrics = (*metrics)[:n/2]
	*surplus += int64(n - n/2)
	return n > 0
}

// encodeProgress encodes a Progress. Without its loads, which only the balancer reads, one always fits.
func encodeProgress(p *schemas.Progress) ([]byte, error) {
	value, err := schemas.MarshalChecked(p)
	if err == nil {
		return value, nil
	}
	p.Loads = nil
	if value, err = schemas.MarshalChecked(p); err != nil {
		return nil, fmt.Errorf("position %d with %d rejected offsets since %d: %w; "+
			"a balancer that runs closes their intervals", p.Position, len(p.Rejected), p.Hold, err)
	}
	return value, nil
}

// encoded are the records of one transaction.
type encoded struct {
	records []*kgo.Record
	bytes   int
}

func (t *encoded) add(topic string, partition int32, key, value []byte) {
	t.records = append(t.records, &kgo.Record{Topic: topic, Partition: partition, Key: key, Value: value})
	t.bytes += len(value)
}

// records encodes the records of a transaction, and returns the Progress among them.
func (l *loop) records(a *fold.Account) (*encoded, *schemas.Progress, error) {
	t := &encoded{records: make([]*kgo.Record, 0, len(a.Outputs)+len(a.Rejects)+1)}
	for _, o := range a.Outputs {
		if g, is := o.(fold.Tombstone); is {
			l.placeGone(t, g)
			continue
		}
		value, surplus, err := encodeOutput(o)
		if surplus > 0 || err != nil {
			a.Counts.Surplus += surplus
			l.log.Error("output does not fit into a record, metrics left out",
				l.about(o, "count", surplus, "err", err)...)
		}
		if err != nil {
			if _, kept := o.(*schemas.FindState); !kept {
				a.Counts.Outputs--
			}
			continue
		}
		l.place(t, o, value)
	}
	source := fmt.Appendf(nil, "%s/%d", l.stage.Input, l.partition)
	for _, x := range a.Rejects {
		if l.stage.Repeats {
			if err := errors.New(x.Reason); l.refused.Worth(err, time.Now()) {
				l.log.Warn("record cannot be used, going on behind it", "stage", l.stage.Name,
					"topic", l.stage.Input, "partition", l.partition, "offset", x.Offset, "err", err)
			}
			continue
		}
		x.Reason = schemas.CleanText(x.Reason, maxReasonBytes)
		value, err := schemas.MarshalChecked(x.Record(l.stage.Input, l.partition))
		if err != nil {
			l.log.Error("rejected record cannot be reported",
				"stage", l.stage.Name, "partition", l.partition, "offset", x.Offset, "err", err)
			continue
		}
		t.add(l.cfg.Prefix+schemas.TopicRejects, 0, source, value)
	}
	p := a.Progress()
	value, err := encodeProgress(p)
	if err != nil {
		return nil, nil, err
	}
	t.add(l.stage.Progress, l.partition, schemas.PartitionKey(l.partition), value)
	return t, p, nil
}

// place adds an output under its topic and key. A Watermark goes to every partition of partials.
func (l *loop) place(t *encoded, o schemas.Record, value []byte) {
	switch o := o.(type) {
	case *schemas.JobSummary:
		t.add(l.cfg.Prefix+schemas.TopicJobSummary, 0, schemas.JobKey{JobID: o.JobID, Restart: o.Restart}.Key(), value)
	case *schemas.JobPartial:
		t.add(l.cfg.Prefix+schemas.TopicPartials, 0, schemas.JobKey{JobID: o.JobID, Restart: o.Restart}.Key(), value)
	case *schemas.Finding:
		t.add(l.cfg.Prefix+schemas.TopicFindings, 0, o.Key(), value)
	case *schemas.FindState:
		t.add(l.cfg.Prefix+schemas.TopicFindState, l.partition, o.Identity().Key(), value)
	case *schemas.Watermark:
		for m := range int32(l.cfg.Partitions.Partials) {
			t.add(l.cfg.Prefix+schemas.TopicPartials, m, nil, value)
		}
	}
}

// about returns the attributes of a log line about an output.
func (l *loop) about(o schemas.Record, more ...any) []any {
	attrs := append([]any{"stage", l.stage.Name, "partition", l.partition}, more...)
	switch o := o.(type) {
	case *schemas.JobSummary:
		attrs = append(attrs, "job_id", o.JobID, "interval_start", o.IntervalStart)
	case *schemas.JobPartial:
		attrs = append(attrs, "job_id", o.JobID, "interval_start", o.IntervalStart)
	case *schemas.Finding:
		attrs = append(attrs, "job_id", o.JobID, "rule", o.Rule)
	case *schemas.FindState:
		attrs = append(attrs, "job_id", o.JobID)
	}
	return attrs
}

// placeGone adds a tombstone where its record is.
func (l *loop) placeGone(t *encoded, g fold.Tombstone) {
	partition := int32(0)
	if g.Topic == schemas.TopicFindState {
		partition = l.partition
	}
	t.add(l.cfg.Prefix+g.Topic, partition, g.Key, nil)
}

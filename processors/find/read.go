package find

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/schemas"
)

var (
	errNotState = errors.New("not a FindState")
	// errStateByHand is the fault of a FindState outside of a transaction. No loop wrote it.
	errStateByHand = errors.New("written by hand: a FindState is part of a transaction")
	errNoStates    = errors.New("the brokers deliver nothing")
)

// logStatesEvery is how often the log shows how far reading states is.
const logStatesEvery = 10 * time.Second

// states returns the last FindState of each job of the partition, in order. p is the last Progress, or nil. Reading may
// take as long as it must: it fails where nothing comes for patience.
func states(
	ctx context.Context, cfg config.Config, of *processors.Partition, p *schemas.Progress, patience time.Duration,
) (iter.Seq[*schemas.FindState], error) {
	topic := cfg.Prefix + schemas.TopicFindState
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	impatient := time.AfterFunc(patience, func() { give(errNoStates) })
	defer impatient.Stop()
	start, end, err := kafka.Bounds(ctx, of.Admin, topic, of.Number)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if end == 0 && p != nil && (p.Hold < p.Position || p.Counts.Outputs > 0) { // there were states
		of.Log.Warn("topic of states was emptied, running jobs begin anew", "topic", topic, "partition", of.Number)
	}
	read, logged := newReadStates(), time.Now()
	err = kafka.ReadPartition(ctx, cfg, topic, of.Number, start, end, func(r *kgo.Record) error {
		impatient.Reset(patience)
		if now := time.Now(); now.Sub(logged) >= logStatesEvery {
			logged = now
			of.Log.Info("reading the states of jobs", "topic", topic, "partition", of.Number,
				"offset", r.Offset, "end", end)
		}
		if r.Attrs.IsTransactional() {
			read.take(r)
		} else {
			read.cannot(r, errStateByHand)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the states of %s-%d: %w", topic, of.Number, cmp.Or(context.Cause(ctx), err))
	}
	if read.wrong != nil && of.Rubbish.Worth(read.wrong, time.Now()) {
		of.Log.Warn("records in the topic of states cannot be read, left out", "count", read.count, "err", read.wrong)
	}
	for _, key := range slices.Sorted(maps.Keys(read.newer)) {
		return nil, read.newer[key]
	}
	return read.all(), nil
}

// readStates are the states of a partition, as far as it was read.
type readStates struct {
	last  map[string]*schemas.FindState // by key
	newer map[string]error              // jobs with a last state that only a newer weir can read
	count int                           // records that are no states
	wrong error                         // the last of them
}

func newReadStates() *readStates {
	return &readStates{last: map[string]*schemas.FindState{}, newer: map[string]error{}}
}

// take keeps a committed record.
func (s *readStates) take(r *kgo.Record) {
	key := string(r.Key)
	if len(r.Value) == 0 {
		delete(s.last, key)
		delete(s.newer, key)
		return
	}
	value, err := schemas.Unmarshal(r.Value)
	state, is := value.(*schemas.FindState)
	switch {
	case is && string(state.Identity().Key()) == key:
		delete(s.newer, key)
		s.last[key] = state
	case errors.Is(err, schemas.ErrUnknownSchema):
		s.newer[key] = fmt.Errorf("%s-%d at %d: %w: %w", r.Topic, r.Partition, r.Offset, err, errNewerState)
	default:
		s.cannot(r, cmp.Or(err, errNotState))
	}
}

func (s *readStates) cannot(r *kgo.Record, err error) {
	s.count++
	s.wrong = fmt.Errorf("%s-%d at %d: %w", r.Topic, r.Partition, r.Offset, err)
}

// all yields the states by key, and forgets each.
func (s *readStates) all() iter.Seq[*schemas.FindState] {
	return func(yield func(*schemas.FindState) bool) {
		for _, key := range slices.Sorted(maps.Keys(s.last)) {
			state := s.last[key]
			delete(s.last, key)
			if !yield(state) {
				return
			}
		}
	}
}

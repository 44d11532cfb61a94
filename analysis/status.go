package analysis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// Status is how an installation is. Wrong is empty when all is well; else it says what an administrator should look at.
type Status struct {
	TimeMs     int64             `json:"time_ms"`
	Epoch      int64             `json:"epoch"`               // of the last plan that changed a Route
	PlannedMs  *int64            `json:"plan_interval_start"` // from which that plan is valid; null where there is no Route
	TickMs     *int64            `json:"tick_interval_start"` // of the last Tick; null where there is none
	TickAgeMs  *int64            `json:"tick_age_ms"`         // since the interval of that Tick ended
	Partitions []PartitionStatus `json:"partitions"`
	Sink       []SinkStatus      `json:"sink"` // empty where the archive cannot be seen from here
	Collect    map[string]int64  `json:"collect_counts"`
	Merge      map[string]int64  `json:"merge_counts"`
	Silent     []string          `json:"silent_nodes"`    // listed by the last Ticks, and not heard of
	Late       []string          `json:"late_nodes"`      // heard of after the Tick
	Routeless  []string          `json:"routeless_nodes"` // of balance.nodes, without a Route
	Wrong      []string          `json:"wrong"`
}

// PartitionStatus is how far one partition is folded, and by whom.
type PartitionStatus struct {
	Stage     string `json:"stage"`
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"` // offsets, transaction markers included
	ClosedMs  *int64 `json:"closed_interval_start"`
	Owner     string `json:"owner"` // empty: nobody
}

// SinkStatus is how far one partition of summaries is archived.
type SinkStatus struct {
	Partition int32 `json:"partition"`
	Position  int64 `json:"position"`
	End       int64 `json:"end"`
	Behind    bool  `json:"behind"` // summaries wait for longer than a file takes, or the archive ends behind the topic
}

// statusTicks is how many of the last Ticks say which nodes are silent.
const statusTicks = 3

// ReadStatus asks the brokers, and the archive where it can be seen from here.
func ReadStatus(ctx context.Context, cfg config.Config) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	cl, err := Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	s := &Status{
		TimeMs: time.Now().UnixMilli(), Collect: map[string]int64{}, Merge: map[string]int64{},
		Sink: []SinkStatus{}, Silent: []string{}, Late: []string{}, Routeless: []string{}, Wrong: []string{},
	}
	adm := kadm.NewClient(cl)
	for _, step := range []func() error{
		func() error { return s.balancer(ctx, cfg) },
		func() error {
			return s.stage(ctx, cfg, adm, "collect", schemas.TopicCounters, schemas.TopicProgress, s.Collect)
		},
		func() error {
			return s.stage(ctx, cfg, adm, "merge", schemas.TopicPartials, schemas.TopicMergeProgress, s.Merge)
		},
		func() error { return s.sink(ctx, cfg, adm) },
		func() error { return s.nodes(ctx, cfg) },
	} {
		if err := patiently(ctx, step); err != nil {
			return nil, err
		}
	}
	s.judge(cfg)
	return s, nil
}

// patiently tries a step a few times: right after a broker has died, or a group is new, some answers are errors.
func patiently(ctx context.Context, step func() error) error {
	for tries := 1; ; tries++ {
		if err := step(); err == nil || tries == 5 || !config.Pause(ctx, time.Second) {
			return err
		}
	}
}

func (s *Status) balancer(ctx context.Context, cfg config.Config) error {
	err := readSince(ctx, cfg, cfg.Prefix+schemas.TopicBalance, time.Time{}, func(r *kgo.Record) error {
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if b, ok := v.(*schemas.BalanceState); ok {
				age := s.TimeMs - b.IntervalStart - b.IntervalMs
				s.TickMs, s.TickAgeMs = &b.IntervalStart, &age
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	routed := map[string]bool{}
	err = readSince(ctx, cfg, cfg.Prefix+schemas.TopicRoutes, time.Time{}, func(r *kgo.Record) error {
		delete(routed, string(r.Key))
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if route, ok := v.(*schemas.Route); ok {
				routed[route.Node] = true
				if s.Epoch = max(s.Epoch, route.Epoch); s.PlannedMs == nil || *s.PlannedMs < route.IntervalStart {
					s.PlannedMs = &route.IntervalStart
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range cfg.Balance.Nodes {
		if !routed[n] {
			s.Routeless = append(s.Routeless, n)
		}
	}
	return nil
}

func (s *Status) stage(ctx context.Context, cfg config.Config, adm *kadm.Client, stage, input, progress string, counts map[string]int64) error {
	last := map[int32]*schemas.Progress{}
	err := readSince(ctx, cfg, cfg.Prefix+progress, time.Time{}, func(r *kgo.Record) error {
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if p, ok := v.(*schemas.Progress); ok {
				last[r.Partition] = p
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ends, err := adm.ListCommittedOffsets(ctx, cfg.Prefix+input)
	if err != nil {
		return fmt.Errorf("asking where %s ends: %w", cfg.Prefix+input, err)
	}
	owners, err := ownersOf(ctx, adm, cfg.Prefix+stage, cfg.Prefix+progress)
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(ends[cfg.Prefix+input])) {
		status := PartitionStatus{Stage: stage, Partition: p, End: ends[cfg.Prefix+input][p].Offset, Owner: owners[p]}
		if l := last[p]; l != nil {
			status.Position, status.ClosedMs = l.Position, l.Closed
			for fate, n := range map[string]int64{
				"summarized": l.Counts.Summarized, "rejected": l.Counts.Rejected, "late": l.Counts.Late, "dropped": l.Counts.Dropped,
				"duplicate": l.Counts.Duplicate, "misrouted": l.Counts.Misrouted, "ended": l.Counts.Ended, "lost": l.Counts.Lost,
				"outputs": l.Counts.Outputs, "clock_ahead": l.Counts.ClockAhead,
			} {
				counts[fate] += n
			}
		}
		status.Lag = status.End - status.Position
		s.Partitions = append(s.Partitions, status)
	}
	return nil
}

// ownersOf returns the member of a group that has each partition of a topic.
func ownersOf(ctx context.Context, adm *kadm.Client, group, topic string) (map[int32]string, error) {
	described, err := adm.DescribeGroups(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("describing group %s: %w", group, err)
	}
	owners := map[int32]string{}
	for _, m := range described[group].Members {
		assigned, ok := m.Assigned.AsConsumer()
		if !ok {
			continue
		}
		name := m.ClientID + m.ClientHost // the host begins with a slash
		if m.InstanceID != nil {
			name = *m.InstanceID
		}
		for _, t := range assigned.Topics {
			if t.Topic != topic {
				continue
			}
			for _, p := range t.Partitions {
				owners[p] = name
			}
		}
	}
	return owners, nil
}

func (s *Status) sink(ctx context.Context, cfg config.Config, adm *kadm.Client) error {
	positions, err := sink.Positions(cfg)
	if err != nil || positions == nil {
		return err
	}
	topic := cfg.Prefix + schemas.TopicJobSummary
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("asking where %s ends: %w", topic, err)
	}
	patience := 3 * max(cfg.Interval, 10*time.Second)
	due, err := adm.ListOffsetsAfterMilli(ctx, s.TimeMs-patience.Milliseconds(), topic)
	if err != nil {
		return fmt.Errorf("asking what is old in %s: %w", topic, err)
	}
	for _, p := range slices.Sorted(maps.Keys(ends[topic])) {
		d, _ := due.Lookup(topic, p)
		end := ends[topic][p].Offset
		s.Sink = append(s.Sink, SinkStatus{p, positions[p], end, d.Err == nil && d.Offset > positions[p] || positions[p] > end})
	}
	return nil
}

// nodes compares what the last Ticks list with what came.
func (s *Status) nodes(ctx context.Context, cfg config.Config) error {
	if s.TickMs == nil {
		return nil
	}
	oldest := *s.TickMs - (statusTicks-1)*cfg.Interval.Milliseconds()
	type place struct {
		partition int32
		start     int64
	}
	closed, listed, heard, late := map[place]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	hear := func(r *kgo.Record, h *schemas.NodeHeader) {
		if h.IntervalStart < oldest {
			return
		}
		heard[h.Node] = true
		if closed[place{r.Partition, h.IntervalStart}] {
			late[h.Node] = true
		}
	}
	err := readSince(ctx, cfg, cfg.Prefix+schemas.TopicCounters, time.UnixMilli(oldest), func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		if err != nil {
			return nil //nolint:nilerr // collect rejects and counts it
		}
		switch v := v.(type) {
		case *schemas.CounterBatch:
			hear(r, &v.NodeHeader)
		case *schemas.NodeSummary:
			hear(r, &v.NodeHeader)
		case *schemas.Tick:
			closed[place{r.Partition, v.IntervalStart}] = true
			for _, j := range v.Jobs {
				for _, n := range j.Nodes {
					listed[n] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n := range listed {
		if !heard[n] {
			s.Silent = append(s.Silent, n)
		}
	}
	slices.Sort(s.Silent)
	s.Late = append(s.Late, slices.Sorted(maps.Keys(late))...)
	return nil
}

// judge says what is wrong.
func (s *Status) judge(cfg config.Config) {
	wrong := func(format string, args ...any) { s.Wrong = append(s.Wrong, fmt.Sprintf(format, args...)) }
	ms := cfg.Interval.Milliseconds()
	switch patience := 3*ms + cfg.Grace.Milliseconds(); {
	case s.TickMs == nil:
		wrong("no interval was ever closed: is a balancer running?")
	case *s.TickAgeMs > patience:
		wrong("the last closed interval ended %v ago: is a balancer running?", (time.Duration(*s.TickAgeMs) * time.Millisecond).Round(time.Second))
	}
	for _, p := range s.Partitions {
		switch {
		case p.Owner == "":
			wrong("%s: nobody owns partition %d", p.Stage, p.Partition)
		case s.TickMs != nil && (p.ClosedMs == nil || *p.ClosedMs < *s.TickMs-2*ms) && p.Lag > 0:
			wrong("%s: partition %d is behind by %d offsets", p.Stage, p.Partition, p.Lag)
		}
	}
	for _, p := range s.Sink {
		if p.Behind {
			wrong("sink: partition %d is archived up to %d of %d", p.Partition, p.Position, p.End)
		}
	}
	for stage, counts := range map[string]map[string]int64{"collect": s.Collect, "merge": s.Merge} {
		if n := counts["lost"]; n > 0 {
			wrong("%s: retention took %d offsets before they were read", stage, n)
		}
	}
	named := func(what string, nodes []string) {
		if len(nodes) > 0 {
			wrong("%d %s: %v", len(nodes), what, nodes[:min(len(nodes), 10)])
		}
	}
	named("nodes are silent", s.Silent)
	named("nodes have no route", s.Routeless)
	slices.Sort(s.Wrong)
}

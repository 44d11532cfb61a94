// Package status finds out from the topics and the archive how an installation is, and how to mend it.
package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/hardware"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/analysis/topics"
)

// Status is the state of an installation. Wrong lists the faults for an administrator; it is empty if all is well.
type Status struct {
	TimeMs        int64            `json:"time_ms"`
	IntervalMs    int64            `json:"interval_ms"`         // of the configuration that asks
	Epoch         int64            `json:"epoch"`               // of the last plan that changed a Route
	PlannedMs     *int64           `json:"plan_interval_start"` // that plan's first interval; null without a Route
	TickMs        *int64           `json:"tick_interval_start"` // of the last Tick; null if there is none
	TickAgeMs     *int64           `json:"tick_age_ms"`         // since the interval of that Tick ended
	TickLengthMs  *int64           `json:"tick_interval_ms"`    // the balancer's interval
	JobsUnread    string           `json:"jobs_unread"`         // why a list of jobs cannot be read, and since when
	Partitions    []Partition      `json:"partitions"`
	Rejects       []Rejects        `json:"rejects"` // of the last minutes, by the partition of the records
	Sink          []SinkPartition  `json:"sink"`    // empty if this machine does not see the archive
	SinkError     string           `json:"sink_error"`
	Collect       map[string]int64 `json:"collect_counts"`
	Merge         map[string]int64 `json:"merge_counts"`
	Find          map[string]int64 `json:"find_counts"`     // null if find never ran
	Intervals     []Interval       `json:"intervals"`       // the last closed ones, oldest first
	NodesExpected int64            `json:"nodes_expected"`  // by all rows of the last two intervals that have any
	NodesReported int64            `json:"nodes_reported"`  // the same
	Incomplete    []IncompleteJob  `json:"incomplete_jobs"` // three rows in a row lack something
	Silent        []string         `json:"silent_nodes"`    // listed by the last Ticks, without a record
	Late          []string         `json:"late_nodes"`      // their records came after the Tick
	Misrouted     []string         `json:"misrouted_nodes"` // no Tick of that partition lists their records
	Routeless     []string         `json:"routeless_nodes"` // of balance.nodes, without a Route
	OtherInterval map[string]int64 `json:"other_interval"`  // interval_ms of nodes that use another one
	ClocksOff     []NodeClock      `json:"clocks_off"`      // by the last records of each node, the worst first
	BrokersOff    []BrokerClock    `json:"brokers_off"`     // brokers with a clock that is off
	Synchrony     *Synchrony       `json:"synchrony"`       // null if no node reports it
	Blind         []string         `json:"blind_rules"`     // rules that lack a fact about nodes; the caller knows them
	Wrong         []string         `json:"wrong"`           // each with its remedy

	Facts *hardware.Facts `json:"-"` // about the nodes; nil if they cannot be read
}

// Rejects counts the rejects of one partition in the last minutes.
type Rejects struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Count     int64  `json:"count"`
	Reason    string `json:"reason"` // of the last one
}

// SinkPartition is the archive's state for one partition of summaries.
type SinkPartition struct {
	Partition int32 `json:"partition"`
	Position  int64 `json:"position"`
	End       int64 `json:"end"`
	Replaced  bool  `json:"replaced"` // the archive holds a deleted topic of this name
	// Behind: summaries wait for longer than a file takes, or the archive ends behind the topic.
	Behind bool `json:"behind"`
	// Waits is the summary of an unknown schema at which the sink waits; null if it does not wait.
	Waits *sink.Unknown `json:"waits"`
}

const (
	// statusTicks is the number of last Ticks that decide which nodes are silent, late or misrouted.
	statusTicks = 3
	// statusRows is the number of consecutive incomplete rows of a job that are reported as a fault.
	statusRows = 3
	// silentRows is the number of intervals without any node that are a fault. All nodes at once are rarely late, so
	// one fewer is enough: an agent that died shows within 20 s at the default interval of 10 s.
	silentRows = 2
	// rejectsBack and rejectsMost bound the counted rejects, in time and in records.
	rejectsBack, rejectsMost = 5 * time.Minute, 10_000
)

// Read asks the brokers, and reads the archive if this machine sees it.
func Read(ctx context.Context, cfg config.Config) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, topics.ReadTimeout)
	defer cancel()
	r, err := topics.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &Status{
		TimeMs: time.Now().UnixMilli(), IntervalMs: cfg.Interval.Milliseconds(),
		Collect: map[string]int64{}, Merge: map[string]int64{},
		Rejects: []Rejects{}, Sink: []SinkPartition{}, Intervals: []Interval{}, Incomplete: []IncompleteJob{},
		Silent: []string{}, Late: []string{}, Misrouted: []string{}, Routeless: []string{},
		OtherInterval: map[string]int64{}, ClocksOff: []NodeClock{}, BrokersOff: []BrokerClock{}, Blind: []string{},
		Wrong: []string{},
	}
	for _, step := range []func() error{
		func() error { return s.balancer(ctx, r) },
		func() error {
			return s.stage(ctx, r, "collect", schemas.TopicCounters, schemas.TopicProgress, s.Collect)
		},
		func() error {
			return s.stage(ctx, r, "merge", schemas.TopicPartials, schemas.TopicMergeProgress, s.Merge)
		},
		func() error { return s.find(ctx, r) },
		func() error { return s.rejects(ctx, r) },
		func() error { return s.sink(ctx, r) },
		func() error { return s.nodes(ctx, r) },
	} {
		if err := patiently(ctx, step); err != nil {
			return nil, err
		}
	}
	s.Facts, _, _ = r.Facts(ctx) // the rest of the status does not need them
	s.judge(cfg)
	return s, nil
}

// patiently tries a step up to five times: some answers are errors right after a broker died or a group was made.
func patiently(ctx context.Context, step func() error) error {
	for tries := 1; ; tries++ {
		if err := step(); err == nil || tries == 5 || !retry.Pause(ctx, time.Second) {
			return err
		}
	}
}

// balancer reads the last records of the balancer instead of asking it, so that the status also covers a balancer that
// is gone. Both topics are compacted, and the last record of a key counts.
func (s *Status) balancer(ctx context.Context, from *topics.Reader) error {
	err := from.All(ctx, from.Config.Prefix+schemas.TopicBalance, func(r *kgo.Record) error {
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if b, ok := v.(*schemas.BalanceState); ok {
				age := s.TimeMs - b.IntervalStart - b.IntervalMs
				s.TickMs, s.TickAgeMs, s.TickLengthMs = &b.IntervalStart, &age, &b.IntervalMs
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.lists(ctx, from); err != nil {
		return err
	}
	routed := map[string]bool{}
	err = from.All(ctx, from.Config.Prefix+schemas.TopicRoutes, func(r *kgo.Record) error {
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
	for _, n := range from.Config.Balance.Nodes {
		if !routed[n] {
			s.Routeless = append(s.Routeless, n)
		}
	}
	return nil
}

// lists reads the balancer's record about a job list as a whole. A user without permission to read the topic still gets
// the rest of the status.
func (s *Status) lists(ctx context.Context, from *topics.Reader) error {
	key := string(schemas.JobKey{JobID: schemas.JobOfLists}.Key())
	err := from.All(ctx, from.Config.Prefix+schemas.TopicJobs, func(r *kgo.Record) error {
		if string(r.Key) != key {
			return nil
		}
		s.JobsUnread = ""
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if j, ok := v.(*schemas.Job); ok && j.State == schemas.StateSkipped {
				s.JobsUnread = j.Reason
			}
		}
		return nil
	})
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		return nil
	}
	return err
}

// sink compares the archive with the topic. A difference alone is no fault, because the sink gathers records before it
// writes a file. A partition is behind only if records missing from the archive are older than three such periods.
func (s *Status) sink(ctx context.Context, from *topics.Reader) error {
	archive, err := sink.Look(from.Config)
	if err := errors.Join(append(archive.Damaged, err)...); err != nil {
		s.SinkError = err.Error() // the rest of the status does not need the archive
	}
	positions := archive.Positions
	if positions == nil {
		return nil
	}
	topic := from.Config.Prefix + schemas.TopicJobSummary
	bounds, err := from.Bounds(ctx, topic)
	if err != nil {
		return err
	}
	other := !kafka.SameTopic(archive.TopicID, from.IDs[topic]) && replaced(ctx, from, topic, 0, archive.TopicID, 0)
	patience := 3 * from.Config.FilePeriod()
	due, err := from.Admin.ListOffsetsAfterMilli(ctx, s.TimeMs-patience.Milliseconds(), topic)
	if err != nil {
		return fmt.Errorf("asking what is old in %s: %w", topic, err)
	}
	for _, p := range slices.Sorted(maps.Keys(bounds)) {
		d, _ := due.Lookup(topic, p)
		end := bounds[p].To
		status := SinkPartition{
			Partition: p, Position: positions[p], End: end, Replaced: other,
			Behind: d.Err == nil && d.Offset > positions[p] || positions[p] > end,
		}
		if status.Behind && !other {
			if status.Waits, err = sink.NextUnknownOf(ctx, from.Client, from.Config, p, positions[p], end); err != nil {
				s.SinkError = strings.TrimPrefix(s.SinkError+"\n"+err.Error(), "\n")
			}
		}
		s.Sink = append(s.Sink, status)
	}
	return nil
}

// nodes compares the nodes that the last Ticks list with the records that came, and with the rows made of them.
func (s *Status) nodes(ctx context.Context, from *topics.Reader) error {
	if s.TickMs == nil {
		return nil
	}
	oldest := *s.TickMs - (statusTicks-1)**s.TickLengthMs
	a := newAccounts(from.Config.Cluster, oldest, s.IntervalMs)
	clocks := clockSigns{}
	details, err := from.Admin.ListTopics(ctx, from.Config.Prefix+schemas.TopicCounters)
	if err != nil {
		return fmt.Errorf("asking who leads %s: %w", schemas.TopicCounters, err)
	}
	partitions := details[from.Config.Prefix+schemas.TopicCounters].Partitions
	err = from.Since(ctx, from.Config.Prefix+schemas.TopicCounters, time.UnixMilli(oldest), func(r *kgo.Record) error {
		if v, err := schemas.Unmarshal(r.Value); err == nil { // collect rejects and counts the others
			a.add(r.Partition, v)
			clocks.add(from.Config.Cluster, v, r.Timestamp.UnixMilli(), partitions[r.Partition].Leader)
		}
		return nil
	})
	if err != nil {
		return err
	}
	of := rows{}
	// Rows of the last intervals may not be there yet: twice as many intervals have enough.
	since := time.UnixMilli(*s.TickMs - (2*statusRows-1)**s.TickLengthMs)
	err = from.Since(ctx, from.Config.Prefix+schemas.TopicJobSummary, since, func(r *kgo.Record) error {
		if v, err := schemas.Unmarshal(r.Value); err == nil {
			if row, ok := v.(*schemas.JobSummary); ok && row.IntervalStart >= since.UnixMilli() {
				of.add(row)
				s.Synchrony = s.Synchrony.newer(row)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	absent := a.close(s)
	s.BrokersOff = clocks.brokers()
	s.ClocksOff = clocks.off(s.BrokersOff)
	s.Incomplete, s.NodesExpected, s.NodesReported = of.judged(absent)
	return nil
}

// rejects counts the rejects of the last minutes, and finds the reason of each partition's last one.
func (s *Status) rejects(ctx context.Context, from *topics.Reader) error {
	topic := from.Config.Prefix + schemas.TopicRejects
	bounds, err := from.Bounds(ctx, topic)
	if err != nil {
		return err
	}
	type source struct {
		topic     string
		partition int32
	}
	recent, reasons := map[source]*Rejects{}, map[source]string{}
	since := s.TimeMs - rejectsBack.Milliseconds()
	last := map[int32]kafka.Range{}
	for p, b := range bounds {
		last[p] = kafka.Range{From: max(b.From, b.To-rejectsMost), To: b.To}
	}
	err = kafka.ReadRanges(ctx, from.Client, topic, last, func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		reject, ok := v.(*schemas.Reject)
		if err != nil || !ok {
			return nil //nolint:nilerr // `weir tail` shows it
		}
		at := source{reject.Topic, reject.Partition}
		reasons[at] = reject.Reason
		if r.Timestamp.UnixMilli() < since {
			return nil
		}
		if recent[at] == nil {
			recent[at] = &Rejects{Topic: reject.Topic, Partition: reject.Partition}
		}
		recent[at].Count++
		recent[at].Reason = reject.Reason
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range recent {
		s.Rejects = append(s.Rejects, *r)
	}
	slices.SortFunc(s.Rejects, func(a, b Rejects) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	inputs := map[string]string{
		"collect": from.Config.Prefix + schemas.TopicCounters, "merge": from.Config.Prefix + schemas.TopicPartials,
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		p.RejectReason = reasons[source{inputs[p.Stage], p.Partition}]
	}
	return nil
}

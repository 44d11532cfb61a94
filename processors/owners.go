package processors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
)

const (
	// heartbeat is how often a member asks its group whether anything has changed.
	heartbeat = 500 * time.Millisecond
	// rebalance is for how long a group waits for members that do not join again. Not longer than clients give a join beyond it:
	// the embedded broker waits anew whenever one tries again, and of two that do so in turn it would hear for ever, while it waits
	// for a third that is dead.
	rebalance = 5 * time.Second
)

// own folds the partitions that the stage's group gives this process. The group decides who folds what; correctness does
// not depend on it, fencing does, so a partition may be owned twice for a while and only loses time.
func own(ctx context.Context, cfg config.Config, log *slog.Logger, metrics *Metrics, s stage) error {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &owners{
		cfg: cfg, stage: s, log: log, metrics: metrics, brokers: config.NewBrokers(log), loops: map[int32]*owned{}, end: cancel,
		others: &others{},
	}
	member, part := context.WithCancel(context.WithoutCancel(ctx)) // it leaves its group after ctx
	defer part()
	opts, err := cfg.ClientOpts(member)
	if err != nil {
		return err
	}
	opts = append(opts, kgo.WithHooks(o.brokers),
		// The group is over the progress topic, which has a partition for each of the input's. Nothing is read by it:
		// offsets are kept in Progress, committed with what was said.
		kgo.ConsumerGroup(cfg.Prefix+s.name), kgo.ConsumeTopics(s.progress), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		// The least that Kafka's brokers allow: a dead owner's partitions move on after six seconds.
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(heartbeat), kgo.RebalanceTimeout(rebalance),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { o.start(ctx, got[s.progress]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { o.stop(lost[s.progress]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { o.stop(lost[s.progress]) }),
	)
	if cfg.Instance != "" { // a member that restarts under its name has its partitions back at once
		opts = append(opts, kgo.InstanceID(cfg.Instance+"-"+s.name))
	}
	group, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("joining the group %s%s: %w", cfg.Prefix, s.name, err)
	}
	group.PauseFetchTopics(s.progress)
	var sizes sync.WaitGroup
	sizes.Go(func() { o.watchSizes(ctx, kadm.NewClient(group)) })
	o.watch(ctx, group)
	sizes.Wait()
	o.leave(context.WithoutCancel(ctx), group)
	part()
	group.CloseAllowingRebalance()
	o.stopAll()
	if outer.Err() != nil {
		return nil
	}
	return context.Cause(ctx) // a loop's, which waiting does not help
}

// leave gives the partitions up. A broker that is away learns it by the session's end.
func (o *owners) leave(ctx context.Context, group *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	id, _ := group.GroupMetadata()
	if err := group.LeaveGroupContext(ctx); err != nil || o.cfg.Instance == "" || id == "" {
		return
	}
	// The client only ends the loops of a member with a name, and its partitions would wait for it until the session's end. Who
	// is killed keeps them, and has them back at once; who ends gives them up. The id leaves alone another that took the name.
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID, member.InstanceID = id, new(o.cfg.Instance+"-"+o.stage.name)
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group, request.Members = o.cfg.Prefix+o.stage.name, append(request.Members, member)
	_, _ = request.RequestWith(ctx, group)
}

// owners are the loops of the partitions that this process owns.
type owners struct {
	cfg     config.Config
	stage   stage
	log     *slog.Logger
	metrics *Metrics
	brokers *config.Brokers
	others  *others
	end     context.CancelCauseFunc

	mu    sync.Mutex
	loops map[int32]*owned
}

type owned struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// watch polls the group, where its errors surface, until ctx ends.
func (o *owners) watch(ctx context.Context, group *kgo.Client) {
	var trouble config.Trouble
	for ctx.Err() == nil {
		fetches := group.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			if ctx.Err() != nil {
				return
			}
			if errors.Is(e.Err, kerr.FencedInstanceID) {
				o.end(fmt.Errorf("instance %s-%s of group %s%s: %w", o.cfg.Instance, o.stage.name, o.cfg.Prefix, o.stage.name, e.Err))
				return
			}
			if trouble.Worth(e.Err, time.Now()) {
				o.log.Warn("waiting for the group", "group", o.cfg.Prefix+o.stage.name, "err", e.Err)
			}
			config.Pause(ctx, time.Second)
		}
	}
}

func (o *owners) start(ctx context.Context, partitions []int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range partitions {
		if o.loops[p] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		w := &owned{cancel, make(chan struct{})}
		o.loops[p] = w
		go func() {
			defer close(w.done)
			o.fold(ctx, p)
		}()
	}
}

// stop ends the loops of partitions that the group took away, and waits for them: a transaction that has begun is
// finished, so that the next owner finds it committed instead of fencing it.
func (o *owners) stop(partitions []int32) {
	o.mu.Lock()
	var stopped []*owned
	for _, p := range partitions {
		if w := o.loops[p]; w != nil {
			w.cancel()
			stopped = append(stopped, w)
			delete(o.loops, p)
		}
	}
	o.mu.Unlock()
	for _, w := range stopped {
		<-w.done
	}
}

func (o *owners) stopAll() {
	o.mu.Lock()
	var all []int32
	for p := range o.loops {
		all = append(all, p)
	}
	o.mu.Unlock()
	o.stop(all)
}

// fold runs a partition's loop again and again, from what is committed, for as long as the partition is ours.
func (o *owners) fold(ctx context.Context, partition int32) {
	m := o.metrics.meter(o.stage.name, partition)
	defer m.forget()
	l := &loop{cfg: o.cfg, stage: o.stage, partition: partition, log: o.log, brokers: o.brokers, meter: m, others: o.others, patience: commitTimeout}
	var trouble config.Trouble
	for tries := 1; ctx.Err() == nil; tries++ {
		before := l.commits
		err := l.run(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, config.ErrNoBrokers):
			o.end(err)
			return
		case isStop(err): // it stands still alone, and stays ours: another process would meet the same
			m.restarts()
			config.Pause(ctx, max(2*heartbeat, o.cfg.BackoffCap))
			continue
		case l.commits > before:
			tries = 1 // it had worked for a while
			trouble.Over()
		}
		m.restarts()
		if trouble.Worth(err, time.Now()) {
			o.log.Warn("starting again from what is committed", "stage", o.stage.name, "partition", partition, "tries", tries, "err", err)
		}
		// At least two heartbeats, in which the group says whether the partition is still ours: who was fenced by its
		// rightful owner must not fence it back.
		config.Pause(ctx, max(2*heartbeat, config.Backoff(tries, o.cfg.BackoffCap)))
	}
}

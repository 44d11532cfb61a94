package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
)

const (
	// session is the shortest that brokers accept by default. After it the partitions of a dead member move on.
	session = 6 * time.Second
	// heartbeat is the time between two heartbeats, by which a member learns about changes in its group.
	heartbeat = 500 * time.Millisecond
	// rebalance is the longest time that a group waits for members that do not join again. It must not exceed the extra
	// time that clients give a join beyond it. The embedded broker restarts its wait whenever a member tries again. So
	// two members that try again in turn would keep it waiting without end for a third, dead one.
	rebalance = 5 * time.Second
	// parting is the longest time that leaving a group may take. A broker that is away notices at the session's end.
	parting = 2 * time.Second
)

// sessionMs is the session timeout in milliseconds, for messages.
var sessionMs = strconv.FormatInt(session.Milliseconds(), 10)

// Member is a process in a consumer group that divides the partitions of a topic. A partition stands for work that one
// owner does: nothing is read through the group, and no offset is kept in it. Correctness depends on fencing, not on
// the group: a partition may have two owners for a while, which only costs time.
type Member struct {
	Config   config.Config
	Group    string
	Topic    string
	Instance string // a process restarted under this name gets its partitions back at once; empty for none
	Brokers  *Brokers
	// Own does the work of a partition until its ctx ends. The ctx ends when the group takes the partition away. Own
	// returns an error only if waiting does not help. The error ends the membership.
	Own func(ctx context.Context, partition int32) error
	// Beside runs beside the work, on the member's connection. An error ends the membership. It may be nil.
	Beside func(ctx context.Context, adm *kadm.Client) error
	// Assigned is called at each answer of the group. owns is true if this member owns a partition now. It may be nil.
	Assigned func(owns bool)
	// Waiting is called with the reason if the group does not answer.
	Waiting func(err error)

	opts []kgo.Opt // of the client: tests have a network in memory
}

// Run keeps the member in the group until ctx ends, then returns nil. It returns earlier with an error that waiting
// does not mend, such as another process under the same Instance. Work in hand is finished first: the next owner then
// finds its transaction committed, and need not fence it.
func (m *Member) Run(ctx context.Context) error {
	outer := ctx
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	w := &works{own: m.Own, end: end, running: map[int32]*work{}}
	member, part := context.WithCancel(context.WithoutCancel(ctx)) // the member leaves its group after ctx ends
	defer part()
	group, err := m.join(ctx, member, w)
	if err != nil {
		return err
	}
	var beside sync.WaitGroup
	if m.Beside != nil {
		beside.Go(func() {
			if err := m.Beside(ctx, kadm.NewClient(group)); err != nil {
				end(err)
			}
		})
	}
	end(m.watch(ctx, group))
	beside.Wait()
	w.stopAll()
	m.leave(context.WithoutCancel(ctx), group)
	part()
	group.CloseAllowingRebalance()
	w.stopAll()
	if outer.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// join returns the member's client, which lives as long as member. Work ends with ctx.
func (m *Member) join(ctx, member context.Context, w *works) (*kgo.Client, error) {
	stop := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { w.stop(lost[m.Topic]) }
	opts := []kgo.Opt{
		kgo.WithHooks(m.Brokers), kgo.ConsumerGroup(m.Group), kgo.ConsumeTopics(m.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(heartbeat), kgo.RebalanceTimeout(rebalance),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			owns := w.start(ctx, got[m.Topic])
			if m.Assigned != nil && ctx.Err() == nil { // a member that ends owns nothing, and is no standby
				m.Assigned(owns)
			}
		}),
		kgo.OnPartitionsRevoked(stop), kgo.OnPartitionsLost(stop),
	}
	if m.Instance != "" {
		opts = append(opts, kgo.InstanceID(m.Instance))
	}
	group, err := newClient(member, m.Config, append(opts, m.opts...)...)
	if err != nil {
		return nil, err
	}
	group.PauseFetchTopics(m.Topic)
	return group, nil
}

// watch polls the group until ctx ends, because only a poll returns the group's errors.
func (m *Member) watch(ctx context.Context, group *kgo.Client) error {
	for ctx.Err() == nil {
		for _, e := range group.PollFetches(ctx).Errors() {
			switch {
			case ctx.Err() != nil: // the end is no trouble
			case errors.Is(e.Err, kerr.FencedInstanceID):
				return fmt.Errorf("instance %s of group %s: %w", m.Instance, m.Group, e.Err)
			default:
				m.Waiting(e.Err)
				retry.Pause(ctx, time.Second)
			}
		}
	}
	return nil
}

// leave gives the partitions up.
func (m *Member) leave(ctx context.Context, group *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, parting)
	defer cancel()
	id, _ := group.GroupMetadata()
	if err := group.LeaveGroupContext(ctx); err != nil || m.Instance == "" || id == "" {
		return
	}
	// For a member with a name the client only ends its loops, and the partitions would wait until the session times
	// out. A member that ends gives them up here; a member that was killed gets them back at its restart. The request
	// contains the member's id, so it does not remove another process that took the name.
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID, member.InstanceID = id, new(m.Instance)
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group, request.Members = m.Group, append(request.Members, member)
	_, _ = request.RequestWith(ctx, group)
}

// Yield waits for d, and for at least two heartbeats. During these the group reports whether the partition is still
// ours. So a member that its rightful successor fenced does not fence it back.
func Yield(ctx context.Context, d time.Duration) { retry.Pause(ctx, max(2*heartbeat, d)) }

// works manages a member's work for the partitions that it owns.
type works struct {
	own     func(ctx context.Context, partition int32) error
	end     context.CancelCauseFunc
	mu      sync.Mutex
	running map[int32]*work
}

// work is the running work for one partition. done is closed once all of it has returned.
type work struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// start begins the work of partitions, and reports whether there is any now.
func (w *works) start(ctx context.Context, partitions []int32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range partitions {
		if w.running[p] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		one := &work{cancel, make(chan struct{})}
		w.running[p] = one
		go func() {
			defer close(one.done)
			if err := w.own(ctx, p); err != nil {
				w.end(err)
			}
		}()
	}
	return len(w.running) > 0
}

// stop ends the work of partitions, and waits for it.
func (w *works) stop(partitions []int32) {
	w.mu.Lock()
	var stopped []*work
	for _, p := range partitions {
		if one := w.running[p]; one != nil {
			one.cancel()
			stopped = append(stopped, one)
			delete(w.running, p)
		}
	}
	w.mu.Unlock()
	for _, one := range stopped {
		<-one.done
	}
}

// stopAll stops the work of all partitions. It gives the lock back first, since stop takes it again.
func (w *works) stopAll() {
	w.mu.Lock()
	var all []int32
	for p := range w.running {
		all = append(all, p)
	}
	w.mu.Unlock()
	w.stop(all)
}

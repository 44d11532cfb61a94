package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// inBubble runs a test with an embedded broker on a fake clock, and on a network in memory, which the clock needs. A
// time that nobody works through takes no time, so no load of the machine ends a session.
func inBubble(t *testing.T, test func(t *testing.T, b *Embedded, dial kgo.Opt)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		dial := kgo.Dialer(network.DialContext)
		b, err := startEmbedded(t.TempDir(), "127.0.0.1:9092", network.Listen, dial)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, b, dial)
	})
}

// TestMemberDiesWhileJoining kills a new member whose join the broker has not answered yet. kfake starts a member's
// session when it answers; where the connection has ended by then, it starts one or not, by chance. Without a session
// the group stays stable, and a partition with the dead, for ever. The broker must give up the dead in every group, and
// keep a live member that is silent within its session.
func TestMemberDiesWhileJoining(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Embedded, dial kgo.Opt) {
		var groups []*rawMember // the live one of each
		for i, name := range []string{"", "a", "", "b", "", "c", "", "d", "", "e"} {
			group := fmt.Sprintf("g%d", i)
			live := newRawMember(t, b.addr, dial, group, "", time.Minute) // it never beats in this test
			live.join(t.Context())
			live.sync(t.Context())
			groups = append(groups, live)

			dead := newRawMember(t, b.addr, dial, group, name, 6*time.Second)
			joining, kill := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); dead.join(joining) }()
			waitGroup(t, b, group, "a second member waits for the live one", func(g *kfake.GroupInfo) bool {
				return g.State == "PreparingRebalance" && len(g.Members) == 2
			})
			kill()
			<-ended
			dead.cl.Close()
		}
		synctest.Wait() // until the broker has seen the last connection's end
		for _, live := range groups {
			live.join(t.Context())
			if len(live.members) != 2 {
				t.Fatalf("the leader of %s sees members %v, want the dead one too", live.group, live.members)
			}
			live.sync(t.Context())
		}
		for _, live := range groups {
			waitGroup(t, b, live.group, "the dead member's session ends", func(g *kfake.GroupInfo) bool {
				return len(g.Members) == 1 && g.Members[0].MemberID == live.id
			})
			live.join(t.Context())
			live.sync(t.Context())
			waitGroup(t, b, live.group, "the live member has all", func(g *kfake.GroupInfo) bool {
				return g.State == "Stable" && len(g.Members) == 1 && g.Members[0].MemberID == live.id &&
					g.NumAssigned() == 1
			})
		}
	})
}

// TestLiveMembersStay: a new member waits for a slow rebalance longer than its session, and then restarts under its
// name. Nobody may end it, and its new life has its partition.
func TestLiveMembersStay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Embedded, dial kgo.Opt) {
		slow := newRawMember(t, b.addr, dial, "g", "", time.Minute)
		slow.join(t.Context())
		slow.sync(t.Context())
		waits := newRawMember(t, b.addr, dial, "g", "a", 6*time.Second)
		joined := make(chan struct{})
		go func() { defer close(joined); waits.join(t.Context()) }()
		waitGroup(t, b, "g", "a second member waits for the slow one", func(g *kfake.GroupInfo) bool {
			return len(g.Members) == 2
		})
		time.Sleep(8 * time.Second) // longer than its session
		slow.join(t.Context())
		select {
		case <-joined:
		case <-time.After(5 * time.Second):
			t.Fatal("the member that waited is forgotten")
		}
		slow.sync(t.Context())

		again := newRawMember(t, b.addr, dial, "g", "a", 6*time.Second)
		again.join(t.Context())
		time.Sleep(3 * time.Second) // longer than the broker takes to find new members, shorter than the session
		g := b.cluster.GroupInfo("g")
		has := slices.ContainsFunc(g.Members, func(m kfake.GroupMember) bool {
			return m.MemberID == again.id && m.NumAssigned() == 1
		})
		if g.State != "Stable" || len(g.Members) != 2 || !has {
			t.Errorf("%s has no partition: %+v", again.id, g)
		}
	})
}

func waitGroup(t *testing.T, b *Embedded, group, what string, ok func(*kfake.GroupInfo) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	g, err := b.cluster.WaitGroupInfo(ctx, group, func(g *kfake.GroupInfo) bool { return g != nil && ok(g) })
	if err != nil {
		t.Fatalf("not within 20 s: %s: %+v", what, g)
	}
}

// rawMember is a member of a group that sends only what the test makes it send.
type rawMember struct {
	t          *testing.T
	cl         *kgo.Client
	group      string
	instance   *string
	session    time.Duration
	id         string
	generation int32
	members    []string // the leader's: of its last join
}

func newRawMember(t *testing.T, addr string, dial kgo.Opt, group, name string, session time.Duration) *rawMember {
	t.Helper()
	cl := kafkatest.Client(t, []string{addr}, dial)
	m := &rawMember{t: t, cl: cl, group: group, session: session}
	if name != "" {
		m.instance = &name
	}
	return m
}

// join returns when the broker has answered, or ctx has ended. A member without a name asks twice: first for its id.
func (m *rawMember) join(ctx context.Context) {
	for range 2 {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.MemberID, r.InstanceID, r.ProtocolType = m.group, m.id, m.instance, "consumer"
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(m.session.Milliseconds()), 60_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = "range"
		metadata := kmsg.NewConsumerMemberMetadata()
		p.Metadata = metadata.AppendTo(nil)
		r.Protocols = append(r.Protocols, p)
		resp, err := r.RequestWith(ctx, m.cl)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.t.Errorf("joining: %v", err)
			return
		}
		m.id, m.generation, m.members = resp.MemberID, resp.Generation, nil
		for _, other := range resp.Members {
			m.members = append(m.members, other.MemberID)
		}
		if resp.ErrorCode == 0 {
			return
		}
	}
	m.t.Errorf("member %q cannot join", m.id)
}

// sync is the leader's: each member gets a partition.
func (m *rawMember) sync(ctx context.Context) {
	m.t.Helper()
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.MemberID, r.Generation = m.group, m.id, m.generation
	for i, id := range m.members {
		of := kmsg.NewConsumerMemberAssignment()
		of.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{int32(i)}}}
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, of.AppendTo(nil)
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	if resp, err := r.RequestWith(ctx, m.cl); err != nil || resp.ErrorCode != 0 {
		m.t.Fatalf("the leader syncs: %v, %+v", err, resp)
	}
}

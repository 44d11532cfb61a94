package producers

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/hardware"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// tellingNode starts a node that samples and reports facts.
func (l *lab) tellingNode(t *testing.T) (logged *kafkatest.Log) {
	t.Helper()
	logged = &kafkatest.Log{}
	f := l.newFleet(t, []member{{"sim0001", &simulated{node: "sim0001"}}}, logged.Logger())
	f.tells = true
	start(t, logged, f.serve)
	return logged
}

// readFacts waits for the first record of topic facts.
func (l *lab) readFacts(t *testing.T) *kgo.Record {
	t.Helper()
	cl := l.client(t, kgo.ConsumeTopics(l.Prefix+schemas.TopicFacts), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	for ctx.Err() == nil {
		if records := cl.PollFetches(ctx).Records(); len(records) > 0 {
			return records[0]
		}
	}
	t.Fatal("no facts came")
	return nil
}

// checkFacts: the record is of the node, and readers can use it.
func (l *lab) checkFacts(t *testing.T, r *kgo.Record) {
	t.Helper()
	facts := hardware.NewFacts(l.Cluster)
	if err := facts.Take(r.Key, r.Value); err != nil {
		t.Fatal(err)
	}
	if agent, _ := facts.Node("sim0001"); agent == nil || agent.CPUs < 1 || agent.ReadAt == 0 {
		t.Errorf("%+v", agent)
	}
}

func TestFactsAreReported(t *testing.T) {
	inBubble(t, func(t *testing.T, l *lab) {
		l.startBroker(t, t.TempDir())
		l.tellingNode(t)
		l.checkFacts(t, l.readFacts(t))
	})
}

// TestFactsDelayNothing: an agent that was upgraded before the topics and their rights goes on sampling, with one
// warning. It reports the facts once it may.
func TestFactsDelayNothing(t *testing.T) {
	all := func(topics ...string) (rights []kfake.ACL) {
		for _, topic := range topics {
			for _, o := range []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationWrite} {
				rights = append(rights, kfake.ACL{
					Resource: kmsg.ACLResourceTypeTopic, Name: "test." + topic,
					Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: o, Allow: true,
				})
			}
		}
		return append(rights, kfake.ACL{
			Resource: kmsg.ACLResourceTypeTransactionalId, Name: "test.",
			Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationWrite, Allow: true,
		})
	}
	for name, c := range map[string]struct {
		opts  []kfake.Opt
		topic bool // it is there
	}{
		"no topic": {nil, false},
		"no right": {[]kfake.Opt{
			kfake.EnableACLs(),
			kfake.User("PLAIN", "ANONYMOUS", "", all(schemas.TopicCounters, schemas.TopicRoutes)...),
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *lab) {
				cluster := l.startBroker(t, t.TempDir(), c.opts...)
				topic := l.Prefix + schemas.TopicFacts
				if !c.topic {
					if _, err := kadm.NewClient(l.client(t)).DeleteTopic(t.Context(), topic); err != nil {
						t.Fatal(err)
					}
				}
				l.plan(t, &schemas.Route{Node: "sim0001", Entries: []schemas.RouteEntry{{JobID: "1", Mode: schemas.ModeCollect}}})
				logged := l.tellingNode(t)
				const intervals = 400 // 80 s, with two tries
				records := l.gather(t, func(all []counter) bool { return from(all, "sim0001") >= intervals })
				var starts []int64
				for _, r := range records {
					if r.head != nil {
						starts = append(starts, r.head.IntervalStart)
					}
				}
				slices.Sort(starts)
				if first, last := starts[0], starts[len(starts)-1]; last-first != int64(len(starts)-1)*200 {
					t.Errorf("%d records lie in %d ms", len(starts), last-first)
				}
				if n := logged.Count("facts about this node are not reported"); n != 1 || len(gaps(records)) > 0 {
					t.Errorf("%d warnings and %d gaps: %s", n, len(gaps(records)), logged)
				}
				if c.topic {
					return
				}
				kafkatest.CreateTopics(t, cluster, l.Config)
				l.checkFacts(t, l.readFacts(t))
				synctest.Wait()
				if logged.Count("facts about this node are reported") != 1 {
					t.Error(logged)
				}
			})
		})
	}
}

// TestFactsOnceUnlessChanged: equal facts are written once, a change is written, and a failure is tried again.
func TestFactsOnceUnlessChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		logged := &kafkatest.Log{}
		f := l.newFleet(t, []member{{"n1", &simulated{node: "n1"}}}, logged.Logger())
		var written, reads atomic.Int32
		var failing atomic.Bool
		failing.Store(true)
		teller := &teller{
			fleet: f, topic: "test.facts",
			read: func() (schemas.NodeFacts, error) {
				return schemas.NodeFacts{CPUs: 8 - min(reads.Add(1)/10, 1)}, nil
			},
			produce: func(context.Context, *kgo.Record) error {
				if failing.Load() {
					return errors.New("no right")
				}
				written.Add(1)
				return nil
			},
		}
		start(t, logged, func(ctx context.Context) error { teller.run(ctx, 0); return nil })
		time.Sleep(5 * time.Minute) // after 0, 1 and 3 minutes
		synctest.Wait()
		if reads.Load() != 3 || written.Load() != 0 {
			t.Errorf("%d tries, %d records", reads.Load(), written.Load())
		}
		failing.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if written.Load() != 1 {
			t.Errorf("%d records", written.Load())
		}
		time.Sleep(10 * time.Hour) // one of these reads finds a CPU less
		synctest.Wait()
		if written.Load() != 2 || reads.Load() < 10 {
			t.Errorf("%d records of %d reads", written.Load(), reads.Load())
		}
	})
}

// TestFactsThatHang: a driver that hangs keeps the agent neither from its end nor from trying again later.
func TestFactsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		logged := &kafkatest.Log{}
		f := l.newFleet(t, []member{{"n1", &simulated{node: "n1"}}}, logged.Logger())
		answer := make(chan struct{})
		var written, reads atomic.Int32
		teller := &teller{
			fleet: f, topic: "test.facts",
			read: func() (schemas.NodeFacts, error) {
				reads.Add(1)
				<-answer
				return schemas.NodeFacts{CPUs: 8}, nil
			},
			produce: func(context.Context, *kgo.Record) error { written.Add(1); return nil },
		}
		stop := start(t, logged, func(ctx context.Context) error { teller.run(ctx, 0); return nil })
		time.Sleep(10 * time.Minute)
		if reads.Load() != 1 || written.Load() != 0 || logged.Count(errHangs.Error()) == 0 {
			t.Errorf("%d reads, %d records: %s", reads.Load(), written.Load(), logged)
		}
		close(answer)
		time.Sleep(time.Hour)
		if written.Load() != 1 {
			t.Errorf("%d records", written.Load())
		}
		stop()
	})
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrUnsure is returned when too few brokers answer, or when they do not agree.
var ErrUnsure = errors.New("the brokers do not agree about the topic, or too few of them answer: " +
	"one of them may be cut from the others")

// errNoAnswer is returned if a broker answers another question.
var errNoAnswer = errors.New("it answers about other partitions")

// answerLimit is the time limit for a broker to answer a question to all brokers.
const answerLimit = 3 * time.Second

// Standing is the state of a partition, as reported by the leader that the brokers agree on.
type Standing struct {
	Leader, Epoch int32
	Start, End    int64 // the first offset, and the end with the records of open transactions
}

// By names the leader that reported the state, for a verdict that cannot be undone.
func (s Standing) By() string {
	return fmt.Sprintf("by its leader, broker %d in epoch %d", s.Leader, s.Epoch)
}

// Agreed is the state of a topic that its brokers agree on.
type Agreed struct {
	ID         string // in hex; empty if the brokers give none
	Partitions map[int32]Standing
}

// Agree asks all brokers who leads partitions of a topic, then the leaders of the newest epochs for their offsets, then
// all brokers again. Without partitions, it asks for all.
//
// A broker that is cut from its peers continues to act as leader. It reports an old end to the clients that reach it,
// and only the other brokers know the new end. A new leader commits nothing before min.insync.replicas know its epoch:
// two of three. Any two replicas include one that knows it, so Agree returns ErrUnsure unless more than half of the
// replicas answer.
func Agree(ctx context.Context, cl *kgo.Client, topic string, partitions ...int32) (Agreed, error) {
	before, err := askAll(ctx, cl, topic, partitions)
	if err != nil {
		return Agreed{}, err
	}
	agreed := Agreed{ID: before.id, Partitions: map[int32]Standing{}}
	led := map[int32][]int32{}
	for p, l := range before.leaders {
		agreed.Partitions[p] = Standing{Leader: l.id, Epoch: l.epoch}
		led[l.id] = append(led[l.id], p)
	}
	for id, of := range led {
		if err := agreed.list(ctx, cl, topic, id, of); err != nil {
			return Agreed{}, err
		}
	}
	after, err := askAll(ctx, cl, topic, partitions)
	if err != nil {
		return Agreed{}, err
	}
	if before.id != after.id || !maps.Equal(before.leaders, after.leaders) {
		return Agreed{}, fmt.Errorf("topic %s: leaders change: %w", topic, ErrUnsure)
	}
	return agreed, nil
}

// leader leads a partition in an epoch.
type leader struct{ id, epoch int32 }

// leaders are the leaders of a topic's partitions.
type leaders struct {
	id      string
	leaders map[int32]leader
}

// askAll asks every broker who leads a topic.
func askAll(ctx context.Context, cl *kgo.Client, topic string, partitions []int32) (leaders, error) {
	question := func() *kmsg.MetadataRequest {
		of := kmsg.NewMetadataRequestTopic()
		of.Topic = &topic
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = append(req.Topics, of)
		return req
	}
	anyone, err := question().RequestWith(ctx, cl) // makes the brokers known to the client
	if err != nil {
		return leaders{}, fmt.Errorf("asking who the brokers are: %w", err)
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	answers := map[int32]*kmsg.MetadataResponseTopic{} // by broker
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for i := range anyone.Brokers {
		id := anyone.Brokers[i].NodeID
		wait.Go(func() {
			r, err := question().RequestWith(limited, cl.Broker(int(id)))
			if err == nil && len(r.Topics) == 1 && r.Topics[0].ErrorCode == 0 {
				mu.Lock()
				answers[id] = &r.Topics[0]
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return newest(topic, partitions, answers)
}

// newest returns the leaders in the newest epochs of the answers, if enough replicas have answered.
func newest(topic string, partitions []int32, answers map[int32]*kmsg.MetadataResponseTopic) (leaders, error) {
	found := leaders{leaders: map[int32]leader{}}
	replicas := map[int32][]int32{}
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		t := answers[id]
		topicID := TopicID(kadm.TopicDetail{ID: kadm.TopicID(t.TopicID)})
		if !SameTopic(found.id, topicID) {
			return leaders{}, fmt.Errorf("topic %s has the ids %s and %s: %w", topic, found.id, topicID, ErrUnsure)
		}
		found.id = topicID
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if len(partitions) > 0 && !slices.Contains(partitions, p.Partition) {
				continue
			}
			if l, ok := found.leaders[p.Partition]; !ok || p.LeaderEpoch > l.epoch {
				found.leaders[p.Partition], replicas[p.Partition] = leader{p.Leader, p.LeaderEpoch}, p.Replicas
			}
		}
	}
	if len(replicas) < max(1, len(partitions)) {
		return leaders{}, fmt.Errorf("topic %s: no broker has the partitions: %w", topic, ErrUnsure)
	}
	for p, all := range replicas {
		n := 0
		for _, id := range all {
			if answers[id] != nil {
				n++
			}
		}
		if n <= len(all)/2 {
			return leaders{}, fmt.Errorf("%s-%d: %d of its %d replicas answer: %w", topic, p, n, len(all), ErrUnsure)
		}
	}
	return found, nil
}

// list asks a leader for the offsets of its partitions. It refuses if it does not lead them in that epoch.
func (a *Agreed) list(ctx context.Context, cl *kgo.Client, topic string, leader int32, partitions []int32) error {
	const beginning, end = -2, -1
	for _, at := range []int64{beginning, end} {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, p := range partitions {
			of := kmsg.NewListOffsetsRequestTopicPartition()
			of.Partition, of.CurrentLeaderEpoch, of.Timestamp = p, a.Partitions[p].Epoch, at
			t.Partitions = append(t.Partitions, of)
		}
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.Topics = -1, append(req.Topics, t)
		limited, cancel := context.WithTimeout(ctx, answerLimit)
		r, err := req.RequestWith(limited, cl.Broker(int(leader)))
		cancel()
		if err == nil && (len(r.Topics) != 1 || len(r.Topics[0].Partitions) != len(partitions)) {
			err = errNoAnswer
		}
		if err != nil {
			return fmt.Errorf("topic %s at broker %d: %w: %w", topic, leader, ErrUnsure, err)
		}
		for i := range r.Topics[0].Partitions {
			o := &r.Topics[0].Partitions[i]
			s := a.Partitions[o.Partition]
			if err := kerr.ErrorForCode(o.ErrorCode); err != nil {
				return fmt.Errorf("%s-%d %s: %w: %w", topic, o.Partition, s.By(), ErrUnsure, err)
			}
			if s.End = o.Offset; at == beginning {
				s.Start = o.Offset
			}
			a.Partitions[o.Partition] = s
		}
	}
	return nil
}

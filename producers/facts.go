package producers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/hardware"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

const (
	// factsEvery is the time between two looks at the hardware, which may change: a CPU goes offline, a GPU falls off.
	factsEvery = time.Hour
	// factsFirst is the pause after the first try that failed. It doubles up to factsEvery: the topic may be made, or
	// the right be given, after an upgrade of the agents.
	factsFirst = time.Minute
	// factsWait is the longest time that a try waits for the kernel, and then for the brokers.
	factsWait = 30 * time.Second
)

// errHangs is returned while a file of the kernel does not answer.
var errHangs = errors.New("a file of the kernel does not answer")

// teller reports the hardware of this node to topic facts. Nothing waits for it: if it cannot write, it logs the reason
// once and tries again, and samples are sent as ever.
type teller struct {
	fleet   *fleet
	topic   string
	read    func() (schemas.NodeFacts, error)
	produce func(ctx context.Context, r *kgo.Record) error

	reading chan found         // the answer of a read that has not answered; nil: none
	written *schemas.NodeFacts // nil: none yet
	trouble retry.Trouble
}

// found is the answer of a read.
type found struct {
	facts schemas.NodeFacts
	err   error
}

// tell reports facts at the start, and whenever they have changed, until ctx ends. All agents may start at once, so
// each waits for a random part of an interval.
func (f *fleet) tell(ctx context.Context, p *publisher) {
	t := &teller{
		fleet: f, topic: f.cfg.Prefix + schemas.TopicFacts, produce: p.produceFacts,
		read: func() (schemas.NodeFacts, error) {
			return hardware.Read(f.cfg.Agent.ProcPath, f.cfg.Agent.SysPath)
		},
	}
	t.run(ctx, rand.N(min(f.cfg.Interval, time.Minute)))
}

func (t *teller) run(ctx context.Context, wait time.Duration) {
	again := factsFirst
	for retry.Pause(ctx, wait) {
		wait = factsEvery + rand.N(factsEvery/10)
		if err := t.once(ctx); err != nil && ctx.Err() == nil {
			if t.trouble.Worth(err, time.Now()) {
				t.fleet.log.Warn("facts about this node are not reported: trying again", "topic", t.topic, "err", err)
			}
			wait = min(wait, again)
			again = min(2*again, factsEvery)
			continue
		}
		again = factsFirst
		if t.trouble.Over() {
			t.fleet.log.Info("facts about this node are reported", "topic", t.topic)
		}
	}
}

// once reads the hardware, and writes it if it differs from what was written.
func (t *teller) once(ctx context.Context) error {
	facts, err := t.look(ctx)
	if err != nil {
		return fmt.Errorf("reading the hardware: %w", err)
	}
	n := t.fleet.nodes[0]
	facts.Cluster, facts.Node, facts.Source = n.head.Cluster, n.name, schemas.FactsAgent
	facts.ReadAt = 0
	if t.written != nil && reflect.DeepEqual(*t.written, facts) {
		return nil
	}
	record := facts
	record.ReadAt = t.fleet.now().UnixMilli()
	value, err := schemas.MarshalChecked(&record)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, factsWait)
	defer cancel()
	if err := t.produce(ctx, &kgo.Record{Topic: t.topic, Key: record.Key(), Value: value}); err != nil {
		return err
	}
	t.written = &facts
	return nil
}

// look reads the hardware in a goroutine of its own: a file of a driver that hangs must not keep the agent from its
// end. A read that has not answered is not repeated beside it.
func (t *teller) look(ctx context.Context) (schemas.NodeFacts, error) {
	if t.reading == nil {
		answer := make(chan found, 1)
		t.reading = answer
		go func() {
			facts, err := t.read()
			answer <- found{facts, err}
		}()
	}
	patience := time.NewTimer(factsWait)
	defer patience.Stop()
	select {
	case f := <-t.reading:
		t.reading = nil
		return f.facts, f.err
	case <-patience.C:
		return schemas.NodeFacts{}, errHangs
	case <-ctx.Done():
		return schemas.NodeFacts{}, ctx.Err()
	}
}

// produceFacts sends a record of facts with the client of the samples, and waits for its fate. Then the client forgets
// the topic, so that it asks no brokers about a topic that it may not use.
func (p *publisher) produceFacts(ctx context.Context, r *kgo.Record) error {
	fate := make(chan error, 1)
	p.client.TryProduce(ctx, r, func(_ *kgo.Record, err error) { fate <- err })
	err := errNoAnswer
	select {
	case err = <-fate:
	case <-ctx.Done():
	}
	p.client.PurgeTopicsFromProducing(r.Topic)
	if errors.Is(err, context.DeadlineExceeded) {
		return errNoAnswer
	}
	return err
}

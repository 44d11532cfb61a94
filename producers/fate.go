package producers

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/retry"
)

// maxTries is the number of times that a record may fail for an unknown reason before it is given up.
const maxTries = 5

var (
	// errEncoding is returned if a record does not fit its schema.
	errEncoding = errors.New("record cannot be encoded")
	// errNoPartition is returned when a route names a partition that the topic does not have.
	errNoPartition = errors.New("no such partition")
)

// fate is the outcome of a record that was handed to the client.
type fate int

const (
	delivered fate = iota // acknowledged
	kept                  // not now: it goes back into the ring
	again                 // as kept, for an unknown reason: at most maxTries times
	refused               // never: it is lost, and a Gap reports it
)

// fateOf decides by the client's error. The client itself retries retriable requests without end, so its error is final
// for most records.
//
// A record is kept in three cases. The agent has no permission to write, which an administrator can change. The
// client's producer id is no longer valid, and the client renews it. The client is full or closing.
func fateOf(err error, tries int) fate {
	var broker *kerr.Error
	switch {
	case err == nil:
		return delivered
	case errors.Is(err, errEncoding), errors.Is(err, errNoPartition):
		return refused
	case errors.Is(err, kgo.ErrMaxBuffered), errors.Is(err, kgo.ErrClientClosed), errors.Is(err, kgo.ErrAborting),
		errors.Is(err, context.Canceled):
		return kept
	case !errors.As(err, &broker):
		if tries < maxTries {
			return again
		}
		return refused
	}
	switch broker {
	case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.IllegalSaslState,
		kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID,
		kerr.InvalidProducerIDMapping:
		return kept
	}
	if broker.Retriable {
		return kept
	}
	return refused
}

// reasonOf is the reason that a Gap gives for a refused record.
func reasonOf(err error) string {
	var broker *kerr.Error
	if errors.As(err, &broker) {
		return broker.Message
	}
	return fmt.Sprintf("%.100s", err.Error())
}

// settle decides by the broker's answer whether a record is done, returns to the ring or is lost. kgo calls it from a
// goroutine of its own.
func (p *publisher) settle(c parcel, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flights[c.node.name]
	if f.intervals[c.item.start]--; f.intervals[c.item.start] == 0 {
		delete(f.intervals, c.item.start)
	}
	p.inFlight--
	p.bytes -= c.bytes
	isGap := c.item.gap != nil
	what := fateOf(err, c.item.tries)
	p.madeAgain = p.madeAgain || errors.Is(err, kerr.UnknownTopicID)
	switch what {
	case kept, again:
		p.failures++
		p.resume = p.now().Add(retry.Backoff(p.failures, p.cfg.BackoffCap))
		if what == kept && !errors.Is(err, kgo.ErrClientClosed) && !errors.Is(err, context.Canceled) {
			p.link.lost(err)
		}
	case delivered, refused: // a broker has answered, so a Gap may leave; a refused Gap waits for the next answer
		p.progress, p.failures, f.gapDue = p.now(), 0, !isGap || err == nil
	}
	switch {
	case what == delivered:
		p.link.found()
	case isGap:
		c.node.ring.owe(c.item.gap)
	case what == refused:
		c.node.ring.lose(c.item, reasonOf(err))
		if p.refusals.Worth(err, p.now()) { // a delivered record in between does not end the trouble
			p.log.Warn("record is refused", "node", c.node.name, "topic", p.topic, "partition", c.item.partition,
				"interval_start", c.item.start, "err", err)
		}
	default:
		if what == again {
			c.item.tries++
		}
		c.node.ring.back(c.item)
	}
	c.node.enqueue()
	p.nudge()
}

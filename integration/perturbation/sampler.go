package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// sampling describes a sampler's work at each of its instants: the work of the agent, at rates and instants that the
// agent does not offer. It reads all sources, and forms their values.
type sampling struct {
	Every  time.Duration `json:"every"`
	Offset time.Duration `json:"offset"` // of its instants from the multiples of Every
	Burn   time.Duration `json:"burn"`   // of processor time beside, as a larger node takes
	Send   string        `json:"send"`   // address of a broker that gets a record each time; empty: none
	Slot   time.Duration `json:"slot"`   // after the instant: when it is sent
}

// sampled is a sampler's report at its end, for each instant.
type sampled struct {
	Skew []time.Duration `json:"skew"` // how late it began
	Took []time.Duration `json:"took"` // how long reading and forming took, with all that interrupted them
}

// recordBytes is a record of two processors and forty metrics.
const recordBytes = 1500

// instantAfter is the first instant after now.
func (s sampling) instantAfter(now time.Time) time.Time {
	n := (now.UnixNano() - s.Offset.Nanoseconds()) / s.Every.Nanoseconds()
	return time.Unix(0, (n+1)*s.Every.Nanoseconds()+s.Offset.Nanoseconds())
}

// serveSampler samples until ctx ends, and then writes its results to out.
func serveSampler(ctx context.Context, s sampling, out io.Writer) error {
	log := slog.New(slog.DiscardHandler)
	host := source.Open(config.Default().Agent, log)
	defer host.Close()
	send := func() {}
	if s.Send != "" {
		client, err := sender(ctx, s.Send)
		if err != nil {
			return err
		}
		defer client.Close()
		topic, value := config.Default().Prefix+schemas.TopicCounters, make([]byte, recordBytes)
		send = func() { client.TryProduce(ctx, &kgo.Record{Topic: topic, Value: value}, nil) }
	}
	var all sampled
	last := time.Now()
	for {
		due := s.instantAfter(time.Now())
		if !retry.Pause(ctx, time.Until(due)) {
			return json.NewEncoder(out).Encode(all)
		}
		began := time.Now()
		host.Read(source.Vitals{BoundaryMs: due.UnixMilli()})
		host.Interval(began.Sub(last))
		burn(s.Burn)
		last = began
		all.Skew = append(all.Skew, began.Sub(due))
		all.Took = append(all.Took, time.Since(began))
		if s.Slot > 0 && !retry.Pause(ctx, time.Until(due.Add(s.Slot))) {
			continue
		}
		send()
	}
}

// sender makes a client as the agent's: the records of an instant leave together.
func sender(ctx context.Context, broker string) (*kgo.Client, error) {
	cfg := config.Default()
	cfg.Kafka.Brokers = []string{broker}
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, kgo.ProducerLinger(5*time.Millisecond))...)
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", broker, err)
	}
	return client, nil
}

// burn takes processor time, however long that takes.
func burn(d time.Duration) {
	if d <= 0 {
		return
	}
	for end := ownCPU() + d; ownCPU() < end; {
		work := rank{}
		work.loop(20)
	}
}

package main

import (
	"context"
	"errors"
	"time"
)

// condition is a set of daemons that runs beside the application.
type condition struct {
	name  string
	quick bool          // it is part of a short run
	needs bool          // it needs node_exporter
	warm  time.Duration // until it has completed at least one cycle
	start func(context.Context, *lab) ([]*child, error)
}

// The two runs without any daemon are compared with each other: their difference is noise.
const (
	bare      = "none"
	bareAgain = "none, again"
)

// agentWarm is how long an agent takes to its first record: it waits for its Route, and needs two boundaries.
const agentWarm = 2500 * time.Millisecond

func conditions() []condition {
	const warm = 1100 * time.Millisecond
	nothing := func(context.Context, *lab) ([]*child, error) { return nil, nil }
	return []condition{
		{bare, true, false, 0, nothing},
		{bareAgain, true, false, 0, nothing},
		{"agent, brokers away, 1 Hz", true, false, agentWarm, agentAway},
		{"agent and broker, 1 Hz", true, false, agentWarm, agentSending(time.Second)},
		{"agent and broker, 5 Hz", false, false, agentWarm, agentSending(200 * time.Millisecond)},
		{"sampling 1x: 1 Hz", false, false, warm, samplers(1, sampling{Every: time.Second})},
		{"sampling 10x: 10 Hz", false, false, warm, samplers(1, sampling{Every: time.Second / 10})},
		{"sampling 100x: 100 Hz", true, false, warm, samplers(1, sampling{Every: time.Second / 100})},
		{"aligned, any number of nodes", false, false, warm, nodes(2, 0, 0)},
		{"staggered, 8 nodes", false, false, warm, nodes(8, time.Second, 0)},
		{"staggered, 64 nodes", false, false, warm, nodes(64, time.Second, 0)},
		{"sends together", false, false, warm, sending(0)},
		{"sends in 0.6 s", false, false, warm, sending(sendWindow)},
		{"sends in T", false, false, warm, sending(time.Second)},
		{"node_exporter, 1 Hz", true, true, agentWarm, withExporter(nothing)},
		{"agent and node_exporter, 1 Hz", false, true, agentWarm, withExporter(agentAway)},
	}
}

func agentAway(ctx context.Context, l *lab) ([]*child, error) {
	agent, err := l.startAgent(ctx, away, false, time.Second)
	return whole(nil, agent, err)
}

// whole adds a child to the running ones, or ends them all if it did not start.
func whole(running []*child, c *child, err error) ([]*child, error) {
	if err != nil {
		return nil, errors.Join(err, stopAll(running))
	}
	return append(running, c), nil
}

// agentSending is an agent and the broker to which it sends. Both disturb the application here. On a machine for
// computing the broker is elsewhere, so this is an upper bound.
func agentSending(interval time.Duration) func(context.Context, *lab) ([]*child, error) {
	return func(ctx context.Context, l *lab) ([]*child, error) {
		broker, address, err := l.startBroker(ctx)
		running, err := whole(nil, broker, err)
		if err != nil {
			return nil, err
		}
		agent, err := l.startAgent(ctx, address, true, interval)
		return whole(running, agent, err)
	}
}

// samplers starts the same sampler as often as said.
func samplers(n int, s sampling) func(context.Context, *lab) ([]*child, error) {
	return func(_ context.Context, l *lab) (running []*child, err error) {
		for range n {
			c, err := l.startSampler(s)
			if running, err = whole(running, c, err); err != nil {
				return nil, err
			}
		}
		return running, nil
	}
}

// nodes stands for the daemons of so many nodes, each with one rank of the application. The daemons share the
// processors of the ranks. Daemons at the same instant interrupt all ranks at once, so one on each processor stands for
// any number. Daemons at different instants interrupt one rank after the other, on any processor. Their instants are
// spread over window. They send slot after their instant, or never if slot is 0.
func nodes(n int, window, slot time.Duration) func(context.Context, *lab) ([]*child, error) {
	return func(_ context.Context, l *lab) (running []*child, err error) {
		for i, s := range spread(n, l.ranks, window) {
			s.Slot = slot
			c, err := l.startSampler(s, on(i)...)
			if running, err = whole(running, c, err); err != nil {
				return nil, err
			}
		}
		return running, nil
	}
}

// spread divides n daemons among the processors. Their instants are spread evenly over the window of a second. The
// daemons of a processor are represented by one sampler at a higher rate, so there must be at least as many daemons as
// processors. Without a window there is one on each.
func spread(n, processors int, window time.Duration) []sampling {
	all := make([]sampling, processors)
	for i := range all {
		all[i] = sampling{Every: time.Second}
		if window > 0 {
			all[i] = sampling{
				Every:  time.Second * time.Duration(processors) / time.Duration(n),
				Offset: window * time.Duration(i) / time.Duration(n),
			}
		}
	}
	return all
}

// sending is a node on each processor: both sample at once, and send spread over the window.
func sending(window time.Duration) func(context.Context, *lab) ([]*child, error) {
	return func(ctx context.Context, l *lab) ([]*child, error) {
		broker, address, err := l.startBroker(ctx)
		running, err := whole(nil, broker, err)
		for i := 0; i < l.ranks && err == nil; i++ {
			var c *child
			slot := window * time.Duration(i) / time.Duration(l.ranks)
			c, err = l.startSampler(sampling{Every: time.Second, Send: address, Slot: slot}, on(i)...)
			running, err = whole(running, c, err)
		}
		return running, err
	}
}

// withExporter adds node_exporter, which this process scrapes. The scraping disturbs the application here too.
func withExporter(
	others func(context.Context, *lab) ([]*child, error),
) func(context.Context, *lab) ([]*child, error) {
	return func(ctx context.Context, l *lab) ([]*child, error) {
		running, err := others(ctx, l)
		if err != nil {
			return nil, err
		}
		c, url, err := l.startExporter(true)
		if running, err = whole(running, c, err); err != nil {
			return nil, err
		}
		go scrape(ctx, url)
		return running, nil
	}
}

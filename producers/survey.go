package producers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology/discovery/measure"
)

const (
	// ordersWait is the longest time that a broker holds a fetch of orders, which come once in a year.
	ordersWait = time.Minute

	// All nodes read an order at once. They come to the coordinator over so long, which could not greet them at once.
	arrivals       = 2 * time.Second
	arrivalSpacing = 2 * time.Millisecond // between two nodes, if the order names them
)

var (
	// errNotOrder is returned when a value of topic topology-orders is no TopologyOrder of this cluster.
	errNotOrder = errors.New("not a topology order of this cluster")
	// errOldOrder is returned when an order ended before it was read.
	errOldOrder = errors.New("it is over: this node read it late, or its clock differs from the broker's")
)

// surveyor lets this node take part in measurements of latencies that an administrator ordered. A child process
// measures, because it spins and the agent must not wait for it. The child ends with the measurement, with the agent,
// after the order's seconds, or when a newer order comes.
type surveyor struct {
	cfg     config.Config
	log     *slog.Logger
	program []string // the measuring program; its standard input is the measure.Member
	trouble retry.Trouble
	began   time.Time
	end     context.CancelFunc // of the last order; nil: there was none
	running sync.WaitGroup     // of one order at most
}

// survey obeys orders until ctx ends.
func (f *fleet) survey(ctx context.Context) {
	// The file of this very process: an upgrade may have put another one under its name.
	program := []string{"/proc/self/exe", "topology", "peer"}
	s := surveyor{cfg: f.cfg, log: f.log, began: f.now(), program: program}
	defer s.running.Wait()
	// Not from a time: the client asks for its offset and for the end, and an order may come between both.
	topic, from := f.cfg.Prefix+schemas.TopicOrders, kgo.NewOffset().AtStart()
	f.hear(ctx, topic, from, ordersWait, func(calls []*kgo.Record, arrived time.Time) {
		for _, r := range calls {
			s.take(ctx, r, arrived)
		}
	})
}

// take obeys an order that is for this node.
func (s *surveyor) take(ctx context.Context, r *kgo.Record, now time.Time) {
	age := max(0, now.Sub(r.Timestamp))
	if age > schemas.OrderWait && r.Timestamp.Before(s.began) {
		return // history
	}
	o, err := s.orderOf(r.Value)
	left := time.Duration(0)
	if err == nil {
		left = time.Duration(o.Seconds)*time.Second - age
		if left <= 0 || age > schemas.OrderWait {
			err = errOldOrder
		}
	}
	switch {
	case err != nil:
		if s.trouble.Worth(err, now) {
			s.log.Warn("topology order is skipped", "topic", r.Topic, "offset", r.Offset, "err", err)
		}
	case len(o.Nodes) > 0 && !slices.Contains(o.Nodes, s.cfg.Agent.Node):
	default:
		if s.end != nil {
			s.end()
			s.running.Wait()
		}
		ctx, s.end = context.WithTimeout(ctx, left) // by the monotonic clock
		s.running.Go(func() { s.obey(ctx, o) })
	}
}

func (s *surveyor) orderOf(value []byte) (*schemas.TopologyOrder, error) {
	decoded, err := schemas.Unmarshal(value)
	if err != nil {
		return nil, fmt.Errorf("decoding a topology order: %w", err)
	}
	o, ok := decoded.(*schemas.TopologyOrder)
	if !ok || o.Cluster != s.cfg.Cluster {
		return nil, errNotOrder
	}
	return o, nil
}

// obey measures for one order until it ends, or ctx does.
func (s *surveyor) obey(ctx context.Context, o *schemas.TopologyOrder) {
	spread := arrivals
	if n := len(o.Nodes); n > 0 {
		spread = min(spread, time.Duration(n)*arrivalSpacing)
	}
	if !retry.Pause(ctx, rand.N(spread)) {
		return
	}
	s.log.Info("this node takes part in a measurement of latencies", "coordinator", o.Coordinator)
	err := s.measure(ctx, measure.Member{
		Coordinator: o.Coordinator, Secret: o.Secret, Name: s.cfg.Agent.Node, Listen: s.cfg.Agent.Topology.Listen,
		Limits: measure.Limits{
			PacketsPerSecond: s.cfg.Agent.Topology.PacketsPerSecond, Share: s.cfg.Agent.Topology.Share,
		},
	})
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		s.log.Warn("measurement of latencies is stopped: it took longer than was ordered")
	case ctx.Err() != nil:
		s.log.Info("measurement of latencies is left: the agent ends, or has a newer order")
	case err != nil:
		s.log.Warn("measurement of latencies failed on this node", "err", err)
	default:
		s.log.Info("measurement of latencies has ended")
	}
}

// measure runs the child until it ends, or the context does. The child also ends when its standard input does, which
// this process holds: so it does not outlive a crash of the agent.
func (s *surveyor) measure(ctx context.Context, m measure.Member) error {
	task, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("writing the child's task: %w", err)
	}
	child := exec.CommandContext(ctx, s.program[0], s.program[1:]...)
	child.WaitDelay = time.Second
	// One thread spins, another one serves the coordinator. Variables of the agent would bind it to one. It must not
	// know the other variables either, since it listens to other nodes.
	child.Env = []string{"GOMAXPROCS=2", "GOMEMLIMIT=16MiB"}
	input, err := child.StdinPipe()
	if err == nil {
		_, err = input.Write(append(task, '\n')) // less than a pipe holds
	}
	if err == nil {
		_, err = child.Output()
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("the process that measures: %w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return fmt.Errorf("starting the process that measures: %w", err)
	}
	return nil
}

// Package producers is the node's side of weir. All nodes read their counters at the same instant. A node then forms
// one record for each job that runs on it, and sends the record to the partition that the node's Route names.
//
//	sources ──readings──▶ sample ──form, by Route──▶ ring ──whole intervals──▶ kgo ──▶ topic counters
//	                                     ▲
//	                          topic routes, kept on disk
//
// An outage of Kafka never blocks a reading, never grows memory and never ends the agent. A full ring drops its oldest
// interval, and a Gap record reports the loss. Simulated nodes differ from a real one only in the source of their
// values.
package producers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// errNodes is returned when there is no node to run, a node is named twice, or a name is not valid.
var errNodes = errors.New("nodes must be named once each, by [A-Za-z0-9._:-]{1,64}")

// Run is the agent of this host, under the name cfg.Agent.Node. It blocks until ctx ends, then spends at most two
// seconds on sending its waiting records, and returns nil. It returns an error only if no Kafka client can be made from
// the configuration. It logs every other trouble, and continues until the trouble is over.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	// Quotas of Kafka go by client ids: one agent that sends too much must not slow down the others.
	cfg.Kafka.ClientID = cmp.Or(cfg.Kafka.ClientID, "weir-agent-"+cfg.Agent.Node)
	h := source.Open(cfg.Agent, log)
	defer h.Close()
	f, err := newFleet(cfg, []member{{cfg.Agent.Node, h}}, log)
	if err != nil {
		return err
	}
	f.surveys, f.tells = cfg.Agent.Topology.Enabled, true
	if a, err := newAlarm(ctx); err == nil {
		defer a.close()
		f.pause = a.pause
	} else {
		log.Warn("samples may be a millisecond late", "err", err)
	}
	return f.serve(ctx)
}

// Check returns nil if an agent can have the metrics that its site declares.
func Check(cfg config.Agent) error { return source.Check(cfg) }

// Simulate runs simulated nodes of the test mix that share one producer and one reader of routes. It ends as Run does.
func Simulate(ctx context.Context, cfg config.Config, nodes []string, log *slog.Logger) error {
	return simulate(ctx, cfg, nodes, Load{}, nil, log)
}

// SimulateLoad runs simulated nodes as load describes them. It ends as Run does.
func SimulateLoad(ctx context.Context, cfg config.Config, nodes []string, load Load, log *slog.Logger) error {
	return simulate(ctx, cfg, nodes, load, nil, log)
}

// SimulateClock is Simulate on hosts with a common clock, which the given function reads. These nodes also publish a
// real agent's measurements of its clock.
func SimulateClock(
	ctx context.Context, cfg config.Config, nodes []string, clock func() time.Time, log *slog.Logger,
) error {
	return simulate(ctx, cfg, nodes, Load{}, clock, log)
}

func simulate(
	ctx context.Context, cfg config.Config, nodes []string, load Load, clock func() time.Time, log *slog.Logger,
) error {
	f, err := newFleet(cfg, load.members(cfg.Agent.List, nodes, clock != nil), log)
	if err != nil {
		return err
	}
	f.clients, f.requestPerNode = load.Clients, load.RequestPerNode
	if clock != nil {
		f.setClock(clock)
	}
	load.announce(len(nodes), log)
	return f.serve(ctx)
}

// member is a node to run: its name, and the source of its values.
type member struct {
	name string
	from sampler
}

// fleet is the nodes of this process, with their Kafka clients, routes and clock in common.
type fleet struct {
	cfg    config.Config
	log    *slog.Logger
	nodes  []*node // in the order of their send slots
	byName map[string]*node
	opts   []kgo.Opt // of the clients: tests have a network in memory

	clients        int  // that publish; 0: one
	requestPerNode bool // the nodes of a client publish one after the other

	// pause waits for a time; false: ctx ended. The loop that samples calls it.
	pause func(ctx context.Context, d time.Duration) bool

	surveys bool // this process is a node's agent, and may measure latencies
	tells   bool // likewise, and it reports the hardware

	triggers chan trigger // the newest trigger, until the sampling loop takes it; nil if the clock calls

	// Only the loop that samples uses these.
	formed   int64 // interval_start of the newest interval formed; a clock set back resets it
	future   retry.Trouble
	uncalled retry.Trouble // of triggers that do not come

	mu sync.Mutex // guards the nodes' routes and rings, which three loops and kgo's promises use

	clock hostClock
}

// now is the time by the host's clock.
func (f *fleet) now() time.Time { return f.clock.read() }

// newFleet makes the nodes of a process. A real agent runs one. A simulation runs thousands, which share the memory for
// waiting records.
func newFleet(cfg config.Config, members []member, log *slog.Logger) (*fleet, error) {
	f := &fleet{
		cfg: cfg, log: log, byName: map[string]*node{}, pause: retry.Pause,
	}
	f.setClock(time.Now)
	if cfg.Triggered() {
		f.triggers = make(chan trigger, 1)
	}
	head := schemas.NodeHeader{
		Cluster: cfg.Cluster, IntervalMs: cfg.Interval.Milliseconds(),
		BootID: bootID(cfg.Agent.ProcPath, log), RunID: newRunID(),
	}
	for _, m := range members {
		if !naming.Valid(m.name) || f.byName[m.name] != nil {
			return nil, fmt.Errorf("node %.80q: %w", m.name, errNodes)
		}
		n := newNode(m, head, cfg, ringBytes(len(members)))
		f.byName[m.name] = n
		f.nodes = append(f.nodes, n)
	}
	if len(f.nodes) == 0 {
		return nil, fmt.Errorf("no node: %w", errNodes)
	}
	sortBySlot(f.nodes)
	return f, nil
}

// setClock replaces the host's clock: a simulated node may have one that is off.
func (f *fleet) setClock(read func() time.Time) { f.clock = hostClock{read: read, began: read()} }

// leaderAge is the largest age of an agent's knowledge of the leaders, give or take a third. Services ask every 3 s.
// Agents are many: 10,000 of them that ask every 30 s take a seventh of a core from the brokers (TestMetadataLoad).
const leaderAge = 30 * time.Second

// clientOpts returns the options of the fleet's clients. Each client draws its own period for refreshing metadata.
// Otherwise agents that started together would ask the brokers together for ever.
func (f *fleet) clientOpts(ctx context.Context) ([]kgo.Opt, error) {
	opts, err := kafka.ClientOpts(ctx, f.cfg)
	opts = append(opts, kgo.MetadataMaxAge(leaderAge*2/3+mathrand.N(leaderAge*2/3)))
	return append(opts, f.opts...), err
}

// serve runs three loops until ctx ends: one follows the routes, one samples and forms records, one sends. Simulated
// nodes may run several senders. The senders end last. If configured, a further loop hears triggers, and another obeys
// topology orders. The agent of a node also reports its hardware.
func (f *fleet) serve(ctx context.Context) error {
	r, err := newFollower(f)
	if err != nil {
		return err
	}
	publishers, err := newPublishers(f)
	if err != nil {
		return err
	}
	f.loadRoutes()

	var loops sync.WaitGroup
	defer loops.Wait()
	sampled := make(chan struct{})
	loops.Go(func() { r.run(ctx) })
	for _, p := range publishers {
		loops.Go(func() { p.run(sampled) })
	}
	if f.triggers != nil {
		loops.Go(func() { listen(ctx, f) })
	}
	if f.surveys {
		loops.Go(func() { f.survey(ctx) })
	}
	if f.tells {
		loops.Go(func() { f.tell(ctx, publishers[0]) })
	}

	// The route on disk is older than this start, and may direct records to partitions that their jobs have left. If
	// the brokers answer, the newest routes arrive at once. If they do not, the route on disk is the best one known.
	select {
	case <-r.caughtUp:
	case <-time.After(min(f.cfg.Interval, f.cfg.BackoffCap)):
	case <-ctx.Done():
	}
	f.tick(ctx)
	close(sampled)
	return nil
}

// bootID names this boot of the host. It is empty if the kernel does not report one.
func bootID(procPath string, log *slog.Logger) string {
	b, err := os.ReadFile(filepath.Join(procPath, "sys/kernel/random/boot_id"))
	id := strings.TrimSpace(string(b))
	if err != nil || !naming.Valid(id) {
		log.Warn("boot id is not known", "err", err)
		return ""
	}
	return id
}

// newRunID names this start of the process, and so distinguishes its sequence numbers from those of the last start.
func newRunID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

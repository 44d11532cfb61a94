package topology

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/measure"

	"github.com/weirhpc/weir/commands/cli"
)

// agentsFlags select agents to measure between their nodes. A TopologyOrder calls them to a rendezvous.
type agentsFlags struct {
	cli.ConfigFlags

	wanted   bool
	address  string
	on       string
	Longest  time.Duration
	meeting  *rendezvousFlags // the flags that both ways share
	expected []string         // nodes that are called; nil: all
}

func (f *agentsFlags) flag() string { return "agents" }

func (f *agentsFlags) Add(c *cobra.Command) {
	f.Reads = true // for the brokers of a running weir up
	f.ConfigFlags.Add(c)
	flags := c.Flags()
	flags.Lookup("config").Usage = "with --agents: configuration `FILE` (default: " + cli.EtcFile + ")"
	flags.BoolVar(&f.wanted, f.flag(), false, "measure between the nodes of agents with agent.topology.enabled")
	flags.StringVar(&f.address, "address", "", "with --agents: they come to `HOST:PORT` by TCP "+
		"(default: this host, any port)")
	flags.StringVar(&f.on, "on", "", "with --agents: measure `NODES` alone, such as n[001-064] "+
		"(default: all that come)")
	flags.DurationVar(&f.Longest, "for", time.Hour, "with --agents: end the measurement after `DURATION`")
}

// open orders a measurement and waits for the agents.
func (f *agentsFlags) open(c *cobra.Command) (latency.Measurer, func() error, error) {
	cfg, err := f.check()
	if err != nil {
		return nil, nil, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // does not fail: crypto/rand ends the process instead
	host, port, err := f.meetingPoint(cfg)
	if err != nil {
		return nil, nil, err
	}
	r, err := f.meeting.Meet(c, net.JoinHostPort(host, port), measure.Meeting{
		Secret: secret, Limits: limitsOf(c), Nodes: f.expected, Longest: f.Longest,
	})
	if err != nil {
		return nil, nil, err
	}
	_, port, _ = net.SplitHostPort(r.Address())
	order := schemas.TopologyOrder{
		Cluster: cfg.Cluster, OrderedAt: time.Now().UnixMilli(), Coordinator: net.JoinHostPort(host, port),
		Secret: secret, Seconds: int64(f.Longest.Seconds()), Nodes: f.expected,
	}
	if err := sendOrder(c.Context(), cfg, &order); err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	cancel := f.Bound(c)
	if err := f.gather(c, r, cfg.Prefix+schemas.TopicOrders, order.Coordinator); err != nil {
		sayWarnings(c.ErrOrStderr(), r)
		cancel()
		return nil, nil, errors.Join(err, r.Close())
	}
	end := func() error {
		cancel()
		return r.Close()
	}
	return r, end, nil
}

// Bound ends the command's context together with the order: the agents leave at that time, and would count as silent.
func (f *agentsFlags) Bound(c *cobra.Command) context.CancelFunc {
	over := fmt.Errorf("the agents have left, since --for %v is over: give it more time "+
		"(with --journal, the measurements stay)", f.Longest)
	ctx, cancel := context.WithTimeoutCause(c.Context(), f.Longest, over)
	c.SetContext(ctx)
	return cancel
}

// check returns the configuration, or the fault of the flags.
func (f *agentsFlags) check() (config.Config, error) {
	var err error
	switch {
	case f.address != "" && (!config.IsAddress(f.address) || unspecified(f.address)):
		err = fmt.Errorf("--address %.80q must be HOST:PORT, with a host that the agents reach", f.address)
	case f.Longest < time.Second || f.Longest > schemas.MaxOrderSeconds*time.Second:
		err = fmt.Errorf("--for %v must be 1s to %v", f.Longest, schemas.MaxOrderSeconds*time.Second)
	case f.meeting.patience < time.Second || f.meeting.patience > min(schemas.OrderWait, f.Longest):
		err = fmt.Errorf("--wait %v must be 1s to %v", f.meeting.patience, min(schemas.OrderWait, f.Longest))
	case f.meeting.nodes < 0 || f.meeting.nodes == 1 || f.meeting.nodes > measure.MaxMembers:
		err = fmt.Errorf("--nodes %d must be 2 to %d", f.meeting.nodes, measure.MaxMembers)
	default:
		err = f.meeting.Ping.Check()
	}
	if err == nil && f.on != "" {
		f.expected, err = expected(f.on)
	}
	if err != nil {
		return config.Config{}, cli.Usage(err)
	}
	cfg, err := f.Load()
	if err == nil && len(cfg.Kafka.Brokers) == 0 {
		err = cli.Usage(kafka.ErrNoBrokers)
	}
	return cfg, err
}

// expected returns the nodes of a hostlist.
func expected(list string) ([]string, error) {
	nodes, err := topology.ExpandHosts(list)
	if err != nil {
		return nil, fmt.Errorf("--on: %w", err)
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	if len(nodes) < 2 || len(nodes) > measure.MaxMembers {
		return nil, fmt.Errorf("--on %.80q names %d nodes: must be 2 to %d", list, len(nodes), measure.MaxMembers)
	}
	if i := slices.IndexFunc(nodes, func(n string) bool { return !naming.Valid(n) }); i >= 0 {
		return nil, fmt.Errorf("--on: %.80q is not a host's name", nodes[i])
	}
	return nodes, nil
}

// unspecified reports whether the host of an address means any address.
func unspecified(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return net.ParseIP(host).IsUnspecified()
}

// meetingPoint returns the address at which agents meet: the given one, or the source address of this host's packets to
// a broker. Port 0 means any free port.
func (f *agentsFlags) meetingPoint(cfg config.Config) (host, port string, err error) {
	if f.address != "" {
		return net.SplitHostPort(f.address)
	}
	for _, broker := range cfg.Kafka.Brokers {
		var conn net.Conn
		if conn, err = net.Dial("udp", broker); err == nil { // a UDP socket sends nothing when it connects
			defer conn.Close()
			host, _, err = net.SplitHostPort(conn.LocalAddr().String())
			return host, "0", err
		}
	}
	return "", "", fmt.Errorf("finding this host's address, which --address can give: %w", err)
}

// sendOrder writes an order to its topic.
func sendOrder(ctx context.Context, cfg config.Config, order *schemas.TopologyOrder) error {
	value, err := schemas.MarshalChecked(order)
	if err != nil {
		return err
	}
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(30*time.Second))...)
	if err != nil {
		return fmt.Errorf("making a Kafka client: %w", err)
	}
	defer client.Close()
	topic := cfg.Prefix + schemas.TopicOrders
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: value}).FirstErr(); err != nil {
		err = fmt.Errorf("writing the order to topic %s: %w", topic, err)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			err = fmt.Errorf("%w: `weir topics create` makes it", err)
		}
		return kafka.Explain(cfg.Kafka, err)
	}
	return nil
}

// gather waits until all expected nodes have come, or patience ends. Without an expected number it begins after a lull
// in which nobody came. It returns an error if fewer came than are needed.
func (f *agentsFlags) gather(c *cobra.Command, r *measure.Rendezvous, topic, at string) error {
	const lull = 10 * time.Second
	least, wanted := 2, f.meeting.nodes
	if wanted > 0 {
		least = wanted
	} else if wanted = len(f.expected); wanted == 0 {
		wanted = measure.MaxMembers
	}
	remedy := ""
	if host, _, _ := net.SplitHostPort(at); net.ParseIP(host).IsLoopback() {
		remedy = "; agents of other hosts cannot: give --address HOST:PORT"
	}
	cli.Say(c.ErrOrStderr(), "weir topology: agents come to %s, for at most %v%s", at, f.meeting.patience, remedy)
	until := time.Now().Add(f.meeting.patience)
	for came := 0; ; came = r.Came() {
		ctx, cancel := context.WithTimeout(c.Context(), min(lull, time.Until(until)))
		err := r.Gather(ctx, wanted)
		cancel()
		if err == nil {
			f.tell(c.ErrOrStderr(), r.Names())
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || c.Context().Err() != nil {
			return err
		}
		quiet := wanted == measure.MaxMembers && r.Came() == came && came >= least
		if quiet || !time.Now().Before(until) {
			break
		}
	}
	n := r.Settle()
	f.tell(c.ErrOrStderr(), r.Names())
	if n < least {
		return fmt.Errorf("%d agents came to %s, and %d are needed: see that they have agent.topology.enabled "+
			"and the names of --on, read topic %s, and reach this address%s", n, at, least, topic, remedy)
	}
	return nil
}

// tell reports the number of nodes that came, and the names of the others.
func (f *agentsFlags) tell(to io.Writer, came []string) {
	missing := slices.DeleteFunc(slices.Clone(f.expected), func(n string) bool { return slices.Contains(came, n) })
	text := strconv.Itoa(len(came)) + " nodes take part"
	if len(missing) > 0 {
		text += fmt.Sprintf("; %d did not come: %s", len(missing), strings.TrimSpace(topology.FoldHosts(missing)))
	}
	cli.Say(to, "weir topology: %s", text)
}

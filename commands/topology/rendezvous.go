package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/measure"

	"github.com/weirhpc/weir/commands/cli"
)

// maxSecret bounds a secret's file in bytes.
const maxSecret = 4096

// rendezvousFlags measure between nodes that all run this command.
type rendezvousFlags struct {
	address, secretFile, name, listen, Hosts string
	coordinate                               bool
	nodes                                    int
	patience                                 time.Duration
	Ping                                     measure.Ping
}

func (f *rendezvousFlags) flag() string { return "rendezvous" }

func (f *rendezvousFlags) Add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.address, f.flag(), "", "measure between the nodes that meet at `HOST:PORT`; "+
		"task 0 of srun coordinates")
	flags.StringVar(&f.secretFile, "secret-file", "", "with --rendezvous: `FILE` with the nodes' common secret "+
		"(default: "+config.SecretVariable+")")
	flags.BoolVar(&f.coordinate, "coordinate", false, "with --rendezvous: coordinate there without taking part")
	flags.IntVar(&f.nodes, "nodes", 0, "with --rendezvous: begin when `N` nodes have come (default: srun's tasks)")
	flags.StringVar(&f.name, "name", "", "with --rendezvous: the `NAME` of this node (default: Slurm's, or the host's)")
	flags.StringVar(&f.listen, "listen", ":0", "with --rendezvous: answer at UDP `HOST:PORT` (0: any port)")
	flags.StringVar(&f.Hosts, "hosts", "", "with --rendezvous: `FILE` with the nodes' addresses, as /etc/hosts "+
		"(default: by resolver)")
	flags.DurationVar(&f.patience, "wait", 2*time.Minute, "with --rendezvous: wait `DURATION` for others to come")
	flags.IntVar(&f.Ping.Size, "bytes", measure.DefaultPing.Size, "with --rendezvous: the size of a message, `N` bytes")
	flags.IntVar(&f.Ping.Trips, "trips", measure.DefaultPing.Trips, "with --rendezvous: least round trips of a "+
		"batch, `N`")
	flags.IntVar(&f.Ping.Batches, "batches", measure.DefaultPing.Batches, "with --rendezvous: the fastest of `N` "+
		"batches counts")
	cli.OfferFiles(c, "secret-file")
	cli.OfferFiles(c, "hosts")
}

// task is the environment that srun gives a process.
type task struct {
	is    bool // started by srun
	id    int
	tasks int
	node  string
}

func taskOf(getenv func(string) string) (t task) {
	id, idErr := strconv.Atoi(getenv("SLURM_PROCID"))
	tasks, tasksErr := strconv.Atoi(getenv("SLURM_NTASKS"))
	if getenv("SLURM_STEP_ID") == "" || idErr != nil || tasksErr != nil {
		return t
	}
	return task{is: true, id: id, tasks: tasks, node: getenv("SLURMD_NODENAME")}
}

// open takes part in a rendezvous. The Measurer is nil in a process that does not coordinate: its part is over.
func (f *rendezvousFlags) open(c *cobra.Command) (latency.Measurer, func() error, error) {
	if _, _, err := net.SplitHostPort(f.address); err != nil {
		return nil, nil, cli.Usage(fmt.Errorf("--rendezvous %q must be HOST:PORT: %w", f.address, err))
	}
	if err := f.Ping.Check(); err != nil {
		return nil, nil, cli.Usage(err)
	}
	secret, err := f.secret()
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	t := taskOf(os.Getenv)
	member := measure.Member{
		Coordinator: f.address, Secret: secret, Listen: f.listen,
		Name: cmp.Or(f.name, t.node, hostName()), Limits: limitsOf(c),
		Transfers: true,
	}
	if f.coordinate || t.is && t.id == 0 {
		return f.gather(c, member, t)
	}
	return nil, nil, member.Join(c.Context(), f.patience)
}

// limitsOf returns the limits of the command that each node enforces itself.
func limitsOf(c *cobra.Command) measure.Limits {
	packets, _ := c.Flags().GetFloat64("packets-per-second")
	share, _ := c.Flags().GetFloat64("share")
	return measure.Limits{PacketsPerSecond: packets, Share: share}
}

func hostName() string {
	name, _ := os.Hostname()
	name, _, _ = strings.Cut(name, ".")
	return name
}

// secret returns the secret that the nodes share.
func (f *rendezvousFlags) secret() ([]byte, error) {
	if f.secretFile == "" {
		if text := os.Getenv(config.SecretVariable); text != "" {
			return []byte(strings.TrimSpace(text)), nil
		}
		return nil, fmt.Errorf("--rendezvous needs --secret-file or %s: nodes trust each other by it",
			config.SecretVariable)
	}
	file, err := os.Open(f.secretFile)
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w", err)
	}
	if len(text) > maxSecret {
		return nil, fmt.Errorf("--secret-file %s has more than %d bytes", f.secretFile, maxSecret)
	}
	return []byte(strings.TrimSpace(string(text))), nil
}

// Meet listens at the address to which the other nodes come. If no interface of this host has that address, Meet
// listens at all of them, and warns. It fills in the address, the ping and the lookup of m.
func (f *rendezvousFlags) Meet(c *cobra.Command, at string, m measure.Meeting) (*measure.Rendezvous, error) {
	lookup, err := f.lookup()
	if err != nil {
		return nil, cli.Usage(err)
	}
	m.Ping, m.Lookup = f.Ping, lookup
	host, port, _ := net.SplitHostPort(at) // the flag's check accepted it
	for _, address := range listenable(c.Context(), host) {
		m.Address = net.JoinHostPort(address.String(), port)
		if r, err := measure.Coordinate(m); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return r, err
		}
	}
	cli.Say(c.ErrOrStderr(), "weir topology: no network interface of this host has the address of %s: it listens at "+
		"all of them", at)
	m.Address = ":" + port
	return measure.Coordinate(m)
}

// listenable returns the addresses of a host. If it is not localhost, loopback addresses are left out: a host's own
// name may resolve to one, and no other node can reach that.
func listenable(ctx context.Context, host string) []netip.Addr {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(addresses, func(a netip.Addr) bool { return a.IsLoopback() && host != "localhost" })
}

// lookup returns the Lookup of the nodes' addresses.
func (f *rendezvousFlags) lookup() (measure.Lookup, error) {
	if f.Hosts == "" {
		return measure.Resolve, nil
	}
	file, err := os.Open(f.Hosts)
	if err != nil {
		return nil, fmt.Errorf("--hosts: %w", err)
	}
	defer file.Close()
	lookup, err := measure.ReadHosts(file)
	if err != nil {
		return nil, fmt.Errorf("--hosts %s: %w", f.Hosts, err)
	}
	return lookup, nil
}

// sayWarnings reports the nodes that were refused or given up.
func sayWarnings(to io.Writer, m any) {
	if w, is := m.(measure.Warned); is {
		for _, text := range w.Warnings() {
			cli.Say(to, "weir topology: %s", text)
		}
	}
}

// gather coordinates. Task 0 of srun takes part as well.
func (f *rendezvousFlags) gather(
	c *cobra.Command, own measure.Member, t task,
) (latency.Measurer, func() error, error) {
	nodes := cmp.Or(f.nodes, t.tasks)
	if nodes < 2 {
		return nil, nil, cli.Usage(errors.New("--nodes must be the number of nodes that come, at least 2"))
	}
	r, err := f.Meet(c, f.address, measure.Meeting{Secret: own.Secret, Limits: own.Limits})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(c.Context())
	joined := make(chan error, 1)
	end := func() error {
		err := r.Close()
		cancel()
		return err
	}
	if t.is && !f.coordinate {
		go func() {
			err := own.Join(ctx, f.patience)
			joined <- err
			if err != nil {
				cancel() // it is in vain to wait for others
			}
		}()
	}
	patience, stop := context.WithTimeout(ctx, f.patience)
	defer stop()
	if err := r.Gather(patience, nodes); err != nil {
		select {
		case own := <-joined:
			err = errors.Join(own, err)
		default:
		}
		sayWarnings(c.ErrOrStderr(), r)
		return nil, nil, errors.Join(err, end())
	}
	return r, end, nil
}

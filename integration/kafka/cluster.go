package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// startLimit is how long brokers have to be ready; they take about 4 s on an idle machine.
const startLimit = 2 * time.Minute

var (
	// errEnded is returned when a broker ends before it is ready.
	errEnded = errors.New("it ended")
	// errFew is returned when a broker answers and does not know all brokers yet.
	errFew = errors.New("brokers are not there yet")
)

// cluster is a Kafka that runs.
type cluster struct {
	dir       string
	libs      string
	jvm       []string // options
	bridge    *bridge  // nil: no broker can be cut from the others
	attr      *syscall.SysProcAttr
	nodes     []node
	processes []process // of each node, the last
}

// newCluster writes the files of brokers, on free ports, into an empty directory.
func newCluster(dir, libs string, o options, attr *syscall.SysProcAttr) (*cluster, error) {
	ports, err := freePorts((portsPerNode + portsPerBridged) * o.brokers)
	if err != nil {
		return nil, err
	}
	ports, more := ports[:portsPerNode*o.brokers], ports[portsPerNode*o.brokers:]
	c := &cluster{dir: dir, libs: libs, jvm: o.jvm(), attr: attr, nodes: newNodes(dir, ports)}
	if o.cut {
		bridged(c.nodes, more)
		if c.bridge, err = newBridge(dir, c.nodes); err != nil {
			return nil, err
		}
	}
	if err := c.writeFiles(); err != nil {
		return nil, fmt.Errorf("writing the brokers' configuration: %w", err)
	}
	return c, writeCertificates(dir, c.nodes)
}

// startCluster formats and starts brokers on an empty directory and returns when all of them answer. When one
// does not, none is left running.
func startCluster(ctx context.Context, dir, libs string, o options, attr *syscall.SysProcAttr) (*cluster, error) {
	c, err := newCluster(dir, libs, o, attr)
	if err != nil {
		return nil, err
	}
	if err := format(ctx, libs, c.nodes); err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		p, err := c.start(n)
		if err != nil {
			return nil, errors.Join(err, stopAll(c.processes, io.Discard))
		}
		c.processes = append(c.processes, p)
		if c.bridge != nil {
			c.bridge.look(c.nodes, c.processes)
		}
	}
	if err := c.wait(ctx); err != nil {
		return nil, errors.Join(err, stopAll(c.processes, io.Discard))
	}
	return c, nil
}

func (c *cluster) log4j() string { return filepath.Join(c.dir, "log4j2.properties") }

func (c *cluster) writeFiles() error {
	var faults []error
	for _, n := range c.nodes {
		properties := []byte(propertiesText(n, c.nodes))
		faults = append(faults, os.MkdirAll(n.dir, 0o755), os.WriteFile(n.properties(), properties, 0o644))
	}
	return errors.Join(append(faults, os.WriteFile(c.log4j(), []byte(log4jText()), 0o644))...)
}

// seeds are the addresses of one listener of each broker.
func (c *cluster) seeds(port func(node) int) string {
	var seeds []string
	for _, n := range c.nodes {
		seeds = append(seeds, fmt.Sprintf("127.0.0.1:%d", port(n)))
	}
	return strings.Join(seeds, ",")
}

func plaintext(n node) int { return n.plaintext }

// environ returns the environment variables for a command that uses the brokers.
func (c *cluster) environ() []string {
	var cut []string
	if c.bridge != nil {
		cut = append(cut, "KAFKA_CUT="+c.bridge.file)
	}
	return append(cut,
		"KAFKA_SEEDS="+c.seeds(plaintext),
		"KAFKA_SASL_SEEDS="+c.seeds(func(n node) int { return n.sasl }),
		"KAFKA_MTLS_SEEDS="+c.seeds(func(n node) int { return n.mtls }),
		"KAFKA_DIR="+c.dir,
	)
}

func (c *cluster) pids() string { return filepath.Join(c.dir, "pids") }

// format prepares the nodes' directories under one new cluster id, which Kafka must choose: it refuses some.
func format(ctx context.Context, libs string, nodes []node) error {
	out, err := storageTool(ctx, libs, "random-uuid")
	if err != nil {
		return err
	}
	words := strings.Fields(out)
	if len(words) == 0 {
		return fmt.Errorf("asking Kafka for a cluster id: it says nothing")
	}
	for _, n := range nodes {
		if _, err := storageTool(ctx, libs, "format", "-t", words[len(words)-1], "-c", n.properties()); err != nil {
			return err
		}
	}
	return nil
}

// storageTool runs Kafka's tool for directories, and returns its standard output.
func storageTool(ctx context.Context, libs string, args ...string) (string, error) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "java", append([]string{
		"-XX:TieredStopAtLevel=1", "-cp", filepath.Join(libs, "*"), "kafka.tools.StorageTool",
	}, args...)...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running Kafka's storage tool %v: %w\n%s%s", args, err, out, errs.Bytes())
	}
	return string(out), nil
}

// start starts one broker, which adds to the log in its directory. It may outlive this process.
func (c *cluster) start(n node) (process, error) {
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return process{}, fmt.Errorf("making a broker's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command("java", append(slices.Clone(c.jvm), "-Dlog4j2.configurationFile="+c.log4j(),
		"-cp", filepath.Join(c.libs, "*"), "kafka.Kafka", n.properties())...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = n.dir, log, log, c.attr
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("starting broker %d: %w", n.id, err)
	}
	p := process{cmd.Process.Pid, n.properties()}
	if err := p.appear(); err != nil {
		err = fmt.Errorf("starting broker %d: %w; its log ends with\n%s", n.id, err, tail(n.log()))
		return process{}, errors.Join(err, cmd.Process.Kill())
	}
	return p, nil
}

// tend returns a function to call every so often. Some time after that finds a broker ended, it starts the broker again
// and lists all anew. The thread that calls it must outlast the brokers.
func (c *cluster) tend(after time.Duration, stderr io.Writer) func() {
	due := make([]time.Time, len(c.nodes)) // zero: it runs
	return func() {
		if c.bridge != nil {
			c.bridge.look(c.nodes, c.processes)
		}
		for i, n := range c.nodes {
			switch {
			case after == 0:
			case due[i].IsZero():
				if c.processes[i].ended() {
					fmt.Fprintf(stderr, "kafka: broker %d ended, to be started in %v\n", n.id, after)
					due[i] = time.Now().Add(after)
				}
			case time.Now().After(due[i]):
				p, err := c.start(n)
				if err == nil {
					c.processes[i], due[i] = p, time.Time{}
					err = writePids(c.pids(), c.processes)
				} else {
					due[i] = time.Now().Add(after)
				}
				if err != nil {
					fmt.Fprintf(stderr, "kafka: %v\n", err)
				}
			}
		}
	}
}

func (n node) log() string { return filepath.Join(n.dir, "log") }

// wait returns when every broker of the cluster answers and knows all the others.
func (c *cluster) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for i := 0; i < len(c.nodes); {
		n := c.nodes[i]
		if c.processes[i].ended() {
			return fmt.Errorf("starting broker %d: %w; its log ends with\n%s", n.id, errEnded, tail(n.log()))
		}
		err := knowsAll(ctx, fmt.Sprintf("127.0.0.1:%d", n.plaintext), len(c.nodes))
		if err == nil {
			i++
			continue
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("waiting for broker %d: %w", n.id, context.Cause(ctx))
			}
			const format = "waiting for broker %d: %w (%w); its log ends with\n%s"
			return fmt.Errorf(format, n.id, ctx.Err(), err, tail(n.log()))
		case <-poll.C:
		}
	}
	return nil
}

// knowsAll asks one broker for the others: each joins only when it takes requests.
func knowsAll(ctx context.Context, seed string, count int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seed), kgo.RequestRetries(0))
	if err != nil {
		return fmt.Errorf("asking %s: %w", seed, err)
	}
	defer cl.Close()
	brokers, err := kadm.NewClient(cl).ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("asking %s: %w", seed, err)
	}
	if len(brokers) < count {
		return fmt.Errorf("%d of %d %w", count-len(brokers), count, errFew)
	}
	return nil
}

// tail is the end of a log, for an error text.
func tail(file string) string {
	const limit = 2000
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-limit):])
}

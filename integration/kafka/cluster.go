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
	processes []process
	seeds     []string // host:port of each broker
}

// startCluster formats and starts count brokers on an empty directory and returns when all of them answer. When one does
// not, none is left running.
func startCluster(ctx context.Context, dir, libs string, count int, attr *syscall.SysProcAttr) (*cluster, error) {
	ports, err := freePorts(2 * count)
	if err != nil {
		return nil, err
	}
	nodes := newNodes(dir, ports)
	log4j := filepath.Join(dir, "log4j2.properties")
	if err := writeFiles(nodes, dir, log4j); err != nil {
		return nil, fmt.Errorf("writing the brokers' configuration: %w", err)
	}
	if err := format(ctx, libs, nodes); err != nil {
		return nil, err
	}
	c := &cluster{}
	for _, n := range nodes {
		p, err := startBroker(n, libs, log4j, attr)
		if err != nil {
			return nil, errors.Join(err, stopAll(c.processes, io.Discard))
		}
		c.processes = append(c.processes, p)
		c.seeds = append(c.seeds, fmt.Sprintf("127.0.0.1:%d", n.broker))
	}
	if err := c.wait(ctx, nodes); err != nil {
		return nil, errors.Join(err, stopAll(c.processes, io.Discard))
	}
	return c, nil
}

func writeFiles(nodes []node, dir, log4j string) error {
	var faults []error
	for _, n := range nodes {
		faults = append(faults, os.MkdirAll(n.dir, 0o755), os.WriteFile(n.properties(), []byte(propertiesText(n, nodes)), 0o644))
	}
	return errors.Join(append(faults, os.MkdirAll(dir, 0o755), os.WriteFile(log4j, []byte(log4jText()), 0o644))...)
}

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

// startBroker starts one broker, which writes its log into its directory. It may outlive this process.
func startBroker(n node, libs, log4j string, attr *syscall.SysProcAttr) (process, error) {
	log, err := os.Create(n.log())
	if err != nil {
		return process{}, fmt.Errorf("making a broker's log: %w", err)
	}
	defer log.Close()
	// Little memory, and a compiler that is done early: what counts is the time to start.
	cmd := exec.Command("java", "-Xms128m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dlog4j2.configurationFile="+log4j, "-cp", filepath.Join(libs, "*"), "kafka.Kafka", n.properties())
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = n.dir, log, log, attr
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("starting broker %d: %w", n.id, err)
	}
	p := process{cmd.Process.Pid, n.properties()}
	if err := p.appear(); err != nil {
		return process{}, errors.Join(fmt.Errorf("starting broker %d: %w; its log ends with\n%s", n.id, err, tail(n.log())), cmd.Process.Kill())
	}
	return p, nil
}

func (n node) log() string { return filepath.Join(n.dir, "log") }

// wait returns when every broker of the cluster answers and knows all the others.
func (c *cluster) wait(ctx context.Context, nodes []node) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for i := 0; i < len(nodes); {
		if c.processes[i].ended() {
			return fmt.Errorf("starting broker %d: %w; its log ends with\n%s", nodes[i].id, errEnded, tail(nodes[i].log()))
		}
		err := knowsAll(ctx, c.seeds[i], len(nodes))
		if err == nil {
			i++
			continue
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("waiting for broker %d: %w", nodes[i].id, context.Cause(ctx))
			}
			return fmt.Errorf("waiting for broker %d: %w (%w); its log ends with\n%s", nodes[i].id, ctx.Err(), err, tail(nodes[i].log()))
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

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// lab contains the resources that the processes of a measurement share.
type lab struct {
	dir      string // for their files
	weir     string // the binary
	agent    string // weir-agent; empty: the agents are of weir
	exporter string // node_exporter; empty: there is none
	ranks    int
	made     int // files and nodes are numbered
}

// child is a process of the measurement. It ends with its parent.
type child struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser // nil if kept collects it
	kept *bytes.Buffer
}

// start starts a process. Its output is kept, unless talks is set.
func (l *lab) start(name string, talks bool, env []string, args ...string) (*child, error) {
	c := &child{name: name, cmd: exec.Command(args[0], args[1:]...), kept: &bytes.Buffer{}}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.cmd.Stderr = c.kept
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	if talks {
		c.out, err = c.cmd.StdoutPipe()
	} else {
		c.cmd.Stdout = c.kept
	}
	if err = errors.Join(err, c.cmd.Start()); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return c, nil
}

// endTime is how long a process may take to end.
const endTime = 5 * time.Second

// stop ends the process, and returns its output. A process that ended by itself has failed.
func (c *child) stop() (string, error) {
	_ = c.in.Close() // by which a rank ends
	early := c.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(endTime, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	err := c.cmd.Wait()
	if early != nil {
		return "", fmt.Errorf("%s ended by itself: %w: %s", c.name, err, c.kept)
	}
	return c.kept.String(), nil
}

// stopAll ends them all, the last one first.
func stopAll(children []*child) (errs error) {
	for i := len(children) - 1; i >= 0; i-- {
		_, err := children[i].stop()
		errs = errors.Join(errs, err)
	}
	return errs
}

// cpu is the processor time of the process until now, to the nanosecond.
func (c *child) cpu() (time.Duration, error) { return clockOf(^c.cmd.Process.Pid<<3 | 2) }

// sleeps counts how often the threads of a process went to sleep: once for each wake-up.
func (c *child) sleeps() (count int64, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", c.cmd.Process.Pid))
	for _, status := range threads {
		text, readErr := os.ReadFile(status)
		if readErr != nil {
			continue // the thread has ended
		}
		_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		n, parseErr := strconv.ParseInt(strings.Fields(rest + " ?")[0], 10, 64)
		if parseErr != nil {
			return 0, fmt.Errorf("counting the wake-ups of %s: %w", c.name, parseErr)
		}
		count += n
	}
	return count, err
}

// disk is the size of the program that a process runs, in MB.
func (c *child) disk() (float64, error) {
	info, err := os.Stat(fmt.Sprintf("/proc/%d/exe", c.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("the program of %s: %w", c.name, err)
	}
	return float64(info.Size()) / 1e6, nil
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	d, _ := clockOf(unix.CLOCK_PROCESS_CPUTIME_ID) // every process has this clock
	return d
}

func clockOf(id int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(id), &t); err != nil {
		return 0, fmt.Errorf("asking for the processor time of a process: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// memory returns a line of the process's status, such as VmRSS, in MB.
func (c *child) memory(key string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of %s: %w", c.name, err)
	}
	_, rest, _ := strings.Cut(string(text), key+":")
	kib, err := strconv.ParseFloat(strings.Fields(rest + " ?")[0], 64)
	if err != nil {
		return 0, fmt.Errorf("reading the memory of %s: %w", c.name, err)
	}
	return kib / 1024, nil
}

// place is an empty directory.
func (l *lab) place(name string) (string, error) {
	l.made++
	dir := filepath.Join(l.dir, fmt.Sprintf("%s-%d", name, l.made))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("making a directory: %w", err)
	}
	return dir, nil
}

// startSampler starts a sampler. before are words in front of the command, such as taskset and its arguments.
func (l *lab) startSampler(s sampling, before ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("naming this program: %w", err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("telling a sampler what to do: %w", err)
	}
	env := []string{role + "=sampler", roleArgs + "=" + string(text)}
	return l.start("sampler", false, env, append(before, self)...)
}

// on is the words that bind a command to a processor.
func on(cpu int) []string { return []string{"taskset", "-c", strconv.Itoa(cpu)} }

// away is an address without a broker.
const away = "127.0.0.1:1"

// configFor writes the configuration of a weir process. more are settings of the agent, such as ", perf: false".
func (l *lab) configFor(node, broker string, interval time.Duration, more string) (string, error) {
	dir, err := l.place("config")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "weir.yaml")
	text := fmt.Sprintf("interval: %v\ncollectors: 1\nlog_level: error\npartitions: {routes: 1, job_summary: 1}\n"+
		"topics: {replication: 1}\nkafka: {brokers: [%q]}\nagent: {node: %s, state_dir: %s%s}\n",
		interval, broker, node, dir, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing a configuration: %w", err)
	}
	return file, nil
}

// startBroker starts the embedded broker with weir's topics, as a process of its own.
func (l *lab) startBroker(ctx context.Context) (*child, string, error) {
	dir, err := l.place("broker")
	if err != nil {
		return nil, "", err
	}
	ready := filepath.Join(dir, "ready")
	c, err := l.start("broker", false, nil, l.weir, "broker", "--data", filepath.Join(dir, "data"),
		"--listen", "127.0.0.1:0", "--ready-file", ready)
	if err != nil {
		return nil, "", err
	}
	address, err := l.topics(ctx, ready)
	if err != nil {
		_, stopErr := c.stop()
		return nil, "", errors.Join(err, stopErr)
	}
	return c, address, nil
}

// topics waits for the broker's address, and makes the topics.
func (l *lab) topics(ctx context.Context, ready string) (string, error) {
	address := ""
	for tries := 0; !strings.HasSuffix(address, "\n"); tries++ {
		if tries > 1000 || !retry.Pause(ctx, 10*time.Millisecond) {
			return "", errors.New("the broker did not start within ten seconds")
		}
		text, _ := os.ReadFile(ready) // which is not there at first
		address = string(text)
	}
	address = strings.TrimSpace(address)
	file, err := l.configFor("nobody", address, time.Second, "")
	if err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, l.weir, "topics", "create", "--config", file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("making the topics: %w: %s", err, out)
	}
	return address, nil
}

// plan publishes the Route of a node: one job holds the whole node.
func plan(ctx context.Context, broker, node string) error {
	cfg := config.Default()
	cfg.Kafka.Brokers = []string{broker}
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("publishing a route: %w", err)
	}
	defer client.Close()
	value, err := schemas.Marshal(&schemas.Route{
		Node: node, Epoch: 1, Entries: []schemas.RouteEntry{{JobID: "1", Mode: schemas.ModeCollect}},
	})
	if err != nil {
		return fmt.Errorf("publishing a route: %w", err)
	}
	return client.ProduceSync(ctx, &kgo.Record{
		Topic: cfg.Prefix + schemas.TopicRoutes, Key: []byte(node), Value: value,
	}).FirstErr()
}

// startAgent starts the agent of a node, with a broker or without. A routed node has a Route.
func (l *lab) startAgent(ctx context.Context, broker string, routed bool, interval time.Duration) (*child, error) {
	return l.startAgentWith(ctx, broker, routed, interval, "")
}

// startAgentWith is startAgent with settings of the agent.
func (l *lab) startAgentWith(
	ctx context.Context, broker string, routed bool, interval time.Duration, more string,
) (*child, error) {
	l.made++
	node := fmt.Sprintf("node%d", l.made)
	file, err := l.configFor(node, broker, interval, more)
	if err != nil {
		return nil, err
	}
	if routed {
		if err := plan(ctx, broker, node); err != nil {
			return nil, err
		}
	}
	if l.agent != "" {
		return l.start(node, false, nil, l.agent, "--config", file)
	}
	return l.start(node, false, nil, l.weir, "agent", "--config", file)
}

// alike are node_exporter's collectors for the same data as weir's agent reads, or may read.
var alike = []string{
	"cpu", "diskstats", "hwmon", "infiniband", "loadavg", "meminfo", "netdev", "nfs", "pressure", "rapl", "schedstat",
	"timex", "vmstat",
}

// startExporter starts node_exporter, with fewer collectors or its default ones. It returns the address to scrape.
func (l *lab) startExporter(fewer bool) (*child, string, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("looking for a free port: %w", err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		return nil, "", fmt.Errorf("looking for a free port: %w", err)
	}
	args := []string{l.exporter, "--web.listen-address=" + address, "--log.level=error"}
	if fewer {
		args = append(args, "--collector.disable-defaults", "--web.disable-exporter-metrics")
		for _, c := range alike {
			args = append(args, "--collector."+c)
		}
	}
	c, err := l.start("node_exporter", false, nil, args...)
	return c, "http://" + address + "/metrics", err
}

// scrapePhase is when a scrape begins, after each whole second. Prometheus spreads its targets over the interval.
const scrapePhase = 300 * time.Millisecond

// scrape asks for the metrics once a second until ctx ends, as Prometheus does. It returns the lines of the last
// answer.
func scrape(ctx context.Context, url string) (lines int) {
	s := sampling{Every: time.Second, Offset: scrapePhase}
	for retry.Pause(ctx, time.Until(s.instantAfter(time.Now()))) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return lines
		}
		response, err := http.DefaultClient.Do(request) // asks for gzip, as Prometheus does
		if err != nil {
			continue
		}
		text, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err == nil {
			lines = bytes.Count(text, []byte("\n"))
		}
	}
	return lines
}

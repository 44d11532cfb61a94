package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// The agent's goals, to which `cost` compares its measurements.
const (
	goalSampling = 0.5  // ms of processor time a cycle, without sending
	goalSending  = 1.0  // with it
	goalShare    = 0.25 // of node_exporter with comparable collectors
	goalDefaults = 0.12 // of node_exporter as it is installed, with sending
	goalMemory   = 14   // MB
	goalDisk     = 15   // MB
	goalWakeups  = 8    // a second, with sending
	goalSkew     = 2    // ms, p99
)

// subject is a daemon to measure.
type subject struct {
	Name   string  `json:"name"`
	CPU    float64 `json:"cpu_ms_per_cycle"`
	RSS    float64 `json:"rss_mb"`
	Peak   float64 `json:"peak_mb"`
	Disk   float64 `json:"disk_mb"` // of the program
	Wakes  float64 `json:"wakeups_per_second"`
	Cycles int     `json:"cycles"`
	Lines  int     `json:"lines,omitempty"` // of the exposition, of node_exporter
	// Of the records that an agent sent: how many were read, and the last one.
	Records int `json:"records,omitempty"`
	Bytes   int `json:"record_bytes,omitempty"`
	Metrics int `json:"metrics,omitempty"`

	child *child
	url   string
	done  bool // the last of its records was read
}

// costs are the results of `cost`, all from one run.
type costs struct {
	Subjects []*subject `json:"subjects"`
	SkewP50  float64    `json:"skew_p50_ms"`
	SkewP99  float64    `json:"skew_p99_ms"`
}

const (
	sampling0 = "agent, brokers away"
	idle      = "agent, no route: idle client"
	sends     = "agent, sending"
	listed    = "agent, sending, with a list of metrics"
	few       = "node_exporter, comparable"
	many      = "node_exporter, defaults"
	brokerRow = "embedded broker (not a part of a node)"
)

// settle is how long the processes run before they are measured, and recordTime how long the last record may take.
const settle, recordTime = 6 * time.Second, 30 * time.Second

// cost runs all subjects side by side, at one cycle a second.
func cost(ctx context.Context, l *lab, o options) (*costs, error) {
	if o.quick {
		o.cycles = min(o.cycles, 15)
	}
	f := &costs{}
	address, err := f.startAll(ctx, l, o.list)
	defer func() {
		for i := len(f.Subjects) - 1; i >= 0; i-- {
			_, _ = f.Subjects[i].child.stop() // its failure was seen before
		}
	}()
	if err != nil {
		return nil, err
	}
	scraping, cancel := context.WithCancel(ctx)
	defer cancel()
	var scrapers sync.WaitGroup
	for _, s := range f.Subjects {
		if s.url != "" {
			scrapers.Go(func() { s.Lines = scrape(scraping, s.url) })
		}
	}
	if !retry.Pause(ctx, o.settle) {
		return nil, ctx.Err()
	}
	from := time.Now()
	before, slept := make([]time.Duration, len(f.Subjects)), make([]int64, len(f.Subjects))
	for i, s := range f.Subjects {
		before[i], err = s.child.cpu()
		if err == nil {
			slept[i], err = s.child.sleeps()
		}
		if err != nil {
			return nil, err
		}
	}
	if !retry.Pause(ctx, time.Duration(o.cycles)*time.Second) {
		return nil, ctx.Err()
	}
	for i, s := range f.Subjects {
		if err := s.judge(before[i], slept[i], o.cycles); err != nil {
			return nil, err
		}
	}
	cancel()
	scrapers.Wait()
	return f, f.readSkew(ctx, address, from)
}

// startAll starts the subjects, and returns the broker's address.
func (f *costs) startAll(ctx context.Context, l *lab, list string) (string, error) {
	add := func(name, url string, c *child, err error) error {
		if err == nil {
			f.Subjects = append(f.Subjects, &subject{Name: name, child: c, url: url})
		}
		return err
	}
	broker, address, err := l.startBroker(ctx)
	if err = add(brokerRow, "", broker, err); err != nil {
		return "", err
	}
	alone, err := l.startAgent(ctx, away, false, time.Second)
	err = add(sampling0, "", alone, err)
	if err == nil {
		waits, startErr := l.startAgent(ctx, address, false, time.Second)
		err = add(idle, "", waits, startErr)
	}
	if err == nil {
		agent, startErr := l.startAgent(ctx, address, true, time.Second)
		err = add(sends, "", agent, startErr)
	}
	if err == nil {
		agent, startErr := l.startListed(ctx, address, list)
		err = add(listed, "", agent, startErr)
	}
	for name, fewer := range map[string]bool{few: true, many: false} {
		if err == nil && l.exporter != "" {
			c, url, startErr := l.startExporter(fewer)
			err = add(name, url, c, startErr)
		}
	}
	return address, err
}

func (s *subject) judge(before time.Duration, slept int64, cycles int) error {
	after, err := s.child.cpu()
	if err != nil {
		return err
	}
	s.CPU, s.Cycles = 1000*(after-before).Seconds()/float64(cycles), cycles
	now, err := s.child.sleeps()
	if err != nil {
		return err
	}
	s.Wakes = float64(now-slept) / float64(cycles)
	var errs [3]error
	s.Disk, errs[2] = s.child.disk()
	s.RSS, errs[0] = s.child.memory("VmRSS")
	s.Peak, errs[1] = s.child.memory("VmHWM")
	return errors.Join(errs[:]...)
}

// startListed starts an agent with a list of metrics. Without a file it measures only the metrics that rules and
// reports use.
func (l *lab) startListed(ctx context.Context, broker, list string) (*child, error) {
	if list == "" {
		list = filepath.Join(l.dir, "metrics.yaml")
		if err := os.WriteFile(list, []byte("version: 1\nkeep: [weir_agent_rss]\n"), 0o600); err != nil {
			return nil, fmt.Errorf("writing a list of metrics: %w", err)
		}
	}
	list, err := filepath.Abs(list)
	if err == nil {
		_, err = config.ReadMetricList(list)
	}
	if err != nil { // the agent would measure everything
		return nil, fmt.Errorf("-list: %w", err)
	}
	return l.startAgentWith(ctx, broker, true, time.Second, ", metrics_file: "+list)
}

// readSkew reads the records that the sending agents have published since from, and the skew in the records of one of
// them.
func (f *costs) readSkew(ctx context.Context, broker string, from time.Time) error {
	cfg := config.Default()
	cfg.Kafka.Brokers = []string{broker}
	opts, err := kafka.ClientOpts(ctx, cfg)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(cfg.Prefix+schemas.TopicCounters),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return fmt.Errorf("reading what the agent sent: %w", err)
	}
	defer client.Close()
	var skews []float64
	// The agent goes on sending: the first record from now on is the last one that counts.
	waiting, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	for end := time.Now().UnixMilli() - 2000; waiting.Err() == nil; {
		for _, r := range client.PollFetches(waiting).Records() {
			v, err := schemas.Unmarshal(r.Value)
			batch, is := v.(*schemas.CounterBatch)
			if err != nil || !is || batch.IntervalStart < from.UnixMilli() {
				continue
			}
			i := slices.IndexFunc(f.Subjects, func(s *subject) bool { return s.child.name == batch.Node })
			if i < 0 {
				continue
			}
			s := f.Subjects[i]
			s.Records, s.Bytes, s.Metrics = s.Records+1, len(r.Value), len(batch.Metrics)
			for _, m := range batch.Metrics {
				if s.Name == sends && m.Name == "weir_agent_skew_us" {
					skews = append(skews, m.Values[0]/1000)
				}
			}
			if s.done = batch.IntervalStart >= end; f.done() {
				cancel()
			}
		}
	}
	slices.Sort(skews)
	f.SkewP50, f.SkewP99 = percentile(skews, 0.5), percentile(skews, 0.99)
	if f.named(sends).Records == 0 || f.named(listed).Records == 0 {
		return errors.New("an agent sent nothing: see its log")
	}
	return nil
}

// done reports whether the last record of each agent that sends was read.
func (f *costs) done() bool { return f.named(sends).done && f.named(listed).done }

func (f *costs) named(name string) *subject {
	for _, s := range f.Subjects {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (f *costs) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "daemon\tCPU ms a cycle\twake-ups a second\tRSS MB\tpeak MB\tdisk MB\tcycles\tlines\n")
	for _, s := range f.Subjects {
		fmt.Fprintf(w, "%s\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\n", s.Name, s.CPU, s.Wakes, s.RSS, s.Peak, s.Disk,
			s.Cycles, s.Lines)
	}
	_ = w.Flush()
	fmt.Fprint(w, "\nsender\tmetrics\tbytes a record\trecords read\n")
	for _, s := range []*subject{f.named(sends), f.named(listed)} {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", s.Name, s.Metrics, s.Bytes, s.Records)
	}
	_ = w.Flush()
	fmt.Fprintln(out)
	goal := func(what string, got, most float64) {
		verdict := "holds"
		if got > most {
			verdict = "DOES NOT HOLD"
		}
		fmt.Fprintf(w, "%s\t%.2f\tat most %.2f\t%s\n", what, got, most, verdict)
	}
	agent := f.named(idle) // which samples, and runs a client that waits for its route
	goal("CPU ms a cycle without sending", agent.CPU, goalSampling)
	goal("CPU ms a cycle with sending", f.named(sends).CPU, goalSending)
	if other := f.named(few); other != nil {
		goal("share of node_exporter, comparable", agent.CPU/other.CPU, goalShare)
		goal("the same with sending", f.named(sends).CPU/other.CPU, goalShare)
	}
	if other := f.named(many); other != nil {
		goal("share of node_exporter, defaults, with sending", f.named(sends).CPU/other.CPU, goalDefaults)
	}
	goal("wake-ups a second with sending", f.named(sends).Wakes, goalWakeups)
	goal("RSS MB", f.named(sends).RSS, goalMemory)
	goal("program on disk, MB", f.named(sends).Disk, goalDisk)
	goal("p99 of the skew, ms", f.SkewP99, goalSkew)
	_ = w.Flush()
}

// predictRuns is how long the samplers of a prediction run.
const predictRuns = 12 * time.Second

// predict measures the duration of a sample and the cost of a send on this machine. From these it predicts the cost on
// 2 to 1,024 nodes.
func (r *report) predict(ctx context.Context, l *lab, o options) error {
	broker, address, err := l.startBroker(ctx)
	if err != nil {
		return err
	}
	running := []*child{broker}
	defer func() { _ = stopAll(running) }()
	rates := sampling{Every: time.Second / 10}
	plain, err := l.startSampler(rates)
	if running, err = whole(running, plain, err); err != nil {
		return err
	}
	rates.Send = address
	sender, err := l.startSampler(rates)
	if running, err = whole(running, sender, err); err != nil {
		return err
	}
	if !retry.Pause(ctx, 2*time.Second) {
		return ctx.Err()
	}
	from := []time.Duration{cpuOf(running[1:2]), cpuOf(running[2:])}
	if !retry.Pause(ctx, predictRuns) {
		return ctx.Err()
	}
	cycles := predictRuns / rates.Every
	sample := (cpuOf(running[1:2]) - from[0]) / cycles
	send := max(0, (cpuOf(running[2:])-from[1])/cycles-sample)
	running = running[:1]
	text, err := plain.stop()
	_, stopErr := sender.stop()
	if err = errors.Join(err, stopErr); err != nil {
		return err
	}
	var s sampled
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("reading what a sampler did: %w", err)
	}
	skews := make([]float64, len(s.Skew))
	for i, d := range s.Skew {
		skews[i] = float64(d) / 1000
	}
	slices.Sort(skews)
	r.Sample, r.Send = float64(sample)/1000, float64(send)/1000
	r.SkewP99 = percentile(skews, 0.99)
	rng := rand.New(rand.NewPCG(o.seed, 2))
	for nodes := 2; nodes <= 1024; nodes *= 2 {
		r.Predictions = append(r.Predictions, predict(nodes, sample, send, s.Skew, rng))
	}
	return nil
}

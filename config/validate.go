package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhpc/weir/naming"
)

// The rules that Validate checks. An error wraps the rule's sentinel with key, value and limit.
var (
	errName     = errors.New("must match [A-Za-z0-9._:-]{1,64}")
	errInterval = errors.New("must be whole milliseconds from 200ms to 24h")
	errRange    = errors.New("out of range")
	errChoice   = errors.New("not one of the choices")
	errTogether = errors.New("needs another key")
	errAddress  = errors.New("must be host:port")
	errUser     = errors.New("must be a name of 1 to 256 characters, without `:`, `,`, `|` and a leading -")
	errHostlist = errors.New("must be a hostlist such as n[0001-2048], of at most 64 KiB")
)

// minInterval follows from the outage: a clock may be ten seconds ahead, and that must not be longer than the outage.
const minInterval = 200 * time.Millisecond

// fault is an error in the value of a key.
type fault struct {
	key string
	error
}

// Unwrap returns an error that wraps the broken rule.
func (f fault) Unwrap() error { return f.error }

// Validate returns nil, or all faults of the configuration joined, each with its key, its value and the limit.
func (c Config) Validate() error {
	var all []error
	for _, f := range c.faults(nil) {
		all = append(all, f)
	}
	return errors.Join(all...)
}

// findings collects the faults of a configuration.
type findings struct {
	faults []fault
	huge   map[string]string // by key: a number beyond int64, as it was given
}

func (f *findings) wrong(rule error, key string, value any, limit string) {
	if limit != "" {
		limit = ": " + limit
	}
	f.faults = append(f.faults, fault{key, fmt.Errorf("%s = %v: %w%s", key, value, rule, limit)})
}

func (f *findings) name(key, value string) {
	if !naming.Valid(value) {
		f.wrong(errName, key, fmt.Sprintf("%.80q", value), "")
	}
}

// within checks a number. A number beyond int64 was kept as text, so that the fault names the text of the file and not
// the result of an overflow.
func (f *findings) within(key string, value, low, high int64) {
	switch given, isHuge := f.huge[key]; {
	case isHuge:
		f.wrong(errRange, key, given, fmt.Sprintf("%d to %d", low, high))
	case value < low || value > high:
		f.wrong(errRange, key, value, fmt.Sprintf("%d to %d", low, high))
	}
}

// lasting checks a duration. Both ends are allowed.
func (f *findings) lasting(key string, value, low, high time.Duration) {
	if value < low || value > high {
		f.wrong(errRange, key, value, fmt.Sprintf("%v to %v", low, high))
	}
}

// oneOf checks a name that has fixed choices, and lists all of them in the fault. If "none" is a choice, it comes
// first.
func (f *findings) oneOf(key, value string, choices ...string) {
	if slices.Contains(choices, value) {
		return
	}
	listed := strings.Join(choices, ", ")
	if choices[0] == "" {
		listed = `"" (none)` + listed
	}
	f.wrong(errChoice, key, fmt.Sprintf("%.80q", value), listed)
}

// faults returns the faults of Validate. huge holds the original text of numbers beyond int64.
func (c Config) faults(huge map[string]string) []fault {
	f := &findings{huge: huge}
	f.name("cluster", c.Cluster)
	if f.name("prefix", c.Prefix); naming.Valid(c.Prefix) && strings.Contains(c.Prefix, ":") {
		f.wrong(errName, "prefix", fmt.Sprintf("%q", c.Prefix), "without a colon, which no topic may have in its name")
	}
	c.Agent.validate(f)
	if c.Instance != "" {
		f.name("instance", c.Instance)
	}
	if c.Interval < minInterval || c.Interval > 24*time.Hour || c.Interval%time.Millisecond != 0 {
		f.wrong(errInterval, "interval", c.Interval, "")
	} else { // a wrong interval would make each of these a fault as well
		// The plan must be out before the interval ends, and its Tick before the next plan. Otherwise they cross.
		f.lasting("plan_margin", c.PlanMargin, time.Millisecond, c.Interval/2)
		f.lasting("grace", c.Grace, time.Millisecond, c.Interval/2)
		f.lasting("topics.counters_retention", c.Topics.CountersRetention, 3*Outage*c.Interval, 365*24*time.Hour)
		f.lasting("topics.summary_retention", c.Topics.SummaryRetention, Outage*c.Interval, 10*365*24*time.Hour)
	}
	f.lasting("backoff_cap", c.BackoffCap, 100*time.Millisecond, time.Minute)
	f.oneOf("log_level", c.LogLevel, "debug", "info", "warn", "error")
	f.oneOf("log_format", c.LogFormat, "text", "json")
	f.within("collectors", int64(c.Collectors), 1, 10_000)
	f.within("partitions.routes", int64(c.Partitions.Routes), 1, 10_000)
	f.within("partitions.job_summary", int64(c.Partitions.JobSummary), 1, 10_000)
	f.within("partitions.partials", int64(c.Partitions.Partials), 1, 1_000)
	c.Topics.validate(f)
	most, _ := c.CollectorNodes()
	f.oneOf("agent.sampling", c.Agent.Sampling, "clock", "triggered")
	c.Balance.validate(f, most)
	c.Balance.Slurm.validate(f)
	f.within("collect.max_rejects", int64(c.Collect.MaxRejects), 0, 100_000)
	f.oneOf("collect.sketch", cmp.Or(huge["collect.sketch"], strconv.Itoa(c.Collect.Sketch)), "512", "210", "0")
	f.within("sink.roll_bytes", c.Sink.RollBytes, 1<<20, 1<<33)
	f.lasting("sink.period", c.Sink.Period, time.Second, 24*time.Hour)
	if c.Sink.Period > c.Topics.SummaryRetention/2 {
		f.wrong(errTogether, "sink.period", c.Sink.Period.String(), "a topics.summary_retention of twice that")
	}
	if c.Sink.Dir == "" {
		f.wrong(errTogether, "sink.dir", `""`, "a directory for the archive")
	}
	f.lasting("samples.retention", c.Samples.Retention, time.Hour, 10*365*24*time.Hour)
	for _, name := range c.Samples.Metrics {
		f.name("samples.metrics", name)
	}
	f.lasting("nodes.retention", c.Nodes.Retention, time.Hour, 10*365*24*time.Hour)
	for _, name := range c.Nodes.Metrics {
		f.name("nodes.metrics", name)
	}
	if c.Metrics.Listen != "" && !IsAddress(c.Metrics.Listen) {
		f.wrong(errAddress, "metrics.listen", fmt.Sprintf("%q", c.Metrics.Listen),
			"127.0.0.1:9100 for this machine alone")
	}
	c.Kafka.validate(f)
	c.Registry.validate(f)
	c.validateMachine(f)
	c.Find.validate(f)
	c.Console.validate(f)
	c.Notify.validate(f)
	return f.faults
}

// validate refuses settings that a broker would refuse later, after some of the topics are made and others are not.
func (t Topics) validate(f *findings) {
	f.within("topics.replication", int64(t.Replication), 1, 15)
	f.oneOf("topics.wire", t.Wire, WireSingleObject, WireConfluent)
	if n := t.SegmentBytes; n != 0 && (n < 64<<10 || n > 1<<31-1) {
		const key = "topics.segment_bytes"
		given := cmp.Or(f.huge[key], strconv.FormatInt(n, 10))
		f.wrong(errRange, key, given, "0 (the broker's own), or 65536 to 2147483647")
	}
}

// validate takes the most nodes that a collector can have, which l_dist must not pass. 0: they are not known, because
// another setting is at fault.
func (b *Balance) validate(f *findings, collectorNodes int) {
	f.oneOf("balance.algorithm", b.Algorithm, "weir", "literal")
	f.within("balance.partition_bytes_per_s", b.PartitionBytesPerS, 1000, 1<<40)
	f.within("balance.node_bytes", b.NodeBytes, 1, 1<<30)
	f.within("balance.l_max", int64(b.LMax), 0, 1_000_000)
	if b.LDist != 0 && collectorNodes > 0 { // otherwise balance.l_max is wrong already
		f.within("balance.l_dist", int64(b.LDist), 1, int64(collectorNodes))
	}
	f.within("balance.local_max", int64(b.LocalMax), -1, 1_000_000)
	for _, n := range b.Nodes {
		f.name("balance.nodes", n)
	}
}

// validate reads the list of numberings to its end, so that an administrator sees every wrong item at once. One item
// may omit the nodes: it applies to all others.
func (s Slurm) validate(f *findings) {
	const key, some = "balance.slurm.cpu_ids", "gpu[001-016]="
	f.lasting("balance.slurm.poll", s.Poll, 100*time.Millisecond, time.Minute)
	f.lasting("balance.slurm.timeout", s.Timeout, time.Second, 5*time.Minute)
	items := s.Numberings()
	if len(items) == 0 {
		items = append(items, Numbering{})
	}
	rest := "" // of the nodes that no item names
	for _, n := range items {
		item := n.Kind
		if n.Hosts != "" {
			item = n.Hosts + "=" + n.Kind
		}
		switch known := slices.Contains([]string{"spread", "block", "interleaved"}, n.Kind); {
		case !known:
			f.wrong(errChoice, key, fmt.Sprintf("%.80q", item),
				"spread, block, interleaved, or "+some+"block for some nodes")
		case n.Hosts == "" && rest != "":
			remedy := rest + " is that of all other nodes: name the nodes, as in " + some + item
			f.wrong(errChoice, key, fmt.Sprintf("%q", item), remedy)
		case n.Hosts == "":
			rest = n.Kind
		}
	}
}

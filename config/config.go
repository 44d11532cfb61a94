// Package config is weir's one configuration, a typed struct. Defaults, a YAML file, WEIR_* variables and flags fill
// it, in this order. It is validated as a whole. It is plain data: package kafka connects, config does not. It is the
// only package that knows viper.
package config

import (
	"os"
	"regexp"
	"strings"
	"time"
)

// Config is everything that an administrator can set. config/reference.yaml documents each key.
type Config struct {
	Cluster    string        `mapstructure:"cluster"`
	Prefix     string        `mapstructure:"prefix"`
	Interval   time.Duration `mapstructure:"interval"`
	PlanMargin time.Duration `mapstructure:"plan_margin"` // 0 in a file: min(1s, interval/4)
	Grace      time.Duration `mapstructure:"grace"`       // 0 in a file: min(1s, interval/2)
	BackoffCap time.Duration `mapstructure:"backoff_cap"`
	Collectors int           `mapstructure:"collectors"`
	Instance   string        `mapstructure:"instance"` // name of this process in its groups; empty: none
	LogLevel   string        `mapstructure:"log_level"`
	LogFormat  string        `mapstructure:"log_format"`
	Partitions Partitions    `mapstructure:"partitions"`
	Topics     Topics        `mapstructure:"topics"`
	Kafka      Kafka         `mapstructure:"kafka"`
	Registry   Registry      `mapstructure:"registry"`
	Agent      Agent         `mapstructure:"agent"`
	Balance    Balance       `mapstructure:"balance"`
	Collect    Collect       `mapstructure:"collect"`
	Sink       Sink          `mapstructure:"sink"`
	Samples    Samples       `mapstructure:"samples"`
	Nodes      Nodes         `mapstructure:"nodes"`
	Metrics    Metrics       `mapstructure:"metrics"`
	Machine    []NodeType    `mapstructure:"machine"`
	Find       Find          `mapstructure:"find"`
	Console    Console       `mapstructure:"console"`
	Notify     Notify        `mapstructure:"notify"`
}

// Outage is the longest outage, in intervals, that any part catches up.
const Outage = 64

// Slack is the largest lead of a time over the clock. A time beyond it comes from a wrong clock.
func Slack(interval time.Duration) time.Duration { return max(interval, 10*time.Second) }

// QuietCommit is the time between two commits of the positions of collect and merge while they have no output. It
// bounds the part that a successor reads again, and the part that it can miss because retention deleted it.
const QuietCommit = 10 * time.Second

// FilePeriod is the age of its first record at which the sink ends a file of the archive.
func (c *Config) FilePeriod() time.Duration { return max(c.Interval, c.Sink.Period) }

// Partitions are the partition counts beside Collectors.
type Partitions struct {
	Routes     int `mapstructure:"routes"`
	JobSummary int `mapstructure:"job_summary"`
	Partials   int `mapstructure:"partials"`
}

// Topics are the settings with which topics are made.
type Topics struct {
	Replication       int           `mapstructure:"replication"`
	CountersRetention time.Duration `mapstructure:"counters_retention"`
	SummaryRetention  time.Duration `mapstructure:"summary_retention"`
	SegmentBytes      int64         `mapstructure:"segment_bytes"` // 0: the broker's own
	Wire              string        `mapstructure:"wire"`          // the form of values of the public topics
	// RegistryIDs are the registry's ids of the shipped schemas, by the key of their record in topic schemas. They are
	// in no file: package kafka reads them from that topic.
	RegistryIDs map[string]uint32 `mapstructure:"-"`
}

// Triggered reports whether agents sample at the balancer's triggers, not by their clocks.
func (c *Config) Triggered() bool { return c.Agent.Sampling == "triggered" }

// Balance is the configuration of the balancer.
type Balance struct {
	JobsFile string   `mapstructure:"jobs_file"`
	TreeFile string   `mapstructure:"tree_file"` // empty: a flat tree of Nodes
	Nodes    []string `mapstructure:"nodes"`     // used if there is no tree

	Algorithm string `mapstructure:"algorithm"` // weir or literal
	// LMax is the number of nodes that one collector takes, counted for each job. 0: by bytes, from the next two.
	LMax               int   `mapstructure:"l_max"`
	PartitionBytesPerS int64 `mapstructure:"partition_bytes_per_s"` // rate that one partition or its collector sustains
	NodeBytes          int64 `mapstructure:"node_bytes"`            // bytes of a node in an interval, until measured
	// LDist is the number of nodes of a split job that the literal algorithm gives one collector. 0: 0.9 l_max.
	LDist    int `mapstructure:"l_dist"`
	LocalMax int `mapstructure:"local_max"` // jobs of one node that are reduced there; 0: all, -1: none

	DropDir string `mapstructure:"drop_dir"` // directory of the files from prolog and epilog; empty: none
	Slurm   Slurm  `mapstructure:"slurm"`
}

// Slurm configures the balancer's queries to Slurm for its jobs.
type Slurm struct {
	Enabled bool          `mapstructure:"enabled"`
	Bin     string        `mapstructure:"bin"`     // directory of squeue, scontrol and sinfo; empty: found by PATH
	Poll    time.Duration `mapstructure:"poll"`    // time between two polls, of the drop directory too
	Timeout time.Duration `mapstructure:"timeout"` // of one poll
	CPUIDs  string        `mapstructure:"cpu_ids"` // Linux' numbering of Slurm's CPUs; see Numberings
}

// Numbering describes Linux' numbering of the hardware threads of some nodes.
type Numbering struct {
	Hosts string // a hostlist; empty: all nodes that no other Numbering names
	Kind  string // spread, block or interleaved
}

var numberingItem = regexp.MustCompile(`(?:\[[^\]]*\]?|[^,\[])+`)

// Numberings returns the items of cpu_ids, such as "spread, gpu[001-016]=block". The first that names a node counts.
func (s Slurm) Numberings() (all []Numbering) {
	for _, item := range numberingItem.FindAllString(s.CPUIDs, -1) {
		hosts, kind, _ := strings.Cut(item, "=")
		if hosts, kind = strings.TrimSpace(hosts), strings.TrimSpace(kind); hosts == "" || kind == "" {
			hosts, kind = "", strings.TrimSpace(item)
		}
		if kind != "" {
			all = append(all, Numbering{hosts, kind})
		}
	}
	return all
}

// Collect is the configuration of collect and merge.
type Collect struct {
	MaxRejects int `mapstructure:"max_rejects"` // unreadable records within a minute before the partition stops
	Sketch     int `mapstructure:"sketch"`      // bytes of a certified summary in a JobSummary; 0: no such summary
}

// Sink is the configuration of the sink.
type Sink struct {
	Dir       string        `mapstructure:"dir"`
	RollBytes int64         `mapstructure:"roll_bytes"`
	Period    time.Duration `mapstructure:"period"` // a file ends after it, or after an interval if that is longer
}

// Samples is the configuration of `weir samples`, which writes below Sink.Dir as the sink does.
type Samples struct {
	Retention time.Duration `mapstructure:"retention"` // a date is deleted this long after its end
	Metrics   []string      `mapstructure:"metrics"`   // that are kept; empty: all
}

// Nodes is the configuration of `weir nodes`, which writes below Sink.Dir as the sink does.
type Nodes struct {
	Retention time.Duration `mapstructure:"retention"` // a date is deleted this long after its end
	Metrics   []string      `mapstructure:"metrics"`   // that are kept
}

// Metrics configures the endpoint at which a service shows its numbers to Prometheus.
type Metrics struct {
	Listen string `mapstructure:"listen"` // host:port; empty: nowhere
}

// Default returns the configuration of an installation that sets nothing.
func Default() Config {
	return Config{
		Cluster: "cluster", Prefix: "weir.", Interval: 10 * time.Second, BackoffCap: 5 * time.Second, Collectors: 64,
		LogLevel: "info", LogFormat: "text",
		Partitions: Partitions{Routes: 16, JobSummary: 8, Partials: 1},
		Topics: Topics{
			Replication: 3, CountersRetention: 24 * time.Hour, SummaryRetention: 3 * 24 * time.Hour,
			Wire: WireSingleObject,
		},
		Kafka: Kafka{DialTimeout: 2 * time.Second},
		Agent: Agent{
			ProcPath: "/proc", SysPath: "/sys", Perf: true, Sampling: "clock",
			Topology: AgentTopology{Listen: ":7118", PacketsPerSecond: 10_000, Share: .1},
		},
		Balance: Balance{
			Algorithm: "weir", PartitionBytesPerS: 10_000_000, NodeBytes: 5000,
			Slurm: Slurm{Poll: 2 * time.Second, Timeout: 10 * time.Second, CPUIDs: "spread"},
		},
		Collect: Collect{MaxRejects: 1000, Sketch: 512},
		Sink:    Sink{Dir: "archive", RollBytes: 64 << 20, Period: 5 * time.Minute},
		Samples: Samples{Retention: 3 * 24 * time.Hour},
		Nodes: Nodes{Retention: 30 * 24 * time.Hour, Metrics: []string{
			"cpu_idle", "mem_used", "job_mem_used", "acc_utilization", "acc_mem_used", "ic_read_bw", "ic_write_bw",
			"eth_read_bw", "eth_write_bw",
		}},
		Console: Console{Socket: ConsoleSocket},
		Notify: Notify{
			Webhook: Webhook{Form: FormJSON}, MinCoreHours: 24, MinGPUHours: 24, RuleEvery: 7 * 24 * time.Hour,
			UserPerDay: 3, PerMinute: 60,
		},
	}
}

// derive sets the defaults that depend on other settings.
func (c *Config) derive() {
	if c.PlanMargin == 0 {
		c.PlanMargin = min(time.Second, c.Interval/4)
	}
	if c.Grace == 0 {
		c.Grace = min(time.Second, c.Interval/2)
	}
	if c.Agent.Node == "" {
		if host, err := os.Hostname(); err == nil {
			c.Agent.Node = host
		}
	}
	for i := range c.Agent.Sources {
		s := &c.Agent.Sources[i]
		if s.Interval = c.Interval; s.Timeout == 0 && len(s.Exec) > 0 {
			s.Timeout = min(c.Interval/2, 10*time.Second)
		}
		if s.MaxAge == 0 && s.File != "" {
			s.MaxAge = 3 * c.Interval
		}
	}
}

// CollectorBytes returns the bytes of jobs that one collector takes in an interval: half of the amount that a partition
// sustains. The other half is for catching up after an outage, for nodes that send more, and for records of no job.
func (c *Config) CollectorBytes() int64 {
	return int64(c.Interval.Seconds() * float64(c.Balance.PartitionBytesPerS) / 2)
}

// CollectorNodes returns the same in nodes: balance.l_max, or if that is 0, CollectorBytes by balance.node_bytes. Of a
// split job, PerSyst's algorithms give each collector dist nodes.
func (c *Config) CollectorNodes() (most, dist int) {
	most, dist = c.Balance.LMax, c.Balance.LDist
	if most == 0 {
		most = int(min(1_000_000, max(2, c.CollectorBytes()/max(1, c.Balance.NodeBytes))))
	}
	if dist == 0 {
		dist = max(1, most*9/10)
	}
	return most, dist
}

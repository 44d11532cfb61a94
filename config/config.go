// Package config is weir's one configuration: a typed struct, filled from defaults, a YAML file, WEIR_* variables and
// flags, each over the one before, and validated as a whole. It is plain data: it connects to nothing, package kafka does. It
// is the only package that knows viper.
package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
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
	Agent      Agent         `mapstructure:"agent"`
	Balance    Balance       `mapstructure:"balance"`
	Collect    Collect       `mapstructure:"collect"`
	Sink       Sink          `mapstructure:"sink"`
	Metrics    Metrics       `mapstructure:"metrics"`
}

// Outage is how far back anything is caught up, in intervals.
const Outage = 64

// Slack is how far apart the clocks of two hosts may be. What lies further ahead, a clock that is wrong has written.
func Slack(interval time.Duration) time.Duration { return max(interval, 10*time.Second) }

// QuietCommit is how often collect and merge commit their positions while they have nothing to say. It bounds what a
// successor reads again, and what a full retention can make it miss.
const QuietCommit = 10 * time.Second

// FilePeriod is how old the first record of a file of the archive is when the sink ends the file.
func FilePeriod(interval time.Duration) time.Duration { return max(interval, 10*time.Second) }

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
}

// Agent is the configuration of the node agent.
type Agent struct {
	Node     string `mapstructure:"node"`      // empty: the host's name
	ProcPath string `mapstructure:"proc_path"` // where /proc is
	StateDir string `mapstructure:"state_dir"` // the last route is kept here; empty: not kept
	Perf     bool   `mapstructure:"perf"`      // open perf events
}

// Balance is the configuration of the balancer.
type Balance struct {
	JobsFile string   `mapstructure:"jobs_file"`
	TreeFile string   `mapstructure:"tree_file"` // empty: a flat tree of Nodes
	Nodes    []string `mapstructure:"nodes"`     // where there is no tree

	Algorithm          string `mapstructure:"algorithm"`             // weir or literal
	LMax               int    `mapstructure:"l_max"`                 // nodes whose jobs one collector takes; 0: by bytes, from the next two
	PartitionBytesPerS int64  `mapstructure:"partition_bytes_per_s"` // that one partition or its collector sustains
	NodeBytes          int64  `mapstructure:"node_bytes"`            // that a node sends in an interval, as long as none was measured
	LDist              int    `mapstructure:"l_dist"`                // literal: nodes of a split job that one collector is given; 0: 0.9 l_max
	LocalMax           int    `mapstructure:"local_max"`             // jobs of one node that are reduced there; 0: all

	DropDir string `mapstructure:"drop_dir"` // where prolog and epilog say when jobs start and end; empty: nowhere
	Slurm   Slurm  `mapstructure:"slurm"`
}

// Slurm says how the balancer asks Slurm for its jobs.
type Slurm struct {
	Enabled bool          `mapstructure:"enabled"`
	Bin     string        `mapstructure:"bin"`     // directory of squeue, scontrol and sinfo; empty: as PATH says
	Poll    time.Duration `mapstructure:"poll"`    // how often, the drop directory too
	Timeout time.Duration `mapstructure:"timeout"` // of one poll
	CPUIDs  string        `mapstructure:"cpu_ids"` // how Linux numbers what Slurm calls CPUs; see Numberings
}

// Numbering says how Linux numbers the hardware threads of some nodes.
type Numbering struct {
	Hosts string // a hostlist; empty: all nodes that no other Numbering names
	Kind  string // spread, block or interleaved
}

var numberingItem = regexp.MustCompile(`(?:\[[^\]]*\]?|[^,\[])+`)

// Numberings returns the items of cpu_ids, such as spread, gpu[001-016]=block. The first that names a node counts.
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
	MaxRejects int `mapstructure:"max_rejects"` // records that nobody can read within a minute, before the partition stops
}

// Sink is the configuration of the sink.
type Sink struct {
	Dir       string `mapstructure:"dir"`
	RollBytes int64  `mapstructure:"roll_bytes"`
}

// Metrics says where a service shows its numbers to Prometheus.
type Metrics struct {
	Listen string `mapstructure:"listen"` // host:port; empty: nowhere
}

// Default returns the configuration that holds where nothing is said.
func Default() Config {
	return Config{
		Cluster: "cluster", Prefix: "weir.", Interval: 10 * time.Second, BackoffCap: 5 * time.Second, Collectors: 64, LogLevel: "info", LogFormat: "text",
		Partitions: Partitions{Routes: 16, JobSummary: 8, Partials: 1},
		Topics:     Topics{Replication: 3, CountersRetention: 24 * time.Hour, SummaryRetention: 7 * 24 * time.Hour},
		Kafka:      Kafka{ClientID: "weir", DialTimeout: 2 * time.Second},
		Agent:      Agent{ProcPath: "/proc", Perf: true},
		Balance: Balance{
			Algorithm: "weir", PartitionBytesPerS: 10_000_000, NodeBytes: 5000,
			Slurm: Slurm{Poll: 2 * time.Second, Timeout: 10 * time.Second, CPUIDs: "spread"},
		},
		Collect: Collect{MaxRejects: 1000},
		Sink:    Sink{Dir: "archive", RollBytes: 64 << 20},
	}
}

// Source says where a configuration comes from.
type Source struct {
	File     string         // YAML; empty: none
	Environ  []string       // as os.Environ
	Flags    *pflag.FlagSet // flags that were changed count, under the keys that Keys gives them
	Keys     map[string]string
	Defaults Config
}

var (
	// ErrUnknownKey is returned when a file or the environment sets what there is not.
	ErrUnknownKey = errors.New("unknown key")
	// ErrValue is returned when a value is not of its key's kind.
	ErrValue = errors.New("wrong kind of value")
)

// Load fills Defaults from the file, WEIR_* variables (WEIR_KAFKA_BROKERS sets kafka.brokers) and flags, in this order,
// and validates the result. The error joins all faults, each with the variable or flag that set the value.
func Load(src Source) (Config, error) {
	v := viper.New()
	known := flatten("", reflect.ValueOf(src.Defaults))
	for key, value := range known {
		v.SetDefault(key, value)
	}
	faults, err := src.readFile(v, known)
	if err != nil {
		return Config{}, err
	}
	setBy := map[string]string{} // by key: the variable or the flag
	for _, e := range src.Environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "WEIR_") {
			continue
		}
		key, ok := keyOf(strings.TrimPrefix(name, "WEIR_"), known)
		if !ok {
			faults = append(faults, fmt.Errorf("%w: the environment variable %s", ErrUnknownKey, name))
			continue
		}
		v.Set(key, value)
		setBy[key] = name
		if value == "" {
			setBy[key] += ", which is empty: give it a value or unset it"
		}
	}
	if src.Flags != nil {
		src.Flags.Visit(func(f *pflag.Flag) {
			if key, ok := src.Keys[f.Name]; ok {
				v.Set(key, f.Value.String())
				setBy[key] = "--" + f.Name
			}
		})
	}
	if len(faults) > 0 {
		return Config{}, errors.Join(faults...)
	}
	huge := bound(v, known)
	c := src.Defaults // what cannot be decoded stays at its default, so that the other faults can be told too
	err = v.UnmarshalExact(&c, func(d *mapstructure.DecoderConfig) {
		d.WeaklyTypedInput = false
		d.DecodeHook = mapstructure.ComposeDecodeHookFunc(splitList, decodeScalar)
	})
	c.derive()
	for _, f := range append(wrongValues(err), c.faults(huge)...) {
		key, _, _ := strings.Cut(f.key, "[") // of an element of a list: the list's
		if name := setBy[key]; name != "" {
			f.error = fmt.Errorf("%w (set by %s)", f.error, name)
		}
		faults = append(faults, f)
	}
	return c, errors.Join(faults...)
}

// readFile reads the file into v. It returns a fault for each key that there is not, or an error if the file tells nothing.
func (src Source) readFile(v *viper.Viper, known map[string]any) (faults []error, err error) {
	if src.File == "" {
		return nil, nil
	}
	text, err := ReadFile(src.File)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	tree, err := parseYAML(text)
	if err == nil {
		err = v.MergeConfigMap(tree)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", src.File, err)
	}
	sections := map[string]string{} // with one of the keys below each
	for key := range known {
		for i, r := range key {
			if r == '.' {
				if example := sections[key[:i]]; example == "" || key < example {
					sections[key[:i]] = key
				}
			}
		}
	}
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		if _, ok := known[key]; ok {
			continue
		}
		fault := fmt.Errorf("%w %s in %s", ErrUnknownKey, key, src.File)
		if example := sections[key]; example != "" {
			fault = fmt.Errorf("%s in %s: %w: keys below it are wanted, such as %s", key, src.File, ErrValue, example)
		}
		faults = append(faults, fault)
	}
	return faults, nil
}

// bound takes the nearest int64 for whole numbers beyond it, and returns those as they were given, by key.
func bound(v *viper.Viper, known map[string]any) map[string]string {
	huge := map[string]string{}
	for key, value := range known {
		if kind := reflect.TypeOf(value).Kind(); kind != reflect.Int && kind != reflect.Int64 {
			continue
		}
		var nearest int64
		switch given := v.Get(key).(type) {
		case string:
			n, err := strconv.ParseInt(given, 10, 64)
			if !errors.Is(err, strconv.ErrRange) {
				continue
			}
			nearest = n
		case float64:
			if math.Abs(given) < 1<<63 {
				continue
			} else if nearest = math.MaxInt64; given < 0 {
				nearest = math.MinInt64
			}
		case uint64:
			nearest = int64(min(given, math.MaxInt64))
		default:
			continue
		}
		huge[key] = fmt.Sprint(v.Get(key))
		v.Set(key, nearest)
	}
	return huge
}

// wrongValues returns the errors of a decoding one by one, as those of Validate are.
func wrongValues(err error) (faults []fault) {
	switch e := err.(type) { //nolint:errorlint // each level of the tree by itself
	case nil:
	case *mapstructure.DecodeError:
		reason := strings.Replace(e.Unwrap().Error(), "source data must be an array or slice", "a list is wanted", 1)
		faults = append(faults, fault{e.Name(), fmt.Errorf("%s: %w: %s", e.Name(), ErrValue, reason)})
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			faults = append(faults, wrongValues(one)...)
		}
	case interface{ Unwrap() error }:
		return wrongValues(e.Unwrap())
	default:
		faults = append(faults, fault{"", fmt.Errorf("%w: %w", ErrValue, err)})
	}
	return faults
}

// splitList makes a list of a text with commas, which is how the environment has one.
func splitList(_, to reflect.Type, value any) (any, error) {
	text, isText := value.(string)
	if !isText || to.Kind() != reflect.Slice {
		return value, nil
	}
	list := []string{}
	if text == "" {
		return list, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(item))
	}
	return list, nil
}

// decodeScalar turns texts, which is what the environment and flags have, into what a key holds, and refuses numbers that
// the library would round or take for nanoseconds.
func decodeScalar(from, to reflect.Type, value any) (any, error) {
	text, isText := value.(string)
	switch {
	case from == to: // a default
	case to == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		if !isText || err != nil {
			return nil, fmt.Errorf("%s is not a duration such as 500ms, 10s or 24h", shown(value))
		}
		return d, nil
	case to.Kind() == reflect.Int || to.Kind() == reflect.Int64:
		if isText {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%q is not a whole number", text)
			}
			return n, nil
		}
		if f, is := value.(float64); is && f == math.Trunc(f) {
			return int64(f), nil
		}
		if !reflect.ValueOf(value).CanInt() {
			return nil, fmt.Errorf("%s is not a whole number", shown(value))
		}
	case to.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%s is neither true nor false", shown(value))
		}
		return b, nil
	case to.Kind() == reflect.String:
		return nil, fmt.Errorf("%s is not a text: put a number or a date in quotes", shown(value))
	}
	return value, nil
}

// shown is a value as a message has it.
func shown(value any) string {
	if text, is := value.(string); is {
		return fmt.Sprintf("%.80q", text)
	}
	return fmt.Sprintf("%.80s", fmt.Sprint(value))
}

// derive fills what depends on other settings.
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
}

// CollectorBytes returns what one collector takes of jobs in an interval: half of what a partition sustains. The other half is
// for catching up after an outage, for nodes that send more than they did, and for what no job sends.
func (c *Config) CollectorBytes() int64 {
	return int64(c.Interval.Seconds() * float64(c.Balance.PartitionBytesPerS) / 2)
}

// CollectorNodes returns the same in nodes: balance.l_max, or, where that is 0, those that send CollectorBytes if each sends
// balance.node_bytes. Of a job that is split, PerSyst's algorithms give each collector dist.
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

// flatten returns the leaves of a configuration by their dotted keys.
func flatten(prefix string, v reflect.Value) map[string]any {
	leaves := map[string]any{}
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("mapstructure")
		if v.Field(i).Kind() == reflect.Struct {
			maps.Copy(leaves, flatten(key+".", v.Field(i)))
			continue
		}
		leaves[key] = v.Field(i).Interface()
	}
	return leaves
}

// keyOf finds the key that an environment variable names: dots became underscores, which keys have too.
func keyOf(name string, known map[string]any) (string, bool) {
	for key := range known {
		if strings.ToUpper(strings.ReplaceAll(key, ".", "_")) == name {
			return key, true
		}
	}
	return "", false
}

// Keys returns every key, sorted.
func Keys() []string {
	var keys []string
	for key := range flatten("", reflect.ValueOf(Config{})) {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// YAML returns the configuration as a file that Load reads. Passwords are not part of it: the configuration only holds
// the names of their files.
func (c Config) YAML() ([]byte, error) { return marshalYAML(c) }

package config

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/schemas"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReferenceIsTheDefault(t *testing.T) {
	want, err := Load(Source{Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(Source{File: "reference.yaml", Defaults: Config{}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reference.yaml (+) is not the default (-)\n%s", diff)
	}
	text, err := os.ReadFile("reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(allKeys(), slices.Sorted(maps.Keys(leaves("", tree)))); diff != "" {
		t.Errorf("keys of the struct (-), of reference.yaml (+)\n%s", diff)
	}
}

func leaves(prefix string, tree map[string]any) map[string]any {
	all := map[string]any{}
	for k, v := range tree {
		if sub, ok := v.(map[string]any); ok {
			maps.Copy(all, leaves(prefix+k+".", sub))
			continue
		}
		all[prefix+k] = v
	}
	return all
}

func TestLaterSourcesWin(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Duration("interval", 0, "")
	flags.String("other", "", "")
	if err := flags.Parse([]string{"--interval=2s", "--other=x"}); err != nil {
		t.Fatal(err)
	}
	src := Source{
		File: write(t, "cluster: file\nprefix: file.\ninterval: 20s\nkafka: {brokers: ['a:1', 'b:2']}\n"),
		Environ: []string{
			"WEIR_PREFIX=env.", "WEIR_INTERVAL=5s", "WEIR_KAFKA_TLS_ENABLED=true",
			"WEIR_BALANCE_NODES=n1,n2", "HOME=/", "WEIR_REPORT_FILE=/run/weir/report/7.0", // sets no key
		},
		Flags:    flags,
		Keys:     map[string]string{"interval": "interval"},
		Defaults: Default(),
	}
	c, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if c.Cluster != "file" || c.Prefix != "env." || c.Interval != 2*time.Second || c.Collectors != 64 ||
		!c.Kafka.TLS.Enabled {
		t.Errorf("%+v", c)
	}
	if !slices.Equal(c.Kafka.Brokers, []string{"a:1", "b:2"}) || !slices.Equal(c.Balance.Nodes, []string{"n1", "n2"}) {
		t.Errorf("lists: %q, %q", c.Kafka.Brokers, c.Balance.Nodes)
	}
	most, dist := c.CollectorNodes()
	if c.PlanMargin != 500*time.Millisecond || c.Grace != time.Second || c.CollectorBytes() != 10_000_000 ||
		most != 2000 || dist != 1800 || c.Agent.Node == "" {
		t.Errorf("derived: %v, %v, %d bytes, %d and %d nodes, %q", c.PlanMargin, c.Grace, c.CollectorBytes(), most,
			dist, c.Agent.Node)
	}
	c.Balance.LMax = 50
	if most, dist = c.CollectorNodes(); most != 50 || dist != 45 {
		t.Errorf("%d and %d nodes", most, dist)
	}
}

func TestYAMLRoundTrip(t *testing.T) {
	c, err := Load(Source{Environ: []string{"WEIR_KAFKA_BROKERS=h:1", "WEIR_INTERVAL=1500ms"}, Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Load(Source{File: write(t, string(text)), Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, back, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestUnknownKeysAreErrors(t *testing.T) {
	_, err := Load(Source{
		File: write(t, "intervall: 1s\nkafka: {broker: x}\n"), Environ: []string{"WEIR_KAFKA_BROKER=x"},
		Defaults: Default(),
	})
	for _, name := range []string{"intervall", "kafka.broker", "WEIR_KAFKA_BROKER"} {
		if !errors.Is(err, errUnknownKey) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	if _, err := Load(Source{File: write(t, "a: ["), Defaults: Default()}); err == nil {
		t.Error("what is no YAML is accepted")
	}
	for text, says := range map[string]string{
		"interval: soon": "soon", "interval: 5": "5", "collectors: many": "many", "collectors: 2.7": "2.7",
		"collectors: true":       "collectors",
		"agent: {perf: perhaps}": "perhaps", "cluster: [a]": "cluster", "kafka: {brokers: 3}": "brokers",
	} {
		_, err := Load(Source{File: write(t, text+"\nprefix: a/b\n"), Defaults: Default()})
		if !errors.Is(err, errValue) || !errors.Is(err, errName) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v does not name the value, or hides the other fault", text, err)
		}
	}
	_, err := Load(Source{Environ: []string{"WEIR_INTERVAL=zz", "WEIR_CLUSTER=a/b"}, Defaults: Default()})
	if !errors.Is(err, errValue) || !errors.Is(err, errName) || !strings.Contains(err.Error(), "interval") ||
		!strings.Contains(err.Error(), "zz") {
		t.Errorf("%v", err)
	}
	_, err = Load(Source{File: write(t, "collectors: many\nbalance: {nodes: 7}\n"), Defaults: Default()})
	want := "collectors: wrong kind of value: \"many\" is not a whole number\n" +
		"balance.nodes: wrong kind of value: a list is wanted, got int"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want a line for each\n%s", err, want)
	}
	if _, err := Load(Source{File: "none.yaml", Defaults: Default()}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestValidate(t *testing.T) {
	base, err := Load(Source{Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		change func(c *Config)
		want   error
		key    string
	}{
		"cluster":        {func(c *Config) { c.Cluster = "a/b" }, errName, "cluster"},
		"prefix":         {func(c *Config) { c.Prefix = "" }, errName, "prefix"},
		"node":           {func(c *Config) { c.Agent.Node = ".." }, errName, "agent.node"},
		"agent's CPUs":   {func(c *Config) { c.Agent.CPUs = "0-" }, errCPUs, "agent.cpus"},
		"relative lock":  {func(c *Config) { c.Agent.PerfLock = "perf.lock" }, errPath, "agent.perf_lock"},
		"reports":        {func(c *Config) { c.Agent.ReportDir = "report" }, errPath, "agent.report_dir"},
		"negative peak":  {func(c *Config) { c.Agent.PeakFlops = -1 }, errRange, "agent.peak_flops"},
		"no number":      {func(c *Config) { c.Agent.PeakMemBW = math.NaN() }, errRange, "agent.peak_mem_bw"},
		"short interval": {func(c *Config) { c.Interval = time.Millisecond }, errInterval, "interval"},
		"other sampling": {func(c *Config) { c.Agent.Sampling = "ntp" }, errChoice, "agent.sampling"},
		"odd interval":   {func(c *Config) { c.Interval = time.Second + 1 }, errInterval, "interval"},
		"late plan":      {func(c *Config) { c.PlanMargin = c.Interval }, errRange, "plan_margin"},
		"long grace":     {func(c *Config) { c.Grace = c.Interval }, errRange, "grace"},
		"no collectors":  {func(c *Config) { c.Collectors = 0 }, errRange, "collectors"},
		"retention": {
			func(c *Config) { c.Topics.CountersRetention = time.Minute }, errRange, "topics.counters_retention",
		},
		"samples' time":  {func(c *Config) { c.Samples.Retention = time.Minute }, errRange, "samples.retention"},
		"samples' names": {func(c *Config) { c.Samples.Metrics = []string{"a", "b c"} }, errName, "samples.metrics"},
		"l_dist":         {func(c *Config) { c.Balance.LMax, c.Balance.LDist = 10, 11 }, errRange, "balance.l_dist"},
		"negative l_max": {func(c *Config) { c.Balance.LMax, c.Balance.LDist = -1, 5 }, errRange, "balance.l_max"},
		"slurm's poll":   {func(c *Config) { c.Balance.Slurm.Poll = 0 }, errRange, "balance.slurm.poll"},
		"slurm's time":   {func(c *Config) { c.Balance.Slurm.Timeout = time.Hour }, errRange, "balance.slurm.timeout"},
		"slurm's CPUs":   {func(c *Config) { c.Balance.Slurm.CPUIDs = "cyclic" }, errChoice, "balance.slurm.cpu_ids"},
		"log level":      {func(c *Config) { c.LogLevel = "loud" }, errChoice, "log_level"},
		"broker":         {func(c *Config) { c.Kafka.Brokers = []string{"host"} }, errAddress, "kafka.brokers"},
		"mechanism":      {func(c *Config) { c.Kafka.SASL.Mechanism = "MAGIC" }, errChoice, "kafka.sasl.mechanism"},
		"no password": {
			func(c *Config) { c.Kafka.SASL.Mechanism = ScramSHA512 }, errTogether, "kafka.sasl.mechanism",
		},
		"wire":                    {func(c *Config) { c.Topics.Wire = "avro" }, errChoice, "topics.wire"},
		"registry without scheme": {func(c *Config) { c.Registry.URL = "host:8081" }, errChoice, "registry.url"},
		"registry without host":   {func(c *Config) { c.Registry.URL = "http://" }, errChoice, "registry.url"},
		"registry's login in it": {
			func(c *Config) { c.Registry.URL = "https://a:b@host" }, errChoice, "registry.url",
		},
		"registry's query":    {func(c *Config) { c.Registry.URL = "http://host/?a" }, errChoice, "registry.url"},
		"registry's CA alone": {func(c *Config) { c.Registry.CAFile = "ca" }, errTogether, "registry.url"},
		"registry's user alone": {
			func(c *Config) { c.Registry = Registry{URL: "https://host", User: "a"} }, errTogether, "registry.user",
		},
		"registry's password in the open": {
			func(c *Config) { c.Registry = Registry{URL: "http://host", User: "a", PasswordFile: "p"} },
			errTogether, "registry.user",
		},
		"mail without sender": {
			func(c *Config) { c.Notify.Sendmail, c.Notify.Domain = "/usr/sbin/sendmail -t -i", "example.org" },
			errTogether, "notify.sendmail",
		},
		"mail to no address": {
			func(c *Config) { c.Notify.Sendmail, c.Notify.From = "/usr/sbin/sendmail -t", "hpc@example.org" },
			errTogether, "notify.sendmail",
		},
		"relative sendmail": {
			func(c *Config) {
				c.Notify = Notify{Sendmail: "sendmail -t", From: "hpc@example.org", Domain: "example.org"}
			}, errPath, "notify.sendmail",
		},
		"domain":          {func(c *Config) { c.Notify.Domain = "a b" }, errChoice, "notify.domain"},
		"form":            {func(c *Config) { c.Notify.Webhook.Form = "irc" }, errChoice, "notify.webhook.form"},
		"digest":          {func(c *Config) { c.Notify.Digest = "daily" }, errChoice, "notify.digest"},
		"no hours":        {func(c *Config) { c.Notify.MinCoreHours = 0 }, errRange, "notify.min_core_hours"},
		"NaN GPU-hours":   {func(c *Config) { c.Notify.MinGPUHours = math.NaN() }, errRange, "notify.min_gpu_hours"},
		"link":            {func(c *Config) { c.Notify.Link = "https://h/{jobid}" }, errChoice, "notify.link"},
		"script for link": {func(c *Config) { c.Notify.Link = "javascript:{job}" }, errChoice, "notify.link"},
		"rule each hour":  {func(c *Config) { c.Notify.RuleEvery = time.Minute }, errRange, "notify.rule_every"},
		"messages a day":  {func(c *Config) { c.Notify.UserPerDay = 0 }, errRange, "notify.user_per_day"},
		"a minute":        {func(c *Config) { c.Notify.PerMinute = 601 }, errRange, "notify.per_minute"},
		"key alone":       {func(c *Config) { c.Kafka.TLS.KeyFile = "k" }, errTogether, "kafka.tls.cert_file"},
		"no archive":      {func(c *Config) { c.Sink.Dir = "" }, errTogether, "sink.dir"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := base
			tc.change(&c)
			if err := c.Validate(); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.key+" = ") {
				t.Errorf("got %v, want %v at %s", err, tc.want, tc.key)
			}
		})
	}
	one := base
	one.Balance.LMax = 1
	if err := one.Validate(); err != nil {
		t.Errorf("one node a collector: %v", err)
	}
	one.Registry = Registry{URL: "https://host:8081/apis/ccompat/v7", User: "a", PasswordFile: "p", CAFile: "c"}
	if err := one.Validate(); err != nil {
		t.Errorf("a registry: %v", err)
	}
	// One mistake is said once, and with what may be: 0 too.
	one.Balance.LMax, one.Balance.LDist = -1, 5
	if err := one.Validate(); err == nil || strings.Contains(err.Error(), "l_dist") ||
		!strings.Contains(err.Error(), "0 to 1000000") {
		t.Errorf("negative l_max: %v", err)
	}
	bad := base
	bad.Cluster, bad.Collectors, bad.LogLevel = "", 0, ""
	err = bad.Validate()
	for _, rule := range []error{errName, errRange, errChoice} {
		if !errors.Is(err, rule) {
			t.Errorf("%v is missing from %v", rule, err)
		}
	}
}

func TestNamesAgree(t *testing.T) {
	base, err := Load(Source{Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"", "a", ".", "..", "...", "a/b", "A-b_c.d:9", "ä", "a b", strings.Repeat("x", 64),
		strings.Repeat("x", 65), "a\n",
	} {
		c := base
		c.Cluster = s
		if byConfig, bySchemas := !errors.Is(c.Validate(), errName), schemas.ValidJobID(s); byConfig != bySchemas {
			t.Errorf("%q: config says %v, schemas %v", s, byConfig, bySchemas)
		}
	}
}

// TestWrongInputIsNamed: each mistake ends in one line with the key or the file, the value as it was given, and what
// may be.
func TestWrongInputIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		yaml, environ string
		says          string
	}{
		"beyond int64": {
			"collectors: 99999999999999999999", "", "collectors = 99999999999999999999: out of range: 1 to 10000",
		},
		"far below": {
			"sink: {roll_bytes: -99999999999999999999}", "",
			"sink.roll_bytes = -99999999999999999999: out of range: 1048576",
		},
		"an uint64": {
			"collectors: 18446744073709551615", "", "collectors = 18446744073709551615: out of range: 1 to 10000",
		},
		"a huge float": {"collectors: 1e300", "", "collectors = 1e+300: out of range: 1 to 10000"},
		"infinite":     {"collectors: .inf", "", "collectors = +Inf: out of range: 1 to 10000"},
		"no number":    {"collectors: .nan", "", "collectors = NaN: out of range: 1 to 10000"},
		"beyond int64, variable": {
			"", "WEIR_COLLECTORS=99999999999999999999",
			"collectors = 99999999999999999999: out of range: 1 to 10000 (set by WEIR_COLLECTORS)",
		},
		"segments": {
			"topics: {segment_bytes: -1}", "",
			"topics.segment_bytes = -1: out of range: 0 (the broker's own), or 65536 to 2147483647",
		},
		"list as number": {"collectors: [1]", "", "[1] is not a whole number"},
		"number as name": {"cluster: 1.5", "", "1.5 is not a text: put a number or a date in quotes"},
		"number as boolean": {
			"kafka: {tls: {enabled: 1}}", "", "kafka.tls.enabled: wrong kind of value: 1 is neither true nor false",
		},
		"huge interval": {"interval: 2500000h", "", "interval = 2500000h0m0s: must be whole milliseconds"},
		"colon in the prefix": {
			`prefix: "a:b."`, "", `prefix = "a:b.": must match [A-Za-z0-9._:-]{1,64}: without a colon`,
		},
		"choices with none": {
			"kafka: {sasl: {mechanism: MAGIC}}", "", `not one of the choices: "" (none), SCRAM-SHA-512`,
		},
		"value in a section": {
			"kafka: h:1", "", "kafka in FILE: wrong kind of value: keys below it are wanted, such as kafka.brokers",
		},
		"twice": {
			"collectors: 4\ncollectors: 5", "", "line 2: mapping key \"collectors\" already defined at line 1",
		},
		"twice, in another case": {"collectors: 4\nCollectors: 5", "", "Collectors and collectors are the same key"},
		"tab": {
			"kafka:\n\tbrokers: []", "", "line 2: found character that cannot start any token (a tab?",
		},
		"two documents":      {"collectors: 4\n---\ncollectors: 5", "", "more than one document"},
		"list":               {"[1, 2]", "", "line 1: keys with values are wanted"},
		"bomb":               {bomb, "", "excessive aliasing"},
		"control characters": {"\x00\x01\x02", "", "control characters are not allowed"},
		"100 MB":             {strings.Repeat("#", maxFileBytes+1), "", "FILE: longer than 1 MiB"},
		"empty number": {
			"", "WEIR_COLLECTORS=", "(set by WEIR_COLLECTORS, which is empty: give it a value or unset it)",
		},
		"empty boolean": {"", "WEIR_KAFKA_TLS_ENABLED=", "(set by WEIR_KAFKA_TLS_ENABLED, which is empty"},
		"empty name": {
			"", "WEIR_PREFIX=", `prefix = "": must match [A-Za-z0-9._:-]{1,64} (set by WEIR_PREFIX, which is empty`,
		},
		"element of a list": {
			"", "WEIR_BALANCE_NODES=a,,b",
			"balance.nodes = \"\": must match [A-Za-z0-9._:-]{1,64} (set by WEIR_BALANCE_NODES)",
		},
		"a URL": {
			"kafka: {brokers: ['http://h:1']}", "", `kafka.brokers = "http://h:1": must be host:port`,
		},
		"a space": {"kafka: {brokers: ['h :1']}", "", `kafka.brokers = "h :1": must be host:port`},
		"port 0": {
			"kafka: {brokers: ['h:1', 'h:0']}", "",
			`kafka.brokers = "h:0": must be host:port: nobody can connect to port 0`,
		},
		"port 0, longer": {
			"", "WEIR_KAFKA_BROKERS=[::1]:00", `kafka.brokers = "[::1]:00": must be host:port: nobody`,
		},
		"no port":                 {"", "WEIR_KAFKA_BROKERS=h:", `kafka.brokers = "h:": must be host:port (set by`},
		"port with a sign":        {"kafka: {brokers: ['h:+1']}", "", `kafka.brokers = "h:+1": must be host:port`},
		"key without a dash list": {"kafka: {brokers: 5}", "", "kafka.brokers: wrong kind of value: a list is wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, c.yaml)
			_, err := Load(Source{File: file, Environ: []string{c.environ}, Defaults: Default()})
			if err == nil {
				t.Fatal("it is accepted")
			}
			if says := strings.ReplaceAll(c.says, "FILE", file); !strings.Contains(err.Error(), says) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is not one line with %q", err, says)
			}
		})
	}
}

// bomb is a short text of a long list.
const bomb = `a: &a [x,x,x,x,x,x,x,x,x]
b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]
c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]
d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]
e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]
f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]
g: [*f,*f,*f,*f,*f,*f,*f,*f,*f]`

// TestWhatIsMeantIsTaken: these are unusual, and clear.
func TestWhatIsMeantIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		yaml, environ string
		want          func(c Config) bool
	}{
		"a mark of the byte order": {
			"\xef\xbb\xbfcollectors: 4\r\n", "", func(c Config) bool { return c.Collectors == 4 },
		},
		"a key without a value": {"collectors:\n", "", func(c Config) bool { return c.Collectors == 64 }},
		"a section without a key": {
			"kafka:\n# brokers: []\ncollectors: 4\n", "", func(c Config) bool { return c.Collectors == 4 },
		},
		"an empty text": {
			"metrics: {listen: 'h:1'}", "WEIR_METRICS_LISTEN=", func(c Config) bool { return c.Metrics.Listen == "" },
		},
		"an empty list": {
			"balance: {nodes: [a]}", "WEIR_BALANCE_NODES=", func(c Config) bool { return len(c.Balance.Nodes) == 0 },
		},
		"a comma and a space": {
			"", "WEIR_KAFKA_BROKERS=k1:9092, k2:9092",
			func(c Config) bool { return slices.Equal(c.Kafka.Brokers, []string{"k1:9092", "k2:9092"}) },
		},
		"port 0 to listen": {
			"metrics: {listen: '127.0.0.1:0'}", "", func(c Config) bool { return c.Metrics.Listen == "127.0.0.1:0" },
		},
		"a section in a section": {
			"kafka:\n  tls:\n    # enabled: true\n  client_id: x\n", "",
			func(c Config) bool { return c.Kafka.ClientID == "x" && !c.Kafka.TLS.Enabled },
		},
		"a list with spaces": {
			"", "WEIR_KAFKA_BROKERS=h:1, [::1]:2",
			func(c Config) bool { return slices.Equal(c.Kafka.Brokers, []string{"h:1", "[::1]:2"}) },
		},
		"an alias": {
			"cluster: &name x\nprefix: *name\n", "", func(c Config) bool { return c.Prefix == "x" },
		},
		"nothing": {"", "", func(c Config) bool { return c.Collectors == 64 }},
	} {
		got, err := Load(Source{File: write(t, c.yaml), Environ: []string{c.environ}, Defaults: Default()})
		if err != nil || !c.want(got) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

// TestSectionsMayBeCommentedOut: the reference with all keys commented out, its sections alone, is the default.
func TestSectionsMayBeCommentedOut(t *testing.T) {
	text, err := os.ReadFile("reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for line := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(line, ":")
		if value, _, _ := strings.Cut(rest, "#"); ok && !strings.Contains(name, "#") && strings.TrimSpace(value) == "" {
			sections = append(sections, name+":\n")
		} else {
			sections = append(sections, "# "+line)
		}
	}
	all := strings.Join(sections, "")
	for _, section := range []string{
		"partitions:", "topics:", "kafka:", "  tls:", "  sasl:", "agent:", "balance:",
		"  slurm:", "collect:", "sink:", "metrics:",
	} {
		if !strings.Contains(all, "\n"+section+"\n") {
			t.Errorf("no section %s in\n%s", section, all)
		}
	}
	want, err := Load(Source{Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(Source{File: write(t, all), Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// TestPipeWithoutWriterIsNotWaitedFor: a command that is given the name of a pipe ends, with a reason.
func TestPipeWithoutWriterIsNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error, 1)
	go func() {
		_, err := Load(Source{File: pipe, Defaults: Default()})
		loaded <- err
	}()
	select {
	case err := <-loaded:
		if !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), pipe) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it waits for ever")
	}
}

// TestExamplesAreValid: what an administrator copies must load.
func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob("../deploy/config/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) == "tree.yaml" {
			continue // topology's
		}
		if _, err := Load(Source{File: file, Defaults: Default()}); err != nil {
			t.Error(err)
		}
	}
}

// TestNumberings: partitions may number their CPUs differently. An item that is wrong is named, with what mends it.
func TestNumberings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	for text, want := range map[string]struct {
		all   []Numbering
		fault string
	}{
		"block":                      {[]Numbering{{"", "block"}}, ""},
		"spread, gpu[001-016]=block": {[]Numbering{{"", "spread"}, {"gpu[001-016]", "block"}}, ""},
		"gpu[1,3-4]x = interleaved,": {[]Numbering{{"gpu[1,3-4]x", "interleaved"}}, ""},
		"a[1-2]b[3,4]=block, a1b3=spread": {
			[]Numbering{{"a[1-2]b[3,4]", "block"}, {"a1b3", "spread"}}, "",
		},
		"spread, gpu[001-016]=cyclic": {
			nil, `"gpu[001-016]=cyclic": not one of the choices: spread, block, interleaved, or gpu[001-016]=block`,
		},
		"spread, gpu[1,2], cpu=block": {nil, `"gpu[1,2]": not one of the choices: spread, block, interleaved, or`},
		"spread, =block":              {nil, `"=block": not one of the choices`},
		"spread, gpu=":                {nil, `"gpu=": not one of the choices`},
		"spread, block": {
			nil,
			`"block": not one of the choices: ` +
				`spread is that of all other nodes: name the nodes, as in gpu[001-016]=block`,
		},
		"','": {nil, `"": not one of the choices`},
	} {
		if err := os.WriteFile(file, []byte("balance:\n  slurm:\n    cpu_ids: "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(Source{File: file, Defaults: Default()})
		if want.fault != "" {
			if !errors.Is(err, errChoice) || !strings.Contains(err.Error(), "balance.slurm.cpu_ids = "+want.fault) {
				t.Errorf("%s: %v, want %s", text, err, want.fault)
			}
			continue
		}
		if diff := cmp.Diff(want.all, c.Balance.Slurm.Numberings()); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
}

func TestCPUList(t *testing.T) {
	for text, want := range map[string][]int{
		"": nil, "0": {0}, "0,64-66": {0, 64, 65, 66}, " 3 , 1-2": {3, 1, 2}, "16383": {16383},
	} {
		if got, err := CPUList(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-", "1-", "-1", "2-1", "a", "0,,1", "16384", "0-99999999999", "0x1", "0;1"} {
		if got, err := CPUList(text); !errors.Is(err, errCPUs) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestHungFileHoldsOneThread: each login reads the certificates anew. While they hang, one read is in flight for each.
func TestHungFileHoldsOneThread(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "password")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	inFlight := func() int {
		var all strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
			t.Fatal(err)
		}
		return strings.Count(all.String(), "os.Open(")
	}
	before := inFlight()
	var logins sync.WaitGroup
	for range 60 {
		logins.Go(func() {
			if _, err := ReadFile(pipe); !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), pipe) {
				t.Error(err)
			}
		})
	}
	logins.Wait()
	begun := time.Now()
	if _, err := ReadFile(pipe); !errors.Is(err, ErrSilent) || time.Since(begun) > ReadPatience/2 {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	if n := inFlight() - before; n != 1 {
		t.Errorf("%d reads are in flight", n)
	}
	if err := os.WriteFile(pipe, []byte("secret"), 0o600); err != nil { // the read in flight ends
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(pipe), os.WriteFile(pipe, []byte("new"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for begun = time.Now(); ; time.Sleep(time.Millisecond) {
		if text, err := ReadFile(pipe); string(text) == "new" {
			break
		} else if time.Since(begun) > 10*time.Second {
			t.Fatalf("%q: %v", text, err)
		}
	}
}

// TestSecretOfATopologyIsNoKey: a shell in which the topology was measured runs every other command as well.
func TestSecretOfATopologyIsNoKey(t *testing.T) {
	environ := []string{SecretVariable + "=a secret of more than 16 bytes", ReportVariable + "=/run/weir/report/1.0"}
	if _, err := Load(Source{Environ: environ, Defaults: Default()}); err != nil {
		t.Error(err)
	}
}

// TestNumbersWithAPoint: a variable sets every key, also one whose number is not whole.
func TestNumbersWithAPoint(t *testing.T) {
	c, err := Load(Source{
		Environ: []string{"WEIR_NOTIFY_MIN_CORE_HOURS=0.5", "WEIR_AGENT_TOPOLOGY_SHARE=1"}, Defaults: Default(),
	})
	if err != nil || c.Notify.MinCoreHours != 0.5 || c.Agent.Topology.Share != 1 {
		t.Errorf("%v, %v: %v", c.Notify.MinCoreHours, c.Agent.Topology.Share, err)
	}
	_, err = Load(Source{Set: []string{"notify.min_core_hours=many"}, Defaults: Default()})
	if !errors.Is(err, errValue) || !strings.Contains(err.Error(), `"many" is not a number`) {
		t.Errorf("%v", err)
	}
}

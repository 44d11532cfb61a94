package commands_test

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/commands"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/services"

	"github.com/weirhpc/weir/analysis/topics"
)

func TestWrongUsageIsStatus2(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("cluster: a/b\ncollectors: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	noYAML := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(noYAML, []byte("jobs: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // no weir-data here
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"unknown command":   {[]string{"fly"}, "fly"},
		"unknown flag":      {[]string{"up", "--fast"}, "--fast"},
		"too few nodes":     {[]string{"up", "--simulate", "15"}, "at least 16"},
		"bad duration":      {[]string{"up", "--interval", "soon"}, "interval"},
		"short interval":    {[]string{"up", "--interval", "1ms"}, "interval = 1ms"},
		"negative length":   {[]string{"up", "--for", "-1s"}, "--for"},
		"argument to jobs":  {[]string{"jobs", "x"}, "x"},
		"job without id":    {[]string{"job"}, "arg"},
		"bad job id":        {[]string{"job", "../x"}, "../x"},
		"tail without name": {[]string{"tail"}, "arg"},
		"tail from middle":  {[]string{"tail", "jobs", "--from", "middle"}, "middle"},
		"no configuration":  {[]string{"jobs"}, "weir up"},
		"bad configuration": {[]string{"check", "--config", bad}, "collectors = 0"},
		"no such file":      {[]string{"check", "--config", "none.yaml"}, "none.yaml"},
		"no sub-command":    {[]string{"topics"}, "create"},
		"bad sub-command":   {[]string{"topics", "nosuch"}, "nosuch"},
		"no such job file":  {[]string{"up", "--jobs", "none.yaml"}, "none.yaml"},
		"bad partition":     {[]string{"sink", "accept-gap", "one"}, "one"},

		"like a command":          {[]string{"u"}, "did you mean up?"},
		"help of no command":      {[]string{"help", "nope"}, `"nope"`},
		"help of no sub-command":  {[]string{"help", "topics", "nope"}, `"nope"`},
		"flag without value":      {[]string{"jobs", "--config"}, "weir jobs --help"},
		"job without id, example": {[]string{"job"}, "`weir job host`"},
		"bad second job id":       {[]string{"job", "a", "b/c"}, `job ID "b/c" must match`},
		"tasks of no array":       {[]string{"job", "_[1-3]"}, `job ID "_[1-3]" must match`},
		"tasks that never end":    {[]string{"job", "7_[1-3"}, "as in 7_[1-60]"},
		"tasks that are none":     {[]string{"job", "7_[a]"}, "as in 7_[1-60]"},
		"too many tasks":          {[]string{"job", "7_[0-10000]"}, "10001 tasks: name at most 10000"},
		"two forms":               {[]string{"job", "a", "--json", "--csv"}, "--json and --csv: name one"},
		"two questions":           {[]string{"job", "a", "--totals", "--rules"}, "name one of them"},
		"no time":                 {[]string{"job", "a", "--from", "noon"}, `--from "noon" is neither a time`},
		"times the wrong way":     {[]string{"job", "a", "--from", "2026-11-02", "--to", "2026-11-01"}, "is not after"},
		"no such colour":          {[]string{"job", "a", "--color", "red", "--dir", "."}, "auto, always, never"},
		"negative width":          {[]string{"jobs", "--width", "-1", "--dir", "."}, "--width -1"},
		"no such archive":         {[]string{"jobs", "--dir", "nowhere"}, "--dir nowhere"},
		"sorted by nothing known": {[]string{"jobs", "--sort", "cpu_user", "--dir", "."}, "METRIC.mean"},
		"since what":              {[]string{"jobs", "--since", "yesterday"}, "24h or 7d"},
		"tail, example":           {[]string{"tail"}, "`weir tail job-summary`"},
		"accept-gap, example":     {[]string{"sink", "accept-gap"}, "`weir sink accept-gap 0"},
		"file without --config":   {[]string{"check", "x.yaml"}, "weir check --config x.yaml"},
		"service with a file":     {[]string{"collect", "x.yaml"}, "weir collect --config x.yaml"},
		"no number":               {[]string{"job", "a", "-n", "x"}, `--last "x": a whole number is wanted`},
		"no number, older name":   {[]string{"job", "a", "--intervals", "x"}, `--last "x": a whole number is wanted`},
		"too large a number":      {[]string{"job", "a", "-n", "99999999999999999999"}, "below 2^63"},
		"a restart below 0":       {[]string{"job", "a", "--restart", "-1"}, "--restart -1 must be at least 0"},
		"too large a restart":     {[]string{"job", "a", "--restart", "99999999999"}, "a whole number below 2^31 is wanted"},
		"before all times":        {[]string{"jobs", "--since", "1969-01-01"}, "--since 1969-01-01: times begin on 1970-01-02"},
		"no boolean":              {[]string{"jobs", "--json=maybe"}, "true or false"},
		"number as duration":      {[]string{"up", "--for", "5"}, "such as 500ms"},
		"huge interval":           {[]string{"up", "--interval", "2540400h"}, "to 24h (set by --interval)"},
		"empty --config":          {[]string{"jobs", "--config", ""}, "--config is empty"},
		"empty --data":            {[]string{"up", "--data", ""}, "--data is empty"},
		"empty --explain":         {[]string{"balance", "--explain", ""}, "--explain is empty"},
		"data is a file":          {[]string{"up", "--data", bad}, "--data " + bad},
		"no address":              {[]string{"up", "--listen", "x"}, `--listen "x": must be host:port`},
		"broker at no address":    {[]string{"broker", "--listen", "x"}, `--listen "x": must be host:port`},
		"too many nodes":          {[]string{"up", "--simulate", "1000000000"}, "--simulate 1000000000: at least 16"},
		"negative nodes":          {[]string{"balance", "--simulate", "-1"}, "--simulate -1: at least 16"},
		"no nodes":                {[]string{"simulate"}, "--nodes 0: at least 16"},
		"no such load": {
			[]string{"simulate", "--nodes", "16", "--mix", "x"},
			`--mix "x" must be test or supermuc`,
		},
		"no such machine":         {[]string{"up", "--machine", "x"}, "supermuc, frontier, elcapitan, ten-million"},
		"machine of the test mix": {[]string{"up", "--machine", "frontier", "--mix", "test"}, "leave --mix out"},
		"cores of the test mix": {
			[]string{"up", "--simulate", "16", "--cores", "16"},
			"--cores 16: the nodes of --mix test",
		},
		"too many test metrics": {
			[]string{"simulate", "--nodes", "16", "--metrics", "11"},
			"--metrics 11 must be 1 to 10, or more with --mix supermuc",
		},
		"too many metrics": {
			[]string{"up", "--simulate", "16", "--mix", "supermuc", "--metrics", "201"},
			"--metrics 201 must be 1 to 200",
		},
		"too many cores": {
			[]string{"balance", "--simulate", "16", "--mix", "supermuc", "--cores", "257"},
			"--cores 257 must be 1 to 256",
		},
		"no cores": {
			[]string{"simulate", "--machine", "supermuc", "--cores", "0"}, "--cores 0 must be 1 to 256",
		},
		"too few nodes of a mix": {
			[]string{"simulate", "--nodes", "15", "--mix", "supermuc"}, "--nodes 15: at least 16",
		},
		"cores of nothing":   {[]string{"up", "--cores", "16"}, "--cores is for simulated nodes: add --simulate N"},
		"metrics of nothing": {[]string{"up", "--metrics", "9"}, "--metrics is for simulated nodes"},
		"mix of nothing":     {[]string{"balance", "--mix", "supermuc"}, "--mix is for simulated nodes"},
		"planned machine":    {[]string{"balance", "--plan", "--machine", "supermuc"}, "a plan wants --jobs FILE"},
		"no clients": {
			[]string{"simulate", "--nodes", "16", "--clients", "0"},
			"--clients 0 must be 1 to 10000",
		},
		"too many clients": {
			[]string{"simulate", "--nodes", "16", "--clients", "17"},
			"--clients 17: each needs a node",
		},
		"no such mix": {
			[]string{"simulate", "archive", "x", "--jobs", "a"}, `--jobs "a" must be habits, healthy or problems`,
		},
		"too small for a mix": {
			[]string{"simulate", "archive", "x", "--jobs", "healthy", "--nodes", "9"},
			"at least 16 with --jobs healthy",
		},
		"jobs are a directory": {[]string{"up", "--jobs", "."}, "not a regular file"},
		"jobs are no YAML":     {[]string{"up", "--jobs", noYAML}, "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for what begins though it should not
			defer cancel()
			status, _, stderr := clitest.Weir(ctx, c.args...)
			if status != cli.ExitUsage || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") > 2 {
				t.Errorf("status %d, %q; want 2 and a message that names %q", status, stderr, c.says)
			}
		})
	}
}

// TestMissingFilesAreStatus2: with status 1 systemd would start a service again for ever.
func TestMissingFilesAreStatus2(t *testing.T) {
	t.Chdir(t.TempDir())
	files := map[string]string{"nojobs.yaml": "jobs: [", "empty": "\n", "none.pem": "x"}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{
		"check", "collect", "merge", "sink", "samples", "balance", "agent", "jobs", "tail counters", "status",
		"topics check",
	}
	for name, c := range map[string]struct {
		yaml, says string
		commands   []string
	}{
		"authority": {
			"kafka: {tls: {enabled: true, ca_file: absent.pem}}", "kafka.tls.ca_file: open absent.pem",
			all,
		},
		"no authority": {"kafka: {tls: {enabled: true, ca_file: none.pem}}", "none.pem holds no certificate", all},
		"certificate": {
			"kafka: {tls: {enabled: true, cert_file: absent.pem, key_file: absent.key}}",
			"kafka.tls.cert_file: open absent.pem", all,
		},
		"password": {
			"kafka: {sasl: {mechanism: SCRAM-SHA-512, user: u, password_file: absent}}",
			"kafka.sasl.password_file: open absent", all,
		},
		"empty password": {
			"kafka: {sasl: {mechanism: SCRAM-SHA-512, user: u, password_file: empty}}",
			"empty holds no password", all,
		},
		"jobs": {
			"balance: {jobs_file: absent.yaml}", "balance.jobs_file: open absent.yaml",
			[]string{"check", "balance"},
		},
		"jobs, no YAML": {"balance: {jobs_file: nojobs.yaml}", "nojobs.yaml: line 1", []string{"check"}},
		"no procfs": {
			"agent: {proc_path: none, node: n1}", `agent.proc_path "none" is no mount of procfs`,
			[]string{"check", "agent"},
		},
		"state": {
			"agent: {state_dir: empty, node: n1}", "agent.state_dir empty: not a directory",
			[]string{"check", "agent"},
		},
		"archive": {
			"sink: {dir: empty/archive}", "sink.dir: stat empty/archive: not a directory",
			[]string{"check", "sink"},
		},
		"drops": {
			"balance: {drop_dir: empty, nodes: [n1]}", "balance.drop_dir empty: not a directory",
			[]string{"check", "balance"},
		},
		"no hostlist": {
			"balance: {slurm: {cpu_ids: 'spread, gpu[16-1]=block'}}",
			`balance.slurm.cpu_ids: "gpu[16-1]" is not a hostlist`,
			[]string{"check", "balance"},
		},
		"tree": {
			"balance: {tree_file: absent.yaml}", "balance.tree_file: reading the tree absent.yaml",
			[]string{"check", "balance"},
		},
	} {
		if err := os.WriteFile("weir.yaml", []byte(c.yaml+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
		for _, command := range c.commands {
			t.Run(name+", "+command, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				status, stdout, stderr := clitest.Weir(ctx, append(strings.Fields(command), "--config", "weir.yaml")...)
				if status != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, c.says) || strings.Count(stderr,
					"\n") != 1 {
					t.Errorf("status %d, %q, %q; want 2 and a line that names %q", status, stdout, stderr, c.says)
				}
			})
		}
	}
}

// TestUnitsStartCrashedServicesAgain: systemd tells a crash from status 2, after which a service stays down. It crashes
// in the environment of each unit to see.
func TestUnitsStartCrashedServicesAgain(t *testing.T) {
	const crashes = "WEIR_TEST_CRASHES"
	if os.Getenv(crashes) != "" {
		go func() { panic("as asked") }()
		select {}
	}
	units, err := filepath.Glob("deploy/systemd/*.service")
	if err != nil || len(units) != 12 {
		t.Fatalf("units: %v, %v", units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), crashes+"=1", clitest.AsWeir+"=") // whatever it leaves there
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "Environment="); ok {
				cmd.Env = append(cmd.Env, value)
			}
		}
		out, _ := cmd.CombinedOutput() // it has to fail
		state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || !state.Signaled() || state.Signal() != syscall.SIGABRT || !strings.Contains(string(out),
			"panic: as asked") {
			t.Errorf("%s: ended with %v, %.300s", unit, cmd.ProcessState, out)
		}
		if !strings.Contains(string(text), "\nLimitCORE=0\n") {
			t.Errorf("%s: a crash leaves a core", unit)
		}
	}
}

// TestExpiredCertificateIsStatus2: only a person renews it. One that is not valid yet ends the check, not a service.
func TestExpiredCertificateIsStatus2(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
	t.Setenv("WEIR_KAFKA_TLS_ENABLED", "true")
	t.Setenv("WEIR_KAFKA_TLS_CERT_FILE", "cert.pem")
	t.Setenv("WEIR_KAFKA_TLS_KEY_FILE", "key.pem")
	for _, c := range []struct {
		from    time.Duration // from now; for an hour
		command string
		status  int
		says    string
	}{
		{-2 * time.Hour, "check", cli.ExitUsage, "cert.pem expired at"},
		{-2 * time.Hour, "collect", cli.ExitUsage, "cert.pem expired at"},
		{-2 * time.Hour, "jobs", cli.ExitUsage, "cert.pem expired at"},
		{time.Hour, "check", cli.ExitUsage, "not valid yet"},
		{time.Hour, "collect", cli.ExitDone, "trying again"},
		{-time.Minute, "check", cli.ExitDone, ""},
	} {
		clitest.Certificate(t, ".", time.Now().Add(c.from))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var errs kafkatest.Log
		ended := make(chan int, 1)
		go func() { ended <- commands.Run(ctx, []string{c.command}, io.Discard, &errs) }()
		if c.command == "collect" && c.status == cli.ExitDone { // a service goes on until it is asked to end
			kafkatest.Eventually(t, c.says, func() bool { return strings.Contains(errs.String(), c.says) })
			cancel()
		}
		status := <-ended
		cancel()
		stderr := errs.String()
		if status != c.status || !strings.Contains(stderr, c.says) {
			t.Errorf("%s, valid in %v: status %d, %q; want %d and %q", c.command, c.from, status, stderr, c.status,
				c.says)
		}
	}
}

func TestNobodyAnswersIsStatus1(t *testing.T) {
	t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
	status, _, stderr := clitest.Weir(t.Context(), "jobs")
	if status != cli.ExitFailed || !strings.Contains(stderr, "127.0.0.1:1") || !strings.Contains(stderr,
		"is weir running? Start `weir up` or `weir broker`, or check kafka.brokers") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// TestNobodyAnswersAtAnotherHost: what runs there is Kafka, not weir.
func TestNobodyAnswersAtAnotherHost(t *testing.T) {
	broker := strings.Repeat("x", 64) + ":9092" // too long for a host: nobody is asked for its address
	t.Setenv("WEIR_KAFKA_BROKERS", broker)
	status, _, stderr := clitest.Weir(t.Context(), "jobs")
	if status != cli.ExitFailed || !strings.Contains(stderr,
		broker+" (check kafka.brokers, and that Kafka runs there)") || strings.Contains(stderr, "is weir running?") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// TestUp is what a new user does: up, look around from another terminal, Ctrl-C, open the archive.
func TestUp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(dir, "weir.yaml")
	ctx := t.Context()
	up := clitest.Start(t, clitest.Process(t, nil, "up", "--data", dir, "--interval", "1s", "--simulate", "16", "--for", "10m"))
	kafkatest.Eventually(t, "a line for an interval with jobs of all kinds", func() bool {
		for line := range strings.Lines(up.Out.String()) {
			if strings.Contains(line, " ESTIMATED ") && !strings.Contains(line,
				" 0 ESTIMATED") && !strings.Contains(line, " 0 EXACT") {
				return true
			}
		}
		return false
	})

	if status, _, stderr := clitest.Weir(ctx, "up", "--data", dir); status != cli.ExitFailed || !strings.Contains(stderr,
		"another weir") {
		t.Errorf("a second up: status %d, %q", status, stderr)
	}
	if status, stdout, stderr := clitest.Weir(ctx, "jobs", "--config", file); status != cli.ExitDone || !strings.Contains(stdout,
		"host") {
		t.Errorf("jobs: status %d, %q, %q", status, stdout, stderr)
	}
	kafkatest.Eventually(t, "weir job host", func() bool {
		status, stdout, _ := clitest.Weir(ctx, "job", "host", "-n", "1", "--json", "--config", file)
		if status != cli.ExitDone {
			return false
		}
		var row map[string]any
		if err := json.Unmarshal([]byte(strings.SplitN(stdout, "\n", 2)[0]), &row); err != nil {
			t.Fatal(err)
		}
		return row["method"] == "NODE" && row["d10"] != nil && row["nodes_reported"] == 1.0
	})
	kafkatest.Eventually(t, "a table of the job host", func() bool { // on a busy machine some intervals have no values
		status, stdout, _ := clitest.Weir(ctx, "job", "host", "--config", file)
		return status == cli.ExitDone && strings.Contains(stdout, "cpu_user")
	})
	for _, topic := range []string{
		"counters", "routes", "balance", "job-summary", "jobs", "progress", "schemas",
		"weir.partials",
	} {
		status, stdout, stderr := clitest.Weir(ctx, "tail", topic, "--from", "start", "-n", "2", "--json", "--config", file)
		if status != cli.ExitDone || strings.Count(stdout, "\n") != 2 || !json.Valid([]byte(strings.SplitN(stdout, "\n",
			2)[0])) {
			t.Errorf("tail %s: status %d, %q, %q", topic, status, stdout, stderr)
		}
	}
	kafkatest.Eventually(t, "weir status finds nothing wrong", func() bool {
		status, stdout, _ := clitest.Weir(ctx, "status", "--all", "--config", file)
		return status == cli.ExitDone && strings.HasPrefix(stdout, "OK ") && strings.Contains(stdout, "up-collect")
	})
	if status, _, stderr := clitest.Weir(ctx, "tail", "nosuch", "--config",
		file); status != cli.ExitFailed || !strings.Contains(stderr, "weir.nosuch") {
		t.Errorf("tail of a topic that is not there: status %d, %q", status, stderr)
	}
	status, stdout, stderr := clitest.Weir(ctx, "topics", "check", "--config", file)
	fingerprints := "goavro computes weir's fingerprints of " + strconv.Itoa(len(schemas.All())) + " schemas"
	if status != cli.ExitDone || !strings.Contains(stdout, fingerprints) {
		t.Errorf("topics check: status %d, %q, %q", status, stdout, stderr)
	}

	if status := up.Interrupt(t); status != cli.ExitDone || strings.Contains(up.Errs.String(), "level=ERROR") {
		t.Errorf("up ended with status %d: %s", status, up.Errs.String())
	}
	compareArchive(t, dir, file)
}

// compareArchive holds the archive against every summary that was ever committed.
func compareArchive(t *testing.T, dir, file string) {
	t.Helper()
	broker, err := services.StartBroker(dir, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	cfg, err := config.Load(config.Source{File: file, Defaults: config.Default()})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Kafka.Brokers = []string{broker.Addr()}
	cl, err := topics.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	topic := cfg.Prefix + schemas.TopicJobSummary
	start, end, err := kafka.Bounds(t.Context(), kadm.NewClient(cl), topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	committed := 0
	err = kafka.ReadPartition(t.Context(), cfg, topic, 0, start, end, func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		if s, ok := v.(*schemas.JobSummary); ok {
			committed += len(s.Rows())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	archived := 0
	err = filepath.WalkDir(filepath.Join(dir, "archive", "summaries"), func(path string, d fs.DirEntry,
		err error,
	) error {
		if err != nil || d.IsDir() {
			return err
		}
		rows, _, err := sink.ReadFile(path)
		archived += len(rows)
		return err
	})
	if err != nil || archived != committed || committed == 0 {
		t.Errorf("%d rows archived, %d committed: %v", archived, committed, err)
	}
}

func TestTopicsAreRefusedWhenTheyDiffer(t *testing.T) {
	broker, err := services.StartBroker(t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	t.Setenv("WEIR_KAFKA_BROKERS", broker.Addr())
	t.Setenv("WEIR_COLLECTORS", "4")
	t.Setenv("WEIR_TOPICS_REPLICATION", "1")
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "check"); status != cli.ExitFailed || !strings.Contains(stderr,
		"`weir topics create`") {
		t.Errorf("without topics: status %d, %q", status, stderr)
	}
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "create"); status != cli.ExitDone {
		t.Fatalf("create: status %d, %q", status, stderr)
	}
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "check"); status != cli.ExitDone {
		t.Errorf("check: status %d, %q", status, stderr)
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "status", "--json")
	if status != cli.ExitFailed || !json.Valid([]byte(stdout)) || !strings.Contains(stderr,
		"is a balancer running?") || !strings.Contains(stderr, "merge: nobody owns partition 0") {
		t.Errorf("status while nothing runs: status %d, %q, %q", status, stdout, stderr)
	}
	alter(t, broker.Addr(), "weir.find-state", "segment.ms", "86400000")
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "check"); status != cli.ExitDone {
		t.Errorf("longer segments, which make nothing wrong: status %d, %q", status, stderr)
	}
	alter(t, broker.Addr(), "weir.counters", "message.timestamp.type", "CreateTime")
	status, _, stderr = clitest.Weir(t.Context(), "topics", "check")
	if status != cli.ExitFailed || !strings.Contains(stderr, "message.timestamp.type is CreateTime, and should be "+
		"LogAppendTime: `weir topics create`") {
		t.Errorf("a wrong setting: status %d, %q", status, stderr)
	}
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "create"); status != cli.ExitDone {
		t.Errorf("create does not mend it: status %d, %q", status, stderr)
	}
	t.Setenv("WEIR_COLLECTORS", "8")
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "check"); status != cli.ExitFailed || !strings.Contains(stderr,
		"has 4 partitions, the configuration says 8") {
		t.Errorf("another number of partitions: status %d, %q", status, stderr)
	}
}

func alter(t *testing.T, brokers, topic, key, value string) {
	t.Helper()
	cl := kafkatest.Client(t, []string{brokers})
	r, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{
		Op: kadm.SetConfig, Name: key,
		Value: &value,
	}}, topic)
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
}

// TestLintKnowsEveryPackage: an import rule that forgets a stage protects nothing.
func TestLintKnowsEveryPackage(t *testing.T) {
	text, err := os.ReadFile(".golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range []string{
		"balancer", "balancer/scheduler", "producers", "producers/source", "processors", "processors/find",
		"processors/fold", "sink", "sink/compact", "rules", "derive",
	} {
		if !strings.Contains(string(text), `"**/`+stage+`/*.go"`) {
			t.Errorf("no import rule for %s", stage)
		}
	}
}

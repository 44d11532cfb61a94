package agent_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
)

// program runs weir-agent in this process.
func program(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = cli.Run(t.Context(), agent.NewProgram, args, &out, &errs)
	return status, out.String(), errs.String()
}

// TestProgramIsTheCommand: weir-agent has the flags of weir agent, its one-shot modes and its exit statuses.
func TestProgramIsTheCommand(t *testing.T) {
	of := agent.NewProgram(new(bool))
	agent.NewAgent().Flags().VisitAll(func(f *pflag.Flag) {
		if of.Flags().Lookup(f.Name) == nil {
			t.Errorf("weir-agent lacks --%s", f.Name)
		}
	})
	t.Setenv("WEIR_INTERVAL", "1s")
	t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
	for _, c := range []struct {
		args       []string
		status     int
		out, error string
	}{
		{[]string{"--help"}, cli.ExitDone, "weir-agent --config /etc/weir/agent.yaml", ""},
		{[]string{"help"}, cli.ExitDone, "weir-agent --check", ""},
		{[]string{"--version"}, cli.ExitDone, "weir-agent " + cli.VersionText(), ""},
		{[]string{"--once"}, cli.ExitDone, "cpu_user", ""},
		{[]string{"--check"}, cli.ExitDone, agent.WholeCycle, ""},
		{[]string{"--once", "--check"}, cli.ExitUsage, "", "weir-agent: --once, --check"},
		{[]string{"--nothing"}, cli.ExitUsage, "", "weir-agent: unknown flag"},
		{[]string{"agent"}, cli.ExitUsage, "", "weir-agent takes no argument"},
		{[]string{"--config", "absent.yaml"}, cli.ExitUsage, "", "weir-agent: reading the configuration"},
		{[]string{"topology", "peer", "--nothing"}, cli.ExitUsage, "", "weir-agent topology peer"}, // as the agent starts it
	} {
		status, stdout, stderr := program(t, c.args...)
		if status != c.status || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.error) {
			t.Errorf("weir-agent %v: status %d, %q, %q; want %d, %q, %q", c.args, status, stdout, stderr, c.status, c.out,
				c.error)
		}
	}
	if _, stdout, _ := program(t, "--help"); strings.Contains(stdout, "Commands:") {
		t.Errorf("help shows what the agent alone starts: %s", stdout)
	}
}

// TestProgramComputesMetrics: a site with metrics of its own and a list of metrics needs no other program.
func TestProgramComputesMetrics(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	list := put("metrics.yaml", "version: 1\nkeep: [cpu_user]\ncanary: 0\n")
	file := put("weir.yaml", "interval: 1s\nagent:\n  metrics_file: "+list+
		"\n  metrics: [{name: busy, expr: \"1 - cpu_idle > 0.5 ? 1 : 0\"}]\n")
	status, stdout, stderr := program(t, "--once", "--config", file)
	if status != cli.ExitDone || !strings.Contains(stdout, "busy") || strings.Contains(stdout, "numa_remote") ||
		!strings.Contains(stdout, "cpu_idle") {
		t.Errorf("status %d, %s, %s", status, stdout, stderr)
	}
	put("weir.yaml", "interval: 1s\nagent: {metrics: [{name: busy, expr: 1 - cpu_idl}]}\n")
	if status, _, stderr := program(t, "--once", "--config", file); status != cli.ExitUsage ||
		!strings.Contains(stderr, "did you mean cpu_idle") {
		t.Errorf("a wrong expression: status %d, %s", status, stderr)
	}
}

// programModules are the modules that weir-agent may link. A further one costs memory on every node: measure it first
// (docs/overhead.md).
var programModules = []string{
	"github.com/ebitengine/purego", "github.com/expr-lang/expr", "github.com/fsnotify/fsnotify",
	"github.com/go-viper/mapstructure/v2", "github.com/hodgesds/perf-utils",
	"github.com/klauspost/compress",
	"github.com/pelletier/go-toml/v2", "github.com/pierrec/lz4/v4", "github.com/prometheus/procfs",
	"github.com/sagikazarmark/locafero",
	"github.com/sourcegraph/conc", "github.com/spf13/afero", "github.com/spf13/cast", "github.com/spf13/cobra",
	"github.com/spf13/pflag", "github.com/spf13/viper", "github.com/subosito/gotenv", "github.com/twmb/avro",
	"github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kadm", "github.com/twmb/franz-go/pkg/kfake",
	"github.com/twmb/franz-go/pkg/kmsg", "github.com/twmb/franz-go/pkg/sr", "github.com/weirhpc/weir",
	"go.uber.org/atomic", "go.uber.org/multierr", "go.yaml.in/yaml/v3", "golang.org/x/sync", "golang.org/x/sys",
	"golang.org/x/text",
	"gonum.org/v1/gonum",
}

// TestProgramIsSmall: weir-agent takes at most 15 MB on disk, and links no module that is not meant to be there.
func TestProgramIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	const most = 15_000_000 // bytes
	path := filepath.Join(t.TempDir(), "weir-agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", path,
		"./commands/agent/weir-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > most {
		t.Errorf("%d bytes, of at most %d: %v", info.Size(), most, err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}",
		"./commands/agent/weir-agent").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Compact(slices.Sorted(strings.FieldsSeq(string(out)))) {
		if !slices.Contains(programModules, m) {
			t.Errorf("weir-agent links %s", m)
		}
	}
}

package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Scenario is a run of weir on a cluster, with an oracle that judges the outcome. It skips itself where the cluster
// cannot make its faults.
type Scenario struct {
	Name string
	Run  func(t *testing.T, c Cluster)
}

// Scenarios returns those that a cluster of any provider can be given. Each takes one to two minutes.
func Scenarios() []Scenario {
	return []Scenario{{"Spine", Spine}, {"Outages", Outages}, {"DeposedLeader", DeposedLeader}}
}

// atOnce is how many tests run at a time unless -parallel says otherwise. Most wait for intervals and sessions,
// and need little of a processor.
const atOnce = "6"

// binaries is the directory of programs that the tests build. It ends with them.
var binaries string

// RunTests runs the tests of a program whose tests run scenarios, and returns the exit status.
func RunTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-integration")
	if err == nil {
		binaries = dir
		err = flag.Set("test.parallel", atOnce) // which the command line overrides
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "preparing the tests:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	return m.Run()
}

// buildWeir builds the command once for all tests, as `make build` does: static, and without the race detector.
var buildWeir = sync.OnceValues(func() (string, error) {
	dir, err := repository()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(binaries, "weir")
	return binary, goBuild(dir, binary)
})

// repository returns the directory of weir's module. Tests of another module have it beside theirs.
func repository() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/weirhpc/weir").Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of weir: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// goBuild builds the command in a directory. What was compiled there serves other directories with the same text.
func goBuild(dir, binary string) error {
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building weir in %s: %w\n%s", dir, err, out)
	}
	return nil
}

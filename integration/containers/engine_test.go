package containers

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// TestRequiredContainersFail: without an engine, a run that requires containers fails. Other runs count the skipped
// tests.
func TestRequiredContainersFail(t *testing.T) {
	for require, want := range map[string]string{
		"":  "CONTAINER TESTS SKIPPED: 2, SINCE NO CONTAINER CAN RUN HERE: missing: ",
		"1": "REQUIRE_CONTAINERS is set, and no container can run here: missing: ",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^(TestScenarios|TestPackage)$")
		cmd.Env = append(os.Environ(), required+"="+require, "PATH="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if (err != nil) != (require != "") || !strings.Contains(string(out), want) {
			t.Errorf("%s=%s: %v, %s", required, require, err, out)
		}
	}
}

// TestEngineLeavesNothing: a container that runs ends with its engine, whether the engine is asked to end or killed. No
// process, file, control group or network interface stays behind.
func TestEngineLeavesNothing(t *testing.T) {
	images := archives(needEngine(t).cache)
	for name, end := range map[string]func(e *engine){
		"asked":  func(*engine) {},
		"killed": func(e *engine) { _ = e.process.Kill() }, // stop sees whether it has ended
	} {
		t.Run(name, func(t *testing.T) {
			interfaces := interfaceNames(t)
			data := filepath.Join(t.TempDir(), "data")
			e, err := startEngine(t.Context(), data)
			if err != nil {
				t.Fatal(err)
			}
			defer e.stop() //nolint:errcheck // once more where the test ends early
			sleeps(t, e, images[imageDebian])
			if !slices.ContainsFunc(processes(t), func(p string) bool { return strings.Contains(p, sleep) }) {
				t.Error("the container does not run")
			}
			end(e)
			if err := e.stop(); err != nil {
				t.Error(err)
			}
			for _, p := range processes(t) {
				if strings.Contains(p, sleep) || strings.Contains(p, e.dir) || strings.Contains(p, data) {
					t.Errorf("process %q is left", p)
				}
			}
			groups, err := filepath.Glob("/sys/fs/cgroup/*/" + e.cgroup)
			if files, _ := filepath.Glob(filepath.Join(data, "*")); err != nil || len(groups)+len(files) > 0 {
				t.Errorf("left are %v, %v, %v", groups, files, err)
			}
			if _, err := os.Stat(e.dir); !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", e.dir, err)
			}
			if after := interfaceNames(t); !slices.Equal(after, interfaces) {
				t.Errorf("network interfaces before %v, after %v", interfaces, after)
			}
		})
	}
}

// sleep is a command line that nobody else has.
const sleep = "sleep\x0086399"

// sleeps starts a container that sleeps.
func sleeps(t *testing.T, e *engine, archive string) {
	t.Helper()
	docker, err := testcontainers.NewDockerClientWithOpts(t.Context(), client.WithHost(e.host()))
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	if err := importImage(t.Context(), docker, imageDebian, archive); err != nil {
		t.Fatal(err)
	}
	c, err := docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{
			Image: imageDebian, Cmd: strings.Split(sleep, "\x00"), StopTimeout: new(0),
		},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := docker.ContainerStart(t.Context(), c.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, "the container's process", func() bool {
		return slices.ContainsFunc(processes(t), func(p string) bool { return strings.HasPrefix(p, sleep) })
	})
}

// processes returns the command lines of all processes.
func processes(t *testing.T) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil { // it may have ended
			lines = append(lines, string(line))
		}
	}
	return lines
}

func interfaceNames(t *testing.T) (names []string) {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

func TestIsBroker(t *testing.T) {
	line := func(args ...string) []byte { return []byte(strings.Join(args, "\x00") + "\x00") }
	for name, c := range map[string]struct {
		cmdline []byte
		want    bool
	}{
		"broker":           {line("/usr/bin/java", "-cp", "libs/*", "kafka.Kafka", "/d/b.properties"), true},
		"another's broker": {line("java", "-cp", "libs/*", "kafka.Kafka", "/e/b.properties"), false},
		"longer path":      {line("java", "kafka.Kafka", "/d/b.properties.old"), false},
		"editor":           {line("vi", "/d/b.properties"), false},
		"another Java":     {line("java", "kafka.tools.StorageTool", "/d/b.properties"), false},
		"ended":            {nil, false},
		"odd":              {[]byte("\x00\x00"), false},
	} {
		if got := isBroker(c.cmdline, "/d/b.properties"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPids(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	if got, err := readPids(file); err != nil || got != nil {
		t.Errorf("no file: %v, %v", got, err)
	}
	want := []process{{12, "/d/a.properties"}, {13, "/with space/b.properties"}}
	if err := writePids(file, want); err != nil {
		t.Fatal(err)
	}
	got, err := readPids(file)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(process{})); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, text := range []string{"12\n", "x /d\n", "-1 /d\n", "0 /d\n", "12 d\n", "\n", "12  /d\n"} {
		if got, err := parsePids(text); !errors.Is(err, errPids) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestAppear: right after its start a process has no command line, or that of a script before java.
func TestAppear(t *testing.T) {
	for script, ends := range map[string]bool{
		`exec -a java sh -c 'read x' kafka.Kafka /d/b.properties`:            false,
		`sleep 0.2; exec -a java sh -c 'read x' kafka.Kafka /d/b.properties`: false,
		`exit 1`: true,
	} {
		cmd := exec.Command("bash", "-c", script)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Skip("needs bash:", err)
		}
		p := process{cmd.Process.Pid, "/d/b.properties"}
		if err := p.appear(); err != nil || p.alive() == ends || p.ended() != ends {
			t.Errorf("%s: %v, alive %v, ended %v", script, err, p.alive(), p.ended())
		}
		in.Close()
		kafkatest.Eventually(t, "its end", p.ended)
	}
}

// TestStrangersAreLeftAlone: the id of a broker that is gone may be another process's now.
func TestStrangersAreLeftAlone(t *testing.T) {
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		err := errors.Join(stranger.Process.Signal(syscall.SIGTERM), stranger.Wait())
		if !strings.Contains(err.Error(), "terminated") {
			t.Errorf("the stranger had ended: %v", err)
		}
	}()
	dir := t.TempDir()
	if err := writePids(filepath.Join(dir, "pids"), []process{{stranger.Process.Pid, "/d/b.properties"}}); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	if err := down(dir, &stderr); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, %s", err, stderr.String())
	}
	if got, err := readPids(filepath.Join(dir, "pids")); err != nil || got != nil {
		t.Errorf("still listed: %v, %v", got, err)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger is gone: %v", err)
	}
}

func TestRunCommand(t *testing.T) {
	for command, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "kill -9 $$": 128 + 9, `test "$KAFKA_SEEDS" = a:1,b:2`: 0,
	} {
		var out bytes.Buffer
		status, err := runCommand(t.Context(), []string{"sh", "-c", command}, []string{"KAFKA_SEEDS=a:1,b:2"},
			func() {}, &out, &out)
		if err != nil || status != want {
			t.Errorf("%s: status %d, %v, %s; want %d", command, status, err, out.String(), want)
		}
	}
	if status, err := runCommand(t.Context(), []string{"/no/such/command"}, nil, nil, nil, nil); err == nil ||
		status != exitFailed {
		t.Errorf("a command that is not there: status %d, %v", status, err)
	}
}

// TestRunCommandEndsWhatItStarted: an interrupted command may have children, as go test has, which do not heed SIGTERM.
func TestRunCommandEndsWhatItStarted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	file := filepath.Join(t.TempDir(), "child")
	script := `sh -c 'trap "" TERM; echo $$ > ` + file + `.new; mv ` + file + `.new ` + file +
		`; while :; do sleep 1; done' & wait`
	status := make(chan int, 1)
	go func() {
		s, err := runCommand(ctx, []string{"sh", "-c", script}, nil, func() {}, os.Stdout, os.Stderr)
		if err != nil {
			t.Error(err)
		}
		status <- s
	}()
	var child string
	kafkatest.Eventually(t, "the child to run", func() bool {
		text, err := os.ReadFile(file)
		child = strings.TrimSpace(string(text))
		return err == nil
	})
	interrupt()
	if s := <-status; s != 128+int(syscall.SIGTERM) {
		t.Errorf("status %d", s)
	}
	kafkatest.Eventually(t, "the child to end", func() bool {
		cmdline, err := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
		return err != nil || len(cmdline) == 0
	})
}

// TestTend: a broker that ends comes back after its while as another process, and is listed.
func TestTend(t *testing.T) {
	bin := t.TempDir()
	java := "#!/usr/bin/env bash\nexec -a java sh -c 'while :; do sleep 0.1; done' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "java"), []byte(java), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	dir := t.TempDir()
	c := &cluster{dir: dir, libs: "/none", nodes: newNodes(dir, []int{1, 2, 3, 4, 5, 6, 7, 8})}
	for _, n := range c.nodes {
		if err := os.MkdirAll(n.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p, err := c.start(n)
		if err != nil {
			t.Skip("A BROKER'S RETURN WAS NOT TESTED: needs bash:", err)
		}
		c.processes = append(c.processes, p)
	}
	defer func() {
		if err := stopAll(c.processes, os.Stderr); err != nil {
			t.Error(err)
		}
	}()
	before := slices.Clone(c.processes)
	kill := func() time.Time {
		if err := c.processes[1].signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		return time.Now()
	}

	const after = 300 * time.Millisecond
	tend := c.tend(after, os.Stderr)
	killed := kill()
	kafkatest.Eventually(t, "the broker to come back",
		func() bool { tend(); return c.processes[1].pid != before[1].pid })
	if away := time.Since(killed); away < after {
		t.Errorf("it was back after %v, not %v", away, after)
	}
	if c.processes[0] != before[0] || !c.processes[0].alive() || !c.processes[1].alive() {
		t.Errorf("%v became %v", before, c.processes)
	}
	listed, err := readPids(c.pids())
	if diff := cmp.Diff(c.processes, listed, cmp.AllowUnexported(process{})); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}

	never := c.tend(0, os.Stderr)
	kill()
	kafkatest.Eventually(t, "the broker to end", func() bool { never(); return !c.processes[1].alive() })
	for range 10 {
		never()
		time.Sleep(20 * time.Millisecond)
	}
	if c.processes[1].alive() {
		t.Error("it came back though it never should")
	}
}

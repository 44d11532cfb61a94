package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		want options
	}{
		"up":         {"up --dir /d", options{"up", 3, "/d", 0, false, false, nil}},
		"one broker": {"up --dir /d/../e --brokers 1", options{"up", 1, "/e", 0, false, false, nil}},
		"down":       {"down --dir=/d", options{"down", 1, "/d", 0, false, false, nil}},
		"run": {"run --dir /d -- go test -v", options{
			"run", 3, "/d", 5 * time.Second, false, false,
			[]string{"go", "test", "-v"},
		}},
		"run without dash": {"run --dir /d true --brokers", options{
			"run", 3, "/d", 5 * time.Second, false, false,
			[]string{"true", "--brokers"},
		}},
		"to measure": {"run --dir /d --measure true", options{
			"run", 3, "/d", 5 * time.Second, true, false,
			[]string{"true"},
		}},
		"to cut": {"run --dir /d --cut true", options{
			"run", 3, "/d", 5 * time.Second, false, true,
			[]string{"true"},
		}},
		"files": {"files --dir /d --brokers 1 /e", options{"files", 1, "/d", 0, false, false, []string{"/e"}}},
		"never again": {"run --dir /d --restart-after 0 true", options{
			"run", 3, "/d", 0, false, false,
			[]string{"true"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(strings.Fields(c.args))
			if len(got.command) == 0 {
				got.command = nil
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(options{})); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestWrongUsageIsStatus2(t *testing.T) {
	for _, args := range []string{
		"", "fly", "up now", "up --brokers 2", "up --brokers many", "down --brokers 1", "down now", "run", "run --",
		"run --restart-after -1s true",
		"up --restart-after 1s", "up --fast", "--dir /d", "files", "files /d /e", "files --cut /d",
	} {
		var stderr bytes.Buffer
		status := execute(t.Context(), strings.Fields(args), &stderr, &stderr)
		if status != exitUsage || !strings.Contains(stderr.String(), "usage: kafka up") {
			t.Errorf("%q: status %d, %s", args, status, stderr.String())
		}
	}
}

func TestDirIsAskedForWithoutHome(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	if _, err := parse([]string{"up"}); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), "--dir") {
		t.Error(err)
	}
}

func TestPropertiesText(t *testing.T) {
	three := newNodes("/d", []int{20001, 20002, 20003, 20004, 20005, 20006, 20007, 20008, 20009, 20010, 20011, 20012})
	one := newNodes("/d", []int{20001, 20002, 20003, 20004})
	apart := newNodes("/d", []int{20001, 20002, 20003, 20004, 20005, 20006, 20007, 20008})
	bridged(apart, []int{20011, 20012, 20013, 20014, 20015, 20016})
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"second of three": {propertiesText(three[1], three), []string{
			"node.id=2", "controller.quorum.voters=1@127.0.0.1:20004,2@127.0.0.1:20008,3@127.0.0.1:20012",
			"listeners=PLAINTEXT://127.0.0.1:20005,SASL_SSL://127.0.0.1:20006,MTLS://127.0.0.1:20007,CONTROLLER://127.0.0.1:20008",
			"advertised.listeners=PLAINTEXT://127.0.0.1:20005,SASL_SSL://127.0.0.1:20006,MTLS://127.0.0.1:20007",
			"ssl.keystore.location=/d/broker2/keystore.pem", "ssl.truststore.location=/d/tls/ca.crt",
			"log.dirs=/d/broker2/data", "broker.rack=rack2", "default.replication.factor=3", "min.insync.replicas=2",
			"transaction.state.log.replication.factor=3", "transaction.state.log.min.isr=2",
			"offsets.topic.replication.factor=3",
			"add.partitions.to.txn.retry.backoff.ms=1", "auto.create.topics.enable=false",
		}},
		"one that can be cut": {propertiesText(apart[1], apart), []string{
			"controller.quorum.voters=1@127.0.0.1:20013,2@127.0.0.1:20016",
			"listeners=PLAINTEXT://127.0.0.1:20005,SASL_SSL://127.0.0.1:20006,MTLS://127.0.0.1:20007," +
				"PEERS://127.0.0.1:20014,CONTROLLER://127.0.0.1:20008",
			"advertised.listeners=PLAINTEXT://127.0.0.1:20005,SASL_SSL://127.0.0.1:20006,MTLS://127.0.0.1:20007," +
				"PEERS://127.0.0.1:20015,CONTROLLER://127.0.0.1:20016",
			"inter.broker.listener.name=PEERS",
		}},
		"alone": {propertiesText(one[0], one), []string{
			"controller.quorum.voters=1@127.0.0.1:20004", "min.insync.replicas=1",
			"transaction.state.log.replication.factor=1",
			"transaction.state.log.min.isr=1", "share.coordinator.state.topic.min.isr=1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lines := strings.Split(c.text, "\n")
			for _, want := range c.want {
				if !slices.Contains(lines, want) {
					t.Errorf("no line %s in\n%s", want, c.text)
				}
			}
			keys := map[string]bool{}
			for _, line := range lines[:len(lines)-1] {
				key, value, ok := strings.Cut(line, "=")
				if !ok || value == "" || keys[key] {
					t.Errorf("%q is no setting, or the second of its key", line)
				}
				keys[key] = true
			}
		})
	}
}

// TestFilesStartNothing: others start the brokers, from all that they need.
func TestFilesStartNothing(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "cluster")
	bin := t.TempDir() // with a Java that starts no broker
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "libs"), 0o755), os.WriteFile(marker(dir), pom, 0o644),
		os.WriteFile(filepath.Join(bin, "java"), []byte("#!/bin/sh\nexit 1\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	var stdout, stderr bytes.Buffer
	if status := execute(t.Context(), []string{"files", "--dir", dir, target}, &stdout, &stderr); status != exitDone {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	for _, line := range []string{"KAFKA_DIR=" + target, "KAFKA_LIBS=" + filepath.Join(dir, "libs")} {
		if !slices.Contains(strings.Split(stdout.String(), "\n"), line) {
			t.Errorf("no line %s in\n%s", line, stdout.String())
		}
	}
	for _, file := range []string{"broker3/broker.properties", "broker3/keystore.pem", "tls/ca.key"} {
		if _, err := os.Stat(filepath.Join(target, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestFreePorts(t *testing.T) {
	ports, err := freePorts(6)
	if err != nil || len(ports) != 6 {
		t.Fatal(ports, err)
	}
	for i, p := range ports {
		if p < firstPort || p >= lastPort || slices.Contains(ports[:i], p) {
			t.Errorf("%v: %d is out of range, or there twice", ports, p)
		}
	}
}

func TestFreePortsPassesOverBusyOnes(t *testing.T) {
	busy, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: busy[0]})
	if err != nil {
		t.Skip("another took the port:", err)
	}
	defer l.Close()
	if ports := probe(busy[0]-firstPort, 2); len(ports) != 2 || slices.Contains(ports, busy[0]) {
		t.Errorf("%v with %d taken", ports, busy[0])
	}
}

func TestMissingProgramsAreNamed(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	says := func(want string) {
		t.Helper()
		var stderr bytes.Buffer
		status := execute(t.Context(), []string{"up", "--dir", t.TempDir()}, &stderr, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), want) {
			t.Errorf("status %d, %s; want one that says %s", status, stderr.String(), want)
		}
	}
	says("java is not found in PATH: install a Java runtime")
	if err := os.WriteFile(filepath.Join(bin, "java"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	says("mvn is not found in PATH: install Maven")
}

func TestCompleteAsksForTheSamePom(t *testing.T) {
	dir := t.TempDir()
	if complete(dir) {
		t.Error("an empty directory is complete")
	}
	if err := os.Mkdir(filepath.Join(dir, "libs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{string(pom): true, "another": false} {
		if err := os.WriteFile(marker(dir), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if complete(dir) != want {
			t.Errorf("complete by %.20q: %v", text, !want)
		}
	}
}

func TestLockWaitsAndGivesUp(t *testing.T) {
	dir := t.TempDir()
	var stderr bytes.Buffer
	unlock, err := lock(t.Context(), dir, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, dir, &stderr); !errors.Is(err, context.Canceled) ||
		!strings.Contains(stderr.String(), "waiting") {
		t.Errorf("%v, %s", err, stderr.String())
	}
	unlock()
	unlock, err = lock(t.Context(), dir, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// TestUpKeepsFilesOfTheUser: a directory such as a project has libs and data of its own.
func TestUpKeepsFilesOfTheUser(t *testing.T) {
	bin := t.TempDir() // with a Java that starts no broker, and a Maven that fetches nothing
	for _, name := range []string{"java", "mvn"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	for _, name := range []string{"libs/mine.jar", "data/mine.csv", "libs/complete", "pids", "brokers", "environ"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, name)
			if filepath.Dir(name) != "libs" { // the jars are there
				if err := errors.Join(os.Mkdir(filepath.Join(dir, "libs"), 0o755),
					os.WriteFile(marker(dir), pom, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
				os.WriteFile(file, []byte("mine"), 0o644)); err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			status := execute(t.Context(), []string{"up", "--dir", dir}, &stderr, &stderr)
			if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
				t.Fatalf("%q, %v: the user's file is gone; %s", text, err, stderr.String())
			}
			if status != exitFailed || !strings.Contains(stderr.String(),
				"choose another --dir, or move it away yourself") {
				t.Errorf("status %d without the remedy: %s", status, stderr.String())
			}
		})
	}

	// A pom.xml of the user's is no fault, and stays.
	dir := t.TempDir()
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	_ = execute(t.Context(), []string{"up", "--dir", dir}, &stderr, &stderr)
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" ||
		!strings.Contains(stderr.String(), "with Maven") {
		t.Errorf("%q, %v; %s", text, err, stderr.String())
	}

	// What the program made itself it removes: half of the jars, as above, and the data of an earlier up.
	if err := os.WriteFile(filepath.Join(dir, "libs", "half.jar"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	stderr.Reset()
	_ = execute(t.Context(), []string{"up", "--dir", dir}, &stderr, &stderr)
	if _, err := os.Stat(filepath.Join(dir, "libs", "half.jar")); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(stderr.String(), "with Maven") {
		t.Errorf("%v; %s", err, stderr.String())
	}
}

// TestNohup: SIGHUP that was ignored at the start stays ignored. Without that it ends the process in order.
func TestNohup(t *testing.T) {
	const process = "TEST_PROCESS_OF_KAFKA"
	if dir := os.Getenv(process); dir != "" {
		os.Args = []string{"kafka", "up", "--dir", dir}
		main()
	}
	if signal.Ignored(syscall.SIGHUP) { // by whoever runs the tests, and children would inherit it
		handled := make(chan os.Signal, 1)
		signal.Notify(handled, syscall.SIGHUP)
		defer signal.Stop(handled)
	}
	for name, c := range map[string]struct {
		shell    string
		survives bool
	}{"nohup": {`trap "" HUP; exec "$0" "$@"`, true}, "a terminal": {`exec "$0" "$@"`, false}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			unlock, err := lock(t.Context(), dir, io.Discard) // so that the process waits, and asks for nothing
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			cmd := exec.CommandContext(t.Context(), "sh", "-c", c.shell, os.Args[0], "-test.run", "^TestNohup$")
			cmd.Env = append(os.Environ(), process+"="+dir)
			said, err := cmd.StderrPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := said.Read(make([]byte, 1)); err != nil { // that it waits: it takes signals by then
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			patience := time.Minute
			if c.survives {
				patience = time.Second
			}
			select {
			case err := <-ended:
				if c.survives {
					t.Errorf("SIGHUP ended it: %v", err)
				}
				return
			case <-time.After(patience):
				if !c.survives {
					t.Error("SIGHUP does not end it")
				}
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			<-ended
		})
	}
}

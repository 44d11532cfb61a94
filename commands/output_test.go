package commands_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/term"
	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands"
	"github.com/weirhpc/weir/commands/admin"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/jobs"
	"github.com/weirhpc/weir/commands/services"

	"github.com/weirhpc/weir/analysis/status"
	"github.com/weirhpc/weir/analysis/topics"
)

// paused is a reader that reads nothing until it is resumed.
type paused struct {
	kafkatest.Log
	resumed chan struct{}
}

func (p *paused) Write(b []byte) (int, error) {
	<-p.resumed
	return p.Log.Write(b)
}

// TestPausedReaderStopsNothing: whoever scrolls back in less must not stop the machine's jobs, nor the end of the
// process.
func TestPausedReaderStopsNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(dir, "weir.yaml")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, errs := &paused{resumed: make(chan struct{})}, &paused{resumed: make(chan struct{})}
	defer close(out.resumed)
	defer close(errs.resumed)
	ended := make(chan int, 1)
	go func() {
		ended <- commands.Run(ctx, []string{"up", "--data", dir, "--interval", "500ms", "--log-level", "debug"}, out, errs)
	}()
	intervals := map[string]bool{}
	kafkatest.Eventually(t, "intervals go on", func() bool {
		_, stdout, _ := clitest.Weir(ctx, "job", "host", "-n", "1", "--json", "--config", file)
		var row struct {
			Start *json.Number `json:"interval_start"`
		}
		if err := json.NewDecoder(strings.NewReader(stdout)).Decode(&row); err == nil && row.Start != nil {
			intervals[row.Start.String()] = true
		}
		return len(intervals) > 2
	})
	interrupt()
	select {
	case status := <-ended:
		if status != cli.ExitDone {
			t.Errorf("status %d", status)
		}
	case <-time.After(time.Minute):
		t.Fatal("up does not end")
	}
}

// TestPausedReaderOfACommand: a command waits for its reader, but not once it is asked to end.
func TestPausedReaderOfACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		out := &paused{resumed: make(chan struct{})}
		defer close(out.resumed)
		ended := make(chan int, 1)
		go func() { ended <- commands.Run(ctx, []string{"help"}, out, io.Discard) }()
		time.Sleep(time.Hour) // of the bubble's clock
		select {
		case status := <-ended:
			t.Fatalf("it ended with status %d, and wrote nothing", status)
		default:
		}
		interrupt()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("it does not end")
		}
	})
}

// TestLinesNobodyReadsAreDropped: memory is bounded, and what was dropped is counted.
func TestLinesNobodyReadsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a slow machine does not use up the last second
		to := &paused{resumed: make(chan struct{})}
		r := cli.NewRelay(t.Context(), to)
		cli.NeverWait(r)
		const lines = 5000
		for i := range lines {
			cli.Say(r, "line %d", i)
		}
		close(to.resumed)
		r.Flush()
		cli.Say(r, "the last")
		r.Close()
		kept, dropped, last := 0, 0, ""
		for line := range strings.Lines(to.String()) {
			if text, is := strings.CutSuffix(line, " lines dropped, since nobody read them\n"); is {
				n, err := strconv.Atoi(strings.TrimPrefix(text, "weir: "))
				if err != nil {
					t.Error(err)
				}
				dropped += n
			} else {
				kept, last = kept+1, line
			}
		}
		if kept+dropped != lines+1 || dropped == 0 || kept < 1000 || last != "the last\n" {
			t.Errorf("%d lines kept, %d dropped of %d; the last is %q", kept, dropped, lines+1, last)
		}
	})
}

// TestOutputThatCannotBeWritten: a full disk is an error.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	defer full.Close()
	var errs kafkatest.Log
	t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
	if status := commands.Run(t.Context(), []string{"check"}, full,
		&errs); status != cli.ExitFailed || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("status %d, %q", status, errs.String())
	}
}

// TestReaderThatHasSeenEnough is no error, and ends what would run on.
func TestReaderThatHasSeenEnough(t *testing.T) {
	t.Parallel()
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reads.Close()
	defer writes.Close()
	up := clitest.Process(t, nil, "up", "--data", t.TempDir(), "--interval", "500ms", "--for", "10m")
	up.Stdout = writes
	if status := clitest.Start(t, up).End(t); status != cli.ExitDone {
		t.Errorf("status %d", status)
	}
}

// TestNothingDrivesTheTerminal: a record, a broker or a file name may hold anything, and no command passes it on.
func TestNothingDrivesTheTerminal(t *testing.T) {
	broker, err := services.StartBroker(t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	t.Chdir(t.TempDir())
	t.Setenv("WEIR_KAFKA_BROKERS", broker.Addr())
	t.Setenv("WEIR_COLLECTORS", "1")
	t.Setenv("WEIR_TOPICS_REPLICATION", "1")
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "create"); status != cli.ExitDone {
		t.Fatal(stderr)
	}
	cl := kafkatest.Client(t, []string{broker.Addr()})
	quoted, err := json.Marshal(map[string]string{clitest.Hostile: clitest.Hostile})
	if err != nil {
		t.Fatal(err)
	}
	job, err := schemas.Marshal(&schemas.Job{
		JobID: "a", State: "RUNNING", User: clitest.Hostile, Reason: clitest.Hostile,
		Name: clitest.Hostile,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range [][]byte{[]byte(clitest.Hostile), quoted, job} {
		for _, topic := range []string{"weir.jobs", "weir.rejects"} {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{
				Topic: topic, Key: []byte(clitest.Hostile),
				Value: value,
			}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, command := range []string{
		"tail jobs --from start -n 3", "tail jobs --from start -n 3 --json", "tail rejects --from start -n 3", "jobs",
		"jobs --json",
		"status", "status --json", "job a",
	} {
		_, stdout, stderr := clitest.Weir(t.Context(), strings.Fields(command)...)
		if clitest.Drives(stdout + stderr) {
			t.Errorf("%s: %q, %q", command, stdout, stderr)
		}
		if strings.HasPrefix(command, "tail") && strings.Count(stdout, "\n") != 3 {
			t.Errorf("%s: %q are not 3 lines; %s", command, stdout, stderr)
		}
	}
	_, stdout, _ := clitest.Weir(t.Context(), "tail", "jobs", "--from", "start", "-n", "2", "--json")
	for line := range strings.Lines(stdout) {
		var r struct {
			Key   string
			Value map[string]string
		}
		want := strings.ToValidUTF8(clitest.Hostile, "\ufffd")
		if err := json.Unmarshal([]byte(line),
			&r); err != nil || r.Key != want || r.Value != nil && r.Value[want] != want {
			t.Errorf("JSON loses something: %v, %+v", err, r)
		}
	}
	for _, args := range [][]string{
		{"job", clitest.Hostile},
		{"tail", clitest.Hostile},
		{"check", "--config", clitest.Hostile},
		{clitest.Hostile},
		{"up", "--" + clitest.Hostile},
	} {
		if _, stdout, stderr := clitest.Weir(t.Context(), args...); clitest.Drives(stdout+stderr) || stderr == "" {
			t.Errorf("%q: %q, %q", args, stdout, stderr)
		}
	}
}

// TestTablesKeepTheirLines: the owner of a partition has any name that its client gave itself.
func TestTablesKeepTheirLines(t *testing.T) {
	for name, show := range map[string]func(w io.Writer, text string) error{
		"status": func(w io.Writer, text string) error {
			return admin.PrintStatus(w, &status.Status{Partitions: []status.Partition{{
				Stage: "collect",
				Owner: text,
			}}, Silent: []string{text}})
		},
		"jobs": func(w io.Writer, text string) error {
			hostile := schemas.Job{JobID: text, State: text, User: text, Account: text, Queue: text, Reason: text}
			lines := []view.JobLine{{Job: hostile, Of: map[string]*float64{text: nil}}}
			return term.Jobs(w, &view.Lists{Rows: lines, Skipped: lines}, term.Style{Width: 120})
		},
		"job": func(w io.Writer, text string) error {
			return jobs.PrintJob(w, []schemas.Row{{Metric: &text, Unit: &text, Count: new(int64), Method: text}})
		},
		"record": func(w io.Writer, text string) error {
			return jobs.PrintRecord(w, topics.TailRecord{Key: &text, Value: []byte(`"` + text + `"`)})
		},
		"JSON": func(w io.Writer, text string) error {
			return cli.PrintJSON(w, []*status.Status{{Wrong: []string{text}, OtherInterval: map[string]int64{text: 1}}})
		},
	} {
		var plain, b bytes.Buffer
		if err := errors.Join(show(&plain, "x"), show(&b, clitest.Hostile)); err != nil {
			t.Error(err)
		}
		if clitest.Drives(b.String()) || strings.Count(b.String(), "\n") != strings.Count(plain.String(),
			"\n") || name == "JSON" && !json.Valid(b.Bytes()) {
			t.Errorf("%s: %q", name, b.String())
		}
	}
}

// TestLogsDriveNoTerminal: what Kafka or a record says reaches the log too.
func TestLogsDriveNoTerminal(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		cfg := config.Default()
		cfg.LogFormat = format
		cli.NewLogger(&b, cfg).Info("said", "owner", clitest.Hostile, "err", errors.New(clitest.Hostile))
		if clitest.Drives(b.String()) || strings.Count(b.String(), "\n") != 1 {
			t.Errorf("%s: %q", format, b.String())
		}
		if format == "json" && !json.Valid(b.Bytes()) {
			t.Errorf("no JSON: %q", b.String())
		}
	}
}

// TestNohup: SIGHUP that was ignored at the start stays ignored. Without that it ends the process in order.
func TestNohup(t *testing.T) {
	t.Parallel()
	// Whoever runs the tests may ignore SIGHUP, and children would inherit that. It stays handled from here on: after
	// signal.Stop it would be ignored again, and signal.Ignored not say so.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	for _, c := range []struct {
		name, shell string
		survives    bool
	}{{"nohup", `trap "" HUP; exec "$0" "$@"`, true}, {"a terminal", `exec "$0" "$@"`, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			broker := clitest.Process(t, nil, "broker", "--listen", "127.0.0.1:0", "--data", dir, "--ready-file",
				filepath.Join(dir, "ready"))
			cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", c.shell}, broker.Args...)...)
			cmd.Env = broker.Env
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			kafkatest.Eventually(t, "weir broker is ready", func() bool {
				_, err := os.Stat(filepath.Join(dir, "ready"))
				return err == nil
			})
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			patience := time.Minute
			if c.survives {
				patience = time.Second // nothing tells that it goes on: a slow end would be missed, none be invented
			}
			select {
			case err := <-ended:
				if c.survives || err != nil {
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
			if err := <-ended; err != nil {
				t.Errorf("SIGTERM: %v", err)
			}
		})
	}
}

// The share is a percentage for people, and absent where no node measures its clock.
func TestStatusShowsSynchrony(t *testing.T) {
	var b strings.Builder
	for in, want := range map[float64]string{0.8777: "87.8", 0.9999: "99.9", 1: "100.0"} { // one node is not hidden
		b.Reset()
		err := admin.PrintStatus(&b, &status.Status{Synchrony: &status.Synchrony{Nodes: 977, InWindow: in}})
		want += " % of 977 nodes sampled within 0.6 s of the end of interval "
		if err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v, want %q in\n%s", err, want, &b)
		}
	}
	b.Reset()
	if err := admin.PrintStatus(&b, &status.Status{}); err != nil || strings.Contains(b.String(), "synchrony") {
		t.Errorf("%v, and nobody tells, in\n%s", err, &b)
	}
}

// TestStatusOfManyNodes: thousands of names must not fill the terminal.
func TestStatusOfManyNodes(t *testing.T) {
	var odd, all []string
	for n := range 9000 {
		all = append(all, fmt.Sprintf("n%04d", n))
		if n%2 == 1 {
			odd = append(odd, all[n])
		}
	}
	for want, names := range map[string][]string{
		"late nodes  n[0000-8999]\n": all,
		"late nodes  " +
			"n[0001,0003,0005,0007,0009,0011,0013,0015,0017,0019,0021,0023,0025,0027,0029,0031,0033,0035,0037,0039] " +
			"and 4480 more: --json names all\n": odd,
		"late nodes  a7,b\n": {"b", "a7"},
	} {
		var b strings.Builder
		if err := admin.PrintStatus(&b, &status.Status{Late: names}); err != nil || !strings.HasSuffix(b.String(), want) {
			t.Errorf("%v: want %s in %.400s", err, want, b.String())
		}
	}
}

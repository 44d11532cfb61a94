package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
)

// endPatience is how long a process may take to end at SIGTERM: the sink drains its topic for up to ten seconds.
const endPatience = 90 * time.Second

// machine starts weir's services as processes, each with a file for what it writes to stderr.
type machine struct {
	t      *testing.T
	binary string
	logs   string // directory
	all    []*process
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	binary, err := buildWeir()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, binary: binary, logs: t.TempDir()}
	t.Cleanup(func() { // however the test ends, and before the directories go
		for _, p := range m.all {
			p.kill()
		}
		if t.Failed() {
			m.tails(20)
		}
	})
	return m
}

// process is one service: it is started again and again, every time as a new process.
type process struct {
	t    *testing.T
	name string // service and instance, as collect-a
	log  string
	make func() *exec.Cmd

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil: it does not run
	ended  chan struct{} // closed once cmd has been waited for
	wanted bool          // we asked it to end, so it may
	began  time.Time
	logged int64 // bytes, before it began
	status error // of the last one to end
}

// add describes a service without starting it. env is what its environment has beside ours.
func (m *machine) add(name string, env []string, args ...string) *process {
	p := &process{t: m.t, name: name, log: filepath.Join(m.logs, name)}
	p.make = func() *exec.Cmd {
		cmd := exec.Command(m.binary, args...)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "WEIR_") })
		cmd.Env = append(cmd.Env, env...)
		// A test that is killed leaves nothing behind. The signal follows the thread that started the process, and Go
		// ends no thread that is not locked.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	m.all = append(m.all, p)
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		p.t.Fatalf("%s runs already", p.name)
	}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer file.Close() // the process has its own
	info, err := file.Stat()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := p.make()
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("starting %s: %v", p.name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended, p.wanted, p.began, p.logged = cmd, ended, false, time.Now(), info.Size()
	go func() {
		defer close(ended)
		err := cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cmd, p.status = nil, err
		if !p.wanted {
			p.t.Errorf("%s ended by itself: %v", p.name, err)
		}
	}()
}

// signal sends a signal to the process, if there is one, and returns what is closed at its end.
func (p *process) signal(sig syscall.Signal) (ended chan struct{}, sent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil, false
	}
	p.wanted = p.wanted || sig == syscall.SIGKILL || sig == syscall.SIGTERM
	// Only Wait in start frees the number, and takes cmd away before anybody could send to another's.
	return p.ended, p.cmd.Process.Signal(sig) == nil
}

// runs reports whether there is a process.
func (p *process) runs() bool { return p.pid() != 0 }

// pid is the number of the process; 0: it does not run.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// listens reports whether the process heeds signals by now: it does before it logs anything or opens a connection.
func (p *process) listens() bool {
	if info, err := os.Stat(p.log); err == nil && info.Size() > p.logged {
		return true
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid()))
	return slices.ContainsFunc(files, func(file string) bool {
		to, err := os.Readlink(file)
		return err == nil && strings.HasPrefix(to, "socket:")
	})
}

// count is how many lines of the process's log have a text in them.
func (p *process) count(text string) (n int) {
	p.t.Helper()
	b, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// kill ends the process as a crash would, and reports whether there was one.
func (p *process) kill() bool {
	ended, sent := p.signal(syscall.SIGKILL)
	if ended != nil {
		<-ended // nothing holds up SIGKILL
	}
	return sent
}

// end asks the process to end, and fails the test where it does not, or says that something went wrong.
func (p *process) end() {
	p.t.Helper()
	p.awaitSignals()
	ended, sent := p.signal(syscall.SIGTERM)
	if !sent {
		p.t.Errorf("%s does not run at its end", p.name)
		return
	}
	select {
	case <-ended:
		if p.status != nil {
			p.t.Errorf("%s at SIGTERM: %v", p.name, p.status)
		}
	case <-time.After(endPatience):
		p.t.Errorf("%s does not end within %v of SIGTERM", p.name, endPatience)
		p.kill()
	}
}

// awaitSignals waits until a process that has just begun handles signals: SIGTERM would kill it before.
func (p *process) awaitSignals() {
	for p.runs() && !p.listens() && time.Since(p.began) < endPatience {
		time.Sleep(10 * time.Millisecond)
	}
}

// endAll ends processes side by side.
func endAll(processes ...*process) {
	var wg sync.WaitGroup
	for _, p := range processes {
		wg.Go(p.end)
	}
	wg.Wait()
}

// startBroker starts the embedded broker and returns it with its address.
func (m *machine) startBroker() (*process, string) { return m.startBrokerOn("127.0.0.1:0") }

func (m *machine) startBrokerOn(listen string) (*process, string) {
	m.t.Helper()
	dir := m.t.TempDir()
	ready := filepath.Join(dir, "ready")
	p := m.add("broker", nil, "broker", "--data", filepath.Join(dir, "data"), "--listen", listen,
		"--ready-file", ready)
	p.start()
	var address string
	kafkatest.Eventually(m.t, "the broker's address", func() bool {
		b, err := os.ReadFile(ready)
		address = strings.TrimSpace(string(b))
		return err == nil && bytes.HasSuffix(b, []byte("\n"))
	})
	return p, address
}

// findBrokers returns the Kafka that KAFKA_SEEDS names. Without it, it starts the embedded broker as a process and
// returns that too.
func (m *machine) findBrokers() (at brokers, embedded []*process) {
	m.t.Helper()
	if os.Getenv("KAFKA_SEEDS") != "" {
		return findBrokers(m.t), nil
	}
	broker, address := m.startBroker()
	return brokers{seeds: []string{address}, prefix: config.Default().Prefix, replication: 1}, []*process{broker}
}

// configFile writes the configuration of the system's processes. Which nodes are simulated their flags say.
func (s *system) configFile() string {
	s.t.Helper()
	cfg := s.cfg
	cfg.Balance.Nodes = nil
	text, err := cfg.YAML()
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// said is what the processes wrote to stderr, counted.
type said struct {
	fenced    map[string]int // by service: lines that tell of a commit that a newer owner forbade
	takeovers int            // partitions owned anew, the first owners aside
	replays   int            // of these, with something to fold again
	replayed  int64          // offsets to fold again
	evicted   int            // members that find their group has given them up, as after a stop
	taken     int            // files of the archive that another sink had written
	panics    int
}

// listen reads what the processes have written so far.
func (m *machine) listen() said {
	m.t.Helper()
	fenced := regexp.MustCompile(`PRODUCER_FENCED|INVALID_PRODUCER_EPOCH`)
	ours := regexp.MustCompile(`msg="partition is ours" stage=(\w+) partition=(\d+) position=(\d+) replay_from=(\d+)`)
	heard := said{fenced: map[string]int{}}
	owned := map[string]bool{}
	for _, p := range m.all {
		b, err := os.ReadFile(p.log)
		if err != nil {
			m.t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			switch f := ours.FindStringSubmatch(line); {
			case f != nil:
				position, _ := strconv.ParseInt(f[3], 10, 64) // digits, by the pattern
				from, _ := strconv.ParseInt(f[4], 10, 64)
				if position > from {
					heard.replays++
					heard.replayed += position - from
				}
				if owned[f[1]+f[2]] {
					heard.takeovers++
				}
				owned[f[1]+f[2]] = true
			case fenced.MatchString(line):
				heard.fenced[service(p.name)]++
			case strings.Contains(line, "UNKNOWN_MEMBER_ID"):
				heard.evicted++
			case strings.Contains(line, "another sink writes"):
				heard.taken++
			case strings.HasPrefix(line, "panic:"), strings.HasPrefix(line, "fatal error:"):
				heard.panics++
			}
		}
	}
	return heard
}

// replayed is how many offsets the processes have folded again, as their logs say.
func (m *machine) replayed() int64 { return m.listen().replayed }

// tails logs the last lines of every process.
func (m *machine) tails(lines int) {
	for _, p := range m.all {
		b, err := os.ReadFile(p.log)
		if err != nil {
			m.t.Log(err)
			continue
		}
		all := slices.Collect(strings.Lines(string(b)))
		m.t.Logf("%s, the last of %d lines:\n%s", p.name, len(all), strings.Join(all[max(0, len(all)-lines):], ""))
	}
}

// service is what a process does, by its name.
func service(name string) string {
	s, _, _ := strings.Cut(name, "-")
	return s
}

func (s said) String() string {
	return fmt.Sprintf("fenced %v, %d takeovers, %d replays of %d offsets in all, %d members given up by their group, "+
		"%d files already written by the other sink", s.fenced, s.takeovers, s.replays, s.replayed, s.evicted, s.taken)
}

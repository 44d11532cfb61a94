package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

const (
	systemdGroup   = "@system-service"
	systemdVersion = "systemd 252" // of testdata/system-service
	unitNode       = "unit1"
)

// unit is the section Service of a unit file and of all its drop-ins: the values of each key, in their order.
type unit struct {
	file     string
	settings map[string][]string
	lenient  bool
}

func readUnit(file string) (unit, error) {
	u := unit{file: file, settings: map[string][]string{}}
	text, err := os.ReadFile(file)
	if err != nil {
		return unit{}, err
	}
	more, err := filepath.Glob(file + ".d/*.conf")
	if err != nil {
		return unit{}, err
	}
	for _, name := range more {
		part, err := os.ReadFile(name)
		if err != nil {
			return unit{}, err
		}
		text = append(text, part...)
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		key, value, setting := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "["):
			section = line
		case setting && section == "[Service]":
			u.settings[key] = append(u.settings[key], value)
		}
	}
	return u, nil
}

// last returns the effective value of a key that takes a single one.
func (u unit) last(key string) string {
	all := u.settings[key]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// name returns the name of the service, such as weir-agent.
func (u unit) name() string {
	return strings.TrimRight(strings.TrimSuffix(filepath.Base(u.file), ".service"), "@")
}

// calls returns the numbers of the calls that the unit allows.
func (u unit) calls() (map[uint32]bool, error) {
	group, err := systemService()
	if err != nil {
		return nil, err
	}
	calls := map[uint32]bool{}
	for name := range strings.FieldsSeq(strings.Join(u.settings["SystemCallFilter"], " ")) {
		switch number, single := group[name]; {
		case name == systemdGroup:
			for _, number := range group {
				calls[number] = true
			}
		case single:
			calls[number] = true
		case name == "perf_event_open":
			calls[unix.SYS_PERF_EVENT_OPEN] = true
		case name == "adjtimex":
			calls[unix.SYS_ADJTIMEX] = true
		default:
			return nil, fmt.Errorf("SystemCallFilter=%s: add its number to this test", name)
		}
	}
	return calls, nil
}

// systemServiceFile is a copy of systemd's group of calls. The helper process has the same working directory.
const systemServiceFile = "testdata/system-service"

// systemService returns the calls of @system-service on amd64, with their numbers.
func systemService() (map[string]uint32, error) {
	text, err := os.ReadFile(systemServiceFile)
	if err != nil {
		return nil, err
	}
	group := map[string]uint32{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(f) != 2 || f[1] == "-" {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", systemServiceFile, err)
		}
		group[f[0]] = uint32(n)
	}
	return group, nil
}

// units returns the shipped units of services. A unit that a timer starts does not count: it ends by itself.
func units(t *testing.T) []unit {
	t.Helper()
	files, err := filepath.Glob("../deploy/systemd/*.service")
	if err != nil || len(files) != 12 {
		t.Fatalf("units: %q, %v", files, err)
	}
	var all []unit
	for _, file := range files {
		u, err := readUnit(file)
		if err != nil {
			t.Fatal(err)
		}
		if u.last("Type") == "oneshot" {
			continue
		}
		all = append(all, u)
	}
	return all
}

// needFilters skips a test if no filter can be installed.
func needFilters(t *testing.T) {
	t.Helper()
	if err := canFilter(); err != nil {
		t.Skipf("SKIPPED: NO UNIT RAN UNDER ITS FILTER: %v", err)
	}
}

// canFilter returns why no filter can be installed, or nil.
func canFilter() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the numbers of system calls are those of amd64, this is %s", runtime.GOARCH)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	if errno != unix.EFAULT { // a kernel that knows filters reads the program first
		return fmt.Errorf("this kernel has no seccomp: %w", errno)
	}
	return nil
}

// addUnit describes the service of a unit, restricted as in the unit, with another configuration.
func (m *machine) addUnit(u unit, config, mode string) *process {
	m.t.Helper()
	file, err := filepath.Abs(u.file)
	if err != nil {
		m.t.Fatal(err)
	}
	env := []string{inUnit + "=" + file}
	for _, e := range u.settings["Environment"] {
		env = append(env, strings.NewReplacer("%H", "host", "%i", "1").Replace(e))
	}
	command, name, _ := strings.Cut(u.last("ExecStart"), " --config ")
	args := strings.Fields(command)
	if command == "/usr/bin/weir-agent" { // the same command in a program of its own (TestProgramIsTheCommand)
		args = []string{"/usr/bin/weir", "agent"}
	}
	if len(args) != 2 && command != "/usr/bin/weir find --live" || args[0] != "/usr/bin/weir" ||
		filepath.Dir(name) != "/etc/weir" {
		m.t.Fatalf("%s: ExecStart=%q", u.file, u.last("ExecStart"))
	}
	if _, err := os.Stat(filepath.Join("../deploy/config", filepath.Base(name))); err != nil {
		m.t.Errorf("%s names a configuration that is not shipped: %v", u.file, err)
	}
	p := m.add(u.name(), env, append(args[1:], "--config", config)...)
	made := p.make
	p.make = func() *exec.Cmd {
		cmd := made()
		cmd.Args = append([]string{os.Args[0], mode}, cmd.Args...)
		cmd.Path = os.Args[0]
		return cmd
	}
	return p
}

// TestUnits runs the service of every unit under the unit's filter, limits and capabilities. The services sample, send,
// fold and archive, wait for a broker that is away, go on, and end at SIGTERM in time.
func TestUnits(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	needFilters(t)
	beside(t)
	m := newMachine(t)
	const listen = "127.9.9.9:0" // no other process is given a port of this address while the broker is away
	broker, address := m.startBrokerOn(listen)
	made := broker.make
	broker.make = func() *exec.Cmd { // from now on
		cmd := made()
		cmd.Args[slices.Index(cmd.Args, listen)] = address
		return cmd
	}
	s := systemOn(t, brokers{seeds: []string{address}, prefix: "units.", replication: 1})
	s.cfg.Interval, s.cfg.PlanMargin, s.cfg.Grace = 500*time.Millisecond, 0, 0
	s.cfg.Agent.Node = unitNode
	s.cfg.Balance.Slurm.Enabled, s.cfg.Balance.Slurm.Bin = true, slurmWithOneNode(t)
	s.cfg.Balance.JobsFile = filepath.Join(t.TempDir(), "jobs.yaml")
	jobs := fmt.Sprintf("jobs:\n  - {id: \"1\", nodes: [%s], cpus: [0]}\n", unitNode)
	if err := os.WriteFile(s.cfg.Balance.JobsFile, []byte(jobs), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cfg.Notify.Sendmail, s.cfg.Notify.From, s.cfg.Notify.Domain = "/bin/true", "hpc@example.org", "example.org"
	config := s.configFile()

	services := map[string]*process{}
	// The console and its relay have no part in what follows: `make test-install` runs both below systemd.
	shipped := slices.DeleteFunc(units(t), func(u unit) bool { return strings.HasPrefix(u.name(), "weir-console") })
	for _, u := range shipped {
		services[u.name()] = m.addUnit(u, config, strict)
		services[u.name()].start()
	}
	works := func(when string) {
		t.Helper()
		from := time.Now().UnixMilli()
		s.eventually("summaries of the job "+when, func() bool { return s.reported(from) > 5 })
		files := s.archived()
		s.eventually("a file of the archive "+when, func() bool { return t.Failed() || s.archived() > files })
		for name, p := range services {
			if !p.runs() {
				t.Fatalf("%s does not run %s", name, when)
			}
		}
	}
	works("at first")
	broker.end()
	time.Sleep(3 * time.Second) // the broker is away for some intervals
	broker.start()
	works("after the broker was away")

	for _, u := range shipped {
		services[u.name()].judgeMemory(u)
	}
	w := s.watchMachine()
	var all sync.WaitGroup
	for _, u := range shipped {
		all.Go(func() { services[u.name()].endInTime(u, w) })
	}
	all.Wait()
	w.stop()
	log, err := os.ReadFile(services["weir-agent"].log)
	if err != nil || strings.Contains(string(log), "asking for the clock's error") {
		t.Errorf("the agent may not ask for the state of the clock: %v\n%s", err, log)
	}
	endAll(broker)
}

// TestUnitRefusesWithoutKilling: an unforeseen call, such as from a newer release of Go, disables only the feature that
// needed it. It does not end the agent at every boundary.
func TestUnitRefusesWithoutKilling(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	needFilters(t)
	beside(t)
	m := newMachine(t)
	dir := t.TempDir()
	text, err := os.ReadFile("../deploy/systemd/weir-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	unforeseen := filepath.Join(dir, "weir-agent.service")
	if err := os.WriteFile(unforeseen, []byte(strings.ReplaceAll(string(text), " adjtimex", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := readUnit(unforeseen)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(config, []byte("{interval: 500ms, kafka: {brokers: ['127.0.0.1:1']}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := m.addUnit(u, config, lenient)
	p.start()
	const refused = "asking for the clock's error: operation not permitted"
	kafkatest.Eventually(t, "word of the refused call", func() bool {
		log, err := os.ReadFile(p.log)
		return !p.runs() || err == nil && strings.Contains(string(log), refused)
	})
	p.end() // it fails the test if the agent does not run
}

// TestUnitsSystemdKnows compares the expanded calls of the filters with systemd's own expansion.
func TestUnitsSystemdKnows(t *testing.T) {
	version, err := exec.CommandContext(t.Context(), "systemd-analyze", "--version").Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("SKIPPED: THE GROUPS OF CALLS WERE NOT COMPARED WITH SYSTEMD'S: no systemd-analyze here")
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(systemServiceFile)
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if name, _, is := strings.Cut(line, " "); is && name != "#" {
			ours[name] = true
		}
	}
	theirs := map[string]bool{}
	expandGroup(t, systemdGroup, theirs)
	var differ []string
	for name := range maps.Keys(theirs) {
		if !ours[name] {
			differ = append(differ, "+"+name)
		}
	}
	for name := range maps.Keys(ours) {
		if !theirs[name] {
			differ = append(differ, "-"+name)
		}
	}
	slices.Sort(differ)
	if !strings.HasPrefix(string(version), systemdVersion+" ") {
		t.Skipf("SKIPPED: THIS IS NOT %s, but %.20q: its %s differs by %q", systemdVersion, version, systemdGroup,
			differ)
	}
	if len(differ) > 0 {
		t.Errorf("%s of %s differs from %s by %q", systemdGroup, systemdVersion, systemServiceFile, differ)
	}
}

// expandGroup adds the calls of a group, and of the groups that it names.
func expandGroup(t *testing.T, group string, into map[string]bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "syscall-filter", group).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		switch name := strings.TrimSpace(line); {
		case name == "", name == group, strings.HasPrefix(name, "#"):
		case strings.HasPrefix(name, "@"):
			expandGroup(t, name, into)
		default:
			into[name] = true
		}
	}
}

// TestUnitsHaveTheirDirectories: a unit's service writes only below its state directory.
func TestUnitsHaveTheirDirectories(t *testing.T) {
	for _, u := range units(t) {
		file := filepath.Join("../deploy/config", filepath.Base(u.last("ExecStart")))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Agent struct {
				Dir string `yaml:"state_dir"`
			}
			Sink    struct{ Dir string }
			Console struct{ Listen string }
		}
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		written, owned := c.Agent.Dir+c.Sink.Dir, ""
		if c.Console.Listen != "" {
			written = "" // it reads the archive
		}
		if name := u.last("StateDirectory"); name != "" {
			owned = filepath.Join("/var/lib", name)
		}
		if written != owned {
			t.Errorf("%s has %q, but its unit may write to %q", file, written, owned)
		}
	}
}

// TestRelaySeesUsers: in a user namespace of its own the relay would see every user as nobody. /run/weir stays root's,
// because reports of jobs are below it.
func TestRelaySeesUsers(t *testing.T) {
	u, err := readUnit("../deploy/systemd/weir-console-relay.service")
	if err != nil {
		t.Fatal(err)
	}
	if u.last("PrivateUsers") != "no" {
		t.Error("PrivateUsers= hides the users who connect")
	}
	if dir := filepath.Dir(config.ConsoleSocket); filepath.Join("/run", u.last("RuntimeDirectory")) != dir {
		t.Errorf("the unit makes %q, and the socket is in %s", u.last("RuntimeDirectory"), dir)
	}
	if u.last("RuntimeDirectoryPreserve") != "" {
		t.Error("with DynamicUser=yes nobody else could enter a directory that is preserved")
	}
}

// TestUnitsVerified: systemd finds nothing wrong with a unit but that weir is not installed.
func TestUnitsVerified(t *testing.T) {
	absent := regexp.MustCompile("/usr/bin/weir(-agent)? is not executable")
	for _, u := range units(t) {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", u.file).CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("SKIPPED: NO UNIT WAS VERIFIED: no systemd-analyze here")
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "weir-") && !absent.MatchString(line) {
				t.Errorf("%s: %s", u.file, line)
			}
		}
	}
}

// TestUnitsExposeLittle: systemd's own judgement of each unit, 0 to 10, stays low. Further permissions for an agent are
// in drop-ins.
func TestUnitsExposeLittle(t *testing.T) {
	type exposed struct {
		unit    string
		dropIns []string
		most    int // tenths
	}
	cases := []exposed{
		{"weir-agent.service", []string{"perf"}, 20},
		{"weir-agent.service", []string{"gpu"}, 19},
		{"weir-agent.service", []string{"perf", "gpu"}, 23},
		{"weir-archive-compact.service", nil, 13},
	}
	for _, u := range units(t) {
		most := 13
		switch u.name() {
		case "weir-agent":
			most = 16
		case "weir-console-relay": // without a user namespace of its own: TestRelaySeesUsers
			most = 15
		}
		cases = append(cases, exposed{filepath.Base(u.file), nil, most})
	}
	for _, c := range cases {
		shipped := filepath.Join("../deploy/systemd", c.unit)
		dir := t.TempDir()
		copied := filepath.Join(dir, filepath.Base(shipped))
		files := map[string]string{shipped: copied}
		for _, name := range c.dropIns {
			files[filepath.Join(shipped+".d", name+".conf")] = filepath.Join(copied+".d", name+".conf")
		}
		if err := os.Mkdir(copied+".d", 0o755); err != nil {
			t.Fatal(err)
		}
		for from, to := range files {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--no-pager", "--offline=true",
			fmt.Sprintf("--threshold=%d", c.most), copied)
		out, err := cmd.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("SKIPPED: THE EXPOSURE OF THE UNITS WAS NOT JUDGED: no systemd-analyze here")
		}
		if strings.Contains(string(out), "unrecognized option") { // before version 250
			t.Skipf("SKIPPED: THE EXPOSURE OF THE UNITS WAS NOT JUDGED: systemd-analyze is too old: %s", out)
		}
		_, verdict, _ := strings.Cut(string(out), "Overall exposure level")
		version, versionErr := exec.CommandContext(t.Context(), "systemd-analyze", "--version").Output()
		if err != nil && versionErr == nil && !strings.HasPrefix(string(version), systemdVersion+" ") {
			t.Skipf("SKIPPED: THIS IS NOT %s, but %.20q, which judges otherwise: %s", systemdVersion, version, verdict)
		}
		if err != nil || verdict == "" {
			t.Errorf("%s with %q: %v, more than %d tenths%s\n%s", c.unit, c.dropIns, err, c.most, verdict, out)
		}
	}
}

// TestAgentUnitRestrainsByNiceAlone: a quota stops the agent within a burst, and a low weight or the idle class makes
// its samples late. docs/overhead.md has the measurements.
func TestAgentUnitRestrainsByNiceAlone(t *testing.T) {
	u, err := readUnit("../deploy/systemd/weir-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"CPUQuota", "CPUWeight", "CPUSchedulingPolicy"} {
		if value := u.last(key); value != "" {
			t.Errorf("%s=%s makes samples late", key, value)
		}
	}
	if u.last("Nice") == "" || u.last("MemoryMax") == "" || u.last("TasksMax") == "" {
		t.Error("nothing bounds the agent")
	}
	if u.last("OOMPolicy") != "continue" {
		t.Error("a site's command that takes too much memory ends the agent with it")
	}
}

// slurmWithOneNode is a directory of programs that answer as Slurm does on a machine without jobs.
func slurmWithOneNode(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"squeue": "#!/bin/sh\n", "scontrol": "#!/bin/sh\n", "sinfo": "#!/bin/sh\necho '" + unitNode + "|1|1|1|1'\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// reported counts the summaries of jobs with records from the node that began since from.
func (s *system) reported(from int64) (n int) {
	for _, r := range s.read(schemas.TopicJobSummary) {
		v, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		if j, is := v.(*schemas.JobSummary); is && j.JobID == "1" && j.IntervalStart >= from && j.NodesReported == 1 {
			n++
		}
	}
	return n
}

// archived counts the files of the archive.
func (s *system) archived() int {
	files, err := filepath.Glob(filepath.Join(s.cfg.Sink.Dir, "summaries", "*", "*.parquet"))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(files)
}

// judgeMemory compares the peak memory of the process with the limit of its unit.
func (p *process) judgeMemory(u unit) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest + " ? ?")[0])
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	limit, is := strings.CutSuffix(u.last("MemoryMax"), "M")
	p.t.Logf("%s: %d KiB at most; MemoryMax=%s", p.name, kib, u.last("MemoryMax"))
	if mib, err := strconv.Atoi(limit); is && (err != nil || kib > mib*1024) {
		p.t.Errorf("%s: %d KiB, but its unit has MemoryMax=%sM, %v", p.name, kib, limit, err)
	}
}

// endInTime ends the process, and fails the test if systemd would have killed it, unless the machine is too busy.
func (p *process) endInTime(u unit, w *slowness) {
	limit, err := time.ParseDuration(u.last("TimeoutStopSec"))
	if err != nil {
		p.t.Errorf("%s: %v", u.file, err)
		return
	}
	began := time.Now()
	p.end()
	if took := time.Since(began); took > limit && !w.within(began.UnixMilli(), time.Now().UnixMilli()) {
		p.t.Errorf("%s took %v to end, but its unit waits for %v", p.name, took, limit)
	}
}

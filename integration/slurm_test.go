package integration

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// slurmCluster is a Slurm, all of it on this machine. Nodes n1 to n4 have two CPUs, and t1 and t2 two cores with two
// threads.
type slurmCluster struct {
	t   *testing.T
	dir string
}

// startSlurm skips the test unless REQUIRE_SLURM is set, as make test-slurm does; then Slurm must be there.
func startSlurm(t *testing.T) *slurmCluster {
	t.Helper()
	if os.Getenv("REQUIRE_SLURM") == "" {
		t.Skip("SLURM TEST SKIPPED: jobs of a real Slurm were not followed; make test-slurm does, with Debian's " +
			"slurmctld, slurmd, slurm-client and munge")
	}
	for _, command := range []string{
		"slurmctld", "slurmd", "munged", "squeue", "scontrol", "sbatch", "scancel",
		"python3",
	} {
		if _, err := exec.LookPath(command); err != nil {
			t.Errorf("%v (apt-get install --no-install-recommends slurmctld slurmd slurm-client munge)", err)
		}
	}
	if os.Getuid() != 0 || runtime.NumCPU() < 2 {
		t.Error("Slurm's daemons need root here, and two CPUs")
	}
	if t.Failed() {
		t.FailNow()
	}
	parent, err := os.MkdirTemp("", "weir-slurm") //nolint:usetesting // munged's user cannot reach the test's own one
	if err == nil {
		err = os.Chmod(parent, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &slurmCluster{t: t, dir: filepath.Join(parent, "s")}
	cmd := exec.Command("slurm/up.sh", s.dir, "4")
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe() // it ends with us, however we end
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("Slurm's end: %v", err)
		}
		_ = os.RemoveAll(parent)
	})
	kafkatest.Eventually(t, "Slurm to start", func() bool {
		_, err := os.Stat(filepath.Join(s.dir, "ready"))
		return err == nil
	})
	return s
}

func (s *slurmCluster) conf() string { return "SLURM_CONF=" + filepath.Join(s.dir, "slurm.conf") }

// run runs one of Slurm's commands.
func (s *slurmCluster) run(name string, args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), s.conf(), "TZ=UTC")
	cmd.Stderr = s.t.Output()
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s %q: %v", name, args, err)
	}
	return strings.TrimSpace(string(out))
}

// submit submits a job that sleeps, and returns its id.
func (s *slurmCluster) submit(args ...string) string {
	s.t.Helper()
	args = append([]string{"--parsable", "--output=/dev/null"}, args...)
	// It reports its own number and restart in a file that it did not make.
	report := `while sleep 0.5; do echo "own_job $SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}" >>"$WEIR_REPORT_FILE"; done`
	return s.run("sbatch", append(args, "--wrap="+report)...)
}

// nodes returns the nodes of a running job; empty if it does not run.
func (s *slurmCluster) nodes(id string) string {
	s.t.Helper()
	return s.run("squeue", "--noheader", "--states=RUNNING", "--Format=NodeList:0", "--jobs="+id)
}

// signal sends a signal to a node's slurmd, or to ctld.
func (s *slurmCluster) signal(name string, sig syscall.Signal) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "run", name+".pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil {
		err = syscall.Kill(pid, sig)
	}
	if err != nil {
		s.t.Fatalf("sending %v to %s: %v", sig, name, err)
	}
}

var slurmNodes = []string{"n1", "n2", "n3", "n4", "t1", "t2"}

// TestSlurm follows the jobs of a real Slurm, with one agent for each of its nodes.
func TestSlurm(t *testing.T) {
	slurm := startSlurm(t)
	m := newMachine(t)
	_, address := m.startBroker()
	s := systemOn(t, brokers{seeds: []string{address}, prefix: "weir.", replication: 1})
	s.cfg.Interval, s.cfg.Agent.Perf, s.cfg.Balance.LMax = 2*time.Second, false, 100
	s.cfg.Balance.Slurm.Enabled, s.cfg.Balance.Slurm.Poll = true, 500*time.Millisecond
	s.cfg.Balance.Slurm.Timeout = 2 * time.Second
	s.cfg.Balance.DropDir = filepath.Join(slurm.dir, "drop")
	file := s.configFile()
	for _, part := range []string{"balance", "collect", "merge"} {
		m.add(part, []string{slurm.conf()}, part, "--config", file).start()
	}
	for _, node := range slurmNodes {
		m.add("agent-"+node, []string{
			"WEIR_AGENT_NODE=" + node, "WEIR_AGENT_REPORT_DIR=" + filepath.Join(slurm.dir, "report", node),
		}, "agent", "--config", file).start()
	}
	s.eventually("rows of idle nodes", func() bool { return len(s.rows()[schemas.JobKey{JobID: schemas.JobRest}]) > 0 })

	// A job's name may contain text that looks like another row of squeue, or another job of scontrol's.
	alone := slurm.submit("-N1", "--exclusive", "-w", "n1", "--job-name",
		"x|y\n1|0|RUNNING\nJobId=2 JobName=z\n     Nodes=n2 CPU_IDs=0-1 Mem=0")
	left := slurm.submit("-n1", "-c1", "-w", "n2")
	right := slurm.submit("-n1", "-c1", "-w", "n2")
	shrinks := slurm.submit("-N2", "--exclusive", "-w", "n[3-4]")
	paused := schemas.JobKey{JobID: slurm.submit("-p", "smt", "-N2", "-n2", "-w", "t[1-2]")}
	het := slurm.submit("-p", "smt", "-n1", "-c1", "-w", "t1", ":", "-p", "smt", "-n1", "-c1", "-w", "t2")
	component := [2]schemas.JobKey{{JobID: slurm.jobID(het + "+0")}, {JobID: slurm.jobID(het + "+1")}}
	s.wantRows(5, map[schemas.JobKey]int32{
		{JobID: alone}: 1, {JobID: left}: 1, {JobID: right}: 1, {JobID: shrinks}: 2, paused: 2, component[0]: 1,
		component[1]: 1,
	})
	for _, node := range []string{"t1", "t2"} {
		for _, e := range s.route(node).Entries {
			if want := slurm.cpus(e.JobID, node); len(e.Cpus) != 2 || !slices.Equal(e.Cpus, want) {
				t.Errorf("job %s has CPUs %v of %s, and by Slurm's numbers %v", e.JobID, e.Cpus, node, want)
			}
		}
	}

	slurm.run("scontrol", "suspend", paused.JobID)
	slurm.run("scontrol", "update", "jobid="+shrinks, "NumNodes=1")
	array := slurm.submit("-n1", "-c1", "--array=0-1", "-w", "n4")
	first := schemas.JobKey{JobID: slurm.jobID(array + "_0")}
	second := schemas.JobKey{JobID: slurm.jobID(array + "_1")}
	s.wantRows(4, map[schemas.JobKey]int32{first: 1, second: 1})
	s.eventually("rows of the job that shrank", func() bool {
		rows := s.rows()[schemas.JobKey{JobID: shrinks}]
		return len(rows) > 0 && rows[len(rows)-1].NodesExpected == 1
	})
	s.eventually("a Route without the suspended job", func() bool { return !routed(s.route("t1"), paused) })
	from := s.route("t1").IntervalStart
	s.eventually("what the suspended job had of its nodes, in _rest", func() bool {
		complete := 0
		for at, values := range machineValues(s.rows()) {
			if at >= from && values == int64(len(hostCPUs(t))*len(slurmNodes)) {
				complete++
			}
		}
		return complete >= 3
	})
	if state := s.jobs()[paused].State; state != "RUNNING" {
		t.Errorf("the suspended job is %s", state)
	}
	wentOn := time.Now().UnixMilli()
	slurm.run("scontrol", "resume", paused.JobID)
	slurm.run("scancel", alone, left, right, shrinks, array)

	big := slurm.submit("-N3", "--exclusive")
	requeued := slurm.submit("-N1", "--exclusive", "--requeue")
	s.wantRows(3, map[schemas.JobKey]int32{{JobID: big}: 3, {JobID: requeued}: 1})
	was := slurm.nodes(requeued)
	killed := time.Now()
	slurm.signal(was, syscall.SIGKILL)
	slurm.run("scancel", big)
	again := schemas.JobKey{JobID: requeued, Restart: 1}
	s.wantRows(3, map[schemas.JobKey]int32{again: 1})
	t.Logf("slurmd of %s was killed, and %v later its job had three intervals on %s", was,
		time.Since(killed).Round(time.Second), slurm.nodes(requeued))

	// A controller that hangs: its last jobs stay in force, and the reason gives the time of its last answer.
	slurm.signal("ctld", syscall.SIGSTOP)
	list := schemas.JobKey{JobID: "_jobs-file"}
	s.eventually("word of the controller's silence", func() bool {
		j := s.jobs()[list]
		return j != nil && strings.Contains(j.Reason, "Slurm has not answered since 2")
	})
	s.wantRows(len(s.rows()[again])+3, map[schemas.JobKey]int32{again: 1})
	slurm.signal("ctld", syscall.SIGCONT)
	s.eventually("the controller's answer", func() bool { return s.jobs()[list] == nil })
	s.eventually("rows of the job that was suspended", func() bool {
		rows := s.rows()[paused]
		return len(rows) > 2 && rows[len(rows)-2].IntervalStart >= wentOn
	})
	slurm.run("scancel", requeued, paused.JobID, het)
	s.eventually("the end of the last job", func() bool {
		j, ok := s.jobs()[again]
		return ok && j.State == schemas.StateCancelled && j.End != nil
	})

	s.judgeSlurm(map[schemas.JobKey][]int32{
		{JobID: alone}: {1}, {JobID: left}: {1}, {JobID: right}: {1}, {JobID: shrinks}: {1, 2}, first: {1}, second: {1},
		{JobID: big}: {3}, {JobID: requeued}: {1}, again: {1}, paused: {2}, component[0]: {1}, component[1]: {1},
	}, paused)
	s.judgePause(paused, wentOn)
	s.judgeReports(component[1])
	jobs := s.jobs()
	for _, pair := range [][2]schemas.JobKey{{{JobID: left}, {JobID: right}}, {first, second}} {
		a, b := jobs[pair[0]].Cpus, jobs[pair[1]].Cpus
		if len(a) != 1 || len(b) != 1 || a[0] == b[0] {
			t.Errorf("jobs %v share a node, with CPUs %v and %v", pair, a, b)
		}
	}
	if name := jobs[schemas.JobKey{JobID: alone}].Name; !strings.HasPrefix(name, "x|y?1|0|RUNNING?") {
		t.Errorf("the hostile name became %q", name)
	}
	if j := jobs[schemas.JobKey{JobID: big}]; j.State != schemas.StateCancelled || j.Cores == nil || *j.Cores != 6 ||
		j.Exclusive == nil || !*j.Exclusive {
		t.Errorf("job %s with --exclusive on three nodes of two CPUs, which was cancelled, became %+v", big, j)
	}
	if here, there := jobs[schemas.JobKey{JobID: requeued}].Nodes, jobs[again].Nodes; slices.Equal(here, there) {
		t.Errorf("job %s ran on %v before its node was lost, and on %v after", requeued, here, there)
	}
}

// jobID returns the number of a job once it runs. squeue shows the job as a task of an array, such as 5_0, or as a
// component of a heterogeneous job, such as 7+1.
func (s *slurmCluster) jobID(shown string) string {
	s.t.Helper()
	whole := shown[:strings.IndexAny(shown, "_+")]
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		for line := range strings.Lines(s.run("squeue", "--noheader", "--states=RUNNING", "--format=%i %A",
			"--jobs="+whole)) {
			if name, id, _ := strings.Cut(strings.TrimSpace(line), " "); name == shown {
				return id
			}
		}
	}
	s.t.Fatalf("%s does not run", shown)
	return ""
}

// cpus returns a job's CPUs on a node of partition smt in Linux's numbers: scontrol's numbers, converted by slurmd's
// own map.
func (s *slurmCluster) cpus(id, node string) (cpus []int32) {
	s.t.Helper()
	log, err := os.ReadFile(filepath.Join(s.dir, "log", node))
	if err != nil {
		s.t.Fatal(err)
	}
	line := regexp.MustCompile(`Block Map +=( [0-9,]+)`).FindSubmatch(log)
	if line == nil {
		s.t.Fatalf("slurmd of %s does not say how it maps CPUs", node)
	}
	block := numbers(s.t, string(line[1]))
	job := s.run("scontrol", "--details", "show", "job", id)
	for _, of := range regexp.MustCompile(`Nodes=(\S+) CPU_IDs=(\S+)`).FindAllStringSubmatch(job, -1) {
		if !slices.Contains(strings.Fields(s.run("scontrol", "show", "hostnames", of[1])), node) {
			continue
		}
		for _, n := range numbers(s.t, of[2]) {
			cpus = append(cpus, block[n])
		}
	}
	slices.Sort(cpus)
	return cpus
}

// numbers returns the numbers of a list such as 0-3,8.
func numbers(t *testing.T, list string) (all []int32) {
	t.Helper()
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.Atoi(low)
		if err != nil {
			t.Fatal(err)
		}
		last, err := strconv.Atoi(high)
		if err != nil {
			t.Fatal(err)
		}
		for n := first; n <= last; n++ {
			all = append(all, int32(n))
		}
	}
	return all
}

// hostCPUs returns the numbers of this machine's CPUs. Every agent sees them, whichever node it stands for.
func hostCPUs(t *testing.T) (cpus []int32) {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)^cpu([0-9]+) `).FindAllSubmatch(stat, -1) {
		cpus = append(cpus, numbers(t, string(line[1]))...)
	}
	return cpus
}

// route returns the newest Route of a node, or nil.
func (s *system) route(node string) (newest *schemas.Route) {
	s.t.Helper()
	for _, r := range s.read(schemas.TopicRoutes) {
		if string(r.Key) != node || r.Value == nil {
			continue
		}
		record, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		newest = record.(*schemas.Route)
	}
	return newest
}

// routed reports whether a Route contains the job.
func routed(r *schemas.Route, key schemas.JobKey) bool {
	return slices.ContainsFunc(r.Entries, func(e schemas.RouteEntry) bool {
		return e.JobID == key.JobID && e.Restart == key.Restart
	})
}

// rows returns the summaries by job, each job's in order.
func (s *system) rows() map[schemas.JobKey][]*schemas.JobSummary {
	s.t.Helper()
	rows := map[schemas.JobKey][]*schemas.JobSummary{}
	for _, r := range s.read(schemas.TopicJobSummary) {
		record, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		row := record.(*schemas.JobSummary)
		key := schemas.JobKey{JobID: row.JobID, Restart: row.Restart}
		rows[key] = append(rows[key], row)
	}
	for _, of := range rows {
		slices.SortFunc(of, func(a, b *schemas.JobSummary) int { return int(a.IntervalStart - b.IntervalStart) })
	}
	return rows
}

// jobs returns topic jobs as it stands.
func (s *system) jobs() map[schemas.JobKey]*schemas.Job {
	s.t.Helper()
	jobs := map[schemas.JobKey]*schemas.Job{}
	for _, r := range s.read(schemas.TopicJobs) {
		if r.Value == nil {
			maps.DeleteFunc(jobs, func(key schemas.JobKey, _ *schemas.Job) bool {
				return string(key.Key()) == string(r.Key)
			})
			continue
		}
		record, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		j := record.(*schemas.Job)
		jobs[schemas.JobKey{JobID: j.JobID, Restart: j.Restart}] = j
	}
	return jobs
}

// wantRows waits until each job has count complete rows with its number of nodes.
func (s *system) wantRows(count int, nodes map[schemas.JobKey]int32) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%d rows of each of %v", count, nodes), func() bool {
		rows := s.rows()
		for key, n := range nodes {
			full := 0
			for _, r := range rows[key] {
				if r.NodesExpected == n && r.NodesReported == n {
					full++
				}
			}
			if full < count {
				return false
			}
		}
		return true
	})
}

// judgeSlurm checks all rows. Each job has one of its allowed numbers of nodes, and values of its CPUs on each node
// that reported in time. Its intervals lie within its life without gaps, except for the pause of one job. No value is
// counted twice.
func (s *system) judgeSlurm(nodes map[schemas.JobKey][]int32, paused schemas.JobKey) {
	s.t.Helper()
	rows, jobs, host := s.rows(), s.jobs(), hostCPUs(s.t)
	log, slow := newOracle(s.t, s.cfg.Cluster, s.closedLog()), slowIntervals(rows)
	total := 0
	for key, allowed := range nodes {
		j := jobs[key]
		if j == nil || j.Start == nil {
			s.t.Errorf("job %s has no record with a start", key)
			continue
		}
		end := int64(math.MaxInt64)
		if j.End != nil {
			end = *j.End
		}
		cpus := len(host)
		if len(j.Cpus) > 0 {
			cpus = len(slices.DeleteFunc(slices.Clone(j.Cpus), func(c int32) bool { return !slices.Contains(host, c) }))
		}
		seen := map[int32]bool{}
		for i, r := range rows[key] {
			total++
			seen[r.NodesExpected] = true
			sent := -1 // no Tick lists it
			if e := log.windows[window{key.JobID, int(key.Restart), r.IntervalStart}]; e != nil {
				sent = len(e.records)
			}
			values, lacks := coreValues(r)
			switch {
			case !slices.Contains(allowed, r.NodesExpected):
				s.t.Errorf("job %s at %d has %d nodes, want of %v", key, r.IntervalStart, r.NodesExpected, allowed)
			case int(r.NodesReported) != sent:
				s.t.Errorf("job %s at %d: %d nodes reported, and %d sent in time", key, r.IntervalStart,
					r.NodesReported, sent)
			case !slow[r.IntervalStart] && (r.IntervalStart < *j.Start || r.IntervalStart+r.IntervalMs > end):
				s.t.Errorf("job %s at %d is not within its life from %d to %d", key, r.IntervalStart, *j.Start, end)
			case i > 0 && r.IntervalStart != rows[key][i-1].IntervalStart+r.IntervalMs && key != paused:
				s.t.Errorf("job %s has no row between %d and %d", key, rows[key][i-1].IntervalStart, r.IntervalStart)
			case values != int64(cpus)*int64(r.NodesReported), len(j.Cpus) > 0 &&
				values+lacks != int64(len(j.Cpus))*int64(r.NodesReported):
				s.t.Errorf("job %s at %d has values of %d CPUs of %d nodes and lacks %d, with CPUs %v", key,
					r.IntervalStart, values, r.NodesReported, lacks, j.Cpus)
			}
		}
		if len(seen) != len(allowed) {
			s.t.Errorf("job %s had %v nodes, want each of %v", key, slices.Sorted(maps.Keys(seen)), allowed)
		}
	}
	for key := range rows {
		if _, known := nodes[key]; !known && key.JobID != schemas.JobRest && key.JobID != schemas.JobSystem {
			s.t.Errorf("rows of job %s, which Slurm does not have", key)
		}
	}
	for key, j := range jobs {
		if j.State == "SKIPPED" {
			s.t.Errorf("job %s was skipped: %s", key, j.Reason)
		}
	}
	for start, values := range machineValues(rows) {
		if values > int64(len(host)*len(slurmNodes)) {
			s.t.Errorf("at %d there are values of %d CPUs, where the machine has %d", start, values,
				len(host)*len(slurmNodes))
		}
	}
	s.t.Logf("%d rows of %d jobs; of %d intervals, %d on a machine that was late or just before or after that", total,
		len(nodes),
		len(machineValues(rows)), len(slow))
}

// judgePause checks a job that was suspended once. It has no rows meanwhile, its CPUs belong to _rest, and it continues
// with a complete interval.
func (s *system) judgePause(key schemas.JobKey, wentOnMs int64) {
	s.t.Helper()
	rows := s.rows()
	of, all, slow := rows[key], machineValues(rows), slowIntervals(rows)
	machine, pauses := int64(len(hostCPUs(s.t))*len(slurmNodes)), 0
	for i := 1; i < len(of); i++ {
		next := of[i-1].IntervalStart + of[i-1].IntervalMs
		if of[i].IntervalStart == next {
			continue
		}
		pauses++
		if of[i].IntervalStart < wentOnMs {
			s.t.Errorf("job %s has a row from %d on, before it went on at %d", key, of[i].IntervalStart, wentOnMs)
		}
		for at := next; at+of[i].IntervalMs <= wentOnMs; at += of[i].IntervalMs {
			if all[at] != machine && !slow[at] {
				s.t.Errorf("at %d, with job %s suspended, jobs and _rest have values of %d CPUs of %d", at, key,
					all[at], machine)
			}
		}
		s.t.Logf("job %s was suspended and has no rows of %d intervals", key,
			(of[i].IntervalStart-next)/of[i].IntervalMs)
	}
	if pauses != 1 {
		s.t.Errorf("job %s was suspended once, and its rows have %d gaps", key, pauses)
	}
}

// judgeReports checks the reports of jobs into the files that Slurm's hooks made: each its own number and restart, in
// its own rows. The script of a heterogeneous job runs on its first component only.
func (s *system) judgeReports(silent schemas.JobKey) {
	s.t.Helper()
	for key, of := range s.rows() {
		own, _ := strconv.ParseFloat(fmt.Sprintf("%s.%d", key.JobID, key.Restart), 64) // 0: of no job
		found := 0
		for _, r := range of {
			for i := range r.Metrics {
				m := &r.Metrics[i]
				if m.Name != "own_job" {
					continue
				}
				if found++; m.Count != 1 || m.Nodes != 1 || *m.Mean != own {
					s.t.Errorf("job %s at %d reported %+v, want %v", key, r.IntervalStart, m, own)
				}
			}
		}
		if reports := own > 0 && key != silent; reports != (found > 0) {
			s.t.Errorf("job %s reported in %d of %d rows", key, found, len(of))
		}
	}
}

// slowIntervals returns the intervals in which a node did not report in time, and their neighbours. The machine was
// busy, and weir may have heard late of Slurm's actions.
func slowIntervals(rows map[schemas.JobKey][]*schemas.JobSummary) map[int64]bool {
	slow := map[int64]bool{}
	for _, of := range rows {
		for _, r := range of {
			if r.NodesReported < r.NodesExpected {
				for _, at := range []int64{-1, 0, 1} {
					slow[r.IntervalStart+at*r.IntervalMs] = true
				}
			}
		}
	}
	return slow
}

// closedLog returns the log of counters up to the last interval that all its partitions have closed.
func (s *system) closedLog() []*kgo.Record {
	s.t.Helper()
	starts, last := map[*kgo.Record]int64{}, map[int32]int64{}
	log := s.read(schemas.TopicCounters)
	for _, r := range log {
		record, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		switch v := record.(type) {
		case *schemas.CounterBatch:
			starts[r] = v.IntervalStart
		case *schemas.NodeSummary:
			starts[r] = v.IntervalStart
		case *schemas.Tick:
			starts[r], last[r.Partition] = v.IntervalStart, v.IntervalStart
		}
	}
	closed := slices.Min(slices.Collect(maps.Values(last)))
	return slices.DeleteFunc(log, func(r *kgo.Record) bool { return starts[r] > closed })
}

// coreValues returns the numbers of CPUs with and without a value in a row, by a metric that every CPU has. CPUs lack
// values if Slurm knows them and this machine does not have them.
func coreValues(r *schemas.JobSummary) (values, lacks int64) {
	for _, metric := range r.Metrics {
		if metric.Name == "cpu_user" {
			return metric.Count, metric.Invalid
		}
	}
	return 0, 0
}

// machineValues returns, by interval, of how many CPUs jobs and _rest have values.
func machineValues(rows map[schemas.JobKey][]*schemas.JobSummary) map[int64]int64 {
	all := map[int64]int64{}
	for key, of := range rows {
		for _, r := range of {
			if key.JobID != schemas.JobSystem {
				values, _ := coreValues(r)
				all[r.IntervalStart] += values
			}
		}
	}
	return all
}

package integration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// slurmCluster is a Slurm with nodes n1 to n4 of two CPUs, all on this machine.
type slurmCluster struct {
	t   *testing.T
	dir string
}

// startSlurm skips the test unless REQUIRE_SLURM is set, as make test-slurm does; then Slurm must be there.
func startSlurm(t *testing.T) *slurmCluster {
	t.Helper()
	if os.Getenv("REQUIRE_SLURM") == "" {
		t.Skip("SLURM TEST SKIPPED: jobs of a real Slurm were not followed; make test-slurm does, with Debian's slurmctld, slurmd, slurm-client and munge")
	}
	for _, command := range []string{"slurmctld", "slurmd", "munged", "squeue", "scontrol", "sbatch", "scancel", "python3"} {
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
	parent, err := os.MkdirTemp("", "weir-slurm") //nolint:usetesting // munged's user cannot reach the test's own directory
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
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(s.dir, "ready")); err == nil {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal("Slurm does not start")
		}
	}
}

func (s *slurmCluster) conf() string { return "SLURM_CONF=" + filepath.Join(s.dir, "slurm.conf") }

// run runs one of Slurm's commands.
func (s *slurmCluster) run(name string, args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
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
	return s.run("sbatch", append(args, "--wrap=sleep 600")...)
}

// nodes returns where a job runs; empty while it does not.
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
	for _, node := range []string{"n1", "n2", "n3", "n4"} {
		m.add("agent-"+node, []string{"WEIR_AGENT_NODE=" + node}, "agent", "--config", file).start()
	}
	s.eventually("rows of idle nodes", func() bool { return len(s.rows()[schemas.JobKey{JobID: schemas.JobRest}]) > 0 })

	// A user may put into a job's name what looks like another row of squeue, or another job of scontrol's.
	alone := slurm.submit("-N1", "--exclusive", "-w", "n1", "--job-name", "x|y\n1|0|RUNNING\nJobId=2 JobName=z\n     Nodes=n2 CPU_IDs=0-1 Mem=0")
	left := slurm.submit("-n1", "-c1", "-w", "n2")
	right := slurm.submit("-n1", "-c1", "-w", "n2")
	shrinks := slurm.submit("-N2", "--exclusive", "-w", "n[3-4]")
	s.wantRows(5, map[schemas.JobKey]int32{{JobID: alone}: 1, {JobID: left}: 1, {JobID: right}: 1, {JobID: shrinks}: 2})
	slurm.run("scontrol", "update", "jobid="+shrinks, "NumNodes=1")
	array := slurm.submit("-n1", "-c1", "--array=0-1", "-w", "n4")
	first := schemas.JobKey{JobID: slurm.taskID(array, 0)}
	second := schemas.JobKey{JobID: slurm.taskID(array, 1)}
	s.wantRows(4, map[schemas.JobKey]int32{first: 1, second: 1})
	s.eventually("rows of the job that shrank", func() bool {
		rows := s.rows()[schemas.JobKey{JobID: shrinks}]
		return len(rows) > 0 && rows[len(rows)-1].NodesExpected == 1
	})
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
	t.Logf("slurmd of %s was killed, and %v later its job had three intervals on %s", was, time.Since(killed).Round(time.Second), slurm.nodes(requeued))

	// A controller that hangs: its last jobs stay in force, and it is said since when.
	slurm.signal("ctld", syscall.SIGSTOP)
	list := schemas.JobKey{JobID: "_jobs-file"}
	s.eventually("word of the controller's silence", func() bool {
		j := s.jobs()[list]
		return j != nil && strings.Contains(j.Reason, "Slurm has not answered since 2")
	})
	s.wantRows(len(s.rows()[again])+3, map[schemas.JobKey]int32{again: 1})
	slurm.signal("ctld", syscall.SIGCONT)
	s.eventually("the controller's answer", func() bool { return s.jobs()[list] == nil })
	slurm.run("scancel", requeued)
	s.eventually("the end of the last job", func() bool { j, ok := s.jobs()[again]; return ok && j.State == "COMPLETED" && j.End != nil })

	s.judgeSlurm(map[schemas.JobKey][]int32{
		{JobID: alone}: {1}, {JobID: left}: {1}, {JobID: right}: {1}, {JobID: shrinks}: {1, 2}, first: {1}, second: {1},
		{JobID: big}: {3}, {JobID: requeued}: {1}, again: {1},
	})
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
	if here, there := jobs[schemas.JobKey{JobID: requeued}].Nodes, jobs[again].Nodes; slices.Equal(here, there) {
		t.Errorf("job %s ran on %v before its node was lost, and on %v after", requeued, here, there)
	}
}

// taskID returns the job id of a task of an array, once it runs.
func (s *slurmCluster) taskID(array string, task int) string {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if id := s.run("squeue", "--noheader", "--states=RUNNING", "--Format=JobID:0", fmt.Sprintf("--jobs=%s_%d", array, task)); id != "" {
			return id
		}
	}
	s.t.Fatalf("task %d of %s does not run", task, array)
	return ""
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
			maps.DeleteFunc(jobs, func(key schemas.JobKey, _ *schemas.Job) bool { return string(key.Key()) == string(r.Key) })
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

// wantRows waits until each job has so many complete rows of so many nodes.
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

// judgeSlurm looks at all rows: each job has the numbers of nodes that it may have, all of them report, and its intervals lie
// within its life and follow each other.
func (s *system) judgeSlurm(nodes map[schemas.JobKey][]int32) {
	s.t.Helper()
	rows, jobs := s.rows(), s.jobs()
	total := 0
	for key, allowed := range nodes {
		j := jobs[key]
		if j == nil || j.Start == nil {
			s.t.Errorf("job %s has no record with a start", key)
			continue
		}
		seen := map[int32]bool{}
		for i, r := range rows[key] {
			total++
			seen[r.NodesExpected] = true
			switch {
			case !slices.Contains(allowed, r.NodesExpected) || r.NodesReported != r.NodesExpected:
				s.t.Errorf("job %s at %d: %d of %d nodes reported, want of %v", key, r.IntervalStart, r.NodesReported, r.NodesExpected, allowed)
			case r.IntervalStart < *j.Start || j.End != nil && r.IntervalStart+r.IntervalMs > *j.End:
				s.t.Errorf("job %s at %d is not within its life from %d to %v", key, r.IntervalStart, *j.Start, j.End)
			case i > 0 && r.IntervalStart != rows[key][i-1].IntervalStart+r.IntervalMs:
				s.t.Errorf("job %s has no row between %d and %d", key, rows[key][i-1].IntervalStart, r.IntervalStart)
			}
			for _, metric := range r.Metrics {
				if cpus := max(1, len(j.Cpus)); len(j.Cpus) > 0 && metric.Scope == schemas.ScopeCore && metric.Count != int64(cpus)*int64(r.NodesReported) {
					s.t.Errorf("job %s at %d has %d values of %s, with CPUs %v", key, r.IntervalStart, metric.Count, metric.Name, j.Cpus)
				}
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
	s.t.Logf("%d rows of %d jobs", total, len(nodes))
}

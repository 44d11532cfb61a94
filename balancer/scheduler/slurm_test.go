package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// epoch is the second from which the rows of these tests count.
const epoch = 1_795_000_000

// dayLater is when these tests poll, whatever this machine's clock says.
var dayLater = time.Unix(epoch+86_400, 0)

func slurmConfig() config.Config {
	cfg := config.Default()
	cfg.Balance.Slurm.Enabled = true
	return cfg
}

// row is a row of squeue. Times are seconds after epoch; none where negative.
func row(id, restart int, state string, start, end int64, cpus int, nodes string, name ...string) string {
	stamp := func(s int64) string {
		if s < 0 {
			return "NONE"
		}
		return time.Unix(epoch+s, 0).UTC().Format("2006-01-02T15:04:05")
	}
	return fmt.Sprintf("%d|%d|%s|%s|%s|%s|%d|%s|UNLIMITED|OK|cpu=1,node=1,billing=1|%d|N/A|ada|batch|(null)|%s",
		id, restart, state, stamp(start), stamp(end), stamp(start), cpus, nodes, id,
		strings.Join(append(name, "cfd")[:1], ""))
}

func parsed(t *testing.T, rows ...string) []slurmRow {
	t.Helper()
	text := strings.Join(append(rows, ""), ";END\n")
	all, err := readSqueue(strings.NewReader(text), ";END\n")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestParseSqueue(t *testing.T) {
	hostile := "a|b\n2|0|RUNNING|2026-11-21T17:03:35|NONE||9|n[1-9]|root|batch||x\x1f \xff\"é"
	rows := parsed(t,
		row(17, 2, "RUNNING", 5, 605, 6, "n[2-4]", hostile),
		row(18, 0, "SUSPENDED", 5, -1, 1, "n1"),
		row(19, 0, "COMPLETING", 5, 9, 1, ""),
		row(20, 0, "CANCELLED", -1, 9, 1, ""))
	want := schemas.Job{
		JobID: "17", Restart: 2, User: "ada", Queue: "batch",
		Name:  "a|b?2|0|RUNNING|2026-11-21T17:03:35|NONE||9|n[1-9]|root|batch||x? \uFFFD\"é",
		Start: at((epoch + 5) * 1000), Submit: at((epoch + 5) * 1000),
	}
	if diff := cmp.Diff(want, rows[0].job); diff != "" || len(rows) != 4 {
		t.Errorf("%d rows\n%s", len(rows), diff)
	}
	if !slices.Equal(rows[0].hosts, []string{"n2", "n3", "n4"}) || rows[0].cpus != 6 {
		t.Errorf("nodes %v, %d CPUs", rows[0].hosts, rows[0].cpus)
	}
	for i, state := range []slurmState{slurmHolds, slurmSuspended, slurmOver, slurmOver} {
		if rows[i].state != state || rows[i].fault != "" {
			t.Errorf("row %d: state %d, fault %q", i, rows[i].state, rows[i].fault)
		}
	}
	if rows[2].job.End == nil || rows[0].job.End != nil {
		t.Error("only a job that is over has an end: that of another one is a forecast")
	}
	if rows, err := readSqueue(strings.NewReader(""), ";END\n"); err != nil || rows != nil {
		t.Errorf("no jobs: %v, %v", rows, err)
	}
}

func TestParseSqueueNamesWhatIsWrong(t *testing.T) {
	good := row(1, 0, "RUNNING", 1, -1, 1, "n1")
	for name, tt := range map[string]struct{ row, id, fault string }{
		"malformed hostlist": {row(7, 0, "RUNNING", 1, -1, 1, "n[1-"), "7", "not a hostlist"},
		"hosts without end":  {row(7, 0, "RUNNING", 1, -1, 1, "n[1-999999999]"), "7", "more than"},
		"no nodes":           {row(7, 0, "RUNNING", 1, -1, 1, ""), "7", "has no nodes"},
		"no start":           {row(7, 0, "RUNNING", -1, -1, 1, "n1"), "7", "has no start"},
		"unknown state":      {row(7, 0, "LAUNCHING", 1, -1, 1, "n1"), "7", `state "LAUNCHING"`},
		"restart": {
			strings.Replace(row(7, 0, "RUNNING", 1, -1, 1, "n1"), "|0|", "|N/A|", 1), "7",
			"restart count",
		},
		"cpus": {
			strings.Replace(row(7, 0, "RUNNING", 1, -1, 33, "n1"), "|33|", "|many|", 1), "7",
			"number of CPUs",
		},
		"time": {
			strings.Replace(row(7, 0, "RUNNING", 1, -1, 1, "n1"), "|2026-", "|26-", 1), "7",
			"not a time",
		},
		"too few fields":   {"7|0|RUNNING", noID, "3 fields instead of 17"},
		"no number":        {"JOBID|" + good, noID, "number of a job"},
		"number with sign": {"+" + good, noID, "number of a job"},
	} {
		rows := parsed(t, good, tt.row)
		if rows[0].fault != "" || rows[1].job.JobID != tt.id || !strings.Contains(rows[1].fault, tt.fault) ||
			len(rows[1].fault) > 300 {
			t.Errorf("%s: %q of job %s, want %q of %s", name, rows[1].fault, rows[1].job.JobID, tt.fault, tt.id)
		}
	}
	for name, text := range map[string]string{
		"a table":       "JOBID PARTITION NAME\n1 batch wrap\n",
		"only unusable": "JOBID;END\nx;END\n",
		"cut off":       good + ";END\n" + good[:20],
		"JSON":          `{"jobs": []}`,
	} {
		if rows, err := readSqueue(strings.NewReader(text), ";END\n"); err == nil ||
			!strings.Contains(err.Error(), "none that weir knows") {
			t.Errorf("%s: %d rows, error %v", name, len(rows), err)
		}
	}
}

// readText returns a job's allocation in scontrol's text.
func readText(id, text string) *rawAllocation {
	p := newScontrolReader(id)
	for line := range strings.Lines(text) {
		_ = p.line(strings.TrimSuffix(line, "\n"))
	}
	return p.allocation()
}

// story takes answers into a book, and says which nodes each job is planned to have.
type story struct {
	t    *testing.T
	book *slurmBook
	tree *topology.Tree
}

func newStory(t *testing.T) *story {
	t.Helper()
	b := newSlurmBook(slurmConfig())
	machine := map[string]slurmNode{}
	for i := range 9 {
		machine["n"+strconv.Itoa(i+1)] = slurmNode{cpus: 2, cores: 2, threads: 1}
	}
	b.setMachine(machine)
	return &story{t, b, topology.Flat(b.names)}
}

// at applies an answer some seconds after epoch. It returns all faults, and by job the nodes that a plan for an
// interval of ten seconds would have.
func (s *story) at(seconds, interval int64, rows ...string) (nodes map[string]string, faults []Fault) {
	s.t.Helper()
	s.book.update((epoch+seconds)*1000, parsed(s.t, rows...))
	jobs, faults := s.book.list()
	good, more := admit(s.tree, jobs, time.Unix(epoch+seconds, 0))
	nodes = map[string]string{}
	for _, j := range Planned(good, (epoch+interval)*1000, 10_000) {
		nodes[j.JobID+"/"+strconv.Itoa(int(j.Restart))] = topology.FoldHosts(j.Nodes)
	}
	return nodes, append(faults, more...)
}

func (s *story) want(seconds, interval int64, want map[string]string, rows ...string) {
	s.t.Helper()
	nodes, faults := s.at(seconds, interval, rows...)
	if diff := cmp.Diff(want, nodes); diff != "" || len(faults) > 0 {
		s.t.Errorf("at %d, planned for %d: faults %v, want (-), got (+)\n%s", seconds, interval, faults, diff)
	}
}

func TestSlurmJobsTakeNodesAtABoundary(t *testing.T) {
	s := newStory(t)
	s.want(9, 0, map[string]string{"1/0": "n[1-2]"}, row(1, 0, "RUNNING", 0, -1, 4, "n[1-2]"))
	s.want(15, 10, map[string]string{"1/0": "n[1-2]"}, row(1, 0, "RUNNING", 0, -1, 8, "n[1-4]"))
	s.want(29, 20, map[string]string{"1/0": "n[1-4]"}, row(1, 0, "RUNNING", 0, -1, 8, "n[1-4]"))
	s.want(35, 30, map[string]string{"1/0": "n1"}, row(1, 0, "RUNNING", 0, -1, 2, "n1"))
	// One moves to where another was until then: the other's past is not in its way.
	s.want(45, 40, map[string]string{"1/0": "n1"}, row(1, 0, "RUNNING", 0, -1, 2, "n1"),
		row(2, 0, "RUNNING", 41, -1, 2, "n2"))
	s.want(55, 50, map[string]string{"1/0": "n1"}, row(1, 0, "RUNNING", 0, -1, 4, "n[1-2]"),
		row(2, 0, "COMPLETED", 41, 52, 2, "n2"))
	s.want(65, 60, map[string]string{"1/0": "n[1-2]"}, row(1, 0, "RUNNING", 0, -1, 4, "n[1-2]"),
		row(2, 0, "COMPLETED", 41, 52, 2, "n2"))
	// Its own are known from the start.
	s.want(75, 70, map[string]string{"3/0": "n9"}, row(3, 0, "RUNNING", 70, -1, 2, "n9"),
		row(1, 0, "TIMEOUT", 0, 72, 4, "n1"))
}

func TestSlurmSuspended(t *testing.T) {
	s := newStory(t)
	first := row(1, 0, "RUNNING", 0, -1, 4, "n[1-2]")
	s.want(9, 0, map[string]string{"1/0": "n[1-2]"}, first)
	suspended := strings.Replace(first, "RUNNING", "SUSPENDED", 1)
	s.want(15, 10, map[string]string{}, suspended)
	// Another job has its nodes meanwhile.
	s.want(29, 20, map[string]string{"2/0": "n2"}, suspended, row(2, 0, "RUNNING", 17, -1, 2, "n2"))
	s.want(35, 30, map[string]string{}, first, row(2, 0, "COMPLETED", 17, 34, 2, "n2"))
	s.want(49, 40, map[string]string{"1/0": "n[1-2]"}, first, row(2, 0, "COMPLETED", 17, 34, 2, "n2"))
}

func TestSlurmRequeued(t *testing.T) {
	s := newStory(t)
	s.want(9, 0, map[string]string{"1/0": "n1"}, row(1, 0, "RUNNING", 0, -1, 2, "n1"))
	s.want(19, 10, map[string]string{}) // it waits, which is not asked for
	jobs, _ := s.book.list()
	if len(jobs) != 1 || jobs[0].End == nil || *jobs[0].End != (epoch+9)*1000 {
		t.Errorf("a job that is gone has not ended when it was last seen: %+v", jobs)
	}
	s.want(29, 20, map[string]string{"1/1": "n2"}, row(1, 1, "RUNNING", 18, -1, 2, "n2"))
	// Where a row cannot be told from it, nothing is gone.
	_, faults := s.at(39, 30, "1|", row(2, 0, "RUNNING", 18, -1, 2, "n3"))
	jobs, _ = s.book.list()
	if i := slices.IndexFunc(jobs, func(j Job) bool { return j.Restart == 1 }); i < 0 || jobs[i].End != nil ||
		len(faults) != 1 {
		t.Errorf("jobs %+v, faults %v", jobs, faults)
	}
	s.want(59, 50, map[string]string{"1/1": "n2"}, row(1, 1, "RUNNING", 18, -1, 2, "n2"),
		row(2, 0, "COMPLETED", 18, 50, 2, "n3"))
	// But for an earlier life of what is there.
	nodes, faults := s.at(69, 60, "?|", row(1, 2, "RUNNING", 60, -1, 2, "n2"))
	if nodes["1/2"] != "n2" || len(faults) != 1 {
		t.Errorf("nodes %v, faults %v", nodes, faults)
	}
}

func TestSlurmEnds(t *testing.T) {
	s := newStory(t)
	s.at(9, 0, row(1, 0, "RUNNING", 0, 99, 6, "n[1-3]"))
	s.at(12, 0, row(1, 0, "COMPLETING", 0, 11, 2, "n3"), row(2, 0, "FAILED", 3, 4, 2, "n9"),
		row(3, 0, "CANCELLED", -1, 4, 2, ""))
	jobs, faults := s.book.list()
	if len(jobs) != 2 || len(faults) != 0 || topology.FoldHosts(jobs[0].Nodes) != "n[1-3]" ||
		*jobs[0].End != (epoch+11)*1000 || *jobs[1].End != (epoch+4)*1000 {
		t.Errorf("%+v, faults %v", jobs, faults)
	}
	s.at(2000, 0)
	if jobs, _ := s.book.list(); len(jobs) != 0 {
		t.Errorf("no interval wants these any more: %+v", jobs)
	}
}

func TestSlurmFaultsSkipOneJob(t *testing.T) {
	good := row(1, 0, "RUNNING", 0, -1, 2, "n1")
	for name, tt := range map[string]struct {
		row    string
		id     string
		reason string
	}{
		"unknown node":      {row(2, 0, "RUNNING", 0, -1, 2, "n[9-10]"), "2", "unknown node n10"},
		"two exclusive":     {row(2, 0, "RUNNING", 3, -1, 4, "n[1-2]"), "2", "node n1 is held by job 1/0"},
		"without nodes":     {row(2, 0, "RUNNING", 3, -1, 4, ""), "2", "no nodes"},
		"a node twice":      {row(2, 0, "RUNNING", 3, -1, 4, "n2,n2"), "2", "there twice"},
		"hostile node":      {row(2, 0, "RUNNING", 3, -1, 4, "../../etc"), "2", "not a host's name"},
		"unknown CPUs":      {row(2, 0, "RUNNING", 3, -1, 1, "n2"), "2", "which CPUs it has on \"n2\""},
		"unknown version":   {"2|0", noID, "2 fields instead of 17"},
		"unknown state too": {row(2, 0, "RUNNING?", 3, -1, 4, "n2"), "2", "none that weir knows"},
	} {
		s := newStory(t)
		nodes, faults := s.at(9, 0, good, tt.row)
		if nodes["1/0"] != "n1" || len(nodes) != 1 || len(faults) != 1 || faults[0].JobID != tt.id ||
			!strings.Contains(faults[0].Reason, tt.reason) {
			t.Errorf("%s: nodes %v, faults %v, want %q", name, nodes, faults, tt.reason)
		}
		checkRecords(t, nil, faults)
	}
}

// TestSlurmPlansOnlyWhatIsHeld moves jobs about at random. At every plan, a job has the nodes on which it ran in all
// answers since the interval began, and in the one before. One seed is fixed: the test counts how often it looked.
func TestSlurmPlansOnlyWhatIsHeld(t *testing.T) {
	if checked := plansOnlyWhatIsHeld(t, 1); checked < 1000 {
		t.Fatalf("only %d nodes were checked", checked)
	}
	plansOnlyWhatIsHeld(t, uint64(time.Now().UnixNano()))
}

func plansOnlyWhatIsHeld(t *testing.T, seed uint64) (checked int) {
	t.Helper()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		s := newStory(t)
		owner := make([]int, 9) // of each node; 0: none
		started, running := map[int]int64{}, map[int]bool{}
		since := make([]int64, 9) // when an answer first had its owner running on it
		for now := int64(1); now < 120; now++ {
			before := slices.Clone(owner)
			for range rnd.IntN(3) {
				owner[rnd.IntN(9)] = rnd.IntN(4)
			}
			for n := range owner {
				if owner[n] != before[n] {
					since[n] = now
				}
			}
			if j := 1 + rnd.IntN(3); running[j] && rnd.IntN(8) == 0 {
				running[j] = false
			} else if !running[j] && rnd.IntN(3) == 0 {
				running[j] = true
				for n := range owner {
					if owner[n] == j {
						since[n] = now
					}
				}
			}
			var rows []string
			for j := 1; j <= 3; j++ {
				var nodes []string
				for n := range owner {
					if owner[n] == j {
						nodes = append(nodes, "n"+strconv.Itoa(n+1))
					}
				}
				if len(nodes) == 0 {
					delete(started, j) // its number is not used again so soon by Slurm, but by this test
					continue
				}
				state := "SUSPENDED"
				if running[j] {
					state = "RUNNING"
				}
				if _, known := started[j]; !known {
					started[j] = now
				}
				rows = append(rows, row(j, 0, state, started[j], -1, 2*len(nodes), topology.FoldHosts(nodes)))
			}
			start := now / 10 * 10
			planned, faults := s.at(now, start, rows...)
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			for key, list := range planned {
				j, _ := strconv.Atoi(key[:1])
				hosts, _ := topology.ExpandHosts(list)
				for _, h := range hosts {
					checked++
					n := int(h[1] - '1')
					if owner[n] != j || !running[j] || since[n] > start {
						t.Fatalf("at %d, for %d, job %d has %s, which is %d's since %d, running %v",
							now, start, j, h, owner[n], since[n], running[j])
					}
				}
			}
		}
	}
	return checked
}

func TestLinuxNumbersOfCPUs(t *testing.T) {
	node := slurmNode{cpus: 8, cores: 4, threads: 2}
	for _, tt := range []struct {
		node      slurmNode
		numbering string
		ids       []int32
		want      []int32
	}{
		{node, "spread", []int32{0, 1, 4, 5}, []int32{0, 2, 4, 6}},
		{node, "block", []int32{0, 1, 4, 5}, []int32{0, 1, 4, 5}},
		{node, "spread", []int32{0, 1, 2, 3, 4, 5, 6, 7}, nil},
		{slurmNode{cpus: 4, cores: 4, threads: 1}, "spread", []int32{1, 3}, []int32{1, 3}},
		// Slurm counts cores alone, and scontrol names all threads of the job's.
		{slurmNode{cpus: 2, cores: 2, threads: 2}, "spread", []int32{0, 1}, []int32{0, 2}},
		{slurmNode{cpus: 2, cores: 2, threads: 2}, "block", []int32{2, 3}, []int32{2, 3}},
		{slurmNode{cpus: 2, cores: 2, threads: 2}, "spread", []int32{0, 1, 2, 3}, nil},
		// Two sockets of two cores, of which Linux counts the cores in turn.
		{slurmNode{cpus: 8, sockets: 2, cores: 4, threads: 2}, "interleaved", []int32{0, 1, 2, 3}, []int32{0, 2, 4, 6}},
		{slurmNode{cpus: 8, sockets: 2, cores: 4, threads: 2}, "interleaved", []int32{4, 5}, []int32{1, 5}},
		{slurmNode{cpus: 6, sockets: 3, cores: 6, threads: 1}, "interleaved", []int32{1, 2, 5}, []int32{1, 3, 5}},
	} {
		if got := tt.node.linux(tt.ids, tt.numbering); !slices.Equal(got, tt.want) {
			t.Errorf("%+v, %s: %v are %v, want %v", tt.node, tt.numbering, tt.ids, got, tt.want)
		}
	}
}

// fakeSlurm is a directory with commands that print what its files hold.
type fakeSlurm struct {
	t   *testing.T
	dir string
}

const fakeSqueue = `#!/bin/sh
echo "$*" >"$0-asked"
for a; do case $a in --Format=*) end=${a##*Name:200} ;; esac; done
for f in "$0".*; do [ -e "$f" ] || continue; cat "$f"; printf '%s\n' "$end"; done
`

const fakeScontrol = `#!/bin/sh
case "$*" in
*"show config") cat "$0.config" 2>/dev/null; exit 0 ;;
*"show assoc_mgr flags=users") cat "$0.users" 2>/dev/null; exit 0 ;;
*--json*)
	if [ -e "$0.json" ]; then cat "$0.json.$7"; exit; fi
	echo "scontrol: unrecognized option '--json'" >&2
	exit 1 ;;
esac
echo "$*" >>"$0.asked"
for last; do :; done
if [ "$last" = job ]; then cat "$0".[0-9]*; else cat "$0.$last"; fi
`

func newFakeSlurm(t *testing.T) *fakeSlurm {
	t.Helper()
	f := &fakeSlurm{t, t.TempDir()}
	f.write("squeue", fakeSqueue)
	f.write("scontrol", fakeScontrol)
	f.write("sinfo", "#!/bin/sh\necho \"$*\" >\"$0-asked\"\nfor i in 1 2 3 4; do echo \"n$i|2|1|2|1\"; done\n")
	return f
}

func (f *fakeSlurm) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeSlurm) source() *SlurmSource {
	cfg := slurmConfig()
	cfg.Balance.Slurm.Bin, cfg.Balance.Slurm.Timeout = f.dir, 90*time.Second // for a busy machine
	return newSlurmSource(cfg)
}

func (f *fakeSlurm) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(f.dir, name)) // a file that is not there yet is empty
	return string(text)
}

// hang polls until something holds, and then on until the returned function ends the time of this poll and waits for
// it. A busy machine may need any time until then, so no limit in seconds would do.
func (f *fakeSlurm) hang(s *SlurmSource, what string, holds func() bool) (end func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() { s.poll(ctx, dayLater); close(ended) }()
	kafkatest.Eventually(f.t, what, holds)
	return func() {
		f.t.Helper()
		cancel()
		select {
		case <-ended:
		case <-time.After(90 * time.Second):
			f.t.Fatal("the poll goes on after its time")
		}
	}
}

// job writes a row of squeue and what scontrol shows of the job.
func (f *fakeSlurm) job(id int, cpus, node, ids, name string) {
	count := len(strings.Split(ids, ","))
	f.write("squeue."+strconv.Itoa(id), row(id, 0, "RUNNING", int64(id), -1, count, node, name))
	f.write("scontrol."+strconv.Itoa(id), fmt.Sprintf("JobId=%d JobName=%s\n   UserId=ada(7)\n   JOB_GRES=(null)\n"+
		"     Nodes=%s CPU_IDs=%s Mem=0 GRES=\n\n", id, name, node, cpus))
}

// TestMixedMachine: partitions that number their CPUs differently have a numbering each. A name that no node has is a
// fault.
func TestMixedMachine(t *testing.T) {
	f := newFakeSlurm(t)
	f.write("sinfo", "#!/bin/sh\nfor n in n1 gpu01 gpu02 fat1; do echo \"$n|8|2|2|2\"; done\n")
	for id, node := range []string{"n1", "gpu01", "gpu02", "fat1"} {
		f.job(id+1, "2-3", node, "x,y", "a")
	}
	s := f.source()
	cfg := slurmConfig()
	cfg.Balance.Slurm.CPUIDs = "spread, gpu[01,09]=block, fat1=interleaved, gpu[01-02]=spread"
	s.book = newSlurmBook(cfg)
	s.poll(t.Context(), dayLater)
	jobs, faults := s.Jobs(dayLater)
	got := map[string][]int32{}
	for _, j := range jobs {
		got[j.Nodes[0]] = j.Cpus
	}
	// Core 1 of four: spread 1 and 5, block 2 and 3. It is the second core of the first socket of two: interleaved 2
	// and 6.
	want := map[string][]int32{"n1": {1, 5}, "gpu01": {2, 3}, "gpu02": {1, 5}, "fat1": {2, 6}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	const said = "balance.slurm.cpu_ids names 1 nodes that sinfo does not show, gpu09: correct their names"
	if len(faults) != 1 || !faults[0].Followed || !strings.Contains(faults[0].Reason, said) {
		t.Errorf("faults %v, want %q", faults, said)
	}
}

func TestSlurmSourceShares(t *testing.T) {
	f := newFakeSlurm(t)
	f.job(1, "0", "n1", "x", "a")
	f.job(2, "1", "n1", "x", "b")
	f.job(3, "0-1", "n2", "x,y", "whole")
	f.write("squeue.4", row(4, 0, "RUNNING", 4, -1, 3, "n[3-4]"))
	f.write("scontrol.4", "JobId=4 HetJobId=4 JobName=d\n"+
		"     Nodes=n3 CPU_IDs=0-1 Mem=0 GRES=\n     Nodes=n4 CPU_IDs=1 Mem=0 GRES=\n")
	s := f.source()
	s.poll(t.Context(), dayLater)
	jobs, faults := s.Jobs(dayLater)
	if len(faults) > 0 || len(jobs) != 4 {
		t.Fatal(jobs, faults)
	}
	since := (epoch + int64(4)) * 1000
	for i, want := range []Job{
		{Job: schemas.Job{Cpus: []int32{0}}},
		{Job: schemas.Job{Cpus: []int32{1}}},
		{},
		{Held: map[string]Hold{"n3": {Since: since}, "n4": {Cpus: []int32{1}, Since: since}}},
	} {
		if diff := cmp.Diff(want, Job{Job: schemas.Job{Cpus: jobs[i].Cpus}, Held: jobs[i].Held}); diff != "" {
			t.Errorf("job %s\n%s", jobs[i].JobID, diff)
		}
	}
	good, faults := admit(topology.Flat(s.Nodes()), jobs, time.Unix(epoch+100, 0))
	if len(good) != 4 || len(faults) > 0 {
		t.Errorf("jobs that share nodes: %v", faults)
	}
	var held []string
	for _, j := range Planned(good, (epoch+10)*1000, 10_000) {
		for _, n := range j.Nodes {
			hold, _ := HoldOf(&j, n)
			held = append(held, fmt.Sprint(j.JobID, " ", n, hold.Cpus))
		}
	}
	if got := strings.Join(held, ", "); got != "1 n1[0], 2 n1[1], 3 n2[], 4 n3[], 4 n4[1]" {
		t.Errorf("they hold %s", got)
	}
	// What is known is not asked for again.
	s.poll(t.Context(), dayLater)
	asked, err := os.ReadFile(filepath.Join(f.dir, "scontrol.asked"))
	if err != nil || strings.Count(string(asked), "\n") != 3 || strings.Contains(string(asked), "show job\n") {
		t.Errorf("scontrol was asked %q, error %v: three jobs have parts of nodes", asked, err)
	}
}

// TestSlurmIsAskedForPlainNumbers: Slurm writes 1,024 CPUs as 1K unless it is asked not to, as slurmctld 22.05 with
// such nodes did.
func TestSlurmIsAskedForPlainNumbers(t *testing.T) {
	f := newFakeSlurm(t)
	f.source().poll(t.Context(), dayLater)
	for _, name := range []string{"squeue", "sinfo"} {
		asked, err := os.ReadFile(filepath.Join(f.dir, name+"-asked"))
		if err != nil || !slices.Contains(strings.Fields(string(asked)), "--noconvert") {
			t.Errorf("%s was asked %q, error %v", name, asked, err)
		}
	}
}

func TestSlurmBadNodesAreOneFault(t *testing.T) {
	f := newFakeSlurm(t)
	f.write("sinfo", "#!/bin/sh\nprintf 'n1|2|1|2|1\\nn2|1K|2|256|2\\nn3|0|0|0|0\\nn4|2|1|2|1\\n'\n")
	f.job(1, "0-1", "n1", "x,y", "a")
	s := f.source()
	s.poll(t.Context(), dayLater)
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != 1 || !slices.Equal(s.Nodes(), []string{"n1", "n4"}) {
		t.Errorf("jobs %v on nodes %v", jobs, s.Nodes())
	}
	if len(faults) != 1 || !faults[0].Followed || faults[0].JobID != "" ||
		!strings.Contains(faults[0].Reason, "2 lines") ||
		!strings.Contains(faults[0].Reason, "n2|1K|2|256|2") {
		t.Errorf("faults %v", faults)
	}
	f.write("sinfo", "#!/bin/sh\necho NODELIST CPUS\n")
	s = f.source()
	s.poll(t.Context(), dayLater)
	if _, faults := s.Jobs(dayLater); len(faults) != 1 || faults[0].Followed ||
		!strings.Contains(faults[0].Reason, "NODELIST") {
		t.Errorf("an answer without a node is none: faults %v", faults)
	}
}

// TestSlurmSignalledJobsGoOn: a state with a flag is shown as the flag, and squeue's filter matches RUNNING to bare
// RUNNING only.
func TestSlurmSignalledJobsGoOn(t *testing.T) {
	for _, state := range []string{"SIGNALING", "STOPPED", "RESIZING"} {
		if !slices.Contains(strings.Split(slurmStates, ","), state) {
			t.Errorf("jobs in state %s are not asked for, as if they were gone", state)
		}
		s := newStory(t)
		first := row(1, 0, "RUNNING", 0, -1, 4, "n[1-2]")
		s.want(9, 0, map[string]string{"1/0": "n[1-2]"}, first)
		s.want(15, 10, map[string]string{"1/0": "n[1-2]"}, strings.Replace(first, "RUNNING", state, 1))
		s.want(29, 20, map[string]string{"1/0": "n[1-2]"}, strings.Replace(first, "RUNNING", state, 1))
		s.want(39, 30, map[string]string{"1/0": "n[1-2]"}, first)
	}
}

// TestSlurmSaysWhenJobsAreHidden: with PrivateData=jobs squeue shows an ordinary user an idle machine, and no error.
func TestSlurmSaysWhenJobsAreHidden(t *testing.T) {
	for name, tt := range map[string]struct {
		config, users string
		uid           int
		hidden        string
	}{
		"none":   {"PrivateData             = none\n", "", 77, ""},
		"others": {"PrivateData             = accounts,usage\n", "", 77, ""},
		"jobs": {
			"PrivateData             = accounts,jobs\nSlurmUser               = slurm(64030)\n", "", 77,
			"jobs",
		},
		"nodes": {
			"PrivateData             = nodes,jobs\nSlurmUser               = slurm(64030)\n", "", 77,
			"jobs, nodes",
		},
		"root":      {"PrivateData             = jobs\n", "", 0, ""},
		"SlurmUser": {"PrivateData             = jobs\nSlurmUser               = slurm(64030)\n", "", 64030, ""},
		"operator": {
			"PrivateData             = jobs\n",
			"UserName=weir(77) DefAccount=a DefWckey= AdminLevel=Operator\n", 77, "",
		},
		"administrator": {
			"PrivateData             = jobs\n",
			"UserName=weir(77) DefAccount=a DefWckey= AdminLevel=Administrator\n", 77, "",
		},
		"no operator": {
			"PrivateData             = jobs\n",
			"UserName=weir(77) DefAccount=a DefWckey= AdminLevel=None\n", 77, "jobs",
		},
		"other operator": {
			"PrivateData             = jobs\n",
			"UserName=boss(7) DefAccount=a DefWckey= AdminLevel=Operator\n", 77, "jobs",
		},
	} {
		f := newFakeSlurm(t)
		f.write("scontrol.config", tt.config)
		f.write("scontrol.users", tt.users)
		s := f.source()
		s.uid = tt.uid
		s.poll(t.Context(), dayLater)
		_, faults := s.Jobs(dayLater)
		if tt.hidden == "" {
			if len(faults) != 0 {
				t.Errorf("%s: faults %v", name, faults)
			}
			continue
		}
		if len(faults) != 1 || !faults[0].Followed ||
			!strings.Contains(faults[0].Reason, "hides "+tt.hidden+" of others") ||
			!strings.Contains(faults[0].Reason, "AdminLevel=Operator") {
			t.Errorf("%s: faults %v", name, faults)
		}
	}
}

// TestSlurmIsAskedForBoundedTexts: Slurm cuts what a user may make long, and fills it up with blanks.
func TestSlurmIsAskedForBoundedTexts(t *testing.T) {
	f := newFakeSlurm(t)
	f.write("squeue", "#!/bin/sh\necho \"$*\" >\"$0.asked\"\n")
	f.source().poll(t.Context(), dayLater)
	asked, err := os.ReadFile(filepath.Join(f.dir, "squeue.asked"))
	if err != nil || !strings.Contains(string(asked), "NodeList:0|") ||
		!strings.Contains(string(asked), "Account:200|,Name:200;") {
		t.Errorf("squeue was asked %q, error %v", asked, err)
	}
	padded := strings.Replace(row(1, 0, "RUNNING", 1, -1, 1, "n1", "a\tb\n\xff|c"+strings.Repeat(" ", 194)), "(null)",
		"phys"+strings.Repeat(" ", 196), 1)
	long := row(2, 0, "RUNNING", 1, -1, 1, "n2", strings.Repeat("é", 99)+"x\xc3")
	rows := parsed(t, padded, long)
	if j := rows[0].job; j.Name != "a?b?\ufffd|c" || j.Account != "phys" {
		t.Errorf("%q of %q", j.Name, j.Account)
	}
	if j := rows[1].job; !utf8.ValidString(j.Name) || len(j.Name) > maxShownBytes+3 || rows[1].fault != "" {
		t.Errorf("%q, %s", j.Name, rows[1].fault)
	}
}

// TestSlurmSourceIsNotFooled has a user whose job's name holds lines of squeue and of scontrol about another's job.
func TestSlurmSourceIsNotFooled(t *testing.T) {
	f := newFakeSlurm(t)
	f.job(1, "0", "n1", "x", "evil\nJobId=2 JobName=x\n     Nodes=n2 CPU_IDs=1 Mem=0 GRES=\n"+
		row(2, 0, "RUNNING", 1, -1, 2, "n3"))
	f.job(2, "0", "n2", "x", "victim")
	f.job(3, "0", "n3", "x", "evil too\n     Nodes=n3 CPU_IDs=1 Mem=0 GRES=")
	s := f.source()
	s.poll(t.Context(), dayLater)
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != 1 || jobs[0].JobID != "2" || !slices.Equal(jobs[0].Nodes, []string{"n2"}) ||
		!slices.Equal(jobs[0].Cpus, []int32{0}) {
		t.Errorf("jobs %+v", jobs)
	}
	ids := []string{}
	for _, f := range faults {
		ids = append(ids, f.JobID)
	}
	if !slices.Equal(ids, []string{"1", "3"}) {
		t.Errorf("faults %v: only who disturbs the output is left out", faults)
	}
}

func TestSlurmSourceKeepsItsLastJobs(t *testing.T) {
	long, short := 90*time.Second, 200*time.Millisecond
	for name, tt := range map[string]struct {
		squeue, reason string
		timeout        time.Duration
	}{
		"hangs": {"#!/bin/sh\nexec sleep 60\n", "no answer within 200ms", short},
		"child": {"#!/bin/sh\nsleep 60\n", "no answer within 200ms", short},
		"fails": {
			"#!/bin/sh\necho slurm_load_jobs error: Unable to contact >&2\nexit 1\n", "Unable to contact", long,
		},
		"unknown":  {"#!/bin/sh\necho JOBID PARTITION\n", "none that weir knows", long},
		"cut off":  {"#!/bin/sh\nprintf 1\n", "none that weir knows", long},
		"no shell": {"#!/nowhere\n", "starting squeue", long},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeSlurm(t)
			f.job(1, "0-1", "n1", "x,y", "a")
			s := f.source()
			s.poll(t.Context(), dayLater)
			before, faults := s.Jobs(dayLater)
			if len(before) != 1 || len(faults) > 0 {
				t.Fatal(before, faults)
			}
			f.write("squeue", tt.squeue)
			s.cfg.Timeout = tt.timeout
			started := time.Now()
			s.poll(t.Context(), dayLater)
			if d := time.Since(started); d > 30*time.Second { // half of what squeue would take
				t.Errorf("the poll took %v", d)
			}
			after, faults := s.Jobs(dayLater)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Error(diff)
			}
			if len(faults) != 1 || faults[0].JobID != "" || !strings.Contains(faults[0].Reason, tt.reason) ||
				!strings.Contains(faults[0].Reason, "since "+s.good.UTC().Format("2006-01-02T")) {
				t.Errorf("faults %v, want %q", faults, tt.reason)
			}
			f.write("squeue", fakeSqueue)
			s.cfg.Timeout = long
			s.poll(t.Context(), dayLater)
			if again, faults := s.Jobs(dayLater); len(faults) > 0 || len(again) != 1 {
				t.Errorf("it answers again: %v, %v", again, faults)
			}
		})
	}
}

// TestSlurmSourceAsksAloneInTurn: users whose jobs' names make them unreadable do not keep weir from asking for
// another's.
func TestSlurmSourceAsksAloneInTurn(t *testing.T) {
	f := newFakeSlurm(t)
	const hostile = 2 * askedAgain
	for id := range hostile {
		f.job(1+id, "0", "n1", "x", "hostile\n     Nodes=n1 CPU_IDs=0 Mem=0 GRES=")
	}
	s := f.source()
	for range 2 {
		s.poll(t.Context(), dayLater)
	}
	if asked := strings.Count(f.read("scontrol.asked"), "\n"); asked != hostile+askedAgain {
		t.Errorf("scontrol was asked %d times: once for each job, and %d times again", asked, askedAgain)
	}
	f.job(99, "0", "n2", "x", "victim")
	s.poll(t.Context(), dayLater)
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != 1 || jobs[0].JobID != "99" || len(faults) != hostile ||
		!strings.Contains(faults[0].Reason, "looks like scontrol's own lines") {
		t.Errorf("jobs %+v, faults %v", jobs, faults)
	}
}

// TestSlurmNewJobsWaitInTurn: a user may start more jobs than a poll can ask for. They keep out no job that came before
// them, at any place in the output of squeue.
func TestSlurmNewJobsWaitInTurn(t *testing.T) {
	f := newFakeSlurm(t)
	s := f.source()
	s.cfg.Poll = time.Nanosecond
	s.poll(t.Context(), dayLater)
	f.job(9_000, "1", "n2", "1", "patient")
	for poll := range 4 {
		for i := range 2 * askedAgain {
			f.job(1_000+100*poll+i, "0", "n1", "0", "short")
			_ = os.Remove(filepath.Join(f.dir, fmt.Sprint("squeue.", 900+100*poll+i)))
		}
		s.poll(t.Context(), dayLater)
	}
	jobs, _ := s.Jobs(dayLater)
	if !slices.ContainsFunc(jobs, func(j Job) bool { return j.JobID == "9000" }) {
		t.Errorf("the job still waits, and %d others do not", len(jobs))
	}
}

// TestSlurmIsNeverAskedForAllJobs: the answer for all lists every pending job, and any user may forge a record of
// another's job in it. At a start all jobs on shared nodes are new, and the list counts as read only after all were
// asked for.
func TestSlurmIsNeverAskedForAllJobs(t *testing.T) {
	f := newFakeSlurm(t)
	const many = 5 * askedAgain
	f.write("sinfo", "#!/bin/sh\nfor i in $(seq 99); do echo \"n$i|2|1|2|1\"; done\n")
	for id := range many {
		f.job(1+id, "1", "n"+strconv.Itoa(1+id), "x", "b")
	}
	s := f.source()
	s.cfg.Poll = time.Nanosecond // for asking, in all polls but the first one
	s.poll(t.Context(), dayLater)
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != many || len(faults) != 0 {
		t.Errorf("%d jobs, faults %v", len(jobs), faults)
	}
	if asked := f.read("scontrol.asked"); strings.Contains(asked, "show job\n") || strings.Count(asked, "\n") != many {
		t.Errorf("scontrol was asked %q", asked)
	}
}

// TestSlurmListGoesOnWhileManyJobsAreAskedFor: each poll learns some of many new jobs on shared nodes. Others go on.
func TestSlurmListGoesOnWhileManyJobsAreAskedFor(t *testing.T) {
	f := newFakeSlurm(t)
	f.job(1, "0-1", "n1", "x,y", "whole")
	s := f.source()
	s.poll(t.Context(), dayLater)
	const many = 2*askedAgain + 3
	for id := range many {
		f.job(100+id, "1", "n"+strconv.Itoa(2+id), "x", "b")
	}
	f.write("sinfo", "#!/bin/sh\nfor i in $(seq 50); do echo \"n$i|2|1|2|1\"; done\n")
	f.write("squeue.1", row(1, 0, "COMPLETED", 1, 50, 2, "n1"))
	s.cfg.Poll = time.Nanosecond
	for i, want := range []int{askedAgain, 2 * askedAgain, many} {
		s.poll(t.Context(), dayLater)
		jobs, faults := s.Jobs(dayLater)
		if len(jobs) != want || jobs[0].JobID == "1" || len(faults) != many-want { // job 1 ended long ago
			t.Fatalf("poll %d: %d jobs, want %d; faults %v", i, len(jobs), want, faults)
		}
	}
}

// TestSlurmFirstListWaitsForAllJobs: a list without the jobs that were not asked for would end them on the Routes. The
// next poll continues where the last one ran out of time.
func TestSlurmFirstListWaitsForAllJobs(t *testing.T) {
	f := newFakeSlurm(t)
	const many = 2 * askedAgain
	f.write("sinfo", "#!/bin/sh\nfor i in $(seq 99); do echo \"n$i|2|1|2|1\"; done\n")
	for id := range many {
		f.job(1+id, "1", "n"+strconv.Itoa(1+id), "x", "b")
	}
	f.write("scontrol", strings.Replace(fakeScontrol, "for last", `case "$*" in
*"show job 20") [ -e "$0.hung" ] || { echo >"$0.hung"; exec sleep 60; } ;;
esac
for last`, 1))
	s := f.source()
	f.hang(s, "scontrol", func() bool { return f.read("scontrol.hung") != "" })()
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != 0 || len(faults) != 1 || !faults[0].Unread ||
		!strings.Contains(faults[0].Reason, "jobs on shared nodes are still to be asked for") {
		t.Fatalf("jobs %v, faults %v", jobs, faults)
	}
	s.poll(t.Context(), dayLater)
	if jobs, faults := s.Jobs(dayLater); len(jobs) != many || len(faults) != 0 {
		t.Errorf("%d jobs, faults %v", len(jobs), faults)
	}
	if asked := strings.Count(f.read("scontrol.asked"), "\n"); asked != many+1 {
		t.Errorf("scontrol was asked %d times: those learnt are not asked for again", asked)
	}
}

// TestSlurmPartsOfArraysAndHeterogeneousJobs: by the number of such a job Slurm shows its other parts, too.
func TestSlurmPartsOfArraysAndHeterogeneousJobs(t *testing.T) {
	f := newFakeSlurm(t)
	text := func(id int, node string) string {
		return fmt.Sprintf("JobId=%d JobName=x\n   JobState=RUNNING\n     Nodes=%s CPU_IDs=1 Mem=0 GRES=\n\n", id, node)
	}
	task := strings.Replace(row(17, 0, "RUNNING", 1, -1, 1, "n1"), "|17|N/A|", "|17|3|", 1)
	f.write("squeue.17", task)
	f.write("scontrol.17", text(18, "n2")+text(17, "n1"))
	f.write("scontrol.17_3", text(17, "n1"))
	f.write("squeue.18", row(18, 0, "RUNNING", 1, -1, 1, "n2"))
	f.write("scontrol.18", text(18, "n2")+text(19, "n3"))
	f.write("scontrol.18+0", text(18, "n2"))
	f.write("squeue.19", row(19, 0, "RUNNING", 1, -1, 1, "n3"))
	f.write("scontrol.19", text(20, "n3")) // another job's
	s := f.source()
	s.poll(t.Context(), dayLater)
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != 2 || jobs[0].JobID != "17" || jobs[1].JobID != "18" || len(faults) != 1 || faults[0].JobID != "19" {
		t.Errorf("jobs %+v, faults %v", jobs, faults)
	}
}

// TestSlurmJobWithTooMuchJSON: JSON lists each core of each node, and each task of an array. If that is too much, the
// job keeps its CPUs, and the next job is asked for by JSON again.
func TestSlurmJobWithTooMuchJSON(t *testing.T) {
	f := newFakeSlurm(t)
	f.job(17, "1", "n1", "1", "x")
	f.job(18, "1", "n2", "1", "x")
	f.write("scontrol.json", "")
	f.write("scontrol.json.17", "{")
	f.write("scontrol.json.18", `{"jobs": [{"job_id": 18, "restart_cnt": 0, "job_resources": {"nodes": {`+
		`"allocation": [{"name": "n2", "sockets": [{"index": 0, "cores": [{"index": 1, `+
		`"status": ["ALLOCATED"]}]}]}]}}}]}`)
	if err := os.Truncate(filepath.Join(f.dir, "scontrol.json.17"), maxJSONBytes+2); err != nil {
		t.Fatal(err)
	}
	s := f.source()
	s.poll(t.Context(), dayLater)
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != 2 || len(faults) > 0 || !slices.Equal(jobs[0].Cpus, []int32{1}) {
		t.Errorf("jobs %+v, faults %v", jobs, faults)
	}
	if asked := f.read("scontrol.asked"); strings.Contains(asked, "show job 18") {
		t.Errorf("text was asked for: %q", asked)
	}
}

// TestSlurmRowsAreReadOneByOne: no number of rows is too much, and a row without end costs its job only.
func TestSlurmRowsAreReadOneByOne(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	f := newFakeSlurm(t)
	const many = 120_000
	name := strings.Repeat("x", 200)
	f.write("squeue", fmt.Sprintf(`#!/bin/sh
for a; do case $a in --Format=*) end=${a##*Name:200} ;; esac; done
awk -v end="$end" 'BEGIN {
	for (i = 1; i <= %d; i++)
		printf "%%d|0|COMPLETED|2026-11-18T11:06:40|2026-11-18T11:07:40|2026-11-18T11:06:40|2|n1|UNLIMITED|OK|"\
			"cpu=1,node=1|%%d|N/A|ada|batch|%%-200s|%s%%s\n", i, i, "phys", end
	printf "200001|7|RUNNING|2026-11-18T11:06:40|NONE|NONE|2|n1"
	for (i = 0; i < 300000; i++) printf ",n123456789012"
	printf "%%s\n200002|0|RUNNING|2026-11-18T11:06:40|NONE|NONE|2|n2|UNLIMITED|OK||1|N/A|ada|batch||%%s\n", end, end
}'
`, many, name))
	s := f.source()
	s.poll(t.Context(), time.Unix(epoch, 0))
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != many+1 || len(faults) != 1 || faults[0].JobID != "200001" || faults[0].Restart != 7 ||
		!strings.Contains(faults[0].Reason, "longer than 4 MiB") {
		t.Fatalf("%d jobs, faults %.300v", len(jobs), faults)
	}
}

// TestSlurmPollsFollowTheDurationOfTheLast: a controller that takes its time for an answer is not asked all the time.
func TestSlurmPollsFollowTheDurationOfTheLast(t *testing.T) {
	f := newFakeSlurm(t)
	// The fourth answer never comes, so that no process writes here when the test is over.
	f.write("squeue", `#!/bin/sh
echo >>"$0-polls"
[ $(wc -l <"$0-polls") -lt 4 ] || exec sleep 60
exec sleep 0.1
`)
	cfg := slurmConfig()
	cfg.Balance.Slurm.Bin, cfg.Balance.Slurm.Poll = f.dir, 10*time.Millisecond
	started := time.Now()
	StartSlurm(t.Context(), cfg)
	kafkatest.Eventually(t, "the fourth poll", func() bool { return len(f.read("squeue-polls")) >= 4 })
	if d := time.Since(started); d < 3*2*100*time.Millisecond {
		t.Errorf("three polls of 0.1 s each, and the pauses after them, took %v together", d)
	}
}

// TestSlurmSourceKeepsJobsWhereAPollRunsOutOfTime: of a job that was moved nothing is known until Slurm says it.
func TestSlurmSourceKeepsJobsWhereAPollRunsOutOfTime(t *testing.T) {
	f := newFakeSlurm(t)
	f.job(1, "0", "n1", "x", "a")
	s := f.source()
	s.poll(t.Context(), dayLater)
	f.job(1, "0", "n2", "x", "a")
	f.write("scontrol",
		"#!/bin/sh\nfor last; do :; done\n[ \"$last\" = job ] || { echo >\"$0-hangs\"; exec sleep 60; }\n")
	f.hang(s, "scontrol", func() bool { return f.read("scontrol-hangs") != "" })()
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != 1 || !slices.Equal(jobs[0].Nodes, []string{"n1"}) || len(faults) != 1 ||
		!strings.Contains(faults[0].Reason, "no answer within 1m30s") {
		t.Errorf("jobs %+v, faults %v", jobs, faults)
	}
}

// TestSlurmSourceIsNotHeldByADaemon that a site's script around Slurm's commands started, and that keeps what it prints
// open.
func TestSlurmSourceIsNotHeldByADaemon(t *testing.T) {
	f := newFakeSlurm(t)
	f.write("squeue", "#!/bin/sh\nsetsid sh -c 'echo $$ >'$0'.child; exec sleep 300' 2>/dev/null &\nexit 0\n")
	s := f.source()
	child := 0
	f.hang(s, "the daemon", func() bool { child = f.child(); return child > 0 })()
	if _, faults := s.Jobs(dayLater); len(faults) != 1 ||
		!strings.Contains(faults[0].Reason, "no answer within 1m30s") {
		t.Error(faults)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Errorf("the daemon, process %d, was not to be ended: %v", child, err)
	}
}

// child returns the process that squeue has written down, or 0.
func (f *fakeSlurm) child() int {
	line, complete := strings.CutSuffix(f.read("squeue.child"), "\n")
	child, err := strconv.Atoi(line)
	if !complete || err != nil {
		return 0
	}
	return child
}

// alive reports whether a process runs. One that is dead and not yet waited for does not.
func alive(process int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestSlurmSourceNeverBlocks(t *testing.T) {
	f := newFakeSlurm(t)
	f.write("squeue", "#!/bin/sh\nsleep 300 &\necho $! >$0.child\nwait\n") // a site's own, around Slurm's
	s := f.source()
	child := 0
	end := f.hang(s, "squeue", func() bool { child = f.child(); return child > 0 })
	s.Jobs(dayLater)
	if !alive(child) {
		t.Error("Jobs waited for squeue, which hung")
	}
	end()
	if _, faults := s.Jobs(dayLater); len(faults) != 1 || !strings.Contains(faults[0].Reason, "since weir started") ||
		!faults[0].Unread {
		t.Error(faults)
	}
	kafkatest.Eventually(t, "the end of what squeue started", func() bool { return !alive(child) })
}

func FuzzSlurmAnswers(f *testing.F) {
	f.Add(row(1, 0, "RUNNING", 0, -1, 1, "n[1-2]")+";END\n",
		"JobId=1 JobName=x\n     Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=\n")
	f.Add(row(1, 0, "COMPLETED", 9, 3, 1, "n1")+";END\n"+row(1, 0, "SUSPENDED", 0, -1, 1, "n1")+";END\n",
		"     Nodes=\nJobId=\n")
	f.Add("||||||||||||;END\n", "JobId=1 \n     Nodes=n1 CPU_IDs=65536 \n     Nodes=n1 CPU_IDs=0-99999999 ")
	f.Fuzz(func(t *testing.T, squeue, scontrol string) {
		rows, err := readSqueue(strings.NewReader(squeue), ";END\n")
		if err != nil {
			return
		}
		s := newStory(t)
		b := s.book
		allocations := map[string]*rawAllocation{}
		for i := range rows {
			id := rows[i].job.JobID
			allocations[id] = readText(id, scontrol)
		}
		for range 2 {
			b.learn(b.unknownAllocations(rows), allocations)
			b.update(epoch*1000, rows)
		}
		jobs, faults := b.list()
		good, more := admit(s.tree, jobs, time.Unix(epoch, 0))
		checkRecords(t, good, append(faults, more...))
		for _, j := range Planned(good, epoch*1000, 10_000) {
			for _, n := range j.Nodes {
				if hold, ok := HoldOf(&j, n); !ok || len(hold.Cpus) > 0 && slices.Max(hold.Cpus) >= maxCPUs {
					t.Fatalf("job %s holds %v of %s", j.JobID, hold, n)
				}
			}
		}
	})
}

func BenchmarkSlurmTake(b *testing.B) {
	book := newSlurmBook(slurmConfig())
	machine := map[string]slurmNode{}
	var text strings.Builder
	for j := range 16_000 {
		nodes := fmt.Sprintf("n[%06d-%06d]", 6*j, 6*j+5)
		hosts, _ := topology.ExpandHosts(nodes)
		for _, h := range hosts {
			machine[h] = slurmNode{cpus: 128, cores: 64, threads: 2}
		}
		text.WriteString(row(j+1, 0, "RUNNING", 0, -1, 6*128, nodes) + ";END\n")
	}
	book.setMachine(machine)
	for b.Loop() {
		rows, err := readSqueue(strings.NewReader(text.String()), ";END\n")
		if err != nil || book.strange(rows) || len(book.unknownAllocations(rows)) > 0 {
			b.Fatal(err)
		}
		book.update(epoch*1000+50_000, rows)
		if jobs, _ := book.list(); len(jobs) != 16_000 {
			b.Fatal(len(jobs))
		}
	}
}

package integration

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"
)

var trustRuns = flag.Bool("trust", false, "let one node, one job and one file try to spoil the others")

const (
	trustCPUs   = 32 // of a simulated node
	holderNode  = 12 // index of the node with a user who writes false records
	sharedCPUs  = 8  // of each job that shares a node
	jobsOfNode  = trustCPUs / sharedCPUs
	trustPhases = 8 // least number of intervals in a phase
)

// victim is a job of an honest user.
type victim struct {
	id    string
	nodes []string
	cpus  []int32
}

// trust is a live installation with victims. One part of it at a time turns against the others.
type trust struct {
	*system
	m        *machine
	services map[string]*process
	slurm    *fakeSlurm
	mount    string // directory of the jobs file
	victims  []victim
	forgers  []string // ids of jobs that have forged names, and sharedCPUs each
	fakes    []fakeJob
	life     string // of the job that uses its id again, as YAML; empty: no such job
}

// TestTrust compares everybody's rows with their true values. Meanwhile a job's name is forged, a node sends false
// records, and a job uses the id of another. Then the file system of the jobs file hangs, and a file of an old date is
// damaged.
func TestTrust(t *testing.T) {
	if !*trustRuns {
		t.Skip("SKIPPED: NOBODY TRIED TO SPOIL THE OTHERS' ROWS: make hostile does")
	}
	v := newTrust(t)
	for _, p := range v.services {
		p.start()
	}
	v.eventually("the first summaries of all", func() bool {
		rows := v.rows()
		return !slices.ContainsFunc(v.victims, func(j victim) bool {
			return len(rows[schemas.JobKey{JobID: j.id}]) == 0
		})
	})
	for _, phase := range []struct {
		name string
		run  func()
	}{
		{"quiet", func() {}},
		{"forged names", v.forgedNames},
		{"a hostile node", v.hostileNode},
		{"a namesake", v.namesake},
		{"a hung jobs file", v.hungFile},
		{"a damaged old date", v.damagedDate},
	} {
		t.Run(phase.name, func(t *testing.T) {
			began := time.Now()
			v.t = t
			from := v.after(began)
			phase.run()
			v.waitFor(from)
			v.undisturbed(from)
			t.Logf("%.0f s", time.Since(began).Seconds())
		})
	}
	v.t = t
	if n := v.m.listen().panics; n > 0 {
		t.Errorf("%d panics", n)
	}
}

func newTrust(t *testing.T) *trust {
	t.Helper()
	v := &trust{m: newMachine(t), mount: filepath.Join(t.TempDir(), "mount")}
	if err := os.Mkdir(v.mount, 0o700); err != nil {
		t.Fatal(err)
	}
	nodes := producers.SimulatedNodes(simulated)
	v.slurm = newFakeSlurm(t, nodes[:holderNode], trustCPUs)
	at, _ := v.m.findBrokers()
	v.system = systemOn(t, at)
	v.cfg.Balance.JobsFile = filepath.Join(v.mount, "jobs.yaml")
	v.cfg.Balance.Slurm.Enabled, v.cfg.Balance.Slurm.Bin = true, v.slurm.dir
	v.cfg.Balance.Slurm.Poll, v.cfg.Balance.Slurm.Timeout = 500*time.Millisecond, 5*time.Second
	v.cfg.Balance.LMax = simulated

	// Each node of Slurm's is shared by four jobs: they are more than scontrol is asked for one by one.
	began := time.Now().Add(-time.Minute).Truncate(time.Second)
	for n, node := range nodes[:holderNode] {
		for part := range jobsOfNode {
			first := part * sharedCPUs
			j := fakeJob{
				ID: 100 + 10*n + part, Node: node, Cpus: fmt.Sprintf("%d-%d", first, first+sharedCPUs-1),
				Count: sharedCPUs, Name: "cfd", Start: began,
			}
			v.fakes = append(v.fakes, j)
			v.victims = append(v.victims, victim{fmt.Sprint(j.ID), []string{node}, cpusOf(first, first+sharedCPUs)})
		}
	}
	v.slurm.set(v.fakes...)
	v.victims = append(v.victims, victim{"big", nodes[holderNode+1 : holderNode+9], cpusOf(0, trustCPUs)},
		victim{"steady", nodes[holderNode+9 : holderNode+10], cpusOf(0, trustCPUs)})
	v.listJobs()
	file := v.configFile()
	v.services = map[string]*process{}
	add := func(name string, args ...string) {
		kind, instance, _ := strings.Cut(name, "-")
		v.services[name] = v.m.add(name, []string{"WEIR_INSTANCE=" + instance},
			append([]string{kind, "--config", file}, args...)...)
	}
	add("simulate-a", "--nodes", fmt.Sprint(simulated))
	for _, instance := range []string{"a", "b"} {
		add("balance-" + instance)
		add("collect-" + instance)
		add("merge-" + instance)
		add("sink-" + instance)
	}
	return v
}

// configFile is the system's, with the nodes of the machine: no flag of the balancer names them.
func (v *trust) configFile() string {
	v.t.Helper()
	text, err := v.cfg.YAML()
	file := filepath.Join(v.t.TempDir(), "weir.yaml")
	if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		v.t.Fatal(err)
	}
	return file
}

func cpusOf(from, to int) (cpus []int32) {
	for c := from; c < to; c++ {
		cpus = append(cpus, int32(c))
	}
	return cpus
}

// listJobs writes the jobs file: a job of eight nodes and the node beside them, a job of one node, and the namesake.
func (v *trust) listJobs() {
	v.t.Helper()
	nodes := producers.SimulatedNodes(simulated)
	text := fmt.Sprintf("jobs:\n  - {id: big, nodes: [%s]}\n  - {id: steady, nodes: [%s]}\n"+
		"  - {id: held, nodes: [%s, %s]}\n%s", strings.Join(nodes[holderNode+1:holderNode+9], ", "),
		nodes[holderNode+9], nodes[holderNode], nodes[holderNode+10], v.life)
	file := v.cfg.Balance.JobsFile
	if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
		v.t.Fatal(err)
	}
}

// after returns the first interval that begins after a time, with one between.
func (v *trust) after(at time.Time) int64 {
	ms := v.cfg.Interval.Milliseconds()
	return at.UnixMilli()/ms*ms + 2*ms
}

// waitFor waits until as many intervals from one on as a phase takes at least have their rows.
func (v *trust) waitFor(from int64) {
	v.t.Helper()
	last := from + trustPhases*v.cfg.Interval.Milliseconds()
	v.eventually("rows of the phase's last interval", func() bool {
		rows := v.rows()[schemas.JobKey{JobID: schemas.JobSystem}]
		return len(rows) > 0 && rows[len(rows)-1].IntervalStart >= last
	})
}

// undisturbed holds every victim to a row of true values for each interval from one on, and forgers to their own CPUs.
func (v *trust) undisturbed(from int64) {
	v.t.Helper()
	rows, ms := v.rows(), v.cfg.Interval.Milliseconds()
	system := rows[schemas.JobKey{JobID: schemas.JobSystem}]
	to := system[len(system)-1].IntervalStart - ms // later ones may be on their way
	for _, j := range v.victims {
		at := map[int64]*schemas.JobSummary{}
		for _, r := range rows[schemas.JobKey{JobID: j.id}] {
			if at[r.IntervalStart] != nil {
				v.t.Errorf("job %s has two rows of %d", j.id, r.IntervalStart)
			}
			at[r.IntervalStart] = r
		}
		complete := int64(0)
		for s := from; s < to; s += ms {
			switch err := j.check(at[s]); {
			case err == nil:
				complete++
			case !errors.Is(err, errIncomplete):
				v.t.Errorf("job %s, interval %d: %v", j.id, s, err)
			}
		}
		// The process that simulates the nodes may miss a boundary on a busy machine.
		if all := (to - from) / ms; complete < all/2 {
			v.t.Errorf("job %s has %d complete rows in %d intervals", j.id, complete, all)
		}
	}
	for _, id := range v.forgers {
		for _, r := range rows[schemas.JobKey{JobID: id}] {
			for _, m := range r.Metrics {
				if m.Count+m.Invalid > sharedCPUs {
					v.t.Errorf("job %s, interval %d: %d values of %s, where its CPUs have %d", id, r.IntervalStart,
						m.Count+m.Invalid, m.Name, sharedCPUs)
				}
			}
		}
	}
	v.wholeMachine(system, from, to)
}

// wholeMachine requires _system to contain all metrics, and all nodes except the held one.
func (v *trust) wholeMachine(rows []*schemas.JobSummary, from, to int64) {
	v.t.Helper()
	seen := int64(0)
	for _, r := range rows {
		if r.IntervalStart < from || r.IntervalStart >= to || r.NodesReported < simulated {
			continue
		}
		seen++
		metrics := map[string]*schemas.JobSummaryMetric{}
		for i := range r.Metrics {
			metrics[r.Metrics[i].Name] = &r.Metrics[i]
		}
		for name, unit := range map[string]string{
			"sim_normal": "1", "sim_memory": "B", "sim_load": "1", "sim_tail": "1/s", "sim_tied": "1",
		} {
			switch m := metrics[name]; {
			case m == nil:
				v.t.Errorf("interval %d: _system lacks %s", r.IntervalStart, name)
			case m.Unit != unit || m.Nodes < simulated-1:
				v.t.Errorf("interval %d: %s of _system has unit %s, and values of %d nodes of %d", r.IntervalStart,
					name, m.Unit, m.Nodes, simulated)
			}
		}
	}
	if all := (to - from) / v.cfg.Interval.Milliseconds(); seen < all/2 {
		v.t.Errorf("%d rows of _system in %d intervals have all nodes", seen, all)
	}
}

var errIncomplete = errors.New("incomplete")

// check holds a row to the values that the simulated nodes measure.
func (j *victim) check(r *schemas.JobSummary) error {
	const metric = "sim_normal"
	switch {
	case r == nil:
		return errors.New("no row")
	case int(r.NodesExpected) != len(j.nodes):
		return fmt.Errorf("%d nodes expected, of %d", r.NodesExpected, len(j.nodes))
	case r.NodesReported < r.NodesExpected:
		return errIncomplete
	}
	var values []float64
	for _, node := range j.nodes {
		for _, cpu := range j.cpus {
			values = append(values, producers.SimulatedValue(node, metric, int(cpu), r.IntervalStart))
		}
	}
	slices.Sort(values)
	for _, m := range r.Metrics {
		if m.Name != metric {
			continue
		}
		switch {
		case int(m.Count) != len(values):
			return fmt.Errorf("%d values of %s, where its CPUs have %d", m.Count, metric, len(values))
		case math.Abs(*m.Mean-mean(values)) > 1e-9*math.Abs(*m.Mean):
			return fmt.Errorf("mean %v of %s, where its CPUs have %v", *m.Mean, metric, mean(values))
		case (*m.Deciles)[0] != values[0] || (*m.Deciles)[10] != values[len(values)-1]:
			return fmt.Errorf("%s from %v to %v, where its CPUs have %v to %v", metric, (*m.Deciles)[0],
				(*m.Deciles)[10], values[0], values[len(values)-1])
		}
		return nil
	}
	return fmt.Errorf("no %s among %d metrics", metric, len(r.Metrics))
}

// forgedNames gives the first job of four nodes a forged name each, and makes both balancers start anew: all jobs are
// new to them. A forger may lose its own rows. It gets no CPU of another job.
func (v *trust) forgedNames() {
	nodes := producers.SimulatedNodes(simulated)
	swapped := strings.Builder{}
	for part := 1; part < 4; part++ { // the others of its node, in each other's places
		first := (part%3 + 1) * sharedCPUs
		fmt.Fprintf(&swapped, "\n\nJobId=%d JobName=z\n   SLUID=s%d\n     Nodes=%s CPU_IDs=%d-%d Mem=0 GRES=",
			v.fakes[4].ID+part, part, nodes[1], first, first+sharedCPUs-1)
	}
	for i, name := range []string{
		fmt.Sprintf("x\n     Nodes=%s CPU_IDs=0-%d Mem=0 GRES=gpu:4(IDX:0-3)\n\nJobId=4000000000 JobName=y",
			nodes[0], trustCPUs-1),
		"x" + swapped.String() + "\n\nJobId=4000000000 JobName=y",
		fmt.Sprintf("x;\n%d|0|RUNNING|2026-01-01T00:00:00|NONE||32|%s|", v.fakes[9].ID, nodes[2]),
		"a\nb|c\td\x00e\u2028" + strings.Repeat("é", 600),
	} {
		v.fakes[i*jobsOfNode].Name = name
	}
	for _, part := range []string{"balance-a", "balance-b"} {
		v.services[part].kill()
	}
	v.slurm.set(v.fakes...)
	for _, part := range []string{"balance-a", "balance-b"} {
		v.services[part].start()
	}
	for i := range 4 {
		forger := fmt.Sprint(v.fakes[i*jobsOfNode].ID)
		v.victims = slices.DeleteFunc(v.victims, func(j victim) bool { return j.id == forger })
		v.forgers = append(v.forgers, forger)
	}
	v.waitFor(v.after(time.Now()))
}

// hostileNode writes records in the name of one node, for its own job and for _rest, before the node's own records.
func (v *trust) hostileNode() {
	node := producers.SimulatedNodes(simulated)[holderNode]
	var entry *schemas.RouteEntry
	v.eventually("a Route of the node", func() bool {
		if r := v.route(node); r != nil && len(r.Entries) > 0 {
			entry = &r.Entries[0]
		}
		return entry != nil
	})
	normal := schemas.CounterBatchMetric{
		Name: "sim_normal", Unit: "1", Scope: schemas.ScopeCore, Values: []float64{50},
	}
	lie := func(change func(b *schemas.CounterBatch)) []byte {
		ms := v.cfg.Interval.Milliseconds()
		b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: v.cfg.Cluster, Node: node, JobID: entry.JobID, Restart: entry.Restart, RunID: "hostile",
			IntervalStart: time.Now().UnixMilli() / ms * ms, IntervalMs: ms, Cpus: []int32{0},
		}, Metrics: []schemas.CounterBatchMetric{normal}}
		change(b)
		value, err := schemas.Marshal(b)
		if err != nil {
			v.t.Fatal(err)
		}
		return value
	}
	for round := range trustPhases {
		value := lie([]func(b *schemas.CounterBatch){
			func(b *schemas.CounterBatch) { // the least 1,024 names
				b.Metrics = nil
				for m := range 1024 {
					b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
						Name: fmt.Sprintf("-%04d", m), Unit: "1", Scope: schemas.ScopeNode, Values: []float64{1},
					})
				}
			},
			func(b *schemas.CounterBatch) { // other units, which sort before the true ones
				b.Metrics = []schemas.CounterBatchMetric{
					{Name: "sim_memory", Unit: "A", Scope: schemas.ScopeNode, Values: []float64{1}},
					{Name: "sim_normal", Unit: "0", Scope: schemas.ScopeCore, Values: []float64{1}},
					{Name: "sim_tail", Unit: "1", Scope: schemas.ScopeNode, Values: []float64{1}},
				}
			},
			func(b *schemas.CounterBatch) { b.Reported = []string{"sim_normal"} },
		}[round%3])
		v.produce(&kgo.Record{
			Topic: v.cfg.Prefix + schemas.TopicCounters, Partition: entry.Partition,
			Key: schemas.CollectorKey(entry.Partition), Value: value,
		})
		time.Sleep(v.cfg.Interval)
	}
}

// namesake lets a job run, end, and another one take its id. Both stay in the archive.
func (v *trust) namesake() {
	node := producers.SimulatedNodes(simulated)[holderNode+11]
	live := func(user string) {
		start := time.Now().Truncate(time.Second).UTC()
		v.life = fmt.Sprintf("  - {id: nightly, user: %s, nodes: [%s], start: %s}\n", user, node,
			start.Format(time.RFC3339))
		v.listJobs()
		v.eventually("rows of "+user+"'s job", func() bool {
			rows := v.rows()[schemas.JobKey{JobID: "nightly"}]
			return len(rows) > 0 && rows[len(rows)-1].IntervalStart > start.UnixMilli()
		})
		v.life = strings.TrimSuffix(v.life, "}\n") + fmt.Sprintf(", end: %s, state: COMPLETED}\n",
			time.Now().Truncate(time.Second).UTC().Format(time.RFC3339))
		v.listJobs()
		v.eventually(user+"'s job in the archive", func() bool { return slices.Contains(v.archived("nightly"), user) })
	}
	live("ada")
	live("ben")
	if users := v.archived("nightly"); !slices.Equal(users, []string{"ada", "ben"}) {
		v.t.Errorf("the archive has the jobs nightly of %v, where ada and ben had one each", users)
	}
}

// hungFile mounts a file system that answers nothing over the directory of the jobs file.
func (v *trust) hungFile() {
	end := kafkatest.Hang(v.t, v.mount)
	v.waitFor(v.after(time.Now()))
	end()
	// The list counts again once the file system answers.
	v.life = fmt.Sprintf("  - {id: later, nodes: [%s]}\n", producers.SimulatedNodes(simulated)[holderNode+11])
	v.listJobs()
	v.eventually("rows of a job that is listed later", func() bool {
		return len(v.rows()[schemas.JobKey{JobID: "later"}]) > 0
	})
}

// damagedDate damages the beginning of the archive, in the form that it takes in years: a compacted file of a date of
// long ago. The sinks start again, and the archive grows on.
func (v *trust) damagedDate() {
	first, date := v.oldest(), sink.DatePath(v.cfg.Sink.Dir, "2020-02-29")
	for _, name := range []string{"sink-a", "sink-b"} {
		v.services[name].kill()
	}
	damaged := append([]byte("PAR1"), bytes.Repeat([]byte{0xA5}, 5000)...)
	name := sink.CompactedName(v.cfg.Prefix+schemas.TopicJobSummary, 0, 0)
	err := errors.Join(os.Remove(first), os.MkdirAll(date, 0o755),
		os.WriteFile(filepath.Join(date, name), damaged, 0o644))
	if err != nil {
		v.t.Fatal(err)
	}
	for _, name := range []string{"sink-a", "sink-b"} {
		v.services[name].start()
	}
	before := v.files()
	v.eventually("new files of the archive in all partitions", func() bool {
		now, grown := v.files(), 0
		for partition, files := range before {
			if now[partition] > files {
				grown++
			}
		}
		return grown == len(before)
	})
}

// oldest waits for a second file of partition 0 of job-summary in the archive, and returns the first.
func (v *trust) oldest() (path string) {
	v.t.Helper()
	v.eventually("two files of a partition", func() bool {
		name := v.cfg.Prefix + schemas.TopicJobSummary + "-0-*.parquet"
		paths, err := filepath.Glob(filepath.Join(sink.DatePath(v.cfg.Sink.Dir, "*"), name))
		if err != nil {
			v.t.Fatal(err)
		}
		if len(paths) > 1 {
			path = slices.MinFunc(paths, func(a, b string) int {
				return strings.Compare(filepath.Base(a), filepath.Base(b))
			})
		}
		return path != ""
	})
	return path
}

// files counts the files of summaries by the beginning of their names, which is the partition.
func (v *trust) files() map[string]int {
	v.t.Helper()
	paths, err := filepath.Glob(filepath.Join(sink.DatePath(v.cfg.Sink.Dir, "*"), "*.parquet"))
	if err != nil {
		v.t.Fatal(err)
	}
	count := map[string]int{}
	for _, path := range paths {
		name := filepath.Base(path)
		count[name[:strings.LastIndex(name, "-")]]++
	}
	return count
}

// archived returns the users of the archived jobs with an id, in order.
func (v *trust) archived(id string) (users []string) {
	v.t.Helper()
	rows, err := jobs.Find(v.t.Context(), v.cfg.Sink.Dir, id)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, r := range rows {
		users = append(users, r.User)
	}
	slices.Sort(users)
	return users
}

package scheduler

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// sharedJob is a job on one core and one GPU of a node. Its user chooses its texts.
type sharedJob struct {
	id    int
	node  string
	core  int
	state string
	texts map[string]string // by field
}

const (
	forgerNodes = 3 // n1 and so on, of eight cores and eight GPUs
	forgerID    = 100
	forgerCores = 8
)

// textFields are the fields of a job that its user chooses, in the order of scontrol's text. Only the name is before
// the CPUs, but an older or later release may have others there, so each is put there too.
var textFields = []string{
	"JobName", "Account", "QOS", "Dependency", "Features", "Licenses", "Network", "Command", "WorkDir", "AdminComment",
	"Comment", "StdErr", "StdIn", "StdOut", "Extra",
}

// sharedJobs fill the cores of all nodes. The first one is the forger's.
func sharedJobs(field, text string) (jobs []sharedJob) {
	for n := range forgerNodes {
		for core := range forgerCores {
			j := sharedJob{
				id: forgerID + n*forgerCores + core, node: "n" + strconv.Itoa(n+1), core: core, state: "RUNNING",
				texts: map[string]string{"JobName": "cfd"},
			}
			if j.id == forgerID {
				j.texts[field] = text
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func (j *sharedJob) field(name string) string {
	if text := j.texts[name]; text != "" {
		return text
	}
	return "(null)"
}

// show returns the job in the format of scontrol 22.05.
func (j *sharedJob) show() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "JobId=%d JobName=%s\n   UserId=ada(7) GroupId=ada(7) MCS_label=N/A\n", j.id, j.field("JobName"))
	fmt.Fprintf(b, "   Priority=1 Nice=0 Account=%s QOS=%s\n", j.field("Account"), j.field("QOS"))
	fmt.Fprintf(b, "   JobState=%s Reason=None Dependency=%s\n", j.state, j.field("Dependency"))
	fmt.Fprintf(b, "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n   NodeList=%s\n", j.node)
	b.WriteString("   NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n   JOB_GRES=gpu:1\n")
	if j.state == "RUNNING" {
		fmt.Fprintf(b, "     Nodes=%s CPU_IDs=%d Mem=0 GRES=gpu:1(IDX:%d)\n", j.node, j.core, j.core)
	}
	for _, name := range textFields[4:] {
		fmt.Fprintf(b, "   %s=%s\n", name, j.field(name))
	}
	return b.String() + "\n"
}

// json returns the job in the format of scontrol 24.05 and later.
func (j *sharedJob) json(t *testing.T) string {
	t.Helper()
	type object = map[string]any
	var cores []object
	for c := range forgerCores {
		status := "UNALLOCATED"
		if c == j.core {
			status = "ALLOCATED"
		}
		cores = append(cores, object{"index": c, "status": []string{status}})
	}
	job := object{
		"job_id": j.id, "restart_cnt": 0, "job_state": []string{j.state},
		"gres_detail": []string{fmt.Sprintf("gpu:1(IDX:%d)", j.core)},
		"job_resources": object{"nodes": object{
			"count": 1, "list": j.node, "allocation": []object{{
				"index": 0, "name": j.node, "cpus": object{"count": 1, "used": 0},
				"sockets": []object{{"index": 0, "cores": cores}},
			}},
		}},
	}
	for name, text := range j.texts {
		job[map[string]string{"JobName": "name", "WorkDir": "current_working_directory"}[name]+name] = text
	}
	text, err := json.Marshal(object{"jobs": []object{job}, "errors": []string{}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// row returns the job's row of squeue, with account and name unchanged.
func (j *sharedJob) row() string {
	stamp := time.Unix(epoch+int64(j.id), 0).UTC().Format("2006-01-02T15:04:05")
	account, name := j.field("Account"), j.field("JobName")
	const format = "%d|0|RUNNING|%s|NONE|%s|1|%s|UNLIMITED|OK|cpu=1,node=1,gres/gpu=1|%d|N/A|ada|batch|%.200s|%.200s"
	return fmt.Sprintf(format, j.id, stamp, stamp, j.node, j.id, account, name)
}

func forgerMachine() map[string]slurmNode {
	machine := map[string]slurmNode{}
	for n := range forgerNodes {
		machine["n"+strconv.Itoa(n+1)] = slurmNode{cpus: 8, sockets: 1, cores: 8, threads: 1}
	}
	return machine
}

// forgeries are texts that imitate Slurm's output, by the aim of the forger.
func forgeries() map[string]string {
	swapped, named, sluids := &strings.Builder{}, &strings.Builder{}, &strings.Builder{}
	for c := range forgerCores {
		other, last := (c+1)%forgerCores, forgerID+(forgerNodes-1)*forgerCores
		fmt.Fprintf(swapped, "\n\nJobId=%d JobName=z\n     Nodes=n%d CPU_IDs=%d Mem=0 GRES=gpu:1(IDX:%d)",
			last+c, forgerNodes, other, other)
		fmt.Fprintf(sluids, "\n\nJobId=%d JobName=z\n   SLUID=s5K1KKYAYG5D%02d", last+c, other)
	}
	for id := range forgerNodes * forgerCores {
		fmt.Fprintf(named, "\nJobId=%d ", forgerID+id)
	}
	const whole = "\n     Nodes=n1 CPU_IDs=0-7 Mem=0 GRES=gpu:8(IDX:0-7)"
	hidden := "\n\nJobId=4000000000 JobName=y"
	return map[string]string{
		"the whole node":            "x" + whole + hidden,
		"the whole node, beside":    "x" + whole,
		"another core":              "x\n     Nodes=n1 CPU_IDs=3 Mem=0 GRES=gpu:1(IDX:3)" + hidden,
		"another node's core":       "x\n     Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)" + hidden,
		"a GPU of another":          "x\n     Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7)" + hidden,
		"others swapped":            "x" + swapped.String() + hidden,
		"others' cgroups":           "x" + sluids.String() + hidden,
		"every job named":           "x" + named.String() + hidden,
		"its own record again":      "x\n\nJobId=100 JobName=x\n   JobState=RUNNING" + whole + hidden,
		"a cgroup":                  "x\n   SLUID=s5K1KKYAYG5D00",
		"the cgroup of a neighbour": "x\n   SLUID=job_101\n   SLUID=../job_101",
		"another's end":             "x;\n101|0|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|NONE|1|n1|",
		"another's row":             "x\n" + (&sharedJob{id: 101, node: "n2"}).row() + ";",
		"fields of its row":         "x|y|9|n[1-4]|UNLIMITED|NO|cpu=32|",
		"JSON":                      `x","job_resources":{"nodes":{"allocation":[{"name":"n1"}]}},"job_id":101,"y":"`,
		"JSON's own document":       "\"}]}\n{\"jobs\":[{\"job_id\":101}]}",
		"bytes":                     "a\nb|c\td\x00e\u2028\x1b[2J\xff" + strings.Repeat("é", 400),
		"blank lines":               strings.Repeat("\n", 900),
	}
}

// TestForgersHarmThemselvesAlone puts each forgery into each text of a job. By scontrol's text the job has its own CPUs
// and GPUs, or none with a reason. By the JSON it always has its own. The answers about other jobs contain none of its
// texts.
func TestForgersHarmThemselvesAlone(t *testing.T) {
	machine := forgerMachine()
	refused := 0
	for what, text := range forgeries() {
		for _, field := range textFields {
			j := &sharedJobs(field, text)[0]
			rows, err := readSqueue(strings.NewReader(j.row()+";END\n"), ";END\n")
			if err != nil || len(rows) != 1 || rows[0].fault != "" || !slices.Equal(rows[0].hosts, []string{"n1"}) {
				t.Fatalf("%s in %s: rows %+v, %v", what, field, rows, err)
			}
			r := &rows[0]
			s := readText(r.job.JobID, j.show())
			if s.misfit(r, machine) != "" {
				refused++
				s = nil
			}
			fromJSON, err := parseJobJSON([]byte(j.json(t)), r, machine)
			if err != nil || fromJSON.misfit(r, machine) != "" {
				t.Errorf("%s in %s: %s, %v", what, field, fromJSON.misfit(r, machine), err)
			}
			for _, s := range []*rawAllocation{s, fromJSON} {
				if s != nil && (fmt.Sprint(s.cpus, s.gpus) != "map[n1:[0]] map[n1:[0]]" || s.sluid == "job_101") {
					t.Errorf("%s in %s: %+v", what, field, s)
				}
			}
		}
	}
	if all := len(forgeries()) * len(textFields); refused < all/3 || refused == all {
		t.Errorf("%d of %d texts were refused", refused, all)
	}
}

// TestForgersAmongNewJobs polls a Slurm with more new jobs than are asked for again. One of them has a forged name. All
// others keep exactly their own CPUs, GPUs and cgroups.
func TestForgersAmongNewJobs(t *testing.T) {
	for what, text := range forgeries() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFakeSlurm(t)
			f.write("sinfo", "#!/bin/sh\nfor i in 1 2 3 4; do echo \"n$i|8|1|8|1\"; done\n")
			jobs := sharedJobs("JobName", text)
			for _, j := range jobs {
				f.write(fmt.Sprint("squeue.", j.id), j.row())
				f.write(fmt.Sprint("scontrol.", j.id), j.show())
			}
			f.undisturbed(jobs, true)
			f.write("scontrol.json", "")
			for _, j := range jobs {
				f.write(fmt.Sprint("scontrol.json.", j.id), j.json(t))
			}
			f.undisturbed(jobs, false)
		})
	}
}

// undisturbed polls once, and fails the test unless each job has its own node, CPUs and GPUs.
func (f *fakeSlurm) undisturbed(jobs []sharedJob, mayLose bool) {
	f.t.Helper()
	s := f.source()
	s.poll(f.t.Context(), dayLater)
	listed, faults := s.Jobs(dayLater)
	reasons := map[string]string{}
	for _, fault := range faults {
		reasons[fault.JobID] = fault.Reason
	}
	found := map[string]Job{}
	for _, j := range listed {
		found[j.JobID] = j
	}
	for _, j := range jobs {
		id := strconv.Itoa(j.id)
		got, there := found[id]
		delete(found, id)
		if reason := reasons[id]; !there && j.id == forgerID && mayLose && reason != "" {
			if !strings.Contains(reason, "scontrol's answer is not used") {
				f.t.Errorf("the forger's job is refused because %s", reason)
			}
			continue
		}
		if !there || reasons[id] != "" || got.Cgroup != "" && j.id != forgerID {
			f.t.Errorf("job %s is there: %v, with cgroup %q, fault %q", id, there, got.Cgroup, reasons[id])
			continue
		}
		want := fmt.Sprint([]string{j.node}, []int{j.core}, []int{j.core}, schemas.StateRunning)
		if has := fmt.Sprint(got.Nodes, got.Cpus, got.GPUsOn(j.node), got.State); has != want {
			f.t.Errorf("job %s has %s, want %s", id, has, want)
		}
	}
	if len(found) > 0 {
		f.t.Errorf("jobs that nobody has: %v", slices.Collect(maps.Keys(found)))
	}
}

// TestForgerWhoseJobEnds: between squeue and scontrol the job ended, so that the forged line is the only one.
func TestForgerWhoseJobEnds(t *testing.T) {
	f := newFakeSlurm(t)
	f.write("sinfo", "#!/bin/sh\nfor i in 1 2 3 4; do echo \"n$i|8|1|8|1\"; done\n")
	for name, text := range map[string]string{
		"its core": "x\n     Nodes=n1 CPU_IDs=1 Mem=0 GRES=gpu:1(IDX:1)",
		"a state":  "x\n   JobState=RUNNING\n     Nodes=n1 CPU_IDs=1 Mem=0 GRES=gpu:1(IDX:1)",
	} {
		jobs := sharedJobs("JobName", text)
		jobs[0].state = "COMPLETED"
		for _, j := range jobs {
			f.write(fmt.Sprint("squeue.", j.id), j.row())
			f.write(fmt.Sprint("scontrol.", j.id), j.show())
		}
		t.Run(name, func(t *testing.T) {
			f := &fakeSlurm{t, f.dir}
			f.undisturbed(jobs, true)
			s := f.source()
			s.poll(t.Context(), dayLater)
			listed, _ := s.Jobs(dayLater)
			if slices.ContainsFunc(listed, func(j Job) bool { return j.JobID == "100" }) {
				t.Error("the forger's job has a core, where Slurm shows none")
			}
		})
	}
}

// TestSlurmRowThatIsThereTwice: a user who knew the end of a row could forge rows of other jobs. If a job has several
// rows, nothing about it changes.
func TestSlurmRowThatIsThereTwice(t *testing.T) {
	s := newStory(t)
	first := row(1, 0, "RUNNING", 0, -1, 4, "n[1-2]")
	s.want(9, 0, map[string]string{"1/0": "n[1-2]"}, first)
	for _, forged := range []string{
		row(1, 0, "COMPLETED", 0, 12, 4, "n[1-2]"), row(1, 0, "RUNNING", 0, -1, 2, "n9"),
		row(1, 0, "NONE", 0, -1, 2, ""),
	} {
		for _, rows := range [][]string{{forged, first}, {first, forged}} {
			nodes, faults := s.at(15, 10, rows...)
			if nodes["1/0"] != "n[1-2]" || len(faults) != 1 || !strings.Contains(faults[0].Reason, "several rows") {
				t.Errorf("%q: nodes %v, faults %v", rows, nodes, faults)
			}
		}
	}
	s.want(29, 20, map[string]string{"1/0": "n[1-2]"}, first)
	nodes, faults := s.at(39, 30, first, row(2, 0, "RUNNING", 31, -1, 2, "n3"),
		row(2, 0, "RUNNING", 31, -1, 2, "n4"))
	if len(nodes) != 1 || len(faults) != 1 || faults[0].Followed {
		t.Errorf("a job that was never there once: nodes %v, faults %v", nodes, faults)
	}
}

// TestForgersOfDropFiles runs the hooks of deploy/slurm with each forgery in each variable that has a user's text.
func TestForgersOfDropFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	for what, text := range forgeries() {
		if strings.Contains(text, "\x00") {
			text = strings.ReplaceAll(text, "\x00", "") // no variable of a process can hold it
		}
		text += "\nend_ms=1\ncpus=0-7\ncgroup=job_101\nnodes=n2\n"
		for _, variable := range []string{
			"SLURM_JOB_NAME", "SLURM_JOB_ACCOUNT",
		} {
			dir := t.TempDir()
			for _, hook := range []string{"prolog", "epilog"} {
				for _, id := range []string{"100", "101"} {
					cmd := exec.Command("../../deploy/slurm/" + hook)
					cmd.Env = append(os.Environ(), "DROP_DIR="+dir, "SLURM_JOB_ID="+id, "SLURM_JOB_RESTART_COUNT=0",
						"SLURM_JOB_NODELIST=n1", "SLURM_JOB_USER=ada", "SLURM_JOB_PARTITION=batch",
						"SLURM_JOB_NAME=cfd")
					if id == "100" {
						cmd.Env = append(cmd.Env, variable+"="+text)
					}
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
				}
			}
			cfg := slurmConfig()
			cfg.Balance.DropDir = dir
			d := newDropDir(cfg)
			d.scan(time.Now())
			jobs, faults := d.Jobs(time.Now())
			if len(jobs) != 2 || len(faults) != 0 {
				t.Fatalf("%s in %s: jobs %+v, faults %v", what, variable, jobs, faults)
			}
			for _, j := range jobs {
				if !slices.Equal(j.Nodes, []string{"n1"}) || j.Cpus != nil || j.Cgroup != "" || j.End == nil ||
					time.Since(time.UnixMilli(*j.End)) > time.Hour || j.JobID == "101" && j.Name != "cfd" {
					t.Errorf("%s in %s: %+v", what, variable, j)
				}
			}
			if files, err := filepath.Glob(filepath.Join(dir, "1*")); err != nil || len(files) != 4 {
				t.Errorf("%s in %s: files %q, %v", what, variable, files, err)
			}
		}
	}
}

// TestForgersOfNodePrologs: a user's text makes no file of another job.
func TestForgersOfNodePrologs(t *testing.T) {
	for what, text := range forgeries() {
		text = strings.ReplaceAll(text, "\x00", "") + " hwperf ../101 $(touch 101.0) `touch 101.0`\n101.0"
		dir := t.TempDir()
		report, lock := filepath.Join(dir, "report"), filepath.Join(dir, "lock")
		if err := os.Mkdir(report, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("../../deploy/slurm/node-prolog")
		cmd.Env = append(os.Environ(), "REPORT_DIR="+report, "PERF_LOCK="+lock, "SLURM_JOB_ID=100",
			"SLURM_JOB_RESTART_COUNT=2", fmt.Sprint("SLURM_JOB_UID=", os.Getuid()), "SLURM_JOB_NAME="+text,
			"SLURM_JOB_COMMENT="+text, "SLURM_JOB_CONSTRAINTS="+text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v: %s", err, out)
		}
		var files []string
		for _, pattern := range []string{"*", "*/*"} {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, names...)
		}
		want := []string{lock, report, filepath.Join(lock, "100"), filepath.Join(report, "100.2")}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

// FuzzForgedName: with any job name, the job's neighbours have their own CPUs, and the job itself has its own or none.
func FuzzForgedName(f *testing.F) {
	for _, text := range forgeries() {
		f.Add(text)
	}
	machine := forgerMachine()
	f.Fuzz(func(t *testing.T, name string) {
		name = strings.ReplaceAll(name, "\x00", "") // ends it
		jobs := sharedJobs("JobName", name)
		all, rows := strings.Builder{}, strings.Builder{}
		for i := range jobs {
			all.WriteString(jobs[i].show())
			rows.WriteString(jobs[i].row() + ";END\n")
		}
		if strings.Contains(name, ";END\n") {
			return // nobody knows the end before
		}
		read, err := readSqueue(strings.NewReader(rows.String()), ";END\n")
		if err != nil || len(read) != len(jobs) {
			t.Fatalf("%d rows, %v", len(read), err)
		}
		for i := range jobs {
			r, j := &read[i], &jobs[i]
			if r.fault != "" || r.job.JobID != strconv.Itoa(j.id) || r.hostlist != j.node || r.cpus != 1 {
				t.Fatalf("the row of job %d is %+v", j.id, r)
			}
			// An answer about one job alone, and an answer with more jobs of its user.
			for _, text := range []string{j.show(), jobs[0].show(), all.String()} {
				s := readText(r.job.JobID, text)
				if s.misfit(r, machine) == "" && (!slices.Equal(s.cpus[j.node], []int32{int32(j.core)}) ||
					!slices.Equal(s.gpus[j.node], []int32{int32(j.core)})) {
					t.Fatalf("job %d has %+v", j.id, s)
				}
			}
			if s := readText(r.job.JobID, j.show()); i > 0 && s.misfit(r, machine) != "" {
				t.Fatalf("job %d is refused: %s", j.id, s.misfit(r, machine))
			}
		}
	})
}

// FuzzSqueueRows: the rows are never longer than the output of squeue, and a row without its end is an error.
func FuzzSqueueRows(f *testing.F) {
	f.Add(row(1, 0, "RUNNING", 0, -1, 1, "n[1-2]") + ";END\n" + row(2, 1, "FAILED", 0, 2, 1, "n1", "a|b;EN") + ";END\n")
	f.Add("||||||||||||||||;END\n;END\n1|0;END\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := readSqueue(strings.NewReader(text), ";END\n")
		if err == nil && len(rows) != strings.Count(text, ";END\n") {
			t.Fatalf("%d rows of %q", len(rows), text)
		}
		if err == nil && text != "" && !strings.HasSuffix(text, ";END\n") {
			t.Fatalf("%q is whole", text)
		}
		for i := range rows {
			if rows[i].fault == "" && (rows[i].state == 0 || !schemas.ValidJobID(rows[i].job.JobID)) {
				t.Fatalf("%+v", rows[i])
			}
		}
	})
}

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// inFakeSlurm names the directory of a fake Slurm in the environment of its commands.
const inFakeSlurm = "WEIR_TEST_FAKE_SLURM"

// fakeJob is a job on parts of one node, with the texts that a user may choose.
type fakeJob struct {
	ID    int
	Node  string
	Cpus  string // in Slurm's numbers
	Count int
	Name  string
	Start time.Time
}

// fakeSlurm stands for a Slurm without JSON: squeue, scontrol and sinfo print user text in the same places as Slurm
// 22.05. Its commands are this test program, called by another name.
type fakeSlurm struct {
	t   *testing.T
	dir string
}

func newFakeSlurm(t *testing.T, nodes []string, cpus int) *fakeSlurm {
	t.Helper()
	f := &fakeSlurm{t, t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"squeue", "scontrol", "sinfo"} {
		script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' %s \"$@\"\n", inFakeSlurm, f.dir, self, name)
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Builder{}
	for _, n := range nodes {
		fmt.Fprintf(&text, "%s|%d|1|%d|1\n", n, cpus, cpus)
	}
	f.put("nodes", []byte(text.String()))
	f.set()
	return f
}

func (f *fakeSlurm) put(name string, text []byte) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path)); err != nil {
		f.t.Fatal(err)
	}
}

// set replaces the running jobs.
func (f *fakeSlurm) set(jobs ...fakeJob) {
	f.t.Helper()
	text, err := json.Marshal(jobs)
	if err != nil {
		f.t.Fatal(err)
	}
	f.put("jobs", text)
}

// runFakeSlurm prints the output of one of Slurm's commands.
func runFakeSlurm(dir string, args []string) error {
	text, err := os.ReadFile(filepath.Join(dir, "jobs"))
	var jobs []fakeJob
	if err == nil {
		err = json.Unmarshal(text, &jobs)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--json") }) {
		return errors.New("unrecognized option '--json'")
	}
	switch last := args[len(args)-1]; args[0] {
	case "sinfo":
		text, err := os.ReadFile(filepath.Join(dir, "nodes"))
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(text)
		return err
	case "squeue":
		for _, a := range args {
			if format, is := strings.CutPrefix(a, "--Format="); is {
				printRows(jobs, format)
			}
		}
	case "scontrol":
		for _, j := range jobs {
			if last == "job" || last == strconv.Itoa(j.ID) {
				j.show()
			}
		}
	}
	return nil
}

// printRows prints a row for each job, by a format such as JobID:0|,Name:200;END.
func printRows(jobs []fakeJob, format string) {
	for _, j := range jobs {
		for field := range strings.SplitSeq(format, ",") {
			name, rest, _ := strings.Cut(field, ":")
			suffix := strings.TrimLeft(rest, "0123456789")
			width, err := strconv.Atoi(strings.TrimSuffix(rest, suffix))
			value := j.field(name)
			if err == nil && width > 0 {
				value = fmt.Sprintf("%-*.*s", width, width, value)
			}
			fmt.Print(value, suffix)
		}
		fmt.Println()
	}
}

func (j *fakeJob) field(name string) string {
	switch name {
	case "JobID", "ArrayJobID", "JobArrayID":
		return strconv.Itoa(j.ID)
	case "RestartCnt":
		return "0"
	case "State":
		return "RUNNING"
	case "StartTime", "SubmitTime":
		return j.Start.UTC().Format("2006-01-02T15:04:05")
	case "EndTime":
		return "NONE"
	case "NumCPUs":
		return strconv.Itoa(j.Count)
	case "NumNodes":
		return "1"
	case "NodeList":
		return j.Node
	case "TimeLimit":
		return "UNLIMITED"
	case "OverSubscribe":
		return "OK"
	case "tres-alloc":
		return fmt.Sprintf("cpu=%d,node=1,billing=%d", j.Count, j.Count)
	case "ArrayTaskID":
		return "N/A"
	case "UserName":
		return "ada"
	case "Partition":
		return "batch"
	case "Name":
		return j.Name
	}
	return "(null)"
}

// show prints a job in the format of scontrol: the name first and unescaped, up to 1,024 bytes.
func (j *fakeJob) show() {
	fmt.Printf("JobId=%d JobName=%.1024s\n   UserId=ada(2001) GroupId=ada(2001) MCS_label=N/A\n"+
		"   JobState=RUNNING Reason=None Dependency=(null)\n   NodeList=%s\n   BatchHost=%s\n"+
		"   NumNodes=1 NumCPUs=%d NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n   TRES=cpu=%d,node=1,billing=%d\n"+
		"   JOB_GRES=(null)\n     Nodes=%s CPU_IDs=%s Mem=0 GRES=\n   OverSubscribe=OK Contiguous=0\n   Comment=\n\n",
		j.ID, j.Name, j.Node, j.Node, j.Count, j.Count, j.Count, j.Node, j.Cpus)
}

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestGPUsOfGRES: the texts are those that scontrol prints: NAME:TYPE:COUNT(IDX:LIST), or NAME:TYPE(CNT:COUNT) where
// Slurm does not know which ones.
func TestGPUsOfGRES(t *testing.T) {
	for gres, want := range map[string][]int32{
		"":                    nil,
		"gpu:a100:2(IDX:0-1)": {0, 1},
		"gpu:2(IDX:0,2)":      {0, 2},
		"gpu(IDX:0,2)":        {0, 2},
		"gpu:a100:2(IDX:2-3)": {2, 3},
		"gpu:a100:1(IDX:3),gpu:v100:2(IDX:0,5-6)":        {0, 3, 5, 6},
		"nic:1(IDX:0),gpu:1(IDX:2),craynetwork:1(IDX:1)": {2},
		"craynetwork:1,gpu:1(IDX:2)":                     {2},
		"craynetwork(CNT:1),gpu:2(IDX:0-1)":              {0, 1},
		"nic:2(IDX:0,1)":                                 nil,
		"gpu:a100:0(IDX:N/A)":                            nil,
		"gpu:a100(CNT:2)":                                nil,
		"gpu:2":                                          nil,
		"gpu:a100:1(IDX:1),gpu:v100(CNT:1)":              nil, // a part of what it holds would be taken for all
		"gpu:1g.10gb:1(IDX:4)":                           nil, // a part of a GPU
		"gpu:a100:1(IDX:7),gpu:a100_1g.5gb:1(IDX:0)":     nil, // 7 counts the parts of GPUs before it
		"shard:a100:4(4/24,0/24)":                        nil,
		"mps:50(IDX:0)":                                  nil,
		"gpu:a100:1(IDX:1024)":                           nil, // beyond any
		"gpu:a100:2(IDX:0-999999999)":                    nil,
		"gpu:a100:2(IDX:0-1":                             nil,
		"gpu:a100:2(IDX:)":                               nil,
		"gpu:a100:2)IDX:1(":                              nil,
		"(((,":                                           nil,
	} {
		if got := gpusOf(gres); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", gres, got, want)
		}
	}
}

// FuzzGPUsOfGRES: whatever a text holds, the numbers ascend, and none is beyond any GPU.
func FuzzGPUsOfGRES(f *testing.F) {
	f.Add("gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:3)")
	f.Add("gpu(IDX:0,2),shard:4(4/24)")
	f.Add("gpu:a100(CNT:2),(,)),gpu")
	f.Fuzz(func(t *testing.T, gres string) {
		last := int32(-1)
		for _, g := range gpusOf(gres) {
			if g <= last || g >= maxGPUs {
				t.Fatalf("%q: %v", gres, gpusOf(gres))
			}
			last = g
		}
	})
}

// TestSlurmJobsHaveGPUs: a job with a part of a node has the GPUs that scontrol names for it there. Slurm 26.05 also
// says what the job's cgroup is called.
func TestSlurmJobsHaveGPUs(t *testing.T) {
	f := newFakeSlurm(t)
	f.write("sinfo", "#!/bin/sh\nfor i in 1 2 3; do echo \"n$i|8|2|4|1\"; done\n")
	show := func(id int, sluid string, nodes ...string) {
		lines := "     Nodes=" + strings.Join(nodes, "\n     Nodes=") + "\n"
		f.write(fmt.Sprint("scontrol.", id), fmt.Sprintf("JobId=%d JobName=a\n%s   UserId=ada(7) GroupId=ada(7)\n"+
			"   JOB_GRES=gpu:a100:2\n%s\n", id, sluid, lines))
	}
	f.write("squeue.1", row(1, 0, "RUNNING", 1, -1, 2, "n1", "a"))
	show(1, "   SLUID=s5K1KKYAYG5D00\n", "n1 CPU_IDs=0-1 Mem=0 GRES=gpu:a100:2(IDX:0-1)")
	f.write("squeue.2", row(2, 0, "RUNNING", 2, -1, 4, "n[1-2]", "a"))
	show(2, "", "n1 CPU_IDs=2-3 Mem=0 GRES=gpu:a100:2(IDX:2-3)", "n2 CPU_IDs=2-3 Mem=0 GRES=gpu:a100:1(IDX:3)")
	f.write("squeue.3", row(3, 0, "RUNNING", 3, -1, 8, "n3", "a")) // all of n3: nobody asks which GPUs it has
	s := f.source()
	s.poll(t.Context(), dayLater)
	jobs, faults := s.Jobs(dayLater)
	if len(jobs) != 3 || len(faults) > 0 {
		t.Fatal(jobs, faults)
	}
	got := map[string][]int32{}
	for i := range jobs {
		for _, n := range jobs[i].Nodes {
			got[jobs[i].JobID+" on "+n] = jobs[i].GPUsOn(n)
		}
	}
	want := map[string][]int32{"1 on n1": {0, 1}, "2 on n1": {2, 3}, "2 on n2": {3}, "3 on n3": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if jobs[0].Cgroup != "s5K1KKYAYG5D00" || jobs[1].Cgroup != "" || jobs[2].Cgroup != "" {
		t.Errorf("%q, %q, %q", jobs[0].Cgroup, jobs[1].Cgroup, jobs[2].Cgroup)
	}
}

// TestFilesHaveGPUs: a list is of every node of a job, a list by node of these alone.
func TestFilesHaveGPUs(t *testing.T) {
	jobs, faults, err := parseJobs([]byte(`jobs:
- {id: one, nodes: [a, b], cpus: [0], gpu_ids: [3, 1], cgroup: s5K1KKYAYG5D00}
- {id: each, nodes: "n[1-3]", cpus: [1], gpu_ids: {"n[1-2]": [0, 1], n3: [2]}}
- {id: none, nodes: [a], gpu_ids: }
- {id: elsewhere, nodes: [a], gpu_ids: {b: [0]}}
- {id: twice, nodes: [a], gpu_ids: [0, 0]}
- {id: beyond, nodes: [a], gpu_ids: [1024]}
- {id: text, nodes: [a], gpu_ids: "0-1"}
- {id: path, nodes: [a], cgroup: ../x}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string][]int32{{"": {1, 3}}, {"n1": {0, 1}, "n2": {0, 1}, "n3": {2}}, nil}
	for i, w := range want {
		if diff := cmp.Diff(w, jobs[i].GPUs, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", jobs[i].JobID, diff)
		}
	}
	if jobs[0].Cgroup != "s5K1KKYAYG5D00" || len(jobs) != len(want) {
		t.Errorf("%+v", jobs)
	}
	for i, reason := range []string{
		`the job has no node "b"`, "gpu 0 is there twice", "gpu 1024 is there twice, or not in 0 to 1023",
		"gpu_ids: not a list of numbers", `cgroup "../x" is not the name of a directory`,
	} {
		if !strings.Contains(faults[i].Reason, reason) {
			t.Errorf("%s: %q, want %q", faults[i].JobID, faults[i].Reason, reason)
		}
	}
}

func TestDropFilesHaveGPUs(t *testing.T) {
	d := dropIn(t)
	now := time.UnixMilli(2_000_000)
	for name, line := range map[string]string{
		"1": "gpu_ids=0-1,4\ncgroup=s5K1KKYAYG5D00\n", "2": "gpu_ids=n[1-2]:0-1;n3:7\n", "3": "gpu_ids=\n",
		"4": "gpu_ids=n1:0;1\n", "5": "gpu_ids=0-2000\n", "6": "gpu_ids=n1:0;n1:1\n", "7": "gpu_ids=n9:0\n",
	} {
		d.drop(t, name+".0.start", "start_ms=1000123\nnodes=n[1-3]\ncpus="+name+"\n"+line)
	}
	d.scan(now)
	listed, faults := d.Jobs(now)
	got := map[string]map[string][]int32{}
	for i := range listed {
		if reason := checkJob(&listed[i]); reason != "" {
			faults = append(faults, Fault{JobID: listed[i].JobID, Reason: reason})
			continue
		}
		got[listed[i].JobID] = listed[i].GPUs
		if (listed[i].JobID == "1") != (listed[i].Cgroup == "s5K1KKYAYG5D00") {
			t.Errorf("job %s has cgroup %q", listed[i].JobID, listed[i].Cgroup)
		}
	}
	want := map[string]map[string][]int32{
		"1": {"": {0, 1, 4}}, "2": {"n1": {0, 1}, "n2": {0, 1}, "n3": {7}}, "3": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	reasons := map[string]string{}
	for _, f := range faults {
		reasons[f.JobID] = f.Reason
	}
	for id, reason := range map[string]string{
		"4": "names no node", "5": "beyond any", "6": "there twice", "7": `has no node "n9"`,
	} {
		if !strings.Contains(reasons[id], reason) {
			t.Errorf("job %s: %q, want %q", id, reasons[id], reason)
		}
	}
}

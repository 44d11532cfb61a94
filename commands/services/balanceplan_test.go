package services_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// planFiles writes a machine of three islands of eight nodes, and the jobs of testdata's first case, with one of one
// node.
func planFiles(t *testing.T) (jobs, tree string) {
	t.Helper()
	t.Chdir(t.TempDir()) // no weir-data here
	var machine, list strings.Builder
	machine.WriteString("root: m\nislands:\n")
	for i := range 3 {
		fmt.Fprintf(&machine, "  - {name: i%d, nodes: [%s]}\n", i, nodeList(8*i, 8*i+8))
	}
	list.WriteString("jobs:\n")
	for id, nodes := range [][2]int{{0, 4}, {4, 8}, {8, 11}, {12, 24}, {11, 12}} {
		fmt.Fprintf(&list, "  - {id: \"%d\", nodes: [%s], start: 2002-01-01T00:00:00Z, end: 2098-01-01T00:00:00Z}\n",
			id, nodeList(nodes[0], nodes[1]))
	}
	list.WriteString("  - {id: late, nodes: [n00], start: 2099-01-01T00:00:00Z}\n  - {id: lost, restart: 2, nodes: " +
		"[nowhere]}\n" +
		"  - {id: past, nodes: [n01], start: 2000-01-01T00:00:00Z, end: 2001-01-01T00:00:00Z}\n")
	for name, text := range map[string]string{"jobs.yaml": list.String(), "tree.yaml": machine.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "jobs.yaml", "tree.yaml"
}

func nodeList(from, to int) string {
	var names []string
	for n := from; n < to; n++ {
		names = append(names, fmt.Sprintf("n%02d", n))
	}
	return strings.Join(names, ", ")
}

func TestPlan(t *testing.T) {
	jobs, tree := planFiles(t)
	args := []string{
		"balance", "--plan", "--jobs", jobs, "--tree", tree, "--collectors", "6", "--l-max", "6",
		"--l-dist", "5",
	}
	for algorithm, want := range map[string]string{
		"literal": "0 EXACT 0:4; 1 EXACT 1:4; 2 EXACT 2:3; 3 ESTIMATED 3:4,4:4,5:4; 4 NODE ; load 4 4 3 4 4 4; " +
			"distance 23 >= 23; used 9",
		"weir": "0 EXACT 0:4; 1 EXACT 1:4; 2 EXACT 2:3; 3 ESTIMATED 4:6,5:6; 4 NODE ; load 4 4 3 0 6 6; distance " +
			"31 >= 23; used 6",
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), append(args, "--algorithm", algorithm, "--json")...)
		if status != cli.ExitDone || !strings.Contains(stderr, "job lost skipped: unknown node nowhere") {
			t.Fatalf("%s: status %d, %s", algorithm, status, stderr)
		}
		if got := planLine(t, stdout); got != want {
			t.Errorf("%s:\n%s; want\n%s", algorithm, got, want)
		}
		if !strings.Contains(stdout,
			`"skipped":[{"job_id":"lost","restart":2,"reason":"unknown node nowhere"}],"waiting":1}`) {
			t.Errorf("what is not planned: %s", stdout)
		}
		status, table, _ := clitest.Weir(t.Context(), append(args, "--algorithm", algorithm)...)
		if status != cli.ExitDone || !strings.Contains(table, "ESTIMATED") || !strings.Contains(table,
			"jobs that do not run now: 1 waiting, 1 over") {
			t.Errorf("%s: status %d, %s", algorithm, status, table)
		}
	}
}

// planLine reads a plan as a script does, and writes it on one line.
func planLine(t *testing.T, text string) string {
	t.Helper()
	var keys map[string]json.RawMessage
	var p balancer.Preview
	if err := json.Unmarshal([]byte(text), &keys); err != nil || strings.Count(text, "\n") != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"jobs", "collectors", "distance", "tree_nodes_used", "lower_bound", "overloaded",
		"skipped", "waiting",
	} {
		if keys[key] == nil {
			t.Errorf("%s is missing", key)
		}
		delete(keys, key)
	}
	if len(keys) > 0 {
		t.Errorf("beside what is promised: %v", keys)
	}
	var parts, loads []string
	for _, j := range p.Jobs {
		var at []string
		for _, s := range j.Collectors {
			at = append(at, fmt.Sprintf("%d:%d", s.Collector, len(s.Nodes)))
		}
		parts = append(parts, j.JobID+" "+j.Method+" "+strings.Join(at, ","))
	}
	for _, c := range p.Collectors {
		loads = append(loads, fmt.Sprint(c.Load))
	}
	return fmt.Sprintf("%s; load %s; distance %d >= %d; used %d", strings.Join(parts, "; "), strings.Join(loads, " "),
		p.Distance, p.LowerBound, p.TreeNodesUsed)
}

// TestPlanOfTheCases: the literal algorithms by the command are those of the cases, totals and all.
func TestPlanOfTheCases(t *testing.T) {
	files, err := filepath.Glob("balancer/assign/testdata/balancer_small_*.txt")
	if err != nil || len(files) != 3 {
		t.Fatalf("cases: %v, %v", files, err)
	}
	dir := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var nodes, agents, perSync, lMax, lDist, collectors int
		var local, exact, sync, frontend, used, base, most, distance int
		var list, machine strings.Builder
		var want []string
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			_, _ = fmt.Sscanf(line, "# nodes %d agents_per_collector %d collectors_per_syncagent %d lmax %d ldist "+
				"%d collectors %d",
				&nodes, &agents, &perSync, &lMax, &lDist, &collectors)
			_, _ = fmt.Sscanf(line, "# totals: local %d exact %d syncagent %d frontend %d tree_nodes_used %d "+
				"tree_nodes_base %d max_load %d total_distance %d",
				&local, &exact, &sync, &frontend, &used, &base, &most, &distance)
			if fields := strings.Split(line, ";"); len(fields) == 3 && line[0] != '#' {
				fmt.Fprintf(&list, "  - {id: %q, nodes: [", fields[0])
				for part := range strings.SplitSeq(fields[1], ",") {
					var a, b int
					if n, _ := fmt.Sscanf(part, "%d-%d", &a, &b); n == 1 {
						b = a
					}
					fmt.Fprintf(&list, "%s,", nodeList(a, b+1))
				}
				list.WriteString("]}\n")
				want = append(want, fields[0]+" "+fields[2])
			}
		}
		machine.WriteString("root: m\nislands:\n")
		for from := 0; from < nodes; from += agents * perSync {
			fmt.Fprintf(&machine, "  - {name: i%d, nodes: [%s]}\n", from, nodeList(from, min(nodes,
				from+agents*perSync)))
		}
		jobs, tree := filepath.Join(dir, "jobs.yaml"), filepath.Join(dir, "tree.yaml")
		if err := errors.Join(os.WriteFile(jobs, []byte("jobs:\n"+list.String()), 0o600), os.WriteFile(tree,
			[]byte(machine.String()), 0o600)); err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := clitest.Weir(t.Context(), "balance", "--plan", "--json", "--algorithm", "literal", "--jobs",
			jobs, "--tree", tree,
			"--collectors", fmt.Sprint(collectors), "--l-max", fmt.Sprint(lMax), "--l-dist", fmt.Sprint(lDist))
		var p balancer.Preview
		if err := json.Unmarshal([]byte(stdout), &p); err != nil || status != cli.ExitDone || stderr != "" {
			t.Fatalf("%s: status %d, %v, %s", file, status, err, stderr)
		}
		var got []string
		for _, j := range p.Jobs {
			var at []string
			for _, s := range j.Collectors {
				at = append(at, fmt.Sprintf("%d:%d", s.Collector, len(s.Nodes)))
			}
			switch j.Method {
			case schemas.MethodNode:
				got = append(got, j.JobID+" local")
			case schemas.MethodExact:
				got = append(got, fmt.Sprintf("%s collector %d", j.JobID, j.Collectors[0].Collector))
			default:
				got = append(got, j.JobID+" distributed "+strings.Join(at, ","))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		load := int64(0)
		for _, c := range p.Collectors {
			load = max(load, c.Load)
		}
		if p.Distance != distance || p.TreeNodesUsed != used || int(load) != most || used == 0 ||
			p.LowerBound > distance {
			t.Errorf("%s: distance %d, tree nodes %d, most %d; want %d, %d, %d", file, p.Distance, p.TreeNodesUsed,
				load, distance, used, most)
		}
	}
}

func TestExplain(t *testing.T) {
	jobs, tree := planFiles(t)
	for job, says := range map[string]string{
		"0": "whole at the nearest collector, distance 4", "3": "bigger than one collector takes", "4": "reduced there",
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), "balance", "--explain", job, "--jobs", jobs, "--tree", tree,
			"--collectors", "6", "--l-max", "6")
		if status != cli.ExitDone || !strings.Contains(stdout, says) {
			t.Errorf("job %s: status %d, %s%s", job, status, stdout, stderr)
		}
	}
	for job, says := range map[string]string{
		"lost": "job lost is skipped: unknown node nowhere", "late": "job late waits, and starts at " +
			"2099-01-01T00:00:00.000Z",
		"past": "job past is over since 2001-01-01T00:00:00.000Z", "x": "job x is not in the list of jobs",
		"\x1b[31mx": `job "\x1b[31mx" is not in the list`,
	} {
		if status, _, stderr := clitest.Weir(t.Context(), "balance", "--explain", job, "--jobs", jobs, "--tree",
			tree); status != cli.ExitFailed || !strings.Contains(stderr, says) {
			t.Errorf("job %s: status %d, %s", job, status, stderr)
		}
	}
}

// TestExplainOfSlurmsJobs: Slurm as the only source of jobs and nodes is enough. Where it does not answer, that is
// said.
func TestExplainOfSlurmsJobs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("squeue", `#!/bin/sh
for a; do case $a in --Format=*) end=${a##*Name:200} ;; esac; done
day=2026-01-01T00:00:00
echo "4711|0|RUNNING|$day|NONE|$day|4|n[1-2]|1:00:00|OK|cpu=4,node=2|N/A|N/A|ada|batch|x|cfd$end"
`)
	write("sinfo", "#!/bin/sh\nfor i in 1 2 3; do echo \"n$i|2|1|2|1\"; done\n")
	write("balance.yaml", "balance:\n  slurm: {enabled: true, bin: "+dir+"}\n")
	config := filepath.Join(dir, "balance.yaml")
	status, stdout, stderr := clitest.Weir(t.Context(), "balance", "--explain", "4711", "--config", config)
	if status != cli.ExitDone || !strings.Contains(stdout, "job 4711 restart 0: 2 nodes") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	write("squeue", "#!/bin/sh\necho down >&2\nexit 1\n")
	if status, _, stderr := clitest.Weir(t.Context(), "balance", "--explain", "4711", "--config",
		config); status != cli.ExitFailed || !strings.Contains(stderr, "Slurm has not answered") {
		t.Errorf("it does not answer: status %d, %s", status, stderr)
	}
}

func TestPlanOfAnOverloadedMachine(t *testing.T) {
	jobs, tree := planFiles(t)
	status, stdout, stderr := clitest.Weir(t.Context(), "balance", "--plan", "--jobs", jobs, "--tree", tree, "--collectors",
		"3", "--l-max", "5", "--json")
	if status != cli.ExitDone || !strings.Contains(stderr,
		"need 5 collectors of 5 nodes, there are 3") || !strings.Contains(stdout, `"overloaded":true`) {
		t.Errorf("status %d, %s; %s", status, stderr, stdout)
	}
	if got := planLine(t, stdout); !strings.Contains(got, "load 8 8 7") && !strings.Contains(got,
		"load 8 7 8") && !strings.Contains(got, "load 7 8 8") {
		t.Errorf("not spread evenly: %s", got)
	}
}

func TestPlanFaults(t *testing.T) {
	jobs, tree := planFiles(t)
	if err := os.WriteFile("cycle.conf", []byte("SwitchName=a Switches=b\nSwitchName=b Switches=a\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no jobs":   {[]string{"--plan", "--tree", tree}, "--jobs FILE"},
		"no tree":   {[]string{"--plan", "--jobs", jobs}, "--tree FILE"},
		"jobs away": {[]string{"--plan", "--jobs", "none.yaml", "--tree", tree}, "none.yaml"},
		"tree away": {[]string{"--plan", "--jobs", jobs, "--tree", "none.yaml"}, "none.yaml"},
		"cycle": {[]string{"--plan", "--jobs", jobs, "--tree", "cycle.conf"}, "cycle.conf: line 1: vertex " +
			"a is in a cycle"},
		"jobs no list": {[]string{"--plan", "--jobs", tree, "--tree", tree}, "tree.yaml"},
		"algorithm":    {[]string{"--plan", "--jobs", jobs, "--tree", tree, "--algorithm", "best"}, "weir, literal"},
		"l_max": {
			[]string{"--plan", "--jobs", jobs, "--tree", tree, "--l-max", "-1", "--l-dist", "5"},
			"weir: balance.l_max = -1: out of range: 0 to 1000000 (set by --l-max)\n",
		},
		"not planning":   {[]string{"--jobs", jobs}, "--jobs is for --plan"},
		"json alone":     {[]string{"--json"}, "--json is for --plan"},
		"json, explain":  {[]string{"--explain", "1", "--json"}, "choose one"},
		"simulate":       {[]string{"--plan", "--simulate", "16"}, "--jobs FILE"},
		"config missing": {[]string{"--plan", "--config", "none.yaml"}, "none.yaml"},
	} {
		if status, _, stderr := clitest.Weir(t.Context(), append([]string{"balance"},
			c.args...)...); status != cli.ExitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: status %d, %s", name, status, stderr)
		}
	}
}

// TestPlanOfHostileJobs: ids that are none do not reach the terminal as they are, and what is skipped is an array
// though nothing is.
func TestPlanOfHostileJobs(t *testing.T) {
	_, tree := planFiles(t)
	text := "jobs:\n- {id: \"\\e[31mred\\n\", nodes: [n01]}\n- {nodes: [n01]}\n- {id: _rest, nodes: [n01]}\n- {id: " +
		"a, nodes: [\"\\e[1m\"]}\n"
	if err := os.WriteFile("hostile.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"balance", "--plan", "--tree", tree, "--json", "--jobs"}
	status, stdout, stderr := clitest.Weir(t.Context(), append(args, "hostile.yaml")...)
	if status != cli.ExitDone || strings.Contains(stdout+stderr, "\x1b") || strings.Count(stderr, "\n") != 4 ||
		!strings.Contains(stderr, `weir: job "\x1b[31mred\n" skipped: line 2: id `) || !strings.Contains(stderr,
		`weir: job "?" skipped: line 3: it has no id`) ||
		!strings.Contains(stderr, `weir: job "_rest" skipped`) || !strings.Contains(stderr,
		`weir: job a skipped: line 5: node "\x1b[1m"`) {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	if err := os.WriteFile("none.yaml", []byte("jobs: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, _ = clitest.Weir(t.Context(), append(args, "none.yaml")...)
	if status != cli.ExitDone || !strings.Contains(stdout, `"skipped":[],"waiting":0`) {
		t.Errorf("no jobs: status %d, %s", status, stdout)
	}
	// One node a collector, the least there is.
	jobs := "jobs.yaml"
	status, stdout, stderr = clitest.Weir(t.Context(), append(args, jobs, "--collectors", "23", "--l-max", "1")...)
	if got := planLine(t, stdout); status != cli.ExitDone || !strings.Contains(got, "3 ESTIMATED") || strings.Contains(got,
		":2") || strings.Contains(stdout, `"overloaded":true`) {
		t.Errorf("l_max 1: status %d, %s, %s", status, got, stderr)
	}
}

// TestPlanOfSlurmsTree: the same machine as topology.conf gives the same plan.
func TestPlanOfSlurmsTree(t *testing.T) {
	jobs, tree := planFiles(t)
	conf := "SwitchName=i0 Nodes=n[00-07]\nSwitchName=i1 Nodes=n[08-15]\nSwitchName=i2 Nodes=n[16-23]\nSwitchName=m " +
		"Switches=i[0-2]\n"
	if err := os.WriteFile("topology.conf", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	var plans []string
	for _, file := range []string{tree, "topology.conf"} {
		status, stdout, stderr := clitest.Weir(t.Context(), "balance", "--plan", "--jobs", jobs, "--tree", file,
			"--collectors", "6", "--json")
		if status != cli.ExitDone {
			t.Fatalf("%s: status %d, %s", file, status, stderr)
		}
		plans = append(plans, stdout)
	}
	if diff := cmp.Diff(plans[0], plans[1]); diff != "" {
		t.Error(diff)
	}
}

func TestSimulateBalancer(t *testing.T) {
	status, stdout, stderr := clitest.Weir(t.Context(), "simulate", "balancer", "--snapshots", "2")
	if status != cli.ExitDone || !strings.Contains(stdout, "PerSyst paper") || !strings.Contains(stdout, "weir, Kafka") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	for _, churn := range []string{"2", "-0.1", "NaN"} {
		if status, _, stderr := clitest.Weir(t.Context(), "simulate", "balancer", "--churn",
			churn); status != cli.ExitUsage || !strings.Contains(stderr, "--churn "+churn) {
			t.Errorf("status %d, %s", status, stderr)
		}
	}
}

// TestPlanReportsWhatTheTreeLeavesOut: a node of two leaf switches is no reason not to start.
func TestPlanReportsWhatTheTreeLeavesOut(t *testing.T) {
	jobs, _ := planFiles(t)
	text := "SwitchName=a Nodes=n[00-23]\nSwitchName=b Nodes=n[00-23]\n"
	if err := os.WriteFile("topology.conf", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := clitest.Weir(t.Context(), "balance", "--plan", "--jobs", jobs, "--tree", "topology.conf")
	if status != cli.ExitDone || !strings.Contains(stderr, "tree file topology.conf: line 2: node n00 is below a and "+
		"below b: the first switch counts") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

package scheduler

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

const (
	// noID stands for a missing job id. It is not a valid one.
	noID = "?"
	// maxFileNodes bounds the nodes of all jobs of a file: a hostlist is short.
	maxFileNodes = 1 << 22
)

// parseJobs reads a job file. The error is about the file as a whole; jobs that are wrong by themselves become faults.
func parseJobs(text []byte) ([]Job, []Fault, error) {
	if len(text) > maxFileBytes {
		return nil, nil, errTooLong
	}
	text, bad := readable(text)
	list, err := jobList(text)
	switch {
	case err != nil && len(bad) > 0:
		return nil, nil, fmt.Errorf("%s; %w", bad[0].remedy(), err)
	case err != nil:
		return nil, nil, err
	}
	var jobs []Job
	var faults []Fault
	nodes := 0
	for _, n := range list {
		j, err := parseJob(n)
		if err == nil {
			if reason := checkJob(&j); reason != "" {
				err = fmt.Errorf("line %d: %s", n.Line, reason)
			}
		}
		if b := badIn(n, bad); b != nil {
			err = errors.New(b.remedy())
		}
		if nodes += len(j.Nodes); nodes > maxFileNodes {
			return nil, nil, fmt.Errorf("line %d: more than %d nodes in all jobs", n.Line, maxFileNodes)
		}
		if err != nil {
			faults = append(faults, Fault{JobID: j.JobID, Restart: j.Restart, Reason: err.Error()})
			continue
		}
		jobs = append(jobs, j)
	}
	return jobs, faults, nil
}

// jobList returns the list under the one key of a job file.
func jobList(text []byte) ([]*yaml.Node, error) {
	const none = "no jobs at all are written as jobs: []"
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, oneLine(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	if len(doc.Content) == 0 || isNull(doc.Content[0]) {
		// A file that is being replaced is empty for a moment.
		return nil, errors.New("line 1: empty; " + none)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: a job file begins with the key jobs and has the list of jobs behind it",
			root.Line)
	}
	var jobs *yaml.Node
	line := root.Line
	for i := 0; i+1 < len(root.Content); i += 2 {
		switch key := root.Content[i]; {
		case key.Value != "jobs":
			// Its text is not quoted, for the errors are logged: a path that leads elsewhere may end at a secret.
			return nil, fmt.Errorf("line %d: unknown key; a job file has the one key jobs", key.Line)
		case jobs != nil:
			return nil, fmt.Errorf("line %d: key jobs is there twice", key.Line)
		}
		jobs, line = target(root.Content[i+1]), root.Content[i].Line
	}
	switch {
	case jobs == nil || isNull(jobs):
		return nil, fmt.Errorf("line %d: nothing is behind jobs; %s", line, none)
	case jobs.Kind != yaml.SequenceNode:
		return nil, fmt.Errorf("line %d: jobs is not a list; %s", line, none)
	}
	return jobs.Content, nil
}

// target returns the node, or the node that it is an alias of.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// parseJob returns the job. After an error, which names the line, the job contains its id and restart, as far as they
// were read.
func parseJob(n *yaml.Node) (Job, error) {
	j := Job{Job: schemas.Job{JobID: noID}}
	line := n.Line
	if n = target(n); n.Kind != yaml.MappingNode {
		return j, fmt.Errorf(`line %d: a job is written as keys, such as {id: "4711", nodes: [n001, n002]}`, line)
	}
	var wrong error
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		err := setKey(&j, key.Value, target(n.Content[i+1]))
		if seen[key.Value] {
			err = fmt.Errorf("key %.80q is there twice", key.Value)
		}
		if err != nil && wrong == nil {
			wrong = fmt.Errorf("line %d: %w", key.Line, err)
		}
		seen[key.Value] = true
	}
	if wrong == nil && j.JobID == noID {
		wrong = fmt.Errorf("line %d: it has no id", line)
	}
	return j, wrong
}

// setKey sets the field of a job that a key names.
func setKey(j *Job, key string, value *yaml.Node) (err error) {
	switch key {
	case "nodes":
		j.Nodes, err = yamlNodes(value)
	case "cpus":
		j.Cpus, err = yamlCPUs(value)
	case "gpu_ids":
		j.GPUs, err = yamlGPUs(value)
	case "id", "restart", "name", "cgroup", "user", "account", "queue", "start", "end", "cores", "gpus", "time_limit_s",
		"mem_requested_bytes", "exclusive", "array_job", "array_task", "state":
		err = setText(j, key, value)
	default:
		return fmt.Errorf("unknown key %.80q", key)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// setText sets a field with a single text. An empty value leaves the field as it is.
func setText(j *Job, key string, value *yaml.Node) (err error) {
	switch {
	case value.Kind != yaml.ScalarNode:
		return errors.New("not one text, but a list or keys of its own")
	case isNull(value) || value.Value == "":
		return nil
	}
	switch key {
	case "id":
		j.JobID = value.Value
	case "restart":
		j.Restart, err = yamlNumber(value)
	case "name":
		j.Name = printable(value.Value)
	case "cgroup":
		j.Cgroup = value.Value
	case "user":
		j.User = printable(value.Value)
	case "account":
		j.Account = printable(value.Value)
	case "queue":
		j.Queue = printable(value.Value)
	case "start":
		j.Start, err = parseTime(value.Value)
	case "end":
		j.End, err = parseTime(value.Value)
	default:
		_, err = setLimit(&j.Job, key, value.Value)
	}
	return err
}

// yamlNodes returns the nodes of a list or of a hostlist. A name stays as it is written: 017 is not the number 15.
func yamlNodes(n *yaml.Node) ([]string, error) {
	switch {
	case isNull(n):
		return nil, nil
	case n.Kind == yaml.ScalarNode:
		return topology.ExpandHosts(n.Value)
	case n.Kind != yaml.SequenceNode:
		return nil, errors.New("not a list such as [n001, n002], or a hostlist such as n[001-016]")
	}
	nodes := make([]string, 0, len(n.Content))
	for _, item := range n.Content {
		if item = target(item); item.Kind != yaml.ScalarNode {
			return nil, errors.New("not a list of names such as [n001, n002]")
		}
		nodes = append(nodes, item.Value)
	}
	return nodes, nil
}

// yamlCPUs returns nil for a job with its nodes to itself, which the file leaves out or writes as null.
func yamlCPUs(n *yaml.Node) ([]int32, error) {
	switch {
	case isNull(n):
		return nil, nil
	case n.Kind != yaml.SequenceNode:
		return nil, errors.New("not a list of numbers such as [0, 1, 2, 3]")
	}
	var cpus []int32
	for _, item := range n.Content {
		cpu, err := yamlNumber(target(item))
		if err != nil {
			return nil, err
		}
		cpus = append(cpus, cpu)
	}
	return cpus, nil
}

// yamlGPUs returns the GPUs of all nodes, from one list, or the GPUs of each node, from lists by node or hostlist.
func yamlGPUs(n *yaml.Node) (gpus map[string][]int32, err error) {
	if n.Kind != yaml.MappingNode {
		numbers, err := yamlCPUs(n)
		if err != nil || numbers == nil {
			return nil, err
		}
		return map[string][]int32{"": slices.Sorted(slices.Values(numbers))}, nil
	}
	gpus = map[string][]int32{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		numbers, err := yamlCPUs(target(n.Content[i+1]))
		if err == nil {
			err = addGPUs(gpus, n.Content[i].Value, numbers)
		}
		if err != nil {
			return nil, err
		}
	}
	return gpus, nil
}

// addGPUs notes the GPUs that a job holds on each host of a hostlist.
func addGPUs(gpus map[string][]int32, list string, numbers []int32) error {
	hosts, err := topology.ExpandHosts(list)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if _, twice := gpus[h]; twice {
			return fmt.Errorf("node %.80q is there twice", h)
		}
		gpus[h] = slices.Sorted(slices.Values(numbers))
	}
	return nil
}

func yamlNumber(n *yaml.Node) (int32, error) {
	number, err := strconv.ParseInt(n.Value, 10, 32)
	if err != nil || n.Kind != yaml.ScalarNode {
		return 0, fmt.Errorf("%.80q is not a whole number up to %d", n.Value, math.MaxInt32)
	}
	return int32(number), nil
}

// parseTime returns a time in Unix milliseconds.
func parseTime(text string) (*int64, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2100 {
		return nil, fmt.Errorf("%.80q is not a time of RFC 3339 between 1970 and 2100, such as 2026-01-31T08:00:00Z",
			text)
	}
	ms := t.UnixMilli()
	return &ms, nil
}

// oneLine shortens an error of the YAML package, which prints a line for each fault, to one line.
func oneLine(err error) error {
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + " ..."
	}
	return errors.New(text)
}

package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxJSONBytes bounds the answer about one job. It lists each core of each of the job's nodes.
const maxJSONBytes = 64 << 20

// errNoJSON is returned if scontrol prints no JSON: before Slurm 23.02, or if it was built without JSON.
var errNoJSON = errors.New("no JSON")

// jsonAnswer contains the keys that weir reads from `scontrol --json show job`, in the forms of Slurm's data_parser
// 0.0.39 (23.02) to 0.0.46 (26.11). Texts of users are values of other keys, so they cannot be taken for a job's CPUs.
type jsonAnswer struct {
	Jobs []jsonJob `json:"jobs"`
}

type jsonJob struct {
	ID        jsonNumber    `json:"job_id"`
	Restarts  jsonNumber    `json:"restart_cnt"`
	GRES      []string      `json:"gres_detail"` // by node, in the order of the nodes
	Step      jsonStep      `json:"step_id"`     // from 25.11 on
	Resources jsonResources `json:"job_resources"`
}

// jsonNumber is a number, or from 23.02 on mostly an object with one.
type jsonNumber int64

// UnmarshalJSON reads any other value as -1, which is no job and no core.
func (n *jsonNumber) UnmarshalJSON(text []byte) error {
	object := struct{ Number *int64 }{}
	number := new(int64(-1))
	if json.Unmarshal(text, number) != nil {
		number = new(int64(-1))
		if json.Unmarshal(text, &object) == nil && object.Number != nil {
			number = object.Number
		}
	}
	*n = jsonNumber(*number)
	return nil
}

// jsonStep is an object with the SLUID, or a text without.
type jsonStep struct{ sluid string }

// UnmarshalJSON never fails: a job without SLUID is followed all the same.
func (s *jsonStep) UnmarshalJSON(text []byte) error {
	object := struct{ SLUID string }{}
	if json.Unmarshal(text, &object) == nil && sluidForm.MatchString(object.SLUID) {
		s.sluid = object.SLUID
	}
	return nil
}

// jsonResources lists the nodes of a job with their cores. Until 23.11 the cores of each socket are keys, and from
// 24.05 on they are lists.
type jsonResources struct {
	nodes []jsonNode
}

type jsonNode struct {
	name  string
	cores []jsonCore
}

type jsonCore struct{ socket, core int }

// UnmarshalJSON reads one of the two forms. A job without nodes has neither.
func (r *jsonResources) UnmarshalJSON(text []byte) error {
	old := struct {
		Nodes []struct {
			Name    string `json:"nodename"`
			Sockets map[string]struct {
				Cores map[string]string
			}
		} `json:"allocated_nodes"`
	}{}
	if err := json.Unmarshal(text, &old); err != nil {
		return err
	}
	for _, n := range old.Nodes {
		node := jsonNode{name: n.Name}
		for socket, cores := range n.Sockets {
			for core, status := range cores.Cores {
				s, errS := strconv.Atoi(socket)
				c, errC := strconv.Atoi(core)
				if err := errors.Join(errS, errC); err != nil {
					return err
				}
				if strings.HasPrefix(status, "allocated") {
					node.cores = append(node.cores, jsonCore{s, c})
				}
			}
		}
		r.nodes = append(r.nodes, node)
	}
	if len(r.nodes) > 0 {
		return nil
	}
	return r.lists(text)
}

// lists reads the form of 24.05 and later. There nodes is an object; before, it is the hostlist.
func (r *jsonResources) lists(text []byte) error {
	outer := struct{ Nodes json.RawMessage }{}
	if err := json.Unmarshal(text, &outer); err != nil || len(outer.Nodes) == 0 || outer.Nodes[0] != '{' {
		return err
	}
	form := struct {
		Allocation []struct {
			Name    string
			Sockets []struct {
				Index jsonNumber
				Cores []struct {
					Index  jsonNumber
					Status []string
				}
			}
		}
	}{}
	if err := json.Unmarshal(outer.Nodes, &form); err != nil {
		return err
	}
	for _, n := range form.Allocation {
		node := jsonNode{name: n.Name}
		for _, socket := range n.Sockets {
			for _, core := range socket.Cores {
				if slices.Contains(core.Status, "ALLOCATED") || slices.Contains(core.Status, "IN_USE") {
					node.cores = append(node.cores, jsonCore{int(socket.Index), int(core.Index)})
				}
			}
		}
		r.nodes = append(r.nodes, node)
	}
	return nil
}

// parseJobJSON returns the allocation of a job. It is nil if the answer does not list the job. The error is errNoJSON
// if the answer is not JSON at all. An answer about an array's number lists all of its tasks.
func parseJobJSON(text []byte, r *slurmRow, machine map[string]slurmNode) (*rawAllocation, error) {
	if !json.Valid(text) {
		return nil, errNoJSON
	}
	var answer jsonAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("its JSON is none that weir knows: %w", err)
	}
	var found *rawAllocation
	for i := range answer.Jobs {
		j := &answer.Jobs[i]
		if strconv.FormatInt(int64(j.ID), 10) != r.job.JobID {
			continue
		}
		if found != nil {
			found.refuse("the job is there twice")
			continue
		}
		found = j.allocation(machine)
		if int64(j.Restarts) != int64(r.job.Restart) {
			found.refuse("the job has been requeued meanwhile")
		}
	}
	return found, nil
}

// allocation numbers cores as scontrol's text does: socket by socket, and all hardware threads of a core.
func (j *jsonJob) allocation(machine map[string]slurmNode) *rawAllocation {
	s := newRawAllocation()
	s.sluid = j.Step.sluid
	for i, n := range j.Resources.nodes {
		shape := machine[n.name]
		var ids []int32
		for _, c := range n.cores {
			if shape.sockets == 0 || c.socket < 0 || c.socket >= shape.sockets ||
				c.core < 0 || c.core >= shape.cores/shape.sockets {
				s.refuse(fmt.Sprintf("node %.80q has no core %d on a socket %d by sinfo", n.name, c.core, c.socket))
				return s
			}
			first := (c.socket*(shape.cores/shape.sockets) + c.core) * shape.threads
			for t := range shape.threads {
				ids = append(ids, int32(first+t))
			}
		}
		slices.Sort(ids)
		var gpus []int32
		if len(j.GRES) == len(j.Resources.nodes) {
			gpus = gpusOf(j.GRES[i])
		}
		s.add([]string{n.name}, slices.Compact(ids), gpus)
	}
	return s
}

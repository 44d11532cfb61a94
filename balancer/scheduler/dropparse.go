package scheduler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// dropName returns the job that a file is about. A restart is written in one way only: no 00 for 0. An id may have
// dots.
func dropName(name string) (j Job, ok bool) {
	stem, ok := strings.CutSuffix(name, ".start")
	if !ok {
		stem, ok = strings.CutSuffix(name, ".end")
	}
	dot := strings.LastIndexByte(stem, '.')
	if !ok || dot < 0 {
		return j, false
	}
	id, restart := stem[:dot], stem[dot+1:]
	n, err := strconv.ParseUint(restart, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != restart || !schemas.ValidJobID(id) {
		return j, false
	}
	return Job{Job: schemas.Job{JobID: id, Restart: int32(n)}}, true
}

func startName(j *Job) string { return fmt.Sprintf("%s.%d.start", j.JobID, j.Restart) }

func endName(j *Job) string { return fmt.Sprintf("%s.%d.end", j.JobID, j.Restart) }

// read reads the file. Anybody may have put anything there, so it opens no link and no pipe.
func (f *dropFile) read(path string) error {
	if !f.info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return naming.Pathless(err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(file, maxDropBytes+1))
	if err != nil {
		return naming.Pathless(err)
	}
	return parseDrop(string(text), strings.HasSuffix(path, ".start"), &f.job)
}

// parseDrop sets the fields of a job from the text of its file.
func parseDrop(text string, starts bool, j *Job) error {
	if len(text) > maxDropBytes {
		return errors.New("longer than 1 MiB")
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line, whole := strings.CutSuffix(line, "\n")
		key, value, ok := strings.Cut(line, "=")
		if !ok || !whole || seen[key] {
			return fmt.Errorf("line %.80q is no key=value, or there twice", line)
		}
		seen[key] = true
		var err error
		switch text := dropText(j, key); {
		case starts && text != nil:
			*text = printable(value)
		case starts && key == "start_ms":
			j.Start, err = dropTime(value)
		case !starts && key == "end_ms":
			j.End, err = dropTime(value)
		case starts && key == "nodes":
			j.Nodes, err = topology.ExpandHosts(value)
		case starts && key == "cpus" && value != "":
			j.Cpus, err = parseCPUs(value)
		case starts && key == "cpus":
		case starts && key == "gpu_ids":
			j.GPUs, err = dropGPUs(value)
		case starts && key == "cgroup":
			j.Cgroup = value
		default:
			var known bool
			if known, err = setLimit(&j.Job, key, value); !known || starts == (key == "state") {
				err = errors.New("unknown key")
			}
		}
		if err != nil {
			return fmt.Errorf("line %.80q: %w", line, err)
		}
	}
	if starts && j.Start == nil || !starts && j.End == nil {
		return errors.New("it says no time")
	}
	return nil
}

// dropText returns the text of a job that a key names; nil if it names none.
func dropText(j *Job, key string) *string {
	switch key {
	case "user":
		return &j.User
	case "account":
		return &j.Account
	case "queue":
		return &j.Queue
	case "name":
		return &j.Name
	}
	return nil
}

// dropGPUs returns the GPUs of all nodes, from a list such as 0-1, or the GPUs of each node, as in
// n[001-002]:0-1;n003:2.
func dropGPUs(text string) (map[string][]int32, error) {
	if text == "" {
		return nil, nil
	}
	if !strings.Contains(text, ":") {
		numbers, err := parseGPUs(text)
		return map[string][]int32{"": numbers}, err
	}
	gpus := map[string][]int32{}
	for item := range strings.SplitSeq(text, ";") {
		at := strings.LastIndexByte(item, ':') // a node's name may have one, too
		if at < 0 {
			return nil, fmt.Errorf("%.80q names no node: write NODES:GPUS, such as n001:0-1", item)
		}
		numbers, err := parseGPUs(item[at+1:])
		if err == nil {
			err = addGPUs(gpus, item[:at], numbers)
		}
		if err != nil {
			return nil, err
		}
	}
	return gpus, nil
}

func dropTime(text string) (*int64, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if t := time.UnixMilli(ms).UTC(); err != nil || t.Year() < 1970 || t.Year() > 2100 {
		return nil, errors.New("not a time in Unix milliseconds between 1970 and 2100")
	}
	return &ms, nil
}

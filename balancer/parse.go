package balancer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/schemas"
)

// yamlJob is one job of a job file. Times are texts, since YAML's own are wider than RFC 3339.
type yamlJob struct {
	ID      string   `yaml:"id"`
	Restart int32    `yaml:"restart"`
	Name    string   `yaml:"name"`
	User    string   `yaml:"user"`
	Account string   `yaml:"account"`
	Queue   string   `yaml:"queue"`
	Nodes   []string `yaml:"nodes"`
	Cpus    []int32  `yaml:"cpus"`
	Start   string   `yaml:"start"`
	End     string   `yaml:"end"`
}

// noID stands for the id of a job that has none. It is no valid one.
const noID = "?"

// parseJobs reads a job file. The error is about the file as a whole; jobs that are wrong by themselves become faults.
func parseJobs(text []byte) ([]schemas.Job, []Fault, error) {
	if len(text) > maxFileBytes {
		return nil, nil, ErrTooLong
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var file struct {
		Jobs []yaml.Node `yaml:"jobs"`
	}
	if err := d.Decode(&file); errors.Is(err, io.EOF) {
		// A file that is being replaced is empty for a moment.
		return nil, nil, errors.New("line 1: empty; no jobs at all are written as jobs: []")
	} else if err != nil {
		return nil, nil, oneLine(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("more than one YAML document")
	}
	var jobs []schemas.Job
	var faults []Fault
	for i := range file.Jobs {
		j, err := parseJob(&file.Jobs[i])
		if err == nil {
			if reason := checkJob(&j); reason != "" {
				err = errors.New(reason)
			}
		}
		if err != nil {
			faults = append(faults, Fault{j.JobID, j.Restart, fmt.Sprintf("line %d: %v", file.Jobs[i].Line, err)})
			continue
		}
		jobs = append(jobs, j)
	}
	return jobs, faults, nil
}

// parseJob returns the job, or an error and as much of its id and restart as there is.
func parseJob(n *yaml.Node) (schemas.Job, error) {
	var y yamlJob
	err := n.Decode(&y)
	j := schemas.Job{
		JobID: y.ID, Restart: y.Restart, Name: y.Name, User: y.User, Account: y.Account, Queue: y.Queue,
		Nodes: y.Nodes, Cpus: y.Cpus,
	}
	if j.JobID == "" {
		j.JobID = noID
	}
	if err != nil {
		return j, oneLine(err)
	}
	if err := knownKeys(n); err != nil {
		return j, err
	}
	if j.Start, err = parseTime("start", y.Start); err != nil {
		return j, err
	}
	j.End, err = parseTime("end", y.End)
	return j, err
}

// knownKeys does for one job what the decoder can only do for a whole file.
func knownKeys(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return errors.New("not a mapping of keys")
	}
	keys := []string{"id", "restart", "name", "user", "account", "queue", "nodes", "cpus", "start", "end"}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(keys, key.Value) {
			return fmt.Errorf("unknown key %.80q", key.Value)
		}
	}
	return nil
}

// parseTime returns a time in Unix milliseconds; nil for an empty text.
func parseTime(key, text string) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2100 {
		return nil, fmt.Errorf("%s %.80q is not a time of RFC 3339 between 1970 and 2100", key, text)
	}
	ms := t.UnixMilli()
	return &ms, nil
}

// oneLine makes one line of the YAML package's errors, which list what is wrong, and keeps it short.
func oneLine(err error) error {
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + " ..."
	}
	return errors.New(text)
}

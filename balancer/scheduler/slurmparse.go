package scheduler

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// maxCPUs bounds the CPUs of a node.
const maxCPUs = 1 << 16

// slurmRow is one row of squeue: a job.
type slurmRow struct {
	job       schemas.Job // without nodes and CPUs; of one that is over, State is how it ended
	state     slurmState
	cpus      int
	exclusive bool // the job asked for its nodes alone
	hostlist  string
	hosts     []string
	fault     string // why the row cannot be used; id and restart may be known
}

// slurmState is our interpretation of a state of Slurm.
type slurmState int

const (
	slurmHolds slurmState = iota + 1
	slurmSuspended
	slurmOver
)

const (
	// maxRowBytes bounds a row of squeue. Its hostlist may be long.
	maxRowBytes = 4 << 20
	// maxRows bounds the rows of squeue, above any slurmctld's MaxJobCount.
	maxRows = 1 << 21
)

// readSqueue returns the rows of squeue. The error is about its output as a whole.
func readSqueue(from io.Reader, end string) ([]slurmRow, error) {
	cut := rowCutter{end: []byte(end)}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxRowBytes+len(end))
	lines.Split(cut.split)
	var rows []slurmRow
	usable := 0
	for lines.Scan() {
		if cut.broken {
			break
		}
		r := slurmRow{}
		if cut.long {
			r = longRow(lines.Text())
		} else {
			r = parseRow(lines.Text())
		}
		if r.job.JobID != noID {
			usable++
		}
		if len(rows) == maxRows {
			return nil, fmt.Errorf("more than %d jobs", maxRows)
		}
		rows = append(rows, r)
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case cut.broken:
		return nil, fmt.Errorf("squeue's output is none that weir knows: after %d rows it has %.80q, "+
			"and does not end as it was asked to", len(rows), lines.Bytes())
	case usable == 0 && len(rows) > 0:
		return nil, fmt.Errorf("squeue's output is none that weir knows: %s", rows[0].fault)
	}
	return rows, nil
}

// rowCutter cuts the output of squeue into rows. Of a row that is too long it gives the beginning only.
type rowCutter struct {
	end    []byte
	skip   bool // the beginning of the row was returned already
	long   bool // the last one is such a beginning
	broken bool // the last one lacks its end
}

// longRowBytes is enough for the number and the restart count of a job.
const longRowBytes = 80

// split is a bufio.SplitFunc.
func (c *rowCutter) split(data []byte, atEOF bool) (advance int, token []byte, err error) {
	c.long = false
	if i := bytes.Index(data, c.end); i >= 0 {
		skipped := c.skip
		if c.skip = false; skipped {
			return i + len(c.end), nil, nil
		}
		return i + len(c.end), data[:i:i], nil
	}
	switch {
	case atEOF && (len(data) > 0 || c.skip):
		c.broken = true
		return len(data), data, bufio.ErrFinalToken
	case atEOF || len(data) < maxRowBytes:
		return 0, nil, nil
	}
	// An end may have begun in the last bytes.
	advance = len(data) - len(c.end) + 1
	if c.skip {
		return advance, nil, nil
	}
	c.skip, c.long = true, true
	return advance, data[:longRowBytes], nil
}

// longRow returns the fault of a row that begins as text does.
func longRow(text string) slurmRow {
	r := slurmRow{job: schemas.Job{JobID: noID}, fault: "its row of squeue is longer than 4 MiB"}
	f := strings.SplitN(text, "|", 3)
	if restart, err := strconv.ParseUint(f[min(1, len(f)-1)], 10, 31); err == nil && len(f) == 3 && isNumber(f[0]) {
		r.job.JobID, r.job.Restart = f[0], int32(restart)
	}
	return r
}

// isNumber reports whether a text is a number as Slurm writes it.
func isNumber(text string) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	return err == nil && strconv.FormatUint(n, 10) == text
}

// parseRow returns a fault together with the fields before it, so that the fault names the job. Fields that users
// choose come last: they may contain the separator.
func parseRow(line string) slurmRow {
	r := slurmRow{job: schemas.Job{JobID: noID}}
	f := strings.SplitN(line, "|", len(slurmFields))
	if len(f) != len(slurmFields) {
		r.fault = fmt.Sprintf("row %.80q of squeue has %d fields instead of %d", line, len(f), len(slurmFields))
		return r
	}
	if !isNumber(f[0]) {
		r.fault = fmt.Sprintf("row %.80q of squeue does not begin with the number of a job", line)
		return r
	}
	r.job = schemas.Job{
		JobID: f[0], User: printable(f[13]), Queue: printable(f[14]),
		Account: printable(unpadded(f[15])), Name: printable(unpadded(f[16])),
		TimeLimitS: slurmLimit(f[8]),
	}
	r.job.ArrayJob, r.job.ArrayTask = slurmArray(f[11], f[12])
	r.exclusive = f[9] == "NO"
	r.job.Gpus, r.job.MemRequestedBytes = slurmTRES(f[10])
	restart, err := strconv.ParseUint(f[1], 10, 31)
	if err != nil {
		r.fault = fmt.Sprintf("its restart count %.40q is not a number", f[1])
		return r
	}
	r.job.Restart = int32(restart)
	switch {
	case f[2] == "SUSPENDED":
		r.state = slurmSuspended
	case keepsCPUs(f[2]):
		r.state = slurmHolds
	case f[2] == "":
		err = errors.New("it has no state")
	default:
		if !slices.Contains(strings.Split(slurmStates, ","), f[2]) {
			err = fmt.Errorf("its state %.40q is none that weir knows", f[2])
		}
		r.state, r.job.State = slurmOver, slurmEnd(f[2])
	}
	if err == nil {
		err = r.times(f[3], f[4], f[5])
	}
	if err == nil {
		if r.cpus, err = strconv.Atoi(f[6]); err != nil || r.cpus < 0 {
			err = fmt.Errorf("its number of CPUs %.40q is not a number", f[6])
		}
	}
	if err == nil {
		r.hostlist = f[7]
		r.hosts, err = topology.ExpandHosts(r.hostlist)
	}
	if err == nil && len(r.hosts) == 0 && r.state != slurmOver {
		err = errors.New("it runs but has no nodes")
	}
	if err != nil {
		r.fault = err.Error()
	}
	return r
}

// keepsCPUs reports whether a job in a state holds its CPUs, or will get them back. A stopped job keeps them.
func keepsCPUs(state string) bool {
	switch state {
	case "RUNNING", "SIGNALING", "STOPPED", "RESIZING", "SUSPENDED":
		return true
	}
	return false
}

// times sets start, end and submission. The end of a job that is not over is a forecast.
func (r *slurmRow) times(start, end, submit string) (err error) {
	if r.job.Start, err = slurmTime(start); err != nil {
		return err
	}
	if r.state == slurmOver {
		if r.job.End, err = slurmTime(end); err != nil {
			return err
		}
	} else if r.job.Start == nil {
		return fmt.Errorf("it runs but has no start: %.40q", start)
	}
	r.job.Submit, err = slurmTime(submit)
	return err
}

// slurmTime returns a time in Unix milliseconds; nil if Slurm reports none.
func slurmTime(text string) (*int64, error) {
	switch text {
	case "", "NONE", "N/A", "None", "Unknown", "(null)":
		return nil, nil
	}
	t, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil || t.Year() < 1970 || t.Year() > 2100 {
		return nil, fmt.Errorf("%.40q is not a time of Slurm's between 1970 and 2100", text)
	}
	ms := t.UnixMilli()
	return &ms, nil
}

// maxShownBytes bounds a user's text in a record of a job. slurmFields uses the same number.
const maxShownBytes = 200

// printable replaces unprintable characters and bounds the length, since a job's name may consist of any bytes.
func printable(text string) string {
	if text == "(null)" {
		return ""
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text) // bytes that are not UTF-8 are U+FFFD from here on
	if len(text) > maxShownBytes {
		text = strings.ToValidUTF8(text[:maxShownBytes], "") + "..."
	}
	return text
}

// unpadded takes away the blanks with which Slurm fills up a field.
func unpadded(text string) string { return strings.TrimRight(text, " ") }

// slurmNode is the shape of a node by sinfo.
type slurmNode struct{ cpus, sockets, cores, threads int } // cores of all sockets, threads of each core

// parseSinfo reads the shape of one node. It refuses zero of anything, since no node that runs jobs is without CPUs.
func parseSinfo(line string, machine map[string]slurmNode) error {
	f := strings.Split(line, "|")
	var n [5]int
	bad := len(f) != len(n) || !naming.Valid(f[0])
	for i := 1; !bad && i < len(n); i++ {
		var err error
		n[i], err = strconv.Atoi(f[i])
		bad = err != nil || n[i] < 1 || n[i] > maxCPUs
	}
	if bad {
		return fmt.Errorf("line %.80q is not a node with its CPUs, sockets, cores and threads", line)
	}
	machine[f[0]] = slurmNode{cpus: n[1], sockets: n[2], cores: n[2] * n[3], threads: n[4]}
	return nil
}

// slurmPrivacy gathers the settings that decide whether a user sees everybody's jobs. PrivateData hides them, unless
// the user is root or SlurmUser, or has AdminLevel Operator or Administrator.
type slurmPrivacy struct {
	uid        int
	hides      []string
	privileged bool
}

// line reads a line of scontrol show config, or of scontrol show assoc_mgr.
func (p *slurmPrivacy) line(line string) error {
	if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "UserName="); ok {
		p.privileged = p.privileged || strings.Contains(rest, fmt.Sprintf("(%d) ", p.uid)) &&
			(strings.HasSuffix(rest, " AdminLevel=Operator") || strings.HasSuffix(rest, " AdminLevel=Administrator"))
		return nil
	}
	key, value, _ := strings.Cut(line, "=")
	switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
	case "PrivateData":
		for what := range strings.SplitSeq(value, ",") {
			if slices.Contains([]string{"jobs", "nodes", "partitions"}, what) {
				p.hides = append(p.hides, what)
			}
		}
		slices.Sort(p.hides)
	case "SlurmUser":
		p.privileged = p.privileged || strings.HasSuffix(value, fmt.Sprintf("(%d)", p.uid))
	}
	return nil
}

// reason names the hidden data and the remedy; empty if nothing is hidden.
func (p *slurmPrivacy) reason() string {
	if p.privileged || len(p.hides) == 0 {
		return ""
	}
	return fmt.Sprintf("Slurm hides %s of others from uid %d (PrivateData in slurm.conf), so the machine may look "+
		"idle: run the balancer as SlurmUser, or run: sacctmgr modify user NAME set AdminLevel=Operator",
		strings.Join(p.hides, ", "), p.uid)
}

// union returns the CPUs that a job holds on any of its nodes, sorted; empty if it holds all of a node.
func union(cpus map[string][]int32) (all []int32) {
	for _, c := range cpus {
		if len(c) == 0 {
			return nil
		}
	}
	seen := map[int32]bool{}
	for _, c := range cpus {
		for _, id := range c {
			if !seen[id] {
				seen[id] = true
				all = append(all, id)
			}
		}
	}
	slices.Sort(all)
	return all
}

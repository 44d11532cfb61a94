package scheduler

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

const (
	// maxSqueueBytes bounds what is read of squeue, and maxLineBytes each line of scontrol and sinfo.
	maxSqueueBytes = 64 << 20
	maxLineBytes   = 4 << 20
	// machineEvery is how often Slurm is asked for its nodes, unless a job is on one that is not known.
	machineEvery = time.Minute
	// askedAlone bounds for how many jobs scontrol is asked one by one in a poll.
	askedAlone = 16
	// allEvery is how long scontrol is not asked for all jobs after that took too long.
	allEvery = time.Minute
)

// SlurmSource asks Slurm for its jobs in the background, so that a controller that hangs holds up nobody. While Slurm does
// not answer, the jobs of its last answer stay in force, and a Fault says since when.
//
// Every task of an array and every component of a heterogeneous job is a job of its own, under the number that Slurm gives it
// (SLURM_JOB_ID is that of the first component in all of them); its restart is Slurm's count of restarts. A suspended job holds
// nothing until it goes on.
type SlurmSource struct {
	cfg  config.Slurm
	uid  int        // of this process
	book *slurmBook // of the polls alone, as are the next two

	polls int64                    // in which jobs were asked for one by one
	vain  map[schemas.JobKey]int64 // of jobs of which it is not known what they have: in which of these they were asked for last

	machineFaults []Fault   // in the machine, as Slurm last described it
	slow          []Fault   // one where the last poll could not ask for all jobs
	allAgain      time.Time // when all jobs may be asked for again

	mu     sync.Mutex
	jobs   []Job
	faults []Fault // in single jobs, and in the machine
	broken []Fault // of the last poll: one or none
	good   time.Time
	nodes  []string
}

// StartSlurm returns a source that polls until ctx ends, after a first poll.
func StartSlurm(ctx context.Context, cfg config.Config) *SlurmSource {
	s := newSlurmSource(cfg)
	took := s.poll(ctx)
	go func() {
		for kafka.Pause(ctx, max(s.cfg.Poll, took)) { // a busy controller is asked half of the time at most
			took = s.poll(ctx)
		}
	}()
	return s
}

func newSlurmSource(cfg config.Config) *SlurmSource {
	return &SlurmSource{cfg: cfg.Balance.Slurm, uid: os.Getuid(), book: newSlurmBook(cfg)}
}

// Jobs implements Source.
func (s *SlurmSource) Jobs(time.Time) ([]Job, []Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs, slices.Concat(s.broken, s.faults)
}

// Nodes returns the machine as Slurm's last answer has it.
func (s *SlurmSource) Nodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes
}

// poll asks once, and returns how long that took. What Jobs returned before is not changed.
func (s *SlurmSource) poll(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	now := time.Now()
	err := s.ask(ctx, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		since := "since weir started"
		if !s.good.IsZero() {
			since = "since " + s.good.UTC().Format(time.RFC3339) + "; its jobs of then stay in force"
		}
		s.broken = []Fault{{Reason: fmt.Sprintf("Slurm has not answered %s: %v", since, err), Unread: s.good.IsZero()}}
		return time.Since(now)
	}
	jobs, faults := s.book.list()
	s.jobs, s.faults = jobs, slices.Concat(s.machineFaults, s.slow, faults)
	s.broken, s.good, s.nodes = nil, now, s.book.names
	return time.Since(now)
}

// ask brings the book up to date. After an error it is as it was, or has what was learnt of the nodes and CPUs.
func (s *SlurmSource) ask(ctx context.Context, now time.Time) error {
	rows, err := s.squeue(ctx)
	if err != nil {
		return err
	}
	if now.Sub(s.book.asked) >= machineEvery || s.book.strange(rows) {
		if err := s.askMachine(ctx); err != nil {
			return err
		}
		s.book.asked = now
	}
	s.slow = nil
	if unknown := s.book.unshared(rows); len(unknown) > 0 {
		shares, err := s.askShares(ctx, now, unknown)
		s.book.learn(unknown, shares)
		if err != nil {
			return err
		}
	}
	s.book.take(now.UnixMilli(), rows)
	return nil
}

// askShares asks which CPUs jobs have. Up to askedAlone of them are asked for one by one, those first that were not yet: for more than
// one job scontrol answers with all, pending ones too, and that may take long. Job names may hold lines that look like scontrol's own;
// asked for alone, only a job's owner can disturb it. After an error it returns what it learnt.
func (s *SlurmSource) askShares(ctx context.Context, now time.Time, unknown []*slurmRow) (map[string]*cpuShares, error) {
	slices.SortStableFunc(unknown, func(x, y *slurmRow) int {
		return cmp.Compare(s.vain[x.job.Identity()], s.vain[y.job.Identity()])
	})
	alone, others := unknown[:min(len(unknown), askedAlone)], unknown[min(len(unknown), askedAlone):]
	shares, vain := map[string]*cpuShares{}, map[schemas.JobKey]int64{}
	for _, r := range unknown {
		vain[r.job.Identity()] = s.vain[r.job.Identity()]
	}
	s.polls++
	for _, r := range alone {
		one := map[string]*cpuShares{}
		switch err := s.scontrol(ctx, one, r.job.JobID); {
		case ctx.Err() != nil: // nothing is known of it, not even whether it has ended
			return shares, cmp.Or(err, ctx.Err())
		case err == nil: // an error: it has ended meanwhile
			shares[r.job.JobID] = one[r.job.JobID]
		}
		vain[r.job.Identity()] = s.polls
	}
	s.vain = vain
	others = slices.DeleteFunc(slices.Clone(others), func(r *slurmRow) bool { return vain[r.job.Identity()] != 0 })
	if len(others) == 0 {
		return shares, nil // the rest were asked for before, and will be again in turn
	}
	all := map[string]*cpuShares{}
	err := s.askAll(ctx, now, all)
	for _, r := range others {
		shares[r.job.JobID] = all[r.job.JobID]
	}
	return shares, err
}

// askAll asks for all jobs at once. Where that takes too long, it is not tried again for allEvery, and other jobs go on meanwhile.
func (s *SlurmSource) askAll(ctx context.Context, now time.Time, all map[string]*cpuShares) error {
	if !now.Before(s.allAgain) {
		err := s.scontrol(ctx, all)
		if ctx.Err() == nil {
			return err
		}
		s.allAgain = now.Add(allEvery)
	}
	reason := fmt.Sprintf("scontrol does not show all jobs within %v, so new jobs on shared nodes wait, and %d are asked for in each poll: "+
		"raise balance.slurm.timeout", s.cfg.Timeout, askedAlone)
	if s.good.IsZero() {
		return errors.New(reason) // jobs on the Routes go on only while the list was never read
	}
	s.slow = []Fault{{Followed: true, Reason: reason}}
	return nil
}

// slurmStates are those in which a job has or had nodes. Pending jobs are not asked for: there may be very many.
// squeue matches a base state such as RUNNING only to a job without flags. So each flag of a job that goes on is a state here too.
const slurmStates = "RUNNING,SIGNALING,STOPPED,RESIZING,SUSPENDED,COMPLETING,STAGE_OUT,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY"

// slurmFields are the fields of a row with their widths, what users choose last. 0 is no width at all. A text that a user may make
// long has maxShownBytes, which Slurm fills up with blanks: so one user's texts cannot make the answer too long for all.
var slurmFields = []string{"JobID:0", "RestartCnt:0", "State:0", "StartTime:0", "EndTime:0", "SubmitTime:0", "NumCPUs:0", "NodeList:0", "UserName:0", "Partition:0", "Account:200", "Name:200"}

// squeue returns the rows. A row ends with a text that nobody can know before, since a job's name may hold whatever a
// user likes: separators, line feeds, whole rows.
func (s *SlurmSource) squeue(ctx context.Context) ([]slurmRow, error) {
	end := ";" + rand.Text()
	format := strings.Join(slurmFields, "|,") + end
	var text []byte
	err := s.run(ctx, func(r io.Reader) (err error) {
		text, err = io.ReadAll(io.LimitReader(r, maxSqueueBytes+1))
		if err == nil && len(text) > maxSqueueBytes {
			err = errors.New("longer than 64 MiB")
		}
		return err
	}, "squeue", "--noheader", "--noconvert", "--all", "--local", "--states="+slurmStates, "--Format="+format)
	if err != nil {
		return nil, err
	}
	return parseSqueue(string(text), end+"\n")
}

// askMachine brings the nodes up to date, and what is wrong with them.
func (s *SlurmSource) askMachine(ctx context.Context) error {
	machine := map[string]slurmNode{}
	bad, first := 0, error(nil)
	err := s.lines(ctx, func(line string) error {
		if err := parseSinfo(line, machine); err != nil {
			bad, first = bad+1, cmp.Or(first, err)
		}
		return nil
	}, "sinfo", "--noheader", "--noconvert", "--all", "--local", "--Node", "--format=%N|%c|%X|%Y|%Z")
	switch {
	case err != nil:
		return err
	case bad > 0 && len(machine) == 0:
		return fmt.Errorf("reading sinfo: %w", first)
	}
	s.book.setMachine(machine)
	s.machineFaults = nil
	if bad > 0 {
		s.machineFaults = append(s.machineFaults, Fault{Followed: true, Reason: fmt.Sprintf("%d lines of sinfo are left out, with their nodes: %v", bad, first)})
	}
	if unnamed := s.book.unnamed(); unnamed != "" {
		s.machineFaults = append(s.machineFaults, Fault{Followed: true, Reason: unnamed})
	}
	hidden, err := s.hidden(ctx)
	if hidden != "" {
		s.machineFaults = append(s.machineFaults, Fault{Followed: true, Reason: hidden})
	}
	return err
}

// hidden says which of Slurm's data this process does not see; empty if none. A controller that does not tell hides nothing.
func (s *SlurmSource) hidden(ctx context.Context) (string, error) {
	if s.uid == 0 {
		return "", nil
	}
	p := slurmPrivacy{uid: s.uid}
	if err := s.lines(ctx, p.line, "scontrol", "--local", "show", "config"); err != nil {
		return "", ctx.Err()
	}
	if p.reason() != "" { // not before: a site may have many users
		_ = s.lines(ctx, p.line, "scontrol", "--local", "show", "assoc_mgr", "flags=users")
	}
	return p.reason(), ctx.Err()
}

func (s *SlurmSource) scontrol(ctx context.Context, shares map[string]*cpuShares, job ...string) error {
	p := scontrolReader{shares: shares}
	return s.lines(ctx, p.line, "scontrol", append([]string{"--details", "--all", "--local", "show", "job"}, job...)...)
}

// lines hands each line of a command to take.
func (s *SlurmSource) lines(ctx context.Context, take func(line string) error, name string, args ...string) error {
	return s.run(ctx, func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLineBytes)
		for lines.Scan() {
			if err := take(lines.Text()); err != nil {
				return err
			}
		}
		if errors.Is(lines.Err(), bufio.ErrTooLong) {
			return errors.New("a line longer than 4 MiB")
		}
		return lines.Err()
	}, name, args...)
}

// run runs one of Slurm's commands and hands over what it says. A command that hangs is killed when ctx ends, with all that
// it started: it may be a site's script around Slurm's own.
func (s *SlurmSource) run(ctx context.Context, read func(io.Reader) error, name string, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills what has not been read to its end
	cmd := exec.CommandContext(ctx, filepath.Join(s.cfg.Bin, name), args...)
	cmd.Env = slurmEnviron(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var said strings.Builder
	cmd.Stderr = &limitedWriter{to: &said, left: 300}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	// Also where a process that has left the group keeps it open, and its errors.
	cmd.WaitDelay = time.Second
	defer context.AfterFunc(ctx, func() { _ = out.Close() })()
	if err := read(out); err != nil && ctx.Err() == nil {
		cancel()
		_ = cmd.Wait() // we ended it
		return fmt.Errorf("reading %s: %w", name, err)
	}
	err = cmd.Wait()
	switch text := strings.Join(strings.Fields(said.String()), " "); {
	case ctx.Err() != nil && text != "":
		return fmt.Errorf("running %s: no answer within %v: %.200q", name, s.cfg.Timeout, text)
	case ctx.Err() != nil:
		return fmt.Errorf("running %s: no answer within %v", name, s.cfg.Timeout)
	case err != nil && text != "":
		return fmt.Errorf("running %s: %w: %.200q", name, err, text)
	case err != nil:
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}

// slurmEnviron is an environment in which Slurm's commands print what we ask for: no filters or formats of the
// administrator's, times in UTC.
func slurmEnviron(environ []string) []string {
	kept := slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		return strings.HasPrefix(e, "SQUEUE_") || strings.HasPrefix(e, "SINFO_") || strings.HasPrefix(e, "SCONTROL_") ||
			strings.HasPrefix(e, "SLURM_CLUSTERS=")
	})
	return append(kept, "TZ=UTC", "LC_ALL=C", "SLURM_TIME_FORMAT=standard")
}

// limitedWriter keeps the beginning of what is written and drops the rest.
type limitedWriter struct {
	to   io.Writer
	left int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if _, err := w.to.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

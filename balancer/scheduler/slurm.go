package scheduler

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const (
	// maxLineBytes bounds each line of scontrol and sinfo.
	maxLineBytes = 4 << 20
	// machineEvery is the time between two questions for Slurm's nodes, unless a job is on an unknown one.
	machineEvery = time.Minute
	// askedAgain bounds the number of jobs in a poll for which scontrol is asked again, after an answer that was not
	// used.
	askedAgain = 16
	// jsonEvery is the pause after scontrol wrote no JSON. Slurm may be upgraded.
	jsonEvery = time.Minute
)

// SlurmSource asks Slurm for its jobs in the background, so that a controller that hangs holds up nobody. While Slurm
// does not answer, the jobs of its last answer stay in force, and a Fault states since when.
//
// Every task of an array and every component of a heterogeneous job is a job of its own. Its id is the number that
// Slurm gives it; SLURM_JOB_ID is the first component's number in all components. Its restart is Slurm's count of
// restarts. The array of a task is kept in the job. A suspended job holds nothing until it goes on.
type SlurmSource struct {
	cfg  config.Slurm
	uid  int        // of this process
	book *slurmBook // only polls use this and the next two

	polls int64 // in which jobs were asked for one by one
	// turns orders the jobs of unknown allocation by the last of these polls that asked for the job. If no poll has
	// asked yet, it is negative, and ascends with the first poll that listed the job.
	turns map[schemas.JobKey]int64

	machineFaults []Fault   // in the machine, as Slurm last described it
	jsonAgain     time.Time // when JSON may be asked for again

	mu     sync.Mutex
	jobs   []Job
	faults []Fault // in single jobs, and in the machine
	broken []Fault // of the last poll: one or none
	good   time.Time
	nodes  []string
}

// StartSlurm polls once, and returns a source that polls again until ctx ends.
func StartSlurm(ctx context.Context, cfg config.Config) *SlurmSource {
	s := newSlurmSource(cfg)
	poll := func() (pause time.Duration) {
		begun := time.Now()
		s.poll(ctx, begun)
		return max(s.cfg.Poll, time.Since(begun)) // a busy controller is asked half of the time at most
	}
	pause := poll()
	go repeat(ctx, pause, poll)
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

// Nodes returns the nodes of the machine in Slurm's last answer.
func (s *SlurmSource) Nodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes
}

// poll asks once. It does not change slices that Jobs returned earlier.
func (s *SlurmSource) poll(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	err := s.ask(ctx, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		since := "since weir started"
		if !s.good.IsZero() {
			since = "since " + s.good.UTC().Format(time.RFC3339) + "; its jobs of then stay in force"
		}
		s.broken = []Fault{{Reason: fmt.Sprintf("Slurm has not answered %s: %v", since, err), Unread: s.good.IsZero()}}
		return
	}
	jobs, faults := s.book.list()
	s.jobs, s.faults = jobs, slices.Concat(s.machineFaults, faults)
	s.broken, s.good, s.nodes = nil, now, s.book.names
}

// ask brings the book up to date. After an error the book keeps its old jobs, and possibly newer nodes and allocations.
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
	if unknown := s.book.unknownAllocations(rows); len(unknown) > 0 {
		allocations, err := s.askAllocations(ctx, now, unknown)
		s.book.learn(unknown, allocations)
		if err != nil {
			return err
		}
	}
	s.book.update(now.UnixMilli(), rows)
	return nil
}

// askAllocations asks for the CPUs of one job after the other: in an answer about several jobs, any user can forge
// lines about another's job. Jobs that were not asked for yet come first, in the order of their arrival. After a while
// the other jobs wait for the next poll. The first list waits for all jobs, since without it jobs on the Routes would
// end. After an error it returns the answers that came before.
func (s *SlurmSource) askAllocations(
	ctx context.Context, now time.Time, unknown []*slurmRow,
) (map[string]*rawAllocation, error) {
	allocations, turns := map[string]*rawAllocation{}, map[schemas.JobKey]int64{}
	for _, r := range unknown {
		key := r.job.Identity()
		turn, waits := s.turns[key]
		if !waits {
			turn = s.polls - math.MaxInt64
		}
		turns[key] = turn
	}
	slices.SortStableFunc(unknown, func(x, y *slurmRow) int {
		return cmp.Compare(turns[x.job.Identity()], turns[y.job.Identity()])
	})
	s.turns = turns
	s.polls++
	begun, limit := time.Now(), min(s.cfg.Poll, s.cfg.Timeout/2)
	for i, r := range unknown {
		again := turns[r.job.Identity()] > 0
		if i >= askedAgain && (again || !s.good.IsZero() && time.Since(begun) >= limit) {
			break
		}
		answer, err := s.askAlone(ctx, now, r)
		if ctx.Err() != nil { // nothing is known of the job, not even whether it has ended
			left := len(unknown) - i
			return allocations, fmt.Errorf("%d jobs on shared nodes are still to be asked for: %w", left,
				cmp.Or(err, ctx.Err()))
		}
		if err != nil { // usually the job has ended meanwhile
			answer = &rawAllocation{wrong: err.Error()}
		}
		allocations[r.job.JobID], turns[r.job.Identity()] = answer, s.polls
	}
	return allocations, nil
}

// askAlone asks for one job. A user's text cannot change the structure of the JSON. The text of scontrol contains no
// user's texts but the job owner's.
func (s *SlurmSource) askAlone(ctx context.Context, now time.Time, r *slurmRow) (*rawAllocation, error) {
	if !now.Before(s.jsonAgain) {
		answer, err := s.askJSON(ctx, now, r)
		if ctx.Err() != nil || !errors.Is(err, errNoJSON) {
			return answer, err
		}
	}
	answer, err := s.askText(ctx, r.job.JobID, r.job.JobID)
	if err != nil || answer.jobs < 2 {
		return answer.allocation(), err
	}
	// For the number of an array Slurm shows all its tasks. For the first component's number it shows all components of
	// a heterogeneous job.
	part := r.job.JobID + "+0"
	if r.job.ArrayTask != nil {
		part = fmt.Sprintf("%s_%d", *r.job.ArrayJob, *r.job.ArrayTask)
	}
	answer, err = s.askText(ctx, r.job.JobID, part)
	return answer.allocation(), err
}

// askText asks for the text about a job by one of its names.
func (s *SlurmSource) askText(ctx context.Context, id, name string) (*scontrolReader, error) {
	p := newScontrolReader(id)
	return p, s.lines(ctx, p.line, "scontrol", "--details", "--all", "--local", "show", "job", name)
}

// askJSON returns errNoJSON if the answer is not JSON, or too long. Some releases print no JSON about a job that is
// gone. Other releases have no JSON for any job, and report this as an error.
func (s *SlurmSource) askJSON(ctx context.Context, now time.Time, r *slurmRow) (*rawAllocation, error) {
	var text []byte
	err := s.run(ctx, func(from io.Reader) (err error) {
		text, err = io.ReadAll(io.LimitReader(from, maxJSONBytes+1))
		return err
	}, "scontrol", "--json", "--details", "--all", "--local", "show", "job", r.job.JobID)
	if len(text) > maxJSONBytes { // as of thousands of nodes, or of the tasks of an array: the text is far shorter
		return nil, errNoJSON
	}
	answer, wrong := parseJobJSON(text, r, s.book.machine)
	if errors.Is(wrong, errNoJSON) && (err == nil || strings.Contains(strings.ToLower(err.Error()), "json")) {
		s.jsonAgain = now.Add(jsonEvery)
	}
	return answer, wrong
}

// slurmStates are the states in which a job holds or held nodes. Pending jobs are not queried, because there may be
// very many. squeue matches a base state such as RUNNING only to a job without flags. So each flag of a job that goes
// on is a state here too.
const slurmStates = "RUNNING,SIGNALING,STOPPED,RESIZING,SUSPENDED,COMPLETING,STAGE_OUT," +
	"COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY"

// slurmFields are the fields of a row with their widths; 0 means none. Texts chosen by users come last. A text of any
// length is limited to maxShownBytes, so that one user's texts cannot make the answer too long for all. Slurm fills
// such a field up with blanks.
var slurmFields = []string{
	"JobID:0", "RestartCnt:0", "State:0", "StartTime:0", "EndTime:0", "SubmitTime:0",
	"NumCPUs:0", "NodeList:0", "TimeLimit:0", "OverSubscribe:0", "tres-alloc:0",
	"ArrayJobID:0", "ArrayTaskID:0", "UserName:0", "Partition:0", "Account:200", "Name:200",
}

// squeue returns the rows. Each row ends with a random text that no user can know before. A job's name may hold
// anything: separators, line feeds, whole rows.
func (s *SlurmSource) squeue(ctx context.Context) ([]slurmRow, error) {
	end := ";" + rand.Text()
	format := strings.Join(slurmFields, "|,") + end
	var rows []slurmRow
	err := s.run(ctx, func(r io.Reader) (err error) {
		rows, err = readSqueue(r, end+"\n")
		return err
	}, "squeue", "--noheader", "--noconvert", "--all", "--local", "--states="+slurmStates, "--Format="+format)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// askMachine brings the nodes and the faults of the machine up to date.
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
		reason := fmt.Sprintf("%d lines of sinfo are left out, with their nodes: %v", bad, first)
		s.machineFaults = append(s.machineFaults, Fault{Followed: true, Reason: reason})
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

// hidden describes the part of Slurm's data that this process may not see; empty if none. If the controller does not
// answer, it counts as hiding nothing.
func (s *SlurmSource) hidden(ctx context.Context) (string, error) {
	if s.uid == 0 {
		return "", nil
	}
	p := slurmPrivacy{uid: s.uid}
	if err := s.lines(ctx, p.line, "scontrol", "--local", "show", "config"); err != nil {
		return "", ctx.Err()
	}
	if p.reason() != "" { // only if needed: a site may have many users
		_ = s.lines(ctx, p.line, "scontrol", "--local", "show", "assoc_mgr", "flags=users")
	}
	return p.reason(), ctx.Err()
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/naming"
)

const (
	// maxDropBytes bounds a file of the drop directory.
	maxDropBytes = 1 << 20
	// manyDropFiles in the directory are worth a warning: 131,072 jobs. They are read all the same.
	manyDropFiles = 1 << 18
	// dropBatch is how many names are read at once.
	dropBatch = 1 << 12
	// dropCheck is how often jobs that ended long ago are joined with the others again. Other polls leave them out: they are nearly
	// all jobs of a busy day.
	dropCheck = 10 * time.Minute
)

// DropDir reads a directory into which a scheduler's prolog and epilog write when jobs start and end, to the millisecond.
// A job has a file ID.RESTART.start, and one ID.RESTART.end once it is over, each put in place by rename(2). Their lines
// are key=value: start_ms or end_ms, in Unix milliseconds; and in .start also nodes (a hostlist), cpus (such as 0-3,8; on each node;
// none: all), user, account, queue and name, all of which may be missing where another source knows the job too. Files with
// other names are left alone. A fault in one file leaves that file out.
//
// An epilog may never run, and the clocks of two hosts differ. So where no other source knows the jobs, what the latest prolog says
// holds: a job ends at the latest where its next restart begins, or where another job starts on a CPU that it has.
type DropDir struct {
	dir    string
	alone  bool // no other source knows the jobs
	keepMs int64

	files   map[string]*dropFile // as they were last read; of the scans alone, as are the next two
	scans   int
	checked time.Time // when the files of jobs that are past were last joined with the others

	mu     sync.Mutex
	jobs   []Job
	faults []Fault
	broken []Fault // of the directory as a whole: one or none, and one where it has many files
}

// dropFile is a file with what it says.
type dropFile struct {
	info os.FileInfo
	job  Job
	err  error

	// Of a start: the end of the job as it was last known. It stays known when the files that said it are cleaned up first.
	end   *int64
	doubt string // why that is not what the job's own file says
	past  bool   // the job ended too long ago for any interval

	scan int // in which the directory had it last
}

// StartDropDir returns a source that reads the directory every so often until ctx ends, after a first time.
func StartDropDir(ctx context.Context, cfg config.Config) *DropDir {
	d := newDropDir(cfg)
	d.scan(time.Now())
	go func() {
		for kafka.Pause(ctx, cfg.Balance.Slurm.Poll) {
			d.scan(time.Now())
		}
	}()
	return d
}

func newDropDir(cfg config.Config) *DropDir {
	return &DropDir{
		dir: cfg.Balance.DropDir, alone: !cfg.Balance.Slurm.Enabled, keepMs: (config.Outage + 2) * cfg.Interval.Milliseconds(),
	}
}

// Jobs implements Source.
func (d *DropDir) Jobs(time.Time) ([]Job, []Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs, slices.Concat(d.broken, d.faults)
}

// scan reads what is new. Where that is not possible, what was known stays.
func (d *DropDir) scan(now time.Time) {
	if err := d.read(); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		stays := "; what it said before stays in force"
		if d.checked.IsZero() {
			stays = ""
		}
		d.broken = []Fault{{Reason: fmt.Sprintf("reading the drop directory %s: %v%s", d.dir, naming.Pathless(err), stays), Unread: d.checked.IsZero()}}
		return
	}
	if since := now.Sub(d.checked); since >= dropCheck || since < 0 {
		d.checked = now
		for _, f := range d.files {
			f.past = false
		}
	}
	jobs, faults := d.list(now.UnixMilli())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs, d.faults, d.broken = jobs, faults, nil
	if len(d.files) > manyDropFiles {
		d.broken = []Fault{{Followed: true, Reason: fmt.Sprintf("the drop directory %s has more than %d files, which makes reading it slow: remove old ones, as deploy/slurm/epilog does",
			d.dir, manyDropFiles)}}
	}
}

// read brings the files up to date. After an error none is forgotten.
func (d *DropDir) read() error {
	dir, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // nothing was written
	if d.files == nil {
		d.files = map[string]*dropFile{}
	}
	d.scans++
	for {
		entries, err := dir.ReadDir(dropBatch)
		for _, e := range entries {
			d.readEntry(e)
		}
		switch {
		case errors.Is(err, io.EOF):
			maps.DeleteFunc(d.files, func(_ string, f *dropFile) bool { return f.scan != d.scans })
			return nil
		case err != nil:
			return err
		}
	}
}

// readEntry reads a file about a job, if it is not as it was when it was last read.
func (d *DropDir) readEntry(e os.DirEntry) {
	old := d.files[e.Name()]
	job, ok := Job{}, old != nil
	if !ok {
		job, ok = dropName(e.Name())
	} else {
		job.JobID, job.Restart = old.job.JobID, old.job.Restart
	}
	if !ok {
		return
	}
	info, err := e.Info()
	if err != nil {
		return // it went meanwhile
	}
	if old != nil && os.SameFile(info, old.info) && info.Size() == old.info.Size() && info.ModTime().Equal(old.info.ModTime()) {
		old.scan = d.scans
		return
	}
	f := &dropFile{info: info, job: job, scan: d.scans}
	if f.err = f.read(filepath.Join(d.dir, e.Name())); !errors.Is(f.err, os.ErrNotExist) {
		d.files[e.Name()] = f
	}
}

// dropName returns the job that a file is about. A job has one name only: no 00 for 0. An id may have dots.
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

// read reads the file, which may be anything that somebody put there: a link or a pipe is not opened.
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

// parseDrop fills a job with what a file says.
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
		switch {
		case starts && key == "start_ms":
			j.Start, err = dropTime(value)
		case !starts && key == "end_ms":
			j.End, err = dropTime(value)
		case starts && key == "nodes":
			j.Nodes, err = topology.ExpandHosts(value)
		case starts && key == "cpus" && value != "":
			j.Cpus, err = parseCPUs(value)
		case starts && key == "cpus":
		case starts && key == "user":
			j.User = printable(value)
		case starts && key == "account":
			j.Account = printable(value)
		case starts && key == "queue":
			j.Queue = printable(value)
		case starts && key == "name":
			j.Name = printable(value)
		default:
			err = errors.New("unknown key")
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

func dropTime(text string) (*int64, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if t := time.UnixMilli(ms).UTC(); err != nil || t.Year() < 1970 || t.Year() > 2100 {
		return nil, errors.New("not a time in Unix milliseconds between 1970 and 2100")
	}
	return &ms, nil
}

// list returns the jobs that did not end too long ago. An end without a start is a job without nodes, of which only the end is
// known.
func (d *DropDir) list(nowMs int64) (jobs []Job, faults []Fault) {
	jobs, doubts, faults := d.join()
	if d.alone {
		for _, c := range endOverlaps(jobs) {
			if _, said := d.files[endName(&jobs[c.job])]; !said {
				doubts[c.job] = fmt.Sprintf("no file %s, but %s: it counts as ended then; did the epilog fail?", endName(&jobs[c.job]), c.why)
			}
		}
	}
	kept := jobs[:0]
	for i, j := range jobs {
		past := j.End != nil && *j.End < nowMs-d.keepMs
		if f, starts := d.files[startName(&j)]; starts && j.End != nil {
			f.end, f.doubt, f.past = j.End, doubts[i], past
		}
		if f, ends := d.files[endName(&j)]; ends {
			f.past = past
		}
		if past {
			continue
		}
		kept = append(kept, j)
		if doubts[i] != "" {
			faults = append(faults, Fault{JobID: j.JobID, Restart: j.Restart, Reason: doubts[i], Followed: true})
		}
	}
	return kept, faults
}

// join returns the jobs with their ends, what is in doubt about some of them, by index, and the files that cannot be read.
func (d *DropDir) join() (jobs []Job, doubts map[int]string, faults []Fault) {
	doubts = map[int]string{}
	at := map[schemas.JobKey]int{}
	names := d.present()
	for _, ends := range []bool{false, true} {
		for _, name := range names {
			f := d.files[name]
			if strings.HasSuffix(name, ".end") != ends {
				continue
			}
			if f.err != nil {
				faults = append(faults, Fault{JobID: f.job.JobID, Restart: f.job.Restart, Reason: fmt.Sprintf("file %s of the drop directory: %v", name, f.err)})
				continue
			}
			i, known := at[f.job.Identity()]
			switch {
			case !known:
				i = len(jobs)
				at[f.job.Identity()] = i
				jobs = append(jobs, f.job)
				if !ends && f.end != nil {
					jobs[i].End, doubts[i] = f.end, f.doubt
				}
			case d.isPast(startName(&f.job)): // an end that comes so late is of no use
			case *f.job.End < *jobs[i].Start:
				doubts[i] = fmt.Sprintf("file %s of the drop directory ends it at %s, before its start at %s, and is left out", name, Stamp(*f.job.End), Stamp(*jobs[i].Start))
			default:
				jobs[i].End, doubts[i] = f.job.End, ""
			}
		}
	}
	return jobs, doubts, faults
}

// isPast reports whether a file is there, of a job that is past.
func (d *DropDir) isPast(name string) bool { f := d.files[name]; return f != nil && f.past }

// present returns the names of the files of jobs that are not past, sorted.
func (d *DropDir) present() []string {
	names := map[string]bool{}
	for name, f := range d.files {
		if !f.past {
			names[name] = true
			for _, both := range []string{startName(&f.job), endName(&f.job)} {
				if _, there := d.files[both]; there { // past, where the other file is new
					names[both] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Stamp writes a time to the millisecond.
func Stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

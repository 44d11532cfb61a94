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
	"strings"
	"sync"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

const (
	// maxDropBytes bounds a file of the drop directory.
	maxDropBytes = 1 << 20
	// manyDropFiles is the number of files that is worth a warning: the files of 131,072 jobs. All of them are read
	// nevertheless.
	manyDropFiles = 1 << 18
	// dropBatch is the number of names that are read at once.
	dropBatch = 1 << 12
	// dropCheck is the time after which jobs that ended long ago are joined with the others again. Other polls leave
	// them out, because they are nearly all jobs of a busy day.
	dropCheck = 10 * time.Minute
)

// DropDir reads a directory into which a scheduler's prolog and epilog write when jobs start and end, to the
// millisecond. A job is described by a file ID.RESTART.start, and by ID.RESTART.end once it is over, each put in place
// by rename(2). Their lines are key=value: start_ms or end_ms, in Unix milliseconds. .start also lists nodes (a
// hostlist), cpus (such as 0-3,8; on each node; none: all), user, account, queue and name. These may be missing if
// another source knows the job too. Always optional are cores, gpus, time_limit_s, mem_requested_bytes, exclusive,
// array_job and array_task, and in .end the state (FAILED and so on). Files with other names are left alone. A fault in
// one file leaves that file out.
//
// An epilog may never run, and the clocks of two hosts differ. So if no other source knows the jobs, the latest prolog
// counts. A job ends at the latest when its next restart begins, or when another job starts on one of its CPUs.
type DropDir struct {
	dir    string
	alone  bool // no other source knows the jobs
	keepMs int64
	many   int // so many files are worth a warning

	files   map[string]*dropFile // as they were last read; only scan uses this and the next three
	past    pastFiles
	scans   int
	checked time.Time // when the files of past jobs were last joined with the others

	lane config.Lane // of the scans

	mu     sync.Mutex
	known  bool // it was read once
	jobs   []Job
	faults []Fault
	broken []Fault // of the directory as a whole: at most one error, and one warning if it contains many files
	hung   []Fault // one while it does not answer
}

// dropFile is a file and its contents.
type dropFile struct {
	info os.FileInfo
	job  Job
	err  error

	// Of a start: the end of the job as it was last known. It stays known if the file with the end is removed first.
	end   *int64
	state string // outcome of the job, if the file states it
	doubt string // why end is not from the job's own file
	past  bool   // the job ended too long ago for any interval

	scan int // the last scan that found it
}

// StartDropDir returns a source that reads the directory at each poll until ctx ends. It waits for the first poll, but
// not for long. Meanwhile intervals are closed by the earlier Routes.
func StartDropDir(ctx context.Context, cfg config.Config) *DropDir {
	d := newDropDir(cfg)
	d.start(ctx, cfg.Balance.Slurm.Poll, config.ReadPatience)
	return d
}

// errFirst is returned until the directory was read once.
var errFirst = errors.New("the first reading goes on")

func (d *DropDir) start(ctx context.Context, pause, patience time.Duration) {
	d.hung = d.fault(errFirst)
	first := make(chan struct{})
	go func() {
		d.poll()
		close(first)
		repeat(ctx, pause, func() time.Duration {
			d.poll()
			return pause
		})
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-first:
	case <-late.C:
	}
}

// poll scans the directory, unless an earlier scan hangs. A scan of many files may take long.
func (d *DropDir) poll() {
	hangs := d.lane.Call(config.ReadPatience, func() { d.scan(time.Now()) })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hung = nil
	if !hangs.IsZero() {
		d.hung = d.fault(config.Silent(hangs))
	}
}

// fault is the reason why the directory cannot be read.
func (d *DropDir) fault(err error) []Fault {
	stays := "; what it said before stays in force"
	if !d.known {
		stays = ""
	}
	reason := fmt.Sprintf("reading the drop directory %s: %v%s", d.dir, naming.Pathless(err), stays)
	return []Fault{{Reason: reason, Unread: !d.known}}
}

func newDropDir(cfg config.Config) *DropDir {
	return &DropDir{
		dir: cfg.Balance.DropDir, alone: !cfg.Balance.Slurm.Enabled,
		keepMs: (config.Outage + 2) * cfg.Interval.Milliseconds(), many: manyDropFiles,
	}
}

// Jobs implements Source.
func (d *DropDir) Jobs(time.Time) ([]Job, []Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs, slices.Concat(d.hung, d.broken, d.faults)
}

// scan reads new and changed files. After an error, the known jobs stay.
func (d *DropDir) scan(now time.Time) {
	if err := d.read(now.UnixMilli()); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.broken = d.fault(err)
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
	d.known, d.jobs, d.faults, d.broken = true, jobs, faults, nil
	if len(d.files)+len(d.past.files) > d.many {
		reason := fmt.Sprintf("the drop directory %s has more than %d files, which makes reading it slow: "+
			"remove old ones, as deploy/slurm/epilog does", d.dir, d.many)
		d.broken = []Fault{{Followed: true, Reason: reason}}
	}
}

// read brings the files up to date. It forgets none after an error.
func (d *DropDir) read(nowMs int64) error {
	dir, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // nothing was written
	if d.files == nil {
		d.files, d.past = map[string]*dropFile{}, newPastFiles()
	}
	d.scans++
	var starts []string // that are not known; they come last, so that most are seen to be of past jobs
	for {
		entries, err := dir.ReadDir(dropBatch)
		for _, e := range entries {
			name := e.Name()
			if !d.alone && strings.HasSuffix(name, ".start") && d.files[name] == nil && !d.past.knows(name) {
				starts = append(starts, name)
			} else {
				d.readEntry(name, e.Info, nowMs)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			for _, name := range starts {
				d.readEntry(name, func() (os.FileInfo, error) { return os.Lstat(filepath.Join(d.dir, name)) }, nowMs)
			}
			maps.DeleteFunc(d.files, func(_ string, f *dropFile) bool { return f.scan != d.scans })
			d.past.keep(d.scans)
			return nil
		case err != nil:
			return err
		}
	}
}

// readEntry reads a file about a job if it has changed since the last read.
func (d *DropDir) readEntry(name string, stat func() (os.FileInfo, error), nowMs int64) {
	d.lane.Move()
	old := d.files[name]
	job, ok := Job{}, old != nil
	if !ok {
		job, ok = dropName(name)
	} else {
		job.JobID, job.Restart = old.job.JobID, old.job.Restart
	}
	if !ok {
		return
	}
	info, err := stat()
	if err != nil {
		return // it went meanwhile
	}
	if old != nil && unchanged(old.info, info) {
		old.scan = d.scans
		return
	}
	if d.past.has(name, info, d.scans) {
		return
	}
	f := &dropFile{info: info, job: job, scan: d.scans}
	if f.err = f.read(filepath.Join(d.dir, name)); errors.Is(f.err, os.ErrNotExist) {
		return
	}
	d.files[name] = f
	if f.err == nil && !d.alone {
		d.meetPast(name, f, nowMs)
	}
}

// meetPast forgets the contents of a file if its job ended too long ago for any interval. It also checks the job's
// other file: if an end is no longer past, or was before the start, both are read again.
func (d *DropDir) meetPast(name string, f *dropFile, nowMs int64) {
	start, end := startName(&f.job), endName(&f.job)
	switch ended, past := d.past.endOf(end); {
	case name == end && *f.job.End < nowMs-d.keepMs:
		if s := d.files[start]; s == nil || s.err == nil && *s.job.Start <= *f.job.End {
			d.forget(end)
			d.forget(start)
		}
	case name == end:
		d.past.drop(start)
	case past && *f.job.Start < ended:
		d.forget(start)
	case past:
		d.past.drop(end)
	}
}

// forget drops the contents of a file, and remembers only that it is past.
func (d *DropDir) forget(name string) {
	if f := d.files[name]; f != nil {
		d.past.add(name, f, d.scans)
		delete(d.files, name)
	}
}

// list returns the jobs that did not end too long ago. An end without a start is a job without nodes: only its end is
// known.
func (d *DropDir) list(nowMs int64) (jobs []Job, faults []Fault) {
	jobs, doubts, faults := d.join()
	if d.alone {
		for _, c := range endOverlaps(jobs) {
			if _, said := d.files[endName(&jobs[c.job])]; !said {
				doubts[c.job] = fmt.Sprintf("no file %s, but %s: it counts as ended then; did the epilog fail?",
					endName(&jobs[c.job]), c.why)
			}
		}
	}
	kept := jobs[:0]
	for i, j := range jobs {
		past := j.End != nil && *j.End < nowMs-d.keepMs
		if f, starts := d.files[startName(&j)]; starts && j.End != nil {
			f.end, f.state, f.doubt, f.past = j.End, j.State, doubts[i], past
		}
		if f, ends := d.files[endName(&j)]; ends {
			f.past = past
		}
		if past {
			if !d.alone { // no other job's file can change that
				d.forget(startName(&j))
				d.forget(endName(&j))
			}
			continue
		}
		kept = append(kept, j)
		if doubts[i] != "" {
			faults = append(faults, Fault{JobID: j.JobID, Restart: j.Restart, Reason: doubts[i], Followed: true})
		}
	}
	return kept, faults
}

// join joins starts with ends. It returns the jobs, doubts about some of them by index, and faults for unreadable
// files.
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
				reason := fmt.Sprintf("file %s of the drop directory: %v", name, f.err)
				faults = append(faults, Fault{JobID: f.job.JobID, Restart: f.job.Restart, Reason: reason})
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
					jobs[i].State = f.state
				}
			case d.isPast(startName(&f.job)): // no interval needs an end that comes so late
			case *f.job.End < *jobs[i].Start:
				doubts[i] = fmt.Sprintf("file %s of the drop directory ends it at %s, before its start at %s, "+
					"and is left out", name, Stamp(*f.job.End), Stamp(*jobs[i].Start))
			default:
				jobs[i].End, jobs[i].State, doubts[i] = f.job.End, f.job.State, ""
			}
		}
	}
	return jobs, doubts, faults
}

// isPast reports whether the file is in the directory, but its job ended too long ago for any interval.
func (d *DropDir) isPast(name string) bool { f := d.files[name]; return f != nil && f.past }

// present returns the names of the files of jobs that are not past, sorted.
func (d *DropDir) present() []string {
	names := map[string]bool{}
	for name, f := range d.files {
		if !f.past {
			names[name] = true
			for _, both := range []string{startName(&f.job), endName(&f.job)} {
				if _, there := d.files[both]; there { // a past file counts again if the job's other file is new
					names[both] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Stamp writes a time to the millisecond.
func Stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

package source

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// JobColumns is the metrics of one job's cgroup in an interval.
type JobColumns struct {
	Cgroup  string  // the name of its directory
	CPUs    []int32 // that it may use, ascending; empty: unknown
	Columns []Column
}

// maxJobs bounds the number of jobs per node that are read, and with it the open descriptors.
const maxJobs = 512

var (
	errNoCgroups = errors.New("neither cgroup.controllers of version 2, nor a controller of version 1 is there")
	errVersion1  = errors.New("cgroups of version 1 do not have it")
)

// sluid matches a name of Slurm 26.05: an s and 13 characters of base 32.
var sluid = "s" + strings.Repeat("[0-9A-Z]", 13)

// The directories in which Slurm and PBS create the cgroups of jobs. With version 1 they lie below each controller. If
// several slurmd run on a host, each has a directory named after its node.
var (
	cgroups2 = []string{
		"system.slice/slurmstepd.scope/job_*", "system.slice/*_slurmstepd.scope/job_*",
		"system.slice/slurmstepd.scope/" + sluid, "system.slice/*_slurmstepd.scope/" + sluid,
		"pbs_jobs.service/jobs/*", "pbs_jobs.service/jobid/*", "pbspro.service/jobid/*",
	}
	cgroups1 = []string{
		"slurm/uid_*/job_*", "slurm_*/uid_*/job_*", "pbs_jobs.service/jobid/*", "pbspro.service/jobid/*",
	}
	controllers1 = []string{"memory", "cpuacct", "cpu", "cpuset"} // of version 1
)

func cgroups() source {
	return source{"cgroup", schemas.ScopeJob, "/sys/fs/cgroup", []metric{
		{"job_mem_used", "B", gauge, "anon + shmem + kernel_stack + pagetables + percpu + slab_unreclaimable; v1: " +
			"total_rss + total_shmem"},
		{"job_mem_anon", "B", gauge, "anon; v1: total_rss"},
		{"job_mem_file", "B", gauge, "file - shmem: page cache, which the kernel may take back; v1: total_cache - " +
			"total_shmem"},
		{"job_mem_shmem", "B", gauge, "shmem: shared memory and tmpfs; v1: total_shmem"},
		{"job_mem_peak", "B", gauge, "memory.peak, page cache included; v1: memory.max_usage_in_bytes"},
		{"job_mem_limit", "B", gauge, "memory.max; v1: hierarchical_memory_limit; absent without a limit"},
		{"job_mem_fails", "1/s", Rate, "how often the limit was hit: max of memory.events; v1: memory.failcnt"},
		{"job_psi_cpu", "s/s", Rate, "share of time in which a task waits for a CPU: some of cpu.pressure; v1: absent"},
		{"job_psi_memory", "s/s", Rate, "the same for memory: memory.pressure; v1: absent"},
		{"job_psi_io", "s/s", Rate, "the same for input and output: io.pressure; v1: absent"},
		{"job_throttled", "s/s", Rate, "throttled_usec of cpu.stat; v1: throttled_time"},
		{"job_cpu", "1", Rate, "CPU seconds per second: usage_usec of cpu.stat; v1: cpuacct.usage"},
	}, openCgroups}
}

// Fields of a job's row. An unknown number is unread.
const (
	jobID = iota // numbers the cgroups in the order of discovery, because a job's name may come back
	jobAnon
	jobFile
	jobShmem
	jobKernel
	jobPeak
	jobLimit
	jobFails
	jobPSICPU // microseconds
	jobPSIMemory
	jobPSIIO
	jobThrottled // nanoseconds
	jobUsage
	jobFields
)

// noJob is a row without any known number.
var noJob = func() (row [jobFields]uint64) {
	for i := range row {
		row[i] = unread
	}
	return row
}()

// openCgroups reads the cgroups of jobs. The cgroups of steps and tasks lie below their job's, and the kernel accounts
// hierarchically, so the job's own files cover all of them.
func openCgroups(cfg config.Agent, log *slog.Logger) (probe, error) {
	root := filepath.Join(cfg.SysPath, "fs/cgroup")
	c := &jobCgroups{root: root, files: files2, log: log, buffer: make([]byte, 4096)}
	p := probe{read: c.read, form: formJob, job: c.job, close: c.close}
	patterns := cgroups2
	if len(cfg.Cgroups) > 0 {
		patterns = cfg.Cgroups
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
		own := slices.DeleteFunc(slices.Clone(controllers1), func(controller string) bool {
			_, err := os.Stat(filepath.Join(root, controller))
			return err != nil
		})
		if len(own) == 0 {
			return probe{}, fmt.Errorf("%s: %w", root, errNoCgroups)
		}
		if len(cfg.Cgroups) == 0 {
			patterns = cgroups1
		}
		c.v1, c.files = true, files1
		p.absent = map[string]error{
			"job_psi_cpu": errVersion1, "job_psi_memory": errVersion1, "job_psi_io": errVersion1,
		}
		var below []string
		for _, controller := range own {
			for _, pattern := range patterns {
				below = append(below, controller+"/"+pattern)
			}
		}
		patterns = below
	}
	c.files = neededFiles(c.files, cfg.Measures)
	c.tree = newTree(root, patterns)
	return p, nil
}

// jobCgroups is the cgroups of the jobs of this node.
type jobCgroups struct {
	root  string
	v1    bool
	files []cgroupFile
	tree  *tree
	log   *slog.Logger
	full  bool // the log already reports that there are too many
	// lookedMs is the boundary at which the tree was last looked at.
	lookedMs int64
	// buffer receives the text of a file.
	buffer []byte
	last   uint64       // the newest id
	jobs   []*jobCgroup // ascending by id
}

// jobCgroup is the cgroup of one job.
type jobCgroup struct {
	id    uint64
	path  string // below the root, or below each controller
	inode uint64
	files []*os.File
	tries int // attempts to open the files: with version 1 the controllers appear one after the other
	cpus  []int32
	list  []byte // of cpus, as the kernel writes it
}

const maxTries = 8

// lookEvery is the longest time that a new cgroup may go unseen. A look costs as much as reading four files.
const lookEvery = 5 * time.Second

// read reads every job's files. A job that ends meanwhile is missing.
func (c *jobCgroups) read(into reading, v Vitals) (reading, error) {
	since := v.BoundaryMs - c.lookedMs
	if c.lookedMs == 0 || since < 0 || since >= lookEvery.Milliseconds() {
		c.lookedMs = v.BoundaryMs
		if c.tree.refresh() {
			c.follow(c.tree.found)
		}
	}
	n := 0
	for _, j := range c.jobs {
		c.open(j)
		if n == len(into) {
			into = append(into, nil)
		}
		if row, ok := c.row(j, into[n][:0]); ok {
			into[n] = row
			n++
		}
	}
	return into[:n], nil
}

// follow opens new cgroups, and closes the cgroups of ended jobs.
func (c *jobCgroups) follow(found []string) {
	inodes := map[string]uint64{} // by path; a cgroup that was removed and created again has a new inode
	for _, p := range found {
		var stat unix.Stat_t
		if unix.Stat(filepath.Join(c.root, p), &stat) != nil {
			continue
		}
		if c.v1 {
			_, p, _ = strings.Cut(p, "/") // the controller
		}
		if inodes[p] == 0 {
			inodes[p] = stat.Ino
		}
	}
	c.jobs = slices.DeleteFunc(c.jobs, func(j *jobCgroup) bool {
		if inodes[j.path] == j.inode {
			delete(inodes, j.path)
			return false
		}
		j.close()
		return true
	})
	for _, p := range slices.Sorted(maps.Keys(inodes)) {
		if len(c.jobs) == maxJobs {
			if !c.full {
				c.log.Warn("cgroups of more jobs are not read", "path", p, "count", maxJobs)
			}
			c.full = true
			return
		}
		c.last++
		c.jobs = append(c.jobs, &jobCgroup{
			id: c.last, path: p, inode: inodes[p], files: make([]*os.File, len(c.files)),
		})
	}
}

// open opens the files of a job that are still closed.
func (c *jobCgroups) open(j *jobCgroup) {
	if j.tries == maxTries {
		return
	}
	j.tries++
	for i, f := range c.files {
		if j.files[i] == nil {
			if file, err := os.Open(filepath.Join(c.root, f.controller, j.path, f.name)); err == nil {
				j.files[i] = file
			}
		}
	}
}

// row reads the files of a job. It is not ok if the job has ended.
func (c *jobCgroups) row(j *jobCgroup, row []uint64) (_ []uint64, ok bool) {
	row = append(row, noJob[:]...)
	row[jobID] = j.id
	for i, file := range j.files {
		if file == nil {
			continue
		}
		var text []byte
		var err error
		if text, c.buffer, err = readAt0(file, c.buffer); err != nil {
			if errors.Is(err, unix.ENODEV) {
				return row, false
			}
			_ = file.Close() // for example pressure, on a kernel that does not measure it
			j.files[i], j.tries = nil, maxTries
			continue
		}
		ok = true
		if parse := c.files[i].parse; parse != nil {
			parse(row, text)
		} else if !slices.Equal(text, j.list) {
			j.list, j.cpus = slices.Clone(text), parseCPUList(text)
		}
	}
	return row, ok
}

// job returns the name of a job's directory, and the CPUs of its cgroup. It is not ok if the job has ended.
func (c *jobCgroups) job(id uint64) (name string, cpus []int32, ok bool) {
	i, ok := slices.BinarySearchFunc(c.jobs, id, func(j *jobCgroup, id uint64) int { return cmp.Compare(j.id, id) })
	if !ok { // it ended before its reading was late
		return "", nil, false
	}
	return filepath.Base(c.jobs[i].path), c.jobs[i].cpus, true
}

func (c *jobCgroups) close() {
	for _, j := range c.jobs {
		j.close()
	}
	c.tree.close()
}

func (j *jobCgroup) close() {
	for _, f := range j.files {
		if f != nil {
			_ = f.Close() // it was only read
		}
	}
}

// formJob forms the metrics of one job.
func formJob(from, to []uint64, elapsed time.Duration, out []float64) {
	if from[jobID] != to[jobID] {
		return
	}
	for i, field := range []int{jobAnon, jobFile, jobShmem, jobPeak, jobLimit} {
		if to[field] != unread {
			out[1+i] = float64(to[field])
		}
	}
	if to[jobAnon] != unread && to[jobShmem] != unread {
		out[0] = float64(to[jobAnon]) + float64(to[jobShmem])
		if to[jobKernel] != unread {
			out[0] += float64(to[jobKernel])
		}
	}
	for i, c := range [...]struct {
		field int
		unit  float64 // of the counter, in a second or an event
	}{{jobFails, 1}, {jobPSICPU, 1e6}, {jobPSIMemory, 1e6}, {jobPSIIO, 1e6}, {jobThrottled, 1e9}, {jobUsage, 1e9}} {
		if from[c.field] == unread || to[c.field] == unread {
			continue
		}
		if d, ok := grown(from[c.field], to[c.field]); ok && elapsed > 0 {
			out[6+i] = d / c.unit / elapsed.Seconds()
		}
	}
}

// Jobs forms the metrics of the jobs that appear in both of the last two readings. It follows Interval. The caller owns
// the result.
func (h *Host) Jobs(elapsed time.Duration) (jobs []JobColumns) {
	for _, p := range h.probes {
		if p.source.scope != schemas.ScopeJob || p.from.rows == nil || p.to.rows == nil {
			continue
		}
		i, from := 0, p.from.rows
		for _, to := range p.to.rows { // ids ascend in both
			for i < len(from) && from[i][jobID] < to[jobID] {
				i++
			}
			if i == len(from) || from[i][jobID] != to[jobID] {
				continue
			}
			if name, cpus, ok := p.job(to[jobID]); ok {
				columns := p.columns(from[i], to, elapsed+p.to.off-p.from.off, &h.cfg)
				jobs = append(jobs, JobColumns{name, cpus, h.derived.addJob(columns, h.node)})
			}
		}
	}
	return jobs
}

// columns forms the metrics of one row. It leaves out metrics without a value and metrics that the configuration does
// not select.
func (p *openProbe) columns(from, to []uint64, elapsed time.Duration, cfg *config.Agent) []Column {
	values := make([]float64, len(p.source.metrics))
	for i := range values {
		values[i] = math.NaN()
	}
	p.form(from, to, elapsed, values)
	columns := make([]Column, 0, len(values))
	for i, m := range p.source.metrics {
		if !math.IsNaN(values[i]) && cfg.Measures(m.name) {
			columns = append(columns, Column{m.name, m.unit, p.source.scope, nil, values[i : i+1 : i+1]})
		}
	}
	return columns
}

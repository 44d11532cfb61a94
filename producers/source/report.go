package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

// Report contains the metrics that a job reported about itself in an interval.
type Report struct {
	Job     schemas.JobKey
	Columns []Column // at most schemas.MaxReported, ascending by name, of scope node with one value
}

const (
	// maxReportLine is the longest line of a report, in bytes, without its end.
	maxReportLine = 256
	// maxReportBytes bounds the part of a job's file that is read in an interval. If there is more, the end is read.
	maxReportBytes = 64 << 10
	// leastReportBytes is the share of a job among many.
	leastReportBytes = 4 << 10
	// maxReportsBytes is the limit that all jobs of a node share.
	maxReportsBytes = 1 << 20
	// maxReportFiles bounds the files of the directory.
	maxReportFiles = 4096
)

// Why a line gives no value, or a file is not read.
var (
	errReportFields = errors.New("must be `name value`, or `name value unit`, with spaces between them")
	errReportLong   = fmt.Errorf("longer than %d bytes", maxReportLine)
	errReportName   = errors.New("name must match [A-Za-z0-9._-]{1,64}, and not begin with weir_")
	errReportTaken  = errors.New("the agent has a metric of this name: choose another name")
	errReportMany   = fmt.Errorf("a job reports at most %d metrics", schemas.MaxReported)
	errReportValue  = errors.New("value must be a finite number, with a point and without a thousands separator")
	errReportUnit   = fmt.Errorf("unit must be at most %d printable bytes", naming.MaxBytes)
	errReportDir    = errors.New("must be a directory of root or of the agent's own user that nobody else may write " +
		"to: chmod 0755, and chown root")
)

func reports() source {
	return source{"report", schemas.ScopeNode, "agent.report_dir", []metric{
		{"weir_agent_report_errors", "1", gauge, "lines of reports that gave no value in the interval, files that " +
			"were refused, and jobs that wrote more than is read"},
	}, openReports}
}

// openReports reads the files in which jobs report metrics of their own.
//
// The file determines the job of its lines. Root makes the files, chooses their owners, and owns the directory. A link,
// a pipe, or a file that others may write to is refused.
func openReports(cfg config.Agent, _ *slog.Logger) (probe, error) {
	if cfg.ReportDir == "" {
		return probe{}, nil
	}
	if err := CheckReportDir(cfg); err != nil {
		return probe{}, err
	}
	r := &reportFiles{dir: cfg.ReportDir, taken: map[string]bool{}}
	for _, m := range Catalogue(cfg) {
		r.taken[m.Name] = true
	}
	form := func(from, to []uint64, _ time.Duration, out []float64) {
		if d, ok := grown(from[0], to[0]); ok {
			out[0] = d
		}
	}
	return probe{read: r.read, form: form, reports: func() []Report { return r.found }}, nil
}

// CheckReportDir returns nil if the directory of the reports is safe to read. One that is not there may be made later.
func CheckReportDir(cfg config.Agent) error {
	if cfg.ReportDir == "" {
		return nil
	}
	dir, err := (&reportFiles{dir: cfg.ReportDir}).open()
	if err == nil {
		return dir.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// reportFiles is the directory of the reports.
type reportFiles struct {
	dir    string
	taken  map[string]bool // names that no job may report
	files  map[string]*reportFile
	listed bool   // all, at the reading before: files that are new since then were written since then
	turn   uint64 // the number of the reading
	wrong  uint64 // lines without a value, and files that were refused
	buffer []byte
	found  []Report // of the last reading
}

// reportFile is one file, as the last reading found it. One that no Route names is not read: only its size is kept.
type reportFile struct {
	inode   uint64
	seen    int64 // its size at the reading before
	stat    unix.Stat_t
	turn    uint64 // the reading that it was last in
	metrics []reportMetric
}

// reportMetric is a metric that a job reported once. It is known to the end of the job, so that the names do not become
// more and more.
type reportMetric struct {
	name, unit string
	value      float64
	turn       uint64 // the reading that the value is of
}

// open opens the directory, which must be safe.
func (r *reportFiles) open() (*os.File, error) {
	dir, err := os.Open(r.dir)
	if err != nil {
		return nil, fmt.Errorf("opening agent.report_dir: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &stat); err != nil {
		_ = dir.Close() // nothing was read
		return nil, fmt.Errorf("opening agent.report_dir %s: %w", r.dir, err)
	}
	own := stat.Uid == 0 || stat.Uid == uint32(os.Geteuid())
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || stat.Mode&0o022 != 0 || !own {
		_ = dir.Close() // nothing was read
		return nil, advisedError{fmt.Errorf("agent.report_dir %s: %w", r.dir, errReportDir)}
	}
	return dir, nil
}

// read reads the lines that jobs have written since the previous reading. A file that exists at the first reading may
// be old, and its lines may come from earlier intervals, so it only notes their end.
func (r *reportFiles) read(into reading, v Vitals) (reading, error) {
	r.found = nil
	dir, err := r.open()
	if errors.Is(err, fs.ErrNotExist) {
		r.files, r.listed = nil, true
		return only(into, r.wrong), nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // it was only read
	if err := r.list(dir, v); err != nil {
		return nil, err
	}
	limit := min(max(maxReportsBytes/max(len(v.Jobs), 1), leastReportBytes), maxReportBytes)
	for i := range v.Jobs {
		e := &v.Jobs[i]
		if f := r.files[ReportFile(e.JobID, e.Restart)]; f != nil {
			r.readJob(int(dir.Fd()), schemas.JobKey{JobID: e.JobID, Restart: e.Restart}, f, limit)
		}
	}
	for _, f := range r.files {
		f.seen = f.stat.Size
	}
	return only(into, r.wrong), nil
}

// ReportFile is the name of the file in which a job reports.
func ReportFile(jobID string, restart int32) string { return jobID + "." + strconv.Itoa(int(restart)) }

// list looks at all files, and forgets deleted ones. If the directory contains too many, it looks at the files of jobs
// of the Route, and at as many others as the limit allows. A file that it could not look at before may be old, as at
// the first reading.
func (r *reportFiles) list(dir *os.File, v Vitals) error {
	names, err := dir.Readdirnames(maxReportFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading agent.report_dir: %w", err)
	}
	if r.files == nil {
		r.files = map[string]*reportFile{}
	}
	r.turn++
	whole := len(names) < maxReportFiles
	if !whole {
		r.wrong++
		for i := range v.Jobs {
			names = append(names, ReportFile(v.Jobs[i].JobID, v.Jobs[i].Restart))
		}
	}
	for _, name := range names {
		if f := r.files[name]; f != nil && f.turn == r.turn {
			continue // it was among the others
		}
		var stat unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // it is gone meanwhile
		}
		f := r.files[name]
		if f == nil || f.inode != stat.Ino {
			f = &reportFile{inode: stat.Ino}
			if r.files[name] = f; !r.listed {
				f.seen = stat.Size
			}
		}
		if f.stat, f.turn = stat, r.turn; stat.Size < f.seen { // it was cut off, and begins anew
			f.seen = 0
		}
	}
	r.listed = whole
	for name, f := range r.files {
		if f.turn != r.turn {
			delete(r.files, name)
		}
	}
	return nil
}

// readJob reads the file of a job, and stores the job's metrics.
func (r *reportFiles) readJob(dir int, job schemas.JobKey, f *reportFile, limit int) {
	s := &f.stat
	if s.Mode&unix.S_IFMT != unix.S_IFREG || s.Nlink != 1 || s.Mode&0o022 != 0 {
		r.wrong++
		return
	}
	if s.Size == f.seen {
		return
	}
	text, err := r.text(dir, job, f, limit)
	if err != nil {
		r.wrong++
		return
	}
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		if err := f.take(line, r.taken, r.turn); err != nil {
			r.wrong++
		}
	}
	if columns := f.columns(r.turn); len(columns) > 0 {
		r.found = append(r.found, Report{job, columns})
	}
}

// text returns the lines of a file that ended since the reading before, up to the size that was looked at. Of more than
// the limit it returns the last ones.
func (r *reportFiles) text(dir int, job schemas.JobKey, f *reportFile, limit int) ([]byte, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, ReportFile(job.JobID, job.Restart), flags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil || now.Ino != f.inode || now.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errRegular
	}
	from := max(f.seen-maxReportLine-1, 0) // a line may have begun before
	if tail := f.stat.Size - int64(limit); tail > f.seen {
		from = tail
		r.wrong++
	}
	if r.buffer == nil {
		r.buffer = make([]byte, maxReportBytes+maxReportLine+1)
	}
	text := r.buffer[:f.stat.Size-from]
	n := 0
	for n < len(text) {
		k, err := unix.Pread(fd, text[n:], from+int64(n))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
		if k <= 0 && err == nil {
			break // it was cut off meanwhile
		}
		n += max(k, 0)
	}
	lines, cut := linesSince(text[:n], int(max(f.seen-from, 0)), from == 0)
	if cut && from <= f.seen {
		r.wrong++
	}
	return lines, nil
}

// linesSince returns the lines that end behind the first seen bytes of a text, which an earlier reading covered. A line
// may begin among these bytes. first is true if the text begins its file. cut is true if a line ended there without its
// beginning in the text.
func linesSince(text []byte, seen int, first bool) (lines []byte, cut bool) {
	seen = min(seen, len(text))
	begin := bytes.LastIndexByte(text[:seen], '\n') + 1
	if begin == 0 && !first {
		end := bytes.IndexByte(text[seen:], '\n')
		if end < 0 {
			return nil, false
		}
		begin, cut = seen+end+1, true
	}
	return text[begin : bytes.LastIndexByte(text, '\n')+1], cut
}

// take takes a line of a job. Of several values of a metric the last one counts.
func (f *reportFile) take(line []byte, taken map[string]bool, turn uint64) error {
	if len(line) > maxReportLine {
		return errReportLong
	}
	if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
		return nil
	}
	name, unit, value, err := parseReport(line)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(f.metrics, func(m reportMetric) bool { return m.name == string(name) })
	switch {
	case at >= 0:
	case taken[string(name)]:
		return errReportTaken
	case len(f.metrics) == schemas.MaxReported:
		return errReportMany
	default:
		at = len(f.metrics)
		f.metrics = append(f.metrics, reportMetric{name: string(name)})
	}
	m := &f.metrics[at]
	if m.unit != string(unit) {
		m.unit = string(unit)
	}
	m.value, m.turn = value, turn
	return nil
}

// parseReport reads a line `name value [unit]` that is not empty and has no spaces at its ends. A metric without a unit
// is a plain number.
func parseReport(line []byte) (name, unit []byte, value float64, err error) {
	name, rest := field(line)
	number, unit := field(rest)
	switch {
	case len(number) == 0 || bytes.ContainsAny(unit, " \t"):
		return nil, nil, 0, errReportFields
	case !naming.Valid(string(name)) || bytes.IndexByte(name, ':') >= 0 || bytes.HasPrefix(name, []byte("weir_")):
		return nil, nil, 0, errReportName
	case len(unit) == 0:
		unit = []byte{'1'}
	case !schemas.ValidUnit(string(unit)):
		return nil, nil, 0, errReportUnit
	}
	value, err = strconv.ParseFloat(string(number), 64)
	if err != nil || bytes.IndexByte(number, '_') >= 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return nil, nil, 0, errReportValue
	}
	return name, unit, value, nil
}

// CheckReport returns an error if the agent would not take a metric that a job reports. The site's own metrics are not
// known here.
func CheckReport(name, value, unit string) error {
	line := strings.TrimRight(name+" "+value+" "+unit, " ")
	if strings.ContainsAny(line, "\r\n") || strings.ContainsAny(name+value+unit, " \t") || name == "" || value == "" {
		return errReportFields
	}
	var f reportFile
	taken := map[string]bool{}
	for _, m := range Catalogue(config.Default().Agent) {
		taken[m.Name] = true
	}
	if name[0] == '#' { // a line that begins so is a comment
		return errReportName
	}
	return f.take([]byte(line), taken, 1)
}

// columns are the metrics that the job reported in this reading.
func (f *reportFile) columns(turn uint64) (columns []Column) {
	for _, m := range f.metrics {
		if m.turn == turn {
			columns = append(columns, Column{m.name, m.unit, schemas.ScopeNode, nil, []float64{m.value}})
		}
	}
	slices.SortFunc(columns, func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	return columns
}

// Reports returns the jobs' own metrics of the interval between the last two readings. The caller owns the result.
func (h *Host) Reports() []Report {
	for _, p := range h.probes {
		if p.from.rows != nil && p.to.rows != nil && p.reports != nil {
			return p.reports()
		}
	}
	return nil
}

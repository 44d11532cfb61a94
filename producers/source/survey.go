package source

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/schemas"
)

var (
	// errNothing is the reason if a source opened but finds nothing to read.
	errNothing = errors.New("its source is switched off, or finds nothing here")
	// errNoJob is the reason if no cgroup of a job was found.
	errNoJob = errors.New("no job has a cgroup here now")
	// errNoInput is the reason if a computed metric is absent.
	errNoInput = errors.New("no metric of its expression has a value here")
	// errNoValue is the reason if a source was read without a value.
	errNoValue = errors.New("no value in this interval")
)

// Absent returns, by name, why metrics have no value among the columns of an interval.
func (h *Host) Absent(columns []Column) map[string]error {
	reasons := map[string]error{}
	for _, m := range Catalogue(h.cfg) {
		if !h.cfg.Measures(m.Name) {
			reasons[m.Name] = errNotListed
		}
	}
	for _, p := range h.probes {
		if p.source.name == agentSources().name {
			continue // the host has its values, if any
		}
		for _, m := range p.source.metrics {
			isOne := func(c Column) bool { return c.Name == m.name }
			if reasons[m.name] == nil && !slices.ContainsFunc(columns, isOne) {
				reasons[m.name] = p.why(m.name)
			}
		}
	}
	for _, m := range h.cfg.Metrics {
		if !slices.ContainsFunc(columns, func(c Column) bool { return c.Name == m.Name }) {
			reasons[m.Name] = errNoInput
		}
	}
	return reasons
}

// why is the reason for a metric without a value.
func (p *openProbe) why(name string) error {
	switch {
	case p.last != nil:
		return p.last
	case p.absent[name] != nil:
		return p.absent[name]
	case p.barren:
		return errNothing
	case p.source.scope == schemas.ScopeJob && len(p.to.rows) == 0:
		return errNoJob
	case p.probe.why != nil && !p.busy:
		return cmp.Or(p.probe.why(), errNoValue)
	}
	return errNoValue
}

// Remedy returns advice to an administrator about a reason, or nothing.
func Remedy(reason error) string {
	var path *fs.PathError
	var advised advisedError
	switch {
	case errors.As(reason, &advised):
		return ""
	case errors.Is(reason, fs.ErrPermission):
		return "give the agent the permission: CAP_PERFMON for perf events, read permission for a file"
	case errors.Is(reason, errLate):
		return "a mount, a device or a program hangs: mend it, the source comes back by itself"
	case errors.As(reason, &path) && strings.HasPrefix(path.Path, "/proc/") && errors.Is(reason, fs.ErrNotExist):
		return "nothing to do: this kernel was built without it"
	case errors.Is(reason, fs.ErrNotExist), errors.Is(reason, unix.ENODEV), errors.Is(reason, unix.EOPNOTSUPP):
		return "nothing to do if this host lacks the hardware; otherwise load its driver, the agent finds it"
	}
	return ""
}

// advisedError is a reason with advice in its own text, or with the remark that nothing helps.
type advisedError struct{ error }

func (e advisedError) Unwrap() error { return e.error }

// Cost is the cost of reading a source.
type Cost struct {
	Source    string
	Metrics   int             // that have values
	CPU, Wall []time.Duration // of each reading; empty if the source cannot be read
	Absent    []Absence
}

// Absence is a metric that this host lacks, and why.
type Absence struct {
	Metric string
	Reason error
}

// Costs takes so many readings, with pauses between them that let the caches cool as an interval does. It returns the
// cost of each source, and the CPU time of each whole cycle: the readings and their columns.
func (h *Host) Costs(ctx context.Context, n int, every time.Duration) (
	sources []Cost, cycles []time.Duration, err error,
) {
	sources = make([]Cost, len(h.probes))
	var columns []Column
	for i := range 2 * n { // first the whole cycle, then each source: measuring that needs a thread of its own
		h.measure = i >= n
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		before := processTime()
		h.Read(Vitals{}) // without an interval, so a slow source reads in this second and its cost shows
		_, columns = h.Interval(every)
		for _, j := range h.Jobs(every) {
			columns = append(columns, j.Columns...)
		}
		if !h.measure {
			cycles = append(cycles, processTime()-before)
			continue
		}
		for i, p := range h.probes {
			if p.to.rows != nil {
				sources[i].CPU = append(sources[i].CPU, p.answer.cpu)
				sources[i].Wall = append(sources[i].Wall, p.answer.end.Sub(p.answer.begin))
			}
		}
	}
	absent := h.Absent(columns)
	for i, p := range h.probes {
		c := &sources[i]
		c.Source = p.source.name
		for _, m := range p.source.metrics {
			if !h.cfg.Measures(m.name) {
				continue
			}
			if reason := absent[m.name]; reason != nil {
				c.Absent = append(c.Absent, Absence{m.name, reason})
			} else {
				c.Metrics++
			}
		}
	}
	return sources, cycles, nil
}

// processTime is the CPU time of this process.
func processTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) // Linux always supports this clock
	return time.Duration(t.Nano())
}

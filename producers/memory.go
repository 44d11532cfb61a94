package producers

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/procfs"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// errNoMemory is returned when /proc/meminfo lacks MemTotal or MemAvailable.
var errNoMemory = errors.New("no MemTotal or no MemAvailable")

// openMemory reads the memory in use: all that could not be given to a program that starts now, in bytes, at the end of
// the interval.
func openMemory(cfg config.Agent, _ *slog.Logger) (probe, error) {
	fs, err := procfs.NewFS(cfg.ProcPath)
	if err != nil {
		return probe{}, fmt.Errorf("opening the memory's state: %w", err)
	}
	read := func(into reading, _ vitals) (reading, error) {
		m, err := fs.Meminfo()
		if err != nil {
			return nil, fmt.Errorf("reading the memory's state: %w", err)
		}
		if m.MemTotalBytes == nil || m.MemAvailableBytes == nil || *m.MemAvailableBytes > *m.MemTotalBytes {
			return nil, fmt.Errorf("reading the memory's state: %w", errNoMemory)
		}
		return only(into, *m.MemTotalBytes-*m.MemAvailableBytes), nil
	}
	return probe{scope: schemas.ScopeNode, metrics: []metric{{"mem_used", "B"}}, read: read, form: formGauges}, nil
}

// formGauges gives what the second reading found, for sources whose numbers are no counters.
func formGauges(_, to []uint64, _ time.Duration, out []float64) {
	for i := range out {
		out[i] = float64(to[i])
	}
}

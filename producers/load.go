package producers

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/procfs"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// openLoad reads the load of the last minute: how many tasks ran, waited for a CPU or for a disk, on average.
func openLoad(cfg config.Agent, _ *slog.Logger) (probe, error) {
	fs, err := procfs.NewFS(cfg.ProcPath)
	if err != nil {
		return probe{}, fmt.Errorf("opening the load: %w", err)
	}
	read := func(into reading, _ vitals) (reading, error) {
		load, err := fs.LoadAvg()
		if err != nil {
			return nil, fmt.Errorf("reading the load: %w", err)
		}
		return only(into, math.Float64bits(load.Load1)), nil // not a whole number: it travels as its bits
	}
	form := func(_, to []uint64, _ time.Duration, out []float64) { out[0] = math.Float64frombits(to[0]) }
	return probe{scope: schemas.ScopeNode, metrics: []metric{{"cpu_load", "1"}}, read: read, form: form}, nil
}

package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/commands/agent"
)

// hostCosts are the costs of the sources on a host.
type hostCosts struct {
	cpu     map[string]float64 // microseconds of a reading, by source
	from    string             // file of the costs; empty for this host
	columns []source.Column    // an interval of this host, for the size of its records
	cpus    []int32
}

// costReadings is the number of times that this host's sources are read. The median counts.
const costReadings = 20

// measureCosts reads the sources of this host.
func measureCosts(ctx context.Context, cfg config.Config) (c hostCosts, err error) {
	h := source.Open(cfg.Agent, slog.New(slog.DiscardHandler))
	defer h.Close()
	sources, _, err := h.Costs(ctx, costReadings, 10*time.Millisecond)
	if err != nil {
		return c, fmt.Errorf("measuring what this host's sources cost: %w", err)
	}
	c.cpu = map[string]float64{}
	for _, s := range sources {
		if len(s.CPU) > 0 {
			c.cpu[s.Source], _ = agent.Spread(s.CPU)
		}
	}
	c.cpus, c.columns, _, err = agent.ReadTwice(ctx, h, 100*time.Millisecond)
	return c, err
}

// of returns the saving of a selection, if agents go on measuring the metrics that keeps accepts.
func (c *hostCosts) of(t *selection.Table, cfg config.Config, keeps func(name string) bool) *selection.Cost {
	if !known(t) {
		return nil
	}
	var catalogue []selection.Metric
	for _, m := range source.Catalogue(cfg.Agent) {
		catalogue = append(catalogue, selection.Metric{Name: m.Name, Source: m.Source})
	}
	cost := selection.CostOf(t, catalogue, keeps, c.cpu)
	cost.Measured = "CPU time of one reading of each source, in µs, from " + c.from + "."
	if c.from == "" {
		host, _ := os.Hostname()
		cost.Measured = fmt.Sprintf("CPU time of one reading of each source on this host, %s: the median of %d, "+
			"in µs. "+
			"--cost takes those of a compute node.", host, costReadings)
		cost.BytesBefore = c.record(func(string) bool { return true })
		cost.BytesAfter = c.record(keeps)
	}
	return cost
}

// record returns the size in bytes of this host's record of an interval, with the metrics that takes accepts.
func (c *hostCosts) record(takes func(name string) bool) int {
	b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{Node: "n0001", JobID: "4711", Cpus: c.cpus}}
	for _, k := range c.columns {
		if takes(k.Name) {
			b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
				Name: k.Name, Unit: k.Unit, Scope: k.Scope, Values: k.Values,
			})
		}
	}
	data, err := schemas.Marshal(b)
	if err != nil {
		return 0
	}
	return len(data)
}

var errCosts = errors.New("it has no line of `weir agent --check --json` with a source that was read")

// readCosts reads the lines of weir agent --check --json.
func readCosts(file string) (map[string]float64, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, naming.Pathless(err)
	}
	defer func() { _ = f.Close() }()
	cpu := map[string]float64{}
	for d := json.NewDecoder(io.LimitReader(f, 16<<20)); ; {
		var r agent.CostRow
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errCosts, err)
		}
		if r.Source != "" && r.Source != agent.WholeCycle && r.State == "read" {
			cpu[r.Source] = r.CPUMedian
		}
	}
	if len(cpu) == 0 {
		return nil, errCosts
	}
	return cpu, nil
}

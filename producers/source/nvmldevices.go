//go:build linux && (amd64 || arm64) && !static

package source

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/weirhpc/weir/config"
)

var (
	// errNoGPU is returned if the driver is loaded but manages no GPU.
	errNoGPU = errors.New("the driver has no GPU")
	// errGPULost is returned for a GPU that is left alone for a while.
	errGPULost = errors.New("it did not answer before")
)

// gpuRetry is the time after which the agent asks again for the handle of a lost GPU.
const gpuRetry = time.Minute

// gpu is a GPU that NVML knows.
type gpu struct {
	index  uint32 // as NVML counts
	number int    // as its device is called: the row
	handle uintptr
	gpm    gpmSamples
	lost   time.Time // since when; zero: it is not
}

// gpmSamples are the last two samples of a GPU's performance monitor.
type gpmSamples struct {
	last, next uintptr
	taken      bool // last holds a sample of the previous reading
}

// maxGPUs bounds the numbers of GPUs, as records do.
const maxGPUs = 1024

// openNVML loads the driver's library and finds the GPUs. It tries each of them once, so that absent names the metrics
// that this host lacks.
func openNVML(path string, cfg config.Agent, log *slog.Logger) (probe, error) {
	lib, err := loadNVML(path)
	if err != nil {
		return probe{}, err
	}
	lib.skip = gpuSkips(cfg.Measures)
	gpus, err := lib.gpus()
	if err != nil {
		lib.close(gpus)
		return probe{}, err
	}
	d := &nvmlDevices{lib: lib, gpus: gpus, log: log}
	rows, err := d.read(nil, Vitals{})
	if err != nil {
		lib.close(gpus)
		return probe{}, err
	}
	return probe{
		read: d.read, form: formNVML, close: func() { lib.close(gpus) }, absent: nvmlAbsent(rows, lib.why),
	}, nil
}

// nvmlOrigin names one field that each metric needs, in the order of the metrics. The metrics of GPM follow.
var nvmlOrigin = [...]int{
	gpuUtilization, gpuMemUtilization, gpuMemUsed, gpuPower, gpuTemperature, gpuClock, gpuReasons, gpuProcesses,
	gpuProcesses, gpuPCIeRx, gpuPCIeTx, gpuNVLinkRx, gpuNVLinkTx,
}

// nvmlAbsent returns the metrics that the first reading found on no GPU, with the reason.
func nvmlAbsent(rows reading, why [gpuFields]nvmlReturn) map[string]error {
	some := make([]uint64, gpuFields) // of any GPU
	for f := range some {
		some[f] = nvmlMissing
		for _, row := range rows {
			if len(row) > 0 && row[f] != nvmlMissing {
				some[f] = 0
			}
		}
		if f >= gpuGPM && why[f] == nvmlSuccess { // it needs two readings
			some[f] = 0
		}
	}
	out := make([]float64, len(nvml().metrics))
	for k := range out {
		out[k] = math.NaN()
	}
	formNVML(some, some, time.Second, out)
	absent := map[string]error{}
	for k, m := range nvml().metrics {
		f := gpuGPM + k - len(nvmlOrigin)
		if k < len(nvmlOrigin) {
			f = nvmlOrigin[k]
		}
		if m.name == "acc_idle" && some[gpuUtilization] == nvmlMissing {
			f = gpuUtilization
		}
		if math.IsNaN(out[k]) {
			absent[m.name] = why[f].err()
		}
	}
	return absent
}

// nvmlDevices reads the GPUs.
type nvmlDevices struct {
	lib  *nvmlLib
	gpus []gpu
	log  *slog.Logger
}

// read reads every GPU. A GPU that does not answer has an empty row, and the others are unaffected. If none answers,
// the driver was unloaded: the error makes the host open the source anew.
func (d *nvmlDevices) read(into reading, _ Vitals) (reading, error) {
	var failed error
	answered := false
	for i := range into {
		into[i] = into[i][:0]
	}
	for i := range d.gpus {
		g := &d.gpus[i]
		for len(into) <= g.number {
			into = append(into, nil)
		}
		err := d.again(g)
		if err == nil {
			into[g.number], err = d.lib.readGPU(g, into[g.number])
		}
		if err != nil {
			failed = err
			into[g.number] = into[g.number][:0]
		}
		answered = answered || err == nil
		d.note(g, err)
	}
	if !answered {
		return nil, fmt.Errorf("no GPU answers: %w", failed)
	}
	return into, nil
}

// again asks for the handle of a GPU that is lost, once in gpuRetry.
func (d *nvmlDevices) again(g *gpu) error {
	if g.lost.IsZero() {
		return nil
	}
	if time.Since(g.lost) < gpuRetry {
		return errGPULost
	}
	g.lost = time.Now()
	return d.lib.handle(g)
}

// note logs a GPU that stops answering, or begins again.
func (d *nvmlDevices) note(g *gpu, err error) {
	switch {
	case err != nil && g.lost.IsZero():
		g.lost, g.gpm.taken = time.Now(), false
		d.log.Warn("GPU does not answer: its values are missing", "gpu", g.number, "err", err)
	case err == nil && !g.lost.IsZero():
		g.lost = time.Time{}
		d.log.Info("GPU answers again", "gpu", g.number)
	}
}

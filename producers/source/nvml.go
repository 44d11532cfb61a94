package source

import (
	"log/slog"
	"math"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// nvmlLibrary is a part of NVIDIA's driver. The dynamic linker knows the folder that the driver's package chose.
const nvmlLibrary = "libnvidia-ml.so.1"

// nvml reads NVIDIA's GPUs. A row is a GPU, by the number in the name of its device: 0 is /dev/nvidia0. Of a GPU in MIG
// mode it reads the GPU, and not the parts.
func nvml() source {
	return source{"nvml", schemas.ScopeGPU, nvmlLibrary, []metric{
		{"acc_utilization", "1", gauge, "utilization.gpu / 100: share of the last sample period with a kernel"},
		{"acc_mem_utilization", "1", gauge, "utilization.memory / 100: the same with memory in use"},
		{"acc_mem_used", "B", gauge, "memory that processes have; with drivers before 510 the driver's own too"},
		{"acc_power", "W", gauge, "total energy (mJ) / 1000 / s; without that counter, power usage (mW) / 1000"},
		{"acc_temperature", "degC", gauge, "temperature of the GPU"},
		{"acc_clock", "Hz", gauge, "clock of the SMs (MHz) * 1e6"},
		{"acc_clock_limited", "1", gauge, "1 if power, heat or hardware hold the clock down, else 0"},
		{"acc_processes", "1", gauge, "compute processes + graphics processes"},
		{"acc_idle", "1", gauge, "1 if utilization.gpu is 0 and there is no process, else 0"},
		{"acc_pcie_rx", "B/s", Rate, "PCIe bytes to the GPU / s"},
		{"acc_pcie_tx", "B/s", Rate, "PCIe bytes from the GPU / s"},
		{"acc_nvlink_rx", "B/s", Rate, "data over all NVLinks to the GPU (KiB) * 1024 / s"},
		{"acc_nvlink_tx", "B/s", Rate, "data over all NVLinks from the GPU (KiB) * 1024 / s"},
		{"acc_sm_active", "1", ratio, "GPM SM_UTIL / 100: share of SMs that were busy; GPM is of Hopper and later"},
		{"acc_tensor_active", "1", ratio, "GPM ANY_TENSOR_UTIL / 100: share of time in tensor operations"},
		{"acc_fp64_active", "1", ratio, "GPM FP64_UTIL / 100: share of time in FP64 other than tensor operations"},
		{"acc_fp32_active", "1", ratio, "GPM FP32_UTIL / 100: the same of FP32"},
		{"acc_fp16_active", "1", ratio, "GPM FP16_UTIL / 100: the same of FP16"},
		{"acc_dram_active", "1", ratio, "GPM DRAM_BW_UTIL / 100: memory bandwidth as a share of the GPU's peak"},
	}, func(cfg config.Agent, log *slog.Logger) (probe, error) { return openNVML(nvmlLibrary, cfg, log) }}
}

// The fields of a GPU's row. Numbers of GPM are the bits of a float64. nvmlMissing stands for a value that the GPU
// lacks.
const (
	gpuUtilization = iota // percent
	gpuMemUtilization
	gpuMemUsed     // B
	gpuEnergy      // mJ, a counter
	gpuPower       // mW
	gpuTemperature // degC, of two's complement
	gpuClock       // MHz
	gpuReasons     // why the clock is not higher, as bits
	gpuProcesses
	gpuPCIeRx   // B, a counter
	gpuPCIeTx   // B, a counter
	gpuNVLinkRx // KiB, a counter
	gpuNVLinkTx // KiB, a counter
	gpuGPM      // the first of GPM's fields, which follow in the order of gpmMetrics
	gpuFields   = gpuGPM + gpmCount
)

const nvmlMissing = math.MaxUint64

// gpuNeeds lists the fields that each metric is computed from, in the order of the metrics. GPM's fields follow.
var gpuNeeds = [...][]int{
	{gpuUtilization},
	{gpuMemUtilization},
	{gpuMemUsed},
	{gpuEnergy, gpuPower},
	{gpuTemperature},
	{gpuClock},
	{gpuReasons},
	{gpuProcesses},
	{gpuUtilization, gpuProcesses},
	{gpuPCIeRx, gpuGPM + gpmShares},
	{gpuPCIeTx, gpuGPM + gpmShares + 1},
	{gpuNVLinkRx, gpuGPM + gpmShares + 2},
	{gpuNVLinkTx, gpuGPM + gpmShares + 3},
}

// gpuSkips returns the fields that no measured metric needs: their calls are saved.
func gpuSkips(measures func(metric string) bool) (skip [gpuFields]bool) {
	for f := range skip {
		skip[f] = true
	}
	for k, m := range nvml().metrics {
		if !measures(m.name) {
			continue
		}
		needs := []int{gpuGPM + k - len(gpuNeeds)}
		if k < len(gpuNeeds) {
			needs = gpuNeeds[k]
		}
		for _, f := range needs {
			skip[f] = false
		}
	}
	return skip
}

// gpmMetrics are numbers of NVML_GPM_METRIC_: six shares in percent, then PCIe and NVLink in MiB/s.
var gpmMetrics = [gpmCount]uint32{2, 5, 11, 12, 13, 10, 21, 20, 60, 61}

const (
	gpmCount  = 10
	gpmShares = 6 // the first of them
	mebibyte  = 1 << 20
)

// clockLimits are the reasons that hold the clock of a busy GPU down: the power cap, heat, an external brake, other
// slowdowns of hardware. Not among them are an idle GPU and settings by a person.
const clockLimits = 0x04 | 0x08 | 0x20 | 0x40 | 0x80

// formNVML forms the metrics of one GPU.
func formNVML(from, to []uint64, elapsed time.Duration, out []float64) {
	s := elapsed.Seconds()
	scaled := func(field int, factor float64) float64 {
		if to[field] == nvmlMissing {
			return math.NaN()
		}
		return float64(to[field]) * factor
	}
	rate := func(field int, factor float64) float64 {
		if from[field] == nvmlMissing || to[field] == nvmlMissing || s <= 0 {
			return math.NaN()
		}
		d, ok := grown(from[field], to[field])
		if !ok {
			return math.NaN()
		}
		return d * factor / s
	}
	gpm := func(k int, factor float64) float64 {
		if to[gpuGPM+k] == nvmlMissing {
			return math.NaN()
		}
		return math.Float64frombits(to[gpuGPM+k]) * factor
	}
	either := func(a, b float64) float64 {
		if math.IsNaN(a) {
			return b
		}
		return a
	}
	out[0] = scaled(gpuUtilization, 0.01)
	out[1] = scaled(gpuMemUtilization, 0.01)
	out[2] = scaled(gpuMemUsed, 1)
	out[3] = either(rate(gpuEnergy, 1e-3), scaled(gpuPower, 1e-3))
	if to[gpuTemperature] != nvmlMissing {
		out[4] = float64(int32(to[gpuTemperature]))
	}
	out[5] = scaled(gpuClock, 1e6)
	if to[gpuReasons] != nvmlMissing {
		out[6] = oneIf(to[gpuReasons]&clockLimits != 0)
	}
	out[7] = scaled(gpuProcesses, 1)
	if to[gpuUtilization] != nvmlMissing && to[gpuProcesses] != nvmlMissing {
		out[8] = oneIf(to[gpuUtilization] == 0 && to[gpuProcesses] == 0)
	}
	out[9] = either(rate(gpuPCIeRx, 1), gpm(gpmShares, mebibyte))
	out[10] = either(rate(gpuPCIeTx, 1), gpm(gpmShares+1, mebibyte))
	out[11] = either(rate(gpuNVLinkRx, 1024), gpm(gpmShares+2, mebibyte))
	out[12] = either(rate(gpuNVLinkTx, 1024), gpm(gpmShares+3, mebibyte))
	for k := range gpmShares {
		out[13+k] = gpm(k, 0.01)
	}
}

func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

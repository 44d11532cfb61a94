//go:build linux && (amd64 || arm64) && !static

package source

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The functions of NVML that are called, in the order of nvmlNames. A library may lack any but the first nvmlNeeded.
const (
	nvmlInit = iota
	nvmlShutdown
	nvmlCount
	nvmlHandle
	nvmlMinor
	nvmlRates
	nvmlMemory2
	nvmlMemory1
	nvmlEnergy
	nvmlPower
	nvmlTemperature
	nvmlClock
	nvmlCompute
	nvmlGraphics
	nvmlReasons
	nvmlThrottle
	nvmlFields
	gpmSupport
	gpmAlloc
	gpmFree
	gpmSample
	gpmMetricsGet
	nvmlFunctions

	nvmlNeeded = nvmlHandle + 1
)

var nvmlNames = [nvmlFunctions]string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetMinorNumber",
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo",
	"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTemperature",
	"nvmlDeviceGetClockInfo", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
	"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetFieldValues",
	"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmSampleGet", "nvmlGpmMetricsGet",
}

// nvmlReturn is the return code of a function of NVML.
type nvmlReturn uint32

// The numbers that decide something here.
const (
	nvmlSuccess          nvmlReturn = 0
	nvmlUninitialized    nvmlReturn = 1
	nvmlNotSupported     nvmlReturn = 3
	nvmlInsufficientSize nvmlReturn = 7
	nvmlNotLoaded        nvmlReturn = 9
	nvmlNoFunction       nvmlReturn = 13
	nvmlLost             nvmlReturn = 15
	nvmlReset            nvmlReturn = 16
	nvmlMismatch         nvmlReturn = 18
	nvmlNoData           nvmlReturn = 21
)

// nvmlError is a return code of NVML other than success.
type nvmlError nvmlReturn

// Error implements error.
func (e nvmlError) Error() string {
	switch nvmlReturn(e) {
	case nvmlUninitialized:
		return "NVML: not initialized"
	case nvmlNotSupported:
		return "NVML: not supported by the GPU"
	case 4:
		return "NVML: no permission"
	case nvmlNotLoaded:
		return "NVML: the driver is not loaded"
	case 12:
		return "NVML: the driver's library is not found"
	case nvmlNoFunction:
		return "NVML: the driver's library lacks the function"
	case nvmlLost:
		return "NVML: the GPU has fallen off the bus"
	case nvmlReset:
		return "NVML: the GPU needs a reset"
	case nvmlMismatch:
		return "NVML: the driver and its library have different versions: restart the node"
	}
	return fmt.Sprintf("NVML: error %d", uint32(e))
}

// err returns the error; nil for success.
func (r nvmlReturn) err() error {
	if r == nvmlSuccess {
		return nil
	}
	return nvmlError(r)
}

// gone reports whether the GPU or the driver disappeared, so that further calls for this GPU are pointless.
func (r nvmlReturn) gone() bool {
	switch r {
	case nvmlUninitialized, nvmlNotLoaded, nvmlLost, nvmlReset, nvmlMismatch:
		return true
	}
	return false
}

// nvmlOut is the memory that NVML reads and writes, with the layouts of its header, which TestLayoutsOfNVML pins. It is
// on the heap, because Go does not move objects there.
type nvmlOut struct {
	word    uint32
	long    uint64
	pointer uintptr
	rates   struct{ gpu, memory uint32 }
	memory2 struct {
		version                     uint32
		total, reserved, free, used uint64
	}
	memory1 struct{ total, free, used uint64 }
	fields  [len(nvmlFieldIDs)]nvmlField
	support struct{ version, supported uint32 }
	metrics struct {
		version, count uint32
		first, second  uintptr
		metrics        [gpmMost]gpmMetric
	}
}

// nvmlField is nvmlFieldValue_t.
type nvmlField struct {
	id, scope uint32
	_         [2]int64 // when it was read, and how long that took
	kind      uint32
	result    nvmlReturn
	value     uint64 // a union
}

// gpmMetric is nvmlGpmMetric_t.
type gpmMetric struct {
	id     uint32
	result nvmlReturn
	value  float64
	_      [3]uintptr // the metric's name and unit
}

// gpmMost is NVML_GPM_METRIC_MAX.
const gpmMost = 333

// nvmlFieldIDs are values without a function of their own: the number of the value, its scope, and its field of a row.
// The counters of NVLink are summed over all links.
var nvmlFieldIDs = [...]struct {
	id, scope uint32
	row       int
}{
	{138, math.MaxUint32, gpuNVLinkTx}, // NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
	{139, math.MaxUint32, gpuNVLinkRx},
	{197, 0, gpuPCIeTx}, // NVML_FI_DEV_PCIE_COUNT_TX_BYTES
	{198, 0, gpuPCIeRx},
}

// nvmlLib is the loaded library. One goroutine uses it.
type nvmlLib struct {
	functions [nvmlFunctions]uintptr
	out       *nvmlOut
	args      []uintptr
	skip      [gpuFields]bool       // fields that nobody asks for
	why       [gpuFields]nvmlReturn // why a field was missing when it was last asked for
	gone      nvmlReturn            // of the GPU that is read
}

// loadNVML loads the library and initializes it. The library stays loaded for ever: who unloads a driver's library may
// end the process.
func loadNVML(path string) (*nvmlLib, error) {
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("loading NVIDIA's library: %w", err)
	}
	l := &nvmlLib{out: &nvmlOut{}, args: make([]uintptr, 0, 8)}
	for f, name := range nvmlNames {
		address, err := purego.Dlsym(library, name)
		if err != nil && f < nvmlNeeded {
			return nil, fmt.Errorf("loading NVIDIA's library: %w", err)
		}
		l.functions[f] = address
	}
	return l, l.call(nvmlInit).err()
}

// call calls a function. Its arguments are values, or addresses in l.out.
func (l *nvmlLib) call(f int, args ...uintptr) nvmlReturn {
	if l.functions[f] == 0 {
		return nvmlNoFunction
	}
	l.args = append(l.args[:0], args...) // they are on the heap, so that the call allocates nothing
	result, _, _ := purego.SyscallN(l.functions[f], l.args...)
	runtime.KeepAlive(l.out)
	return nvmlReturn(result)
}

// at returns the address of a part of nvmlOut.
func at[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// close ends the use of the library.
func (l *nvmlLib) close(gpus []gpu) {
	for _, g := range gpus {
		for _, sample := range []uintptr{g.gpm.last, g.gpm.next} {
			if sample != 0 {
				_ = l.call(gpmFree, sample)
			}
		}
	}
	_ = l.call(nvmlShutdown)
}

// gpus returns the GPUs that there are, each with the number of its device.
func (l *nvmlLib) gpus() (gpus []gpu, err error) {
	if err := l.call(nvmlCount, at(&l.out.word)).err(); err != nil {
		return nil, err
	}
	err = errNoGPU
	seen := map[int]bool{}
	for i := range l.out.word {
		g := gpu{index: i}
		if e := l.handle(&g); e != nil {
			err = e // it is lost, or not for this user
			continue
		}
		g.number = int(i)
		if l.call(nvmlMinor, g.handle, at(&l.out.word)) == nvmlSuccess {
			g.number = int(l.out.word)
		}
		if g.number < maxGPUs && !seen[g.number] {
			seen[g.number] = true
			l.openGPM(&g)
			gpus = append(gpus, g)
		}
	}
	if len(gpus) > 0 {
		err = nil
	}
	return gpus, err
}

// handle asks for the handle of a GPU.
func (l *nvmlLib) handle(g *gpu) error {
	err := l.call(nvmlHandle, uintptr(g.index), at(&l.out.pointer)).err()
	if err == nil {
		g.handle = l.out.pointer
	}
	return err
}

// set notes a value of the GPU that is read, or why it is missing.
func (l *nvmlLib) set(row []uint64, field int, e nvmlReturn, value uint64) {
	l.why[field] = e
	if e == nvmlSuccess {
		row[field] = value
	} else if e.gone() {
		l.gone = e
	}
}

// readGPU reads a GPU into a row.
func (l *nvmlLib) readGPU(g *gpu, row []uint64) ([]uint64, error) {
	row = slices.Grow(row[:0], gpuFields)[:gpuFields]
	for f := range row {
		row[f] = nvmlMissing
	}
	l.gone = nvmlSuccess
	l.readState(g, row)
	if l.gone == nvmlSuccess {
		l.readFields(g, row)
		l.readGPM(g, row)
	}
	return row, l.gone.err()
}

// readState reads the values that have a function of their own. It always reads the utilization, because that shows
// whether the GPU answers.
func (l *nvmlLib) readState(g *gpu, row []uint64) {
	o := l.out
	e := l.call(nvmlRates, g.handle, at(&o.rates))
	l.set(row, gpuUtilization, e, uint64(o.rates.gpu))
	l.set(row, gpuMemUtilization, e, uint64(o.rates.memory))
	if l.gone != nvmlSuccess {
		return
	}
	if !l.skip[gpuMemUsed] {
		o.memory2.version = uint32(unsafe.Sizeof(o.memory2)) | 2<<24
		e = l.call(nvmlMemory2, g.handle, at(&o.memory2))
		l.set(row, gpuMemUsed, e, o.memory2.used)
		if e == nvmlNoFunction {
			e = l.call(nvmlMemory1, g.handle, at(&o.memory1))
			l.set(row, gpuMemUsed, e, o.memory1.used)
		}
	}
	if !l.skip[gpuEnergy] { // and with it the power
		e = l.call(nvmlEnergy, g.handle, at(&o.long))
		l.set(row, gpuEnergy, e, o.long)
		e = l.call(nvmlPower, g.handle, at(&o.word))
		l.set(row, gpuPower, e, uint64(o.word))
	}
	if !l.skip[gpuTemperature] {
		e = l.call(nvmlTemperature, g.handle, 0, at(&o.word)) // of the GPU's die
		l.set(row, gpuTemperature, e, uint64(o.word))
	}
	if !l.skip[gpuClock] {
		e = l.call(nvmlClock, g.handle, 1, at(&o.word)) // of the SMs
		l.set(row, gpuClock, e, uint64(o.word))
	}
	if !l.skip[gpuReasons] {
		if e = l.call(nvmlReasons, g.handle, at(&o.long)); e == nvmlNoFunction {
			e = l.call(nvmlThrottle, g.handle, at(&o.long)) // its name until driver 535
		}
		l.set(row, gpuReasons, e, o.long)
	}
	if !l.skip[gpuProcesses] {
		compute, e := l.processes(nvmlCompute, g)
		graphics, _ := l.processes(nvmlGraphics, g) // 0 if the GPU has no graphics
		l.set(row, gpuProcesses, e, uint64(compute)+uint64(graphics))
	}
}

// processes returns the number of processes that use a GPU. NVML reports it when it lacks room to list them.
func (l *nvmlLib) processes(f int, g *gpu) (uint32, nvmlReturn) {
	l.out.word = 0
	e := l.call(f, g.handle, at(&l.out.word), 0)
	if e == nvmlInsufficientSize {
		e = nvmlSuccess
	}
	if e != nvmlSuccess {
		return 0, e
	}
	return l.out.word, e
}

// readFields reads the counters of NVLink and PCIe. A PCIe counter of 32 bits is left out: at 64 GB/s it begins anew
// every 67 ms. The function that returns a throughput is not called, since it takes 20 ms of each GPU.
func (l *nvmlLib) readFields(g *gpu, row []uint64) {
	if l.skip[gpuPCIeRx] && l.skip[gpuPCIeTx] && l.skip[gpuNVLinkRx] && l.skip[gpuNVLinkTx] {
		return
	}
	for i, f := range nvmlFieldIDs {
		l.out.fields[i] = nvmlField{id: f.id, scope: f.scope}
	}
	all := l.call(nvmlFields, g.handle, uintptr(len(l.out.fields)), at(&l.out.fields))
	for i, f := range nvmlFieldIDs {
		v, e := &l.out.fields[i], all
		if e == nvmlSuccess {
			e = v.result
		}
		if wide := v.kind == 2 || v.kind == 3 || v.kind == 4; e == nvmlSuccess && !wide {
			e = nvmlNotSupported
		}
		l.set(row, f.row, e, v.value)
	}
}

// openGPM prepares the samples of a GPU's performance monitor, if it has one.
func (l *nvmlLib) openGPM(g *gpu) {
	o := l.out
	o.support.version, o.support.supported = 1, 0
	e := l.call(gpmSupport, g.handle, at(&o.support))
	if e == nvmlSuccess && o.support.supported == 0 {
		e = nvmlNotSupported
	}
	for _, sample := range []*uintptr{&g.gpm.last, &g.gpm.next} {
		if e != nvmlSuccess {
			break
		}
		if e = l.call(gpmAlloc, at(&o.pointer)); e == nvmlSuccess {
			*sample = o.pointer
		}
	}
	for k := range gpmCount {
		l.why[gpuGPM+k] = e
	}
}

// readGPM reads the counts of the performance monitor since the previous reading.
func (l *nvmlLib) readGPM(g *gpu, row []uint64) {
	if g.gpm.next == 0 || !slices.Contains(l.skip[gpuGPM:], false) {
		return
	}
	e := l.call(gpmSample, g.handle, g.gpm.next)
	before := g.gpm.taken
	if g.gpm.taken = e == nvmlSuccess; e == nvmlSuccess {
		g.gpm.last, g.gpm.next = g.gpm.next, g.gpm.last
		if !before {
			return
		}
		m := &l.out.metrics
		m.version, m.count, m.first, m.second = 1, gpmCount, g.gpm.next, g.gpm.last
		for k, id := range gpmMetrics {
			m.metrics[k] = gpmMetric{id: id}
		}
		e = l.call(gpmMetricsGet, at(m))
	}
	for k := range gpmMetrics {
		v, result := l.out.metrics.metrics[k].value, e
		if e == nvmlSuccess {
			result = l.out.metrics.metrics[k].result
		}
		if result == nvmlSuccess && (math.IsNaN(v) || math.IsInf(v, 0)) {
			result = nvmlNoData
		}
		l.set(row, gpuGPM+k, result, math.Float64bits(v))
	}
}

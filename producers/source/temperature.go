package source

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs/sysfs"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errNoSensor is returned if no chip measures a processor.
	errNoSensor = errors.New("no chip is named coretemp, k10temp, zenpower or cpu_thermal")
	// errNoCoreSensor is returned if no sensor belongs to a core.
	errNoCoreSensor = errors.New("no sensor of a core: only coretemp, of Intel's processors, provides them")
)

func temperature() source {
	return source{"temperature", schemas.ScopeCore, "/sys/class/hwmon/*/temp*_input", []metric{
		{"temperature", "degC", gauge, "the sensor labelled Core N of coretemp, for all CPUs of that core"},
	}, openTemperature}
}

func temperatureMax() source {
	return source{"temperature_max", schemas.ScopeNode, "/sys/class/hwmon/*/temp*_input", []metric{
		{"temperature_max", "degC", gauge, "the hottest package of coretemp, or the hottest sensor of k10temp"},
	}, openTemperatureMax}
}

// chips are the names of chips that measure processors.
var chips = []string{"coretemp", "k10temp", "zenpower", "cpu_thermal"}

// sensor is an open sensor of a temperature.
type sensor struct {
	kept
	cpus []int // the CPUs of its core
}

// input is a sensor as its chip shows it.
type input struct {
	path  string
	label string // such as Core 3, Package id 0, Tctl; empty: none
}

// openTemperature reads the sensor of each core. A sensor without a value is missing, and does not affect the others. A
// read interrupts the core, but coretemp asks a core once a second at most.
func openTemperature(cfg config.Agent, _ *slog.Logger) (probe, error) {
	class := filepath.Join(cfg.SysPath, "class/hwmon")
	var cores map[core][]int // found when a chip is opened
	sensors := devices[[]sensor]{
		list: func() ([]string, error) {
			cores = nil
			return chipsOf(class)
		},
		open: func(chip string) ([]sensor, error) {
			if cores == nil {
				cores = coresOf(cfg.SysPath)
			}
			return openCores(inputsOf(filepath.Join(class, chip)), cores), nil
		},
		close: closeSensors,
	}
	err := sensors.look()
	if err == nil && !slices.ContainsFunc(sensors.all, func(s []sensor) bool { return len(s) > 0 }) {
		err = errNoCoreSensor
	}
	if err != nil {
		return probe{}, err
	}
	buffer, cpus := make([]byte, 64), 0
	read := func(into reading, v Vitals) (reading, error) {
		all, err := sensors.now(v.BoundaryMs)
		if err != nil {
			return nil, err
		}
		for i := range into {
			into[i] = into[i][:0]
		}
		for _, chip := range all {
			for _, s := range chip {
				celsius, gone := s.celsius(buffer)
				sensors.gone = sensors.gone || gone
				for _, cpu := range s.cpus {
					for len(into) <= cpu {
						into = append(into, nil)
					}
					into[cpu] = append(into[cpu][:0], math.Float64bits(celsius))
				}
			}
		}
		return into, nil
	}
	follow := func(online []int) { // a CPU that comes brings a sensor along
		sensors.gone = sensors.gone || cpus > 0 && len(online) != cpus
		cpus = len(online)
	}
	return probe{read: read, follow: follow, form: formFloats, close: sensors.release}, nil
}

// openTemperatureMax reads the hottest sensor of all processors.
func openTemperatureMax(cfg config.Agent, _ *slog.Logger) (probe, error) {
	class := filepath.Join(cfg.SysPath, "class/hwmon")
	sensors := devices[[]sensor]{
		list: func() ([]string, error) { return chipsOf(class) },
		open: func(chip string) ([]sensor, error) {
			return openSensors(hottest(inputsOf(filepath.Join(class, chip)))), nil
		},
		close: closeSensors,
	}
	if err := sensors.look(); err != nil {
		return probe{}, err
	}
	buffer := make([]byte, 64)
	read := func(into reading, v Vitals) (reading, error) {
		all, err := sensors.now(v.BoundaryMs)
		if err != nil {
			return nil, err
		}
		most := math.Inf(-1)
		for _, chip := range all {
			for _, s := range chip {
				celsius, gone := s.celsius(buffer)
				sensors.gone = sensors.gone || gone
				most = max(most, celsius) // NaN if one is
			}
		}
		if math.IsInf(most, -1) {
			most = math.NaN()
		}
		into = only(into)
		into[0] = append(into[0], math.Float64bits(most))
		return into, nil
	}
	return probe{read: read, form: formFloats, close: sensors.release}, nil
}

// formFloats returns the values of the second reading. They are stored as the bits of floating-point numbers.
func formFloats(_, to []uint64, _ time.Duration, out []float64) {
	for i := range out {
		out[i] = math.Float64frombits(to[i])
	}
}

// chipsOf returns the chips of a class that measure processors.
func chipsOf(class string) ([]string, error) {
	all, err := entries(class)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(chip string) bool {
		return !slices.Contains(chips, textOf(filepath.Join(class, chip, "name")))
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w", class, errNoSensor)
	}
	return all, nil
}

// inputsOf returns the temperatures of a chip.
func inputsOf(chip string) (inputs []input) {
	files, _ := entries(chip) // gone by now: none
	for _, f := range files {
		if sensor, isInput := strings.CutSuffix(f, "_input"); isInput && strings.HasPrefix(f, "temp") {
			inputs = append(inputs, input{filepath.Join(chip, f), textOf(filepath.Join(chip, sensor+"_label"))})
		}
	}
	return inputs
}

// hottest returns the inputs that show how hot a processor is. The sensor of a package follows its hottest core. Tctl
// steers the fan, and may stand above Tdie, the true temperature of the die.
func hottest(inputs []input) []input {
	part := func(i input) bool { return !strings.HasPrefix(i.label, "Package id ") }
	if whole := slices.DeleteFunc(slices.Clone(inputs), part); len(whole) > 0 {
		return whole
	}
	if slices.ContainsFunc(inputs, func(i input) bool { return i.label == "Tdie" }) {
		return slices.DeleteFunc(slices.Clone(inputs), func(i input) bool { return i.label == "Tctl" })
	}
	return inputs
}

// core is a core of a package. Its number is unique within the package.
type core struct{ socket, number int }

// coresOf returns the CPUs of every core.
func coresOf(sysPath string) map[core][]int {
	cores := map[core][]int{}
	fs, err := sysfs.NewFS(sysPath)
	if err != nil {
		return cores // no core is known
	}
	cpus, _ := fs.CPUs() // fails only for a malformed pattern
	for _, c := range cpus {
		cpu, err := strconv.Atoi(c.Number())
		if at, errOfCore := coreOf(sysPath, cpu); err == nil && errOfCore == nil && cpu < maxCPUs {
			cores[at] = append(cores[at], cpu)
		}
	}
	return cores
}

// coreOf returns the core of a CPU. The kernel has no core of a CPU that is offline.
func coreOf(sysPath string, cpu int) (core, error) {
	dir := filepath.Join(sysPath, fmt.Sprintf("devices/system/cpu/cpu%d", cpu))
	t, err := sysfs.CPU(dir).Topology()
	if err != nil {
		return core{}, err
	}
	socket, err1 := strconv.Atoi(t.PhysicalPackageID)
	number, err2 := strconv.Atoi(t.CoreID)
	if err1 != nil || err2 != nil {
		return core{}, fmt.Errorf("%s/topology: %w: package %.80q, core %.80q",
			dir, errFormat, t.PhysicalPackageID, t.CoreID)
	}
	return core{socket, number}, nil
}

// openCores opens the core sensors of a chip.
func openCores(inputs []input, cores map[core][]int) (sensors []sensor) {
	socket := -1
	for _, i := range inputs {
		if n, ok := numberAfter(i.label, "Package id "); ok {
			socket = n
		}
	}
	for _, i := range inputs {
		number, ok := numberAfter(i.label, "Core ")
		if cpus := cores[core{socket, number}]; ok && len(cpus) > 0 {
			for _, s := range openSensors([]input{i}) {
				sensors = append(sensors, sensor{s.kept, cpus})
			}
		}
	}
	return sensors
}

// openSensors opens inputs. One that cannot be opened is left out: its CPU went offline.
func openSensors(inputs []input) (sensors []sensor) {
	for _, i := range inputs {
		if file, err := keep(i.path); err == nil {
			sensors = append(sensors, sensor{kept: file})
		}
	}
	return sensors
}

func closeSensors(sensors []sensor) {
	for _, s := range sensors {
		s.close()
	}
}

// celsius reads the sensor. The value is NaN if the sensor has none.
func (s sensor) celsius(buffer []byte) (celsius float64, gone bool) {
	data, err := s.read(buffer)
	if err != nil {
		return math.NaN(), isGone(err)
	}
	return parseCelsius(data), false
}

// parseCelsius reads a temperature in thousandths of a degree. Temperatures that no working processor reaches are NaN.
func parseCelsius(data []byte) float64 {
	data, below := bytes.CutPrefix(data, []byte{'-'})
	milli := parseCount(data, 1, 0)
	celsius := float64(milli) / 1000
	if below {
		celsius = -celsius
	}
	if celsius < -100 || celsius > 250 {
		return math.NaN()
	}
	return celsius
}

// numberAfter reads a text that is a prefix and a number.
func numberAfter(text, prefix string) (int, bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	n, err := strconv.ParseUint(rest, 10, 31)
	return int(n), ok && err == nil
}

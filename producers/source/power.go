package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errNoMeter is returned if nothing measures the power of the node.
	errNoMeter = errors.New("found neither Cray's pm_counters nor a chip named power_meter")
	// errManyMeters is returned if several meters exist and their scope is unknown.
	errManyMeters = errors.New("several meters, and none whose power1_oem_info is Module Power Socket N")
)

func power() source {
	return source{"power", schemas.ScopeNode, "/sys/cray/pm_counters or /sys/class/hwmon/*/power1_average", []metric{
		{"node_power", "W", gauge, "energy / time of pm_counters, else its power, else the power meters of ACPI"},
		{"node_cpu_power", "W", gauge, "cpu_energy / time of pm_counters, else its cpu_power"},
		{"node_mem_power", "W", gauge, "memory_energy / time of pm_counters, else its memory_power"},
	}, openPower}
}

// openPower reads the power of the whole node, from Cray's counters if they exist, otherwise from ACPI's meters.
func openPower(cfg config.Agent, _ *slog.Logger) (probe, error) {
	if dir := filepath.Join(cfg.SysPath, "cray/pm_counters"); textOf(filepath.Join(dir, "power")) != "" {
		return openCray(dir, cfg), nil
	}
	return openMeters(filepath.Join(cfg.SysPath, "class/hwmon"))
}

// The numbers of pm_counters, in the order of the metrics: energy in joules, the time of that measurement in
// microseconds, power in watts.
const (
	crayEnergy = iota
	crayTime
	crayPower
	crayNumbers
)

// openCray reads the counters that Cray's node controller measures ten times a second. They come with their own time,
// so that the power is exact although the last measurement is up to 0.1 s old. The first number of the row is their
// freshness: it stands still when the controller does.
func openCray(dir string, cfg config.Agent) probe {
	parts := [...]string{"", "cpu_", "memory_"}
	var energy, watts [len(parts)]kept
	open := func(name string) kept {
		file, _ := keep(filepath.Join(dir, name)) // without a file, this controller has no such counter
		return file
	}
	fresh := open("freshness")
	absent := map[string]error{}
	for i, part := range parts {
		if !cfg.Measures(power().metrics[i].name) {
			continue
		}
		energy[i], watts[i] = open(part+"energy"), open(part+"power")
		if energy[i].file == nil && watts[i].file == nil {
			absent[power().metrics[i].name] = fmt.Errorf("%s: no %spower", dir, part)
		}
	}
	buffer := make([]byte, 128)
	read := func(into reading, _ Vitals) (reading, error) {
		into = only(into)
		number, _ := readCray(fresh, buffer, "")
		row := append(into[0], number)
		for i := range parts {
			joules, at := readCray(energy[i], buffer, "J")
			now, _ := readCray(watts[i], buffer, "W")
			row = append(row, joules, at, now)
		}
		into[0] = row
		return into, nil
	}
	return probe{read: read, form: formCray, absent: absent, close: func() {
		fresh.close()
		for i := range parts {
			energy[i].close()
			watts[i].close()
		}
	}}
}

// readCray reads one of pm_counters, and the time of its measurement. Both are unread if the file lacks them.
func readCray(file kept, buffer []byte, unit string) (v, at uint64) {
	if file.file == nil {
		return unread, unread
	}
	data, err := file.read(buffer)
	if err != nil {
		return unread, unread
	}
	return parseCray(data, unit)
}

// parseCray reads a number, its unit, and the microseconds at which it was measured. Old controllers have no time.
//
//	356 W 1700659200123456 us
func parseCray(data []byte, unit string) (v, at uint64) {
	v, rest, ok := number(data)
	rest, hasUnit := bytes.CutPrefix(bytes.TrimSpace(rest), []byte(unit))
	if !ok || !hasUnit {
		return unread, unread
	}
	if rest = bytes.TrimSpace(rest); len(rest) == 0 {
		return v, unread
	}
	at, rest, ok = number(rest)
	if !ok || string(bytes.TrimSpace(rest)) != "us" {
		return unread, unread
	}
	return v, at
}

// formCray computes the mean power from the energy if that is counted, and otherwise returns the current power. The
// values of a controller that stands still are missing.
func formCray(from, to []uint64, elapsed time.Duration, out []float64) {
	if from[0] == to[0] && to[0] != unread {
		return
	}
	for k := range out {
		a, b := from[1+k*crayNumbers:], to[1+k*crayNumbers:]
		if a[crayEnergy] == unread && b[crayEnergy] == unread {
			if b[crayPower] != unread {
				out[k] = float64(b[crayPower])
			}
			continue
		}
		seconds := elapsed.Seconds()
		if a[crayTime] != unread && b[crayTime] != unread {
			seconds = growth(a[crayTime], b[crayTime]) / 1e6
		}
		if used := growth(a[crayEnergy], b[crayEnergy]); used > 0 && seconds > 0 {
			out[k] = used / seconds
		}
	}
}

// openMeters reads the power meters of ACPI. On most nodes one meter measures the whole node. NVIDIA's Grace has
// several for each module, one of which measures the whole module.
func openMeters(class string) (probe, error) {
	meters := devices[numberFile]{
		list: func() ([]string, error) { return metersOf(class) },
		open: func(name string) (numberFile, error) { // not read yet: a meter may take a second to answer
			file, err := keep(filepath.Join(class, name))
			return numberFile{kept: file}, err
		},
		close: func(f numberFile) { f.close() },
	}
	if err := meters.look(); err != nil {
		return probe{}, err
	}
	buffer := make([]byte, 64)
	read := func(into reading, v Vitals) (reading, error) {
		all, err := meters.now(v.BoundaryMs)
		if err != nil {
			return nil, err
		}
		microwatts := 0.0
		for i := range all {
			n, err := all[i].number(buffer)
			if err != nil {
				return nil, meters.lost(fmt.Errorf("reading meter %s: %w", meters.names[i], err))
			}
			if n == unread || n == 0 {
				microwatts = math.NaN() // a node that runs draws some
			}
			microwatts += float64(n)
		}
		into = only(into)
		into[0] = append(into[0], math.Float64bits(microwatts/1e6))
		return into, nil
	}
	absent := map[string]error{"node_cpu_power": errNoCray, "node_mem_power": errNoCray}
	return probe{read: read, form: formMeters, absent: absent, close: meters.release}, nil
}

// formMeters returns the power of the second reading.
func formMeters(_, to []uint64, _ time.Duration, out []float64) { out[0] = math.Float64frombits(to[0]) }

// errNoCray is returned for quantities that only Cray's counters measure.
var errNoCray = errors.New("/sys/cray/pm_counters: no such counters")

// metersOf returns the files that add up to the power of the node, as paths below the class.
func metersOf(class string) ([]string, error) {
	all, err := entries(class)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var meters, modules []string
	for _, chip := range all {
		if textOf(filepath.Join(class, chip, "name")) != "power_meter" {
			continue
		}
		for _, dir := range []string{chip, filepath.Join(chip, "device")} { // by the version of the kernel
			file := filepath.Join(dir, "power1_average")
			if _, err := os.Stat(filepath.Join(class, file)); err != nil {
				continue
			}
			meters = append(meters, file)
			if strings.HasPrefix(textOf(filepath.Join(class, dir, "power1_oem_info")), "Module Power Socket ") {
				modules = append(modules, file)
			}
			break
		}
	}
	switch {
	case len(modules) > 0:
		return modules, nil
	case len(meters) > 1:
		return nil, fmt.Errorf("%s: %w", class, errManyMeters)
	case len(meters) == 0:
		return nil, fmt.Errorf("%s: %w", class, errNoMeter)
	}
	return meters, nil
}

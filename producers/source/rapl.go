package source

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errNoZone is returned if RAPL has no zone of a package.
	errNoZone = errors.New("no zone named package-N")
	// errRAPLRights is returned if the agent may not read the energy.
	errRAPLRights = errors.New("only root may read it since CVE-2020-8694: a udev rule can let the agent's group, " +
		`SUBSYSTEM=="powercap", ACTION=="add", RUN+="/bin/chgrp GROUP /sys%p/energy_uj", ` +
		`RUN+="/bin/chmod g+r /sys%p/energy_uj"`)
)

func rapl() source {
	return source{"rapl", schemas.ScopeSocket, "/sys/class/powercap/intel-rapl:*/energy_uj", []metric{
		{"cpu_power", "W", Rate, "energy of the zones package-N / time"},
		{"core_power", "W", Rate, "energy of the zones core / time"},
		{"mem_power", "W", Rate, "energy of the zones dram / time"},
	}, openRAPL}
}

// The domains of RAPL that are read, in the order of the metrics. psys is left out, because it covers different
// components on different boards.
const (
	domainPackage = iota
	domainCore
	domainDRAM
	domains
)

// zone is a zone of RAPL: a domain of a package, or of one die of it.
type zone struct {
	socket int
	domain uint64
	energy numberFile
	span   uint64 // the energy wraps beyond it
}

// maxSockets bounds the package numbers that a file may name. Some firmware gives the packages other numbers than 0, 1.
const maxSockets = 1 << 10

// openRAPL reads the energy that each package used. AMD's processors show theirs in the same files. procfs takes 136
// µs and 56 allocations for the energies, this 3 µs and none; and one garbled max_energy_range_uj loses it all zones.
func openRAPL(cfg config.Agent, _ *slog.Logger) (probe, error) {
	class := filepath.Join(cfg.SysPath, "class/powercap")
	zones := devices[zone]{
		list:  func() ([]string, error) { return raplZones(class, cfg) },
		open:  func(name string) (zone, error) { return openZone(class, name) },
		close: func(z zone) { z.energy.close() },
	}
	if err := zones.look(); err != nil {
		return probe{}, err
	}
	var has [domains]bool
	for _, z := range zones.all {
		has[z.domain] = true
	}
	absent := map[string]error{}
	for k, m := range rapl().metrics {
		if !has[k] {
			absent[m.name] = fmt.Errorf("%s: no such zone", class)
		}
	}
	buffer := make([]byte, 64)
	read := func(into reading, v Vitals) (reading, error) {
		all, err := zones.now(v.BoundaryMs)
		if err != nil {
			return nil, err
		}
		for i := range into {
			into[i] = into[i][:0]
		}
		for i := range all {
			z := &all[i]
			energy, err := z.energy.number(buffer)
			if err != nil {
				return nil, zones.lost(fmt.Errorf("reading zone %s: %w", zones.names[i], err))
			}
			for len(into) <= z.socket {
				into = append(into, nil)
			}
			into[z.socket] = append(into[z.socket], z.domain, energy, z.span)
		}
		return into, nil
	}
	return probe{read: read, form: formRAPL, absent: absent, close: zones.release}, nil
}

// raplZones returns the zones of measured domains. It leaves out intel-rapl-mmio, which shows the same energy a second
// time.
func raplZones(class string, cfg config.Agent) ([]string, error) {
	all, err := entries(class)
	if err != nil {
		return nil, err
	}
	var zones []string
	for _, name := range all {
		if _, domain, ok := zoneOf(class, name); ok && cfg.Measures(rapl().metrics[domain].name) {
			zones = append(zones, name)
		}
	}
	if len(zones) == 0 {
		return nil, fmt.Errorf("%s: %w", class, errNoZone)
	}
	return zones, nil
}

// zoneOf returns the socket and domain of a zone: intel-rapl:1 is named package-0 or package-0-die-1, and
// intel-rapl:1:0 below it is named core, dram or otherwise.
func zoneOf(class, zone string) (socket int, domain uint64, ok bool) {
	rest, isRAPL := strings.CutPrefix(zone, "intel-rapl:")
	if !isRAPL {
		return 0, 0, false
	}
	parent, _, isPart := strings.Cut(rest, ":")
	if isPart {
		switch textOf(filepath.Join(class, zone, "name")) {
		case "core":
			domain = domainCore
		case "dram":
			domain = domainDRAM
		default:
			return 0, 0, false
		}
	}
	socket, ok = packageOf(textOf(filepath.Join(class, "intel-rapl:"+parent, "name")))
	return socket, domain, ok
}

// packageOf reads the name of a package's zone.
func packageOf(name string) (socket int, ok bool) {
	name, _, _ = strings.Cut(name, "-die-")
	socket, ok = numberAfter(name, "package-")
	return socket, ok && socket < maxSockets
}

// openZone opens the energy of a zone. An energy that the processor does not support is missing, and does not affect
// the others.
func openZone(class, name string) (zone, error) {
	socket, domain, _ := zoneOf(class, name)
	dir := filepath.Join(class, name)
	energy, err := openNumber(filepath.Join(dir, "energy_uj"))
	if errors.Is(err, fs.ErrPermission) {
		return zone{}, fmt.Errorf("%w: %w", err, errRAPLRights)
	}
	span, _ := strconv.ParseUint(textOf(filepath.Join(dir, "max_energy_range_uj")), 10, 64)
	return zone{socket, domain, energy, span}, nil
}

// formRAPL gives the mean power of each domain of a package. A domain without any energy is one that the processor does
// not measure.
func formRAPL(from, to []uint64, elapsed time.Duration, out []float64) {
	var sum [domains]float64
	for i := 0; i+3 <= len(to); i += 3 {
		if from[i] != to[i] {
			return // not the same zones
		}
		sum[to[i]] += usedEnergy(from[i+1], to[i+1], to[i+2], elapsed)
	}
	for k := range sum {
		if sum[k] > 0 {
			out[k] = sum[k] / 1e6 / elapsed.Seconds()
		}
	}
}

// maxZoneWatts is more than any zone draws. It distinguishes a counter that wrapped from a counter that started anew.
const maxZoneWatts = 1000

// usedEnergy returns the energy between two readings of a counter that wraps beyond its span, in microjoules. It is NaN
// if the counter started anew, or if the interval is so long that the counter may have wrapped unseen.
func usedEnergy(from, to, span uint64, elapsed time.Duration) float64 {
	most := maxZoneWatts * 1e6 * elapsed.Seconds()
	if from == unread || to == unread || float64(span) < most || elapsed <= 0 {
		return math.NaN()
	}
	if to >= from {
		return float64(to - from)
	}
	used := float64(to) + float64(span) - float64(from)
	if from > span || used > most {
		return math.NaN()
	}
	return used
}

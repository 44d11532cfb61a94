package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// errFormat is returned for a description of an event that the kernel does not write like this.
var errFormat = errors.New("not in the kernel's format")

// cpuModel is the CPU as /proc/cpuinfo names it.
type cpuModel struct {
	vendor           string // GenuineIntel, AuthenticAMD; arm if an implementer is named
	family, model    int
	stepping         int
	implementer, arm int // Arm's implementer and part
}

// parseCPUInfo returns the first CPU of /proc/cpuinfo. Missing numbers are 0.
func parseCPUInfo(data []byte) (m cpuModel) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if !ok && m != (cpuModel{}) {
			break // the next CPU follows an empty line
		}
		value = strings.TrimSpace(value)
		n, _ := strconv.ParseInt(value, 0, 32) // text is no number of a model, and 0 fits none
		switch strings.TrimSpace(key) {
		case "vendor_id":
			m.vendor = value
		case "cpu family":
			m.family = int(n)
		case "model":
			m.model = int(n)
		case "stepping":
			m.stepping = int(n)
		case "CPU implementer":
			m.vendor, m.implementer = "arm", int(n)
		case "CPU part":
			m.arm = int(n)
		}
	}
	return m
}

// architectureOf returns the events of a CPU. The model numbers come from Linux'
// tools/perf/pmu-events/arch/x86/mapfile.csv and arch/arm64/mapfile.csv.
func architectureOf(m cpuModel) architecture {
	switch {
	case m.vendor == "GenuineIntel" && m.family == 6:
		switch m.model {
		case 0x55:
			return skylakeSP
		case 0x6a, 0x6c:
			return iceLakeSP
		case 0x8f, 0xcf, 0xad, 0xae:
			return sapphireRapids
		}
		return otherIntel
	case m.vendor == "AuthenticAMD" && m.family == 0x17 && m.model >= 0x30:
		return zen2
	case m.vendor == "AuthenticAMD" && m.family == 0x19:
		switch m.model >> 4 {
		case 0, 2, 4, 5:
			return zen3
		}
		return zen4
	case m.vendor == "AuthenticAMD" && m.family == 0x1a:
		switch m.model >> 4 {
		case 0, 1, 2, 4, 6, 7:
			return zen5
		}
	case m.implementer == 0x41:
		switch m.arm {
		case 0xd0c:
			return neoverseN1
		case 0xd40:
			return neoverseV1
		case 0xd4f:
			return neoverseV2
		}
	}
	return otherCPU
}

// pmuDir returns the directory in which the kernel describes a PMU.
func pmuDir(sysPath, pmu string) string {
	return filepath.Join(sysPath, "bus/event_source/devices", pmu)
}

// lookUp finds an event of a PMU by its name. It uses terms if the PMU does not describe the event itself.
func lookUp(sysPath, pmu, name, terms string) (kind uint32, config uint64, err error) {
	dir := pmuDir(sysPath, pmu)
	text, err := os.ReadFile(filepath.Join(dir, "type"))
	if err != nil {
		return 0, 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("%s/type: %w: %.80q", dir, errFormat, text)
	}
	if terms == "" {
		text, err = os.ReadFile(filepath.Join(dir, "events", name))
		if err != nil {
			return 0, 0, err
		}
		terms = string(text)
	}
	config, err = encode(strings.TrimSpace(terms), func(field string) (string, error) {
		text, err := os.ReadFile(filepath.Join(dir, "format", filepath.Base(field)))
		if err != nil {
			return "", fmt.Errorf("%w: the PMU has no field %.80q", errFormat, field)
		}
		return strings.TrimSpace(string(text)), nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("event %s of %s: %w", name, dir, err)
	}
	return uint32(n), config, nil
}

// encode forms the number of an event from terms such as event=0x04,umask=0x03. The format of a field lists the
// positions of its bits, such as config:0-7,32-35.
func encode(terms string, format func(field string) (string, error)) (config uint64, err error) {
	for term := range strings.SplitSeq(terms, ",") {
		field, text, valued := strings.Cut(term, "=")
		value := uint64(1)
		if valued {
			if value, err = strconv.ParseUint(text, 0, 64); err != nil {
				return 0, fmt.Errorf("%w: %.80q", errFormat, terms)
			}
		}
		where, err := format(field)
		if err != nil {
			return 0, err
		}
		ranges, ok := strings.CutPrefix(where, "config:")
		if !ok {
			return 0, fmt.Errorf("%w: %.80q", errFormat, where)
		}
		for bits := range strings.SplitSeq(ranges, ",") {
			low, high, isRange := strings.Cut(bits, "-")
			from, err1 := strconv.ParseUint(low, 10, 6)
			to := from
			if isRange {
				to, err = strconv.ParseUint(high, 10, 6)
			}
			if err1 != nil || err != nil || to < from {
				return 0, fmt.Errorf("%w: %.80q", errFormat, where)
			}
			width := to - from + 1
			config |= (value & (1<<width - 1)) << from
			value >>= width
		}
		if value != 0 {
			return 0, fmt.Errorf("%w: the value of %.80q has more bits than %.80q", errFormat, term, where)
		}
	}
	return config, nil
}

// socketOf returns the package of a CPU.
func socketOf(sysPath string, cpu int) (int, error) {
	c, err := coreOf(sysPath, cpu)
	if err == nil && (c.socket < 0 || c.socket >= maxSockets) {
		err = fmt.Errorf("CPU %d: %w: %d is no package", cpu, errFormat, c.socket)
	}
	return c.socket, err
}

// readNumber returns the number in a file. It is not ok if the file contains none.
func readNumber(path string) (float64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	number := strings.TrimSpace(string(text))
	if n, err := strconv.ParseUint(number, 0, 32); err == nil { // 0x00000008
		return float64(n), true
	}
	n, err := strconv.ParseFloat(number, 64) // 6.103515625e-5
	return n, err == nil
}

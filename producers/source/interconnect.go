package source

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// errNoPort is returned if no port of the fabric is active.
var errNoPort = errors.New("no active port")

func interconnect() source {
	return source{"interconnect", schemas.ScopeNode, "/sys/class/infiniband/*/ports/*/counters", []metric{
		{"ic_read_bw", "B/s", Rate, "port_rcv_data, in words of 4 bytes, on Omni-Path of 8; sum over active ports"},
		{"ic_write_bw", "B/s", Rate, "port_xmit_data, likewise"},
		{"ic_read_packets", "1/s", Rate, "port_rcv_packets"},
		{"ic_write_packets", "1/s", Rate, "port_xmit_packets"},
		{"ic_bytes_per_packet", "B", ratio, "bytes / packets, of both directions"},
		{"ic_link_errors", "1/s", Rate, "symbol_error + link_error_recovery + link_downed + port_rcv_errors"},
		{"ic_discards", "1/s", Rate, "port_xmit_discards"},
		{"ic_congestion_wait", "1/s", Rate, "port_xmit_wait, in ticks of the device"},
	}, openInterconnect}
}

// Numbers of a port in a row.
const (
	portRead = iota
	portWrite
	portReadPackets
	portWritePackets
	portSymbolErrors
	portRecoveries
	portDowned
	portReadErrors
	portDiscards
	portWait
	portNumbers
)

// The values at which counters of the fabric stop, since they do not wrap. The data counters have 64 bits, but 32 on
// old adapters. A counter of 64 bits passes the limit of 32 within moments.
const (
	most8  = 1<<8 - 1
	most16 = 1<<16 - 1
	most32 = 1<<32 - 1
)

// portFiles lists, for each number of a port, the files that contain it, the best one first, and the value at which it
// stops.
var portFiles = [portNumbers]struct {
	most  uint64
	files []string
}{
	portRead:  {most32, []string{"counters_ext/port_rcv_data_64", "counters/port_rcv_data", "hw_counters/rx_bytes"}},
	portWrite: {most32, []string{"counters_ext/port_xmit_data_64", "counters/port_xmit_data", "hw_counters/tx_bytes"}},
	portReadPackets: {most32, []string{
		"counters_ext/port_rcv_packets_64", "counters/port_rcv_packets", "hw_counters/rx_pkts",
	}},
	portWritePackets: {most32, []string{
		"counters_ext/port_xmit_packets_64", "counters/port_xmit_packets", "hw_counters/tx_pkts",
	}},
	portSymbolErrors: {most16, []string{"counters/symbol_error"}},
	portRecoveries:   {most8, []string{"counters/link_error_recovery"}},
	portDowned:       {most8, []string{"counters/link_downed"}},
	portReadErrors:   {most16, []string{"counters/port_rcv_errors"}},
	portDiscards:     {most16, []string{"counters/port_xmit_discards", "hw_counters/rx_drops"}},
	portWait:         {most32, []string{"counters/port_xmit_wait"}},
}

// portNeeds lists the numbers that each metric is computed from, in the order of the metrics.
var portNeeds = [...][]int{
	{portRead},
	{portWrite},
	{portReadPackets},
	{portWritePackets},
	{portRead, portWrite, portReadPackets, portWritePackets},
	{portSymbolErrors, portRecoveries, portDowned, portReadErrors},
	{portDiscards},
	{portWait},
}

// port is an active port with its open files.
type port struct {
	name  string // such as mlx5_0/ports/1
	files [portNumbers]numberFile
}

// openInterconnect reads the counters of all active ports. The driver asks the device at every read of a file, so the
// files that no metric needs stay closed. procfs reads every file of a port, and each asks the adapter: 445 µs and 421
// allocations, this 6 µs and none.
func openInterconnect(cfg config.Agent, _ *slog.Logger) (probe, error) {
	class := filepath.Join(cfg.SysPath, "class/infiniband")
	var needs [portNumbers]bool
	for i, m := range interconnect().metrics {
		for _, k := range portNeeds[i] {
			needs[k] = needs[k] || cfg.Measures(m.name)
		}
	}
	ports := devices[port]{
		list: func() ([]string, error) { return activePorts(class) },
		open: func(name string) (port, error) { return openPort(class, name, needs), nil },
		close: func(p port) {
			for _, f := range p.files {
				f.close()
			}
		},
	}
	if err := ports.look(); err != nil {
		return probe{}, err
	}
	buffer := make([]byte, 64)
	read := func(into reading, v Vitals) (reading, error) {
		all, err := ports.now(v.BoundaryMs)
		if err != nil {
			return nil, err
		}
		// The previous count of a port that came or went is unknown, so the sum of the interval is unknown too.
		into = only(into)
		row := append(into[0], ports.set)
		for i := range all {
			for k := range all[i].files {
				n, err := all[i].files[k].number(buffer)
				if err != nil {
					return nil, ports.lost(fmt.Errorf("reading port %s: %w", all[i].name, err))
				}
				row = append(row, n)
			}
		}
		into[0] = row
		return into, nil
	}
	return probe{read: read, form: formInterconnect, close: ports.release}, nil
}

// activePorts returns the ports with an active link, as paths below the class.
func activePorts(class string) (active []string, err error) {
	adapters, err := entries(class)
	if err != nil {
		return nil, err
	}
	for _, a := range adapters {
		ports, _ := entries(filepath.Join(class, a, "ports")) // gone by now: no port
		for _, p := range ports {
			name := filepath.Join(a, "ports", p)
			if strings.HasPrefix(textOf(filepath.Join(class, name, "state")), "4:") {
				active = append(active, name)
			}
		}
	}
	if len(active) == 0 {
		return nil, fmt.Errorf("%s: %w", class, errNoPort)
	}
	return active, nil
}

// openPort opens the files of a port. Files that its adapter lacks stay closed.
func openPort(class, name string, needs [portNumbers]bool) port {
	p := port{name: name}
	word := uint64(4)
	if isOmniPath(class, name) {
		word = 8 // hfi1 shows its count of flits
	}
	for k, n := range portFiles {
		if !needs[k] {
			continue
		}
		for _, file := range n.files {
			f, err := openNumber(filepath.Join(class, name, file))
			if err != nil {
				continue
			}
			if own := strings.HasPrefix(file, "hw_counters/"); !own {
				f.most = n.most
				if k == portRead || k == portWrite {
					f.unit = word
				}
			}
			p.files[k] = f
			break
		}
	}
	return p
}

// isOmniPath reports whether a port is one of Omni-Path. udev may have renamed its adapter, so the driver is asked.
func isOmniPath(class, name string) bool {
	adapter, _, _ := strings.Cut(name, "/")
	driver, _ := os.Readlink(filepath.Join(class, adapter, "device/driver"))
	return strings.HasPrefix(filepath.Base(driver), "hfi") || strings.HasPrefix(adapter, "hfi")
}

// formInterconnect sums the counts of all ports. A sum is missing if the count of one port is unknown.
func formInterconnect(from, to []uint64, elapsed time.Duration, out []float64) {
	if from[0] != to[0] || elapsed <= 0 {
		return // not the same ports
	}
	var sum [portNumbers]float64
	for i := 1; i+portNumbers <= len(to); i += portNumbers {
		for k := range sum {
			sum[k] += growth(from[i+k], to[i+k])
		}
	}
	s := elapsed.Seconds()
	out[0], out[1], out[2], out[3] = sum[portRead]/s, sum[portWrite]/s, sum[portReadPackets]/s, sum[portWritePackets]/s
	if packets := sum[portReadPackets] + sum[portWritePackets]; packets > 0 {
		out[4] = (sum[portRead] + sum[portWrite]) / packets
	}
	out[5] = (sum[portSymbolErrors] + sum[portRecoveries] + sum[portDowned] + sum[portReadErrors]) / s
	out[6], out[7] = sum[portDiscards]/s, sum[portWait]/s
}

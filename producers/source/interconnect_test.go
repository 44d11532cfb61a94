package source

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs/sysfs"
)

const mlxPort = "class/infiniband/mlx5_0/ports/1/"

// Ten seconds pass: 2.5 GB came in, 1 GB went out.
func TestInterconnect(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, interconnect(), cfg)
	r.must(1)
	for file, text := range map[string]string{
		"port_rcv_data":       "626000000\n", // 1,000,000 + 625,000,000 words of 4 bytes
		"port_xmit_data":      "252000000\n", // 2,000,000 + 250,000,000
		"port_rcv_packets":    "1505000\n",   // 5,000 + 1,500,000
		"port_xmit_packets":   "506000\n",    // 6,000 + 500,000
		"symbol_error":        "8\n",         // + 5
		"link_error_recovery": "3\n",         // + 2
		"link_downed":         "3\n",         // + 1
		"port_rcv_errors":     "22\n",        // + 12
		"port_xmit_discards":  "37\n",        // + 30
		"port_xmit_wait":      "4900\n",      // + 4,000
	} {
		replace(t, cfg.SysPath, mlxPort+"counters/"+file, text)
	}
	r.must(1)
	r.wants(map[string][]float64{
		"ic_read_bw":          {250e6},  // 625,000,000 * 4 / 10
		"ic_write_bw":         {100e6},  // 250,000,000 * 4 / 10
		"ic_read_packets":     {150000}, // 1,500,000 / 10
		"ic_write_packets":    {50000},
		"ic_bytes_per_packet": {1750}, // 3,500,000,000 / 2,000,000
		"ic_link_errors":      {2},    // (5 + 2 + 1 + 12) / 10
		"ic_discards":         {3},
		"ic_congestion_wait":  {400},
	})
	r.must(1) // nothing moved: rates of 0, and no mean size
	r.wants(map[string][]float64{
		"ic_read_bw": {0}, "ic_write_bw": {0}, "ic_read_packets": {0}, "ic_write_packets": {0}, "ic_link_errors": {0},
		"ic_discards": {0}, "ic_congestion_wait": {0},
	})
}

// procfs is the oracle: it reads the same files with another parser. It knows no flits, so not those of Omni-Path.
func TestInterconnectAgreesWithProcfs(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, interconnect(), cfg)
	r.must(1)
	fs, err := sysfs.NewFS(cfg.SysPath)
	if err != nil {
		t.Fatal(err)
	}
	class, err := fs.InfiniBandClass()
	if err != nil {
		t.Fatal(err)
	}
	c := class["mlx5_0"].Ports[1].Counters
	want := []uint64{1} // the first set of ports
	for _, v := range []*uint64{
		c.PortRcvData, c.PortXmitData, c.PortRcvPackets, c.PortXmitPackets, c.SymbolError, c.LinkErrorRecovery,
		c.LinkDowned, c.PortRcvErrors, c.PortXmitDiscards, c.PortXmitWait,
	} {
		want = append(want, *v)
	}
	if diff := cmp.Diff(reading{want}, r.to); diff != "" {
		t.Errorf("reading (-procfs +ours):\n%s", diff)
	}
}

// The driver of Omni-Path counts flits of 8 bytes, under whichever name its adapter has.
func TestInterconnectOfOmniPath(t *testing.T) {
	cfg := machineOf(t, "omnipath")
	r := try(t, interconnect(), cfg)
	r.must(1)
	counters := "class/infiniband/opap24s0/ports/1/counters/"
	replace(t, cfg.SysPath, counters+"port_rcv_data", "8000\n")    // 3,000 + 5,000
	replace(t, cfg.SysPath, counters+"port_xmit_data", "5000\n")   // 4,000 + 1,000
	replace(t, cfg.SysPath, counters+"port_rcv_packets", "110\n")  // + 10
	replace(t, cfg.SysPath, counters+"port_xmit_packets", "206\n") // + 6
	r.must(1)
	r.wants(map[string][]float64{
		"ic_read_bw": {4000}, "ic_write_bw": {800}, // 5,000 * 8 / 10 and 1,000 * 8 / 10
		"ic_read_packets": {1}, "ic_write_packets": {0.6},
		"ic_bytes_per_packet": {3000}, // (40,000 + 8,000) / 16
		"ic_link_errors":      {0}, "ic_discards": {0}, "ic_congestion_wait": {0},
	})
}

// Counters that stopped, went backwards or are no numbers are missing, and nothing else is.
func TestInterconnectWithBadCounters(t *testing.T) {
	cfg := machineOf(t, "intel")
	replace(t, cfg.SysPath, mlxPort+"counters/port_rcv_data", "4294967200\n") // of an adapter with 32 bits
	replace(t, cfg.SysPath, mlxPort+"counters/link_downed", "255\n")
	r := try(t, interconnect(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, mlxPort+"counters/port_rcv_data", "4294967295\n")
	replace(t, cfg.SysPath, mlxPort+"counters/port_xmit_packets", "5999\n")
	replace(t, cfg.SysPath, mlxPort+"counters/port_xmit_discards", "N/A (no PMA)\n")
	replace(t, cfg.SysPath, mlxPort+"counters/port_xmit_wait", "")
	r.must(1)
	r.wants(map[string][]float64{"ic_write_bw": {0}, "ic_read_packets": {0}})
}

// Adapters of 32 bits had their wide counters in a directory of their own. Those of EFA count bytes.
func TestInterconnectOfOtherAdapters(t *testing.T) {
	cfg := machineOf(t, "intel")
	add := func(path, text string) {
		path = filepath.Join(cfg.SysPath, "class/infiniband", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	add("mlx5_0/ports/1/counters_ext/port_rcv_data_64", "10000000000\n")
	// An adapter without performance management shows its counters without numbers.
	add("bnxt_re0/ports/1/state", "4: ACTIVE\n")
	add("bnxt_re0/ports/1/counters/port_rcv_data", "N/A (no PMA)\n")
	for _, file := range []string{"rx_bytes", "tx_bytes", "rx_pkts", "tx_pkts", "rx_drops"} {
		add("bnxt_re0/ports/1/hw_counters/"+file, "7000\n")
	}
	add("efa_0/ports/1/state", "4: ACTIVE\n")
	for _, file := range []string{"rx_bytes", "tx_bytes", "rx_pkts", "tx_pkts", "rx_drops"} {
		add("efa_0/ports/1/hw_counters/"+file, "4294967295\n") // this is no limit here
	}
	r := try(t, interconnect(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, mlxPort+"counters_ext/port_rcv_data_64", "10000000100\n")
	add("efa_0/ports/1/hw_counters/rx_bytes", "4294967395\n")
	add("bnxt_re0/ports/1/hw_counters/rx_bytes", "7300\n")
	r.must(1)
	r.wants(map[string][]float64{
		"ic_read_bw":  {80}, // (100 * 4 + 100 + 300) / 10
		"ic_write_bw": {0}, "ic_read_packets": {0}, "ic_write_packets": {0}, "ic_discards": {0},
	})
}

// A second port comes up, and then its adapter is gone. The sums are missing in these intervals alone.
func TestPortsComeAndGo(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, interconnect(), cfg)
	r.must(2)
	replace(t, cfg.SysPath, "class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n")
	seen := 0
	for ; seen < 10; seen++ {
		r.must(1)
		if len(r.to[0]) > 1+portNumbers {
			break
		}
	}
	if seen < 4 || seen > 6 {
		t.Errorf("the port was seen after %d intervals, want 5 of 10 s", seen+1)
	}
	r.wants(map[string][]float64{})
	replace(t, cfg.SysPath, "class/infiniband/mlx5_1/ports/1/counters/port_xmit_discards", "13\n") // + 10
	replace(t, cfg.SysPath, mlxPort+"counters/port_xmit_discards", "17\n")                         // + 10
	r.must(1)
	out := make([]float64, 8)
	r.form(r.from[0], r.to[0], 10*time.Second, out)
	if out[6] != 2.3 { // mlx5_1 grew from 0 by 13, mlx5_0 by 10
		t.Errorf("ic_discards = %g, want 2.3", out[6])
	}

	// The adapter is gone: its files answer no more.
	if err := os.RemoveAll(filepath.Join(cfg.SysPath, "class/infiniband/mlx5_1")); err != nil {
		t.Fatal(err)
	}
	lose(t, "mlx5_1")
	if err := r.take(); err == nil || !strings.Contains(err.Error(), "mlx5_1/ports/1") {
		t.Errorf("a port that is gone: %v", err)
	}
	for range 2 {
		_ = r.take()
	}
	r.must(1)
	r.form(r.from[0], r.to[0], 10*time.Second, out)
	if math.IsNaN(out[0]) {
		t.Error("the port that is left has no values")
	}
}

// One port goes down and another one comes up. What the new one counted before is no traffic of the interval.
func TestPortsChangePlaces(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, interconnect(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, mlxPort+"state", "1: DOWN\n")
	replace(t, cfg.SysPath, "class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n")
	replace(t, cfg.SysPath, "class/infiniband/mlx5_1/ports/1/counters/port_rcv_data", "900000000000\n")
	for range 5 {
		r.must(1)
		r.wants(map[string][]float64{
			"ic_read_bw": {0}, "ic_write_bw": {0}, "ic_read_packets": {0}, "ic_write_packets": {0},
			"ic_link_errors": {0}, "ic_discards": {0}, "ic_congestion_wait": {0},
		})
	}
	r.must(1) // it is a minute since the last look
	r.wants(map[string][]float64{})
}

func TestInterconnectIsSteady(t *testing.T) { try(t, interconnect(), machineOf(t, "intel")).steady() }

func BenchmarkInterconnect(b *testing.B) {
	r := try(b, interconnect(), machineOf(b, "intel"))
	b.ReportAllocs()
	for b.Loop() {
		r.ms -= 10_000 // it is not time to look for ports
		r.must(1)
	}
}

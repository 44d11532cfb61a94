package source

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"

	"github.com/weirhpc/weir/config"
)

// link makes a link of the fixture tree, as sysfs has them.
func link(tb testing.TB, target string, elements ...string) {
	tb.Helper()
	path := filepath.Join(elements...)
	mkdir(tb, filepath.Dir(path))
	if err := os.Symlink(target, path); err != nil {
		tb.Fatal(err)
	}
}

func mkdir(tb testing.TB, path string) {
	tb.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		tb.Fatal(err)
	}
}

// tallied parses texts of one file one after the other, and returns a copy of each row.
func tallied(tb testing.TB, t *tally, parse func(*tally, []byte) error, texts ...string) (rows [][]uint64) {
	tb.Helper()
	for _, text := range texts {
		t.begin()
		if err := parse(t, []byte(text)); err != nil {
			tb.Fatal(err)
		}
		rows = append(rows, append([]uint64(nil), t.end()...))
	}
	return rows
}

func everyName(string) bool { return true }

func TestWholeDisksCount(t *testing.T) {
	sys := t.TempDir()
	block := filepath.Join(sys, "block")
	for name, target := range map[string]string{
		"sda":       "../devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda",
		"vda":       "../devices/pci0000:00/0000:00:02.0/virtio1/block/vda",
		"nvme0n1":   "../devices/pci0000:80/0000:80:01.0/nvme/nvme0/nvme0n1",
		"sdb":       "../devices/platform/host2/session1/target2:0:0/2:0:0:1/block/sdb", // iSCSI
		"nvme9n1":   "../devices/virtual/nvme-fabrics/ctl/nvme9/nvme9n1",
		"nvme1c0n1": "../devices/pci0000:80/0000:80:02.0/nvme/nvme1/nvme1c0n1", // a path
		"nvme1n1":   "../devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1",  // the disk that its paths make up
		"loop0":     "../devices/virtual/block/loop0",
		"zram0":     "../devices/virtual/block/zram0",
		"dm-0":      "../devices/virtual/block/dm-0",
		"md127":     "../devices/virtual/block/md127",
		"ram0":      "../devices/virtual/block/ram0",
		"nbd0":      "../devices/virtual/block/nbd0",
	} {
		link(t, target, block, name)
	}
	for _, name := range []string{"sda", "vda", "nvme0n1", "sdb", "nvme9n1", "nvme1c0n1"} {
		if !isDisk(block, name) {
			t.Errorf("%s does not count", name)
		}
	}
	for _, name := range []string{
		"nvme1n1", "loop0", "zram0", "dm-0", "md127", "ram0", "nbd0", "sda1", "vda2", "nvme0n1p1", "gone", "",
		"../block",
	} {
		if isDisk(block, name) {
			t.Errorf("%q counts", name)
		}
	}
}

func TestDisks(t *testing.T) {
	// Fields 4, 6, 8, 10: reads, sectors read, writes, sectors written.
	sda := func(reads, in, writes, out uint64) string {
		return fmt.Sprintf("   8       0 sda %d 9 %d 9 %d 9 %d 9 0 9 9 0 0 0 0 127 182\n", reads, in, writes, out)
	}
	sdb := func(reads, in, writes, out uint64) string {
		return fmt.Sprintf("   8      16 sdb %d 9 %d 9 %d 9 %d 9 0 9 9\n", reads, in, writes, out)
	}
	nan := math.NaN()
	none := []float64{nan, nan, nan, nan, nan, nan}
	for name, c := range map[string]struct {
		before, after string
		want          []float64 // read, written, both in B/s; reads, writes in 1/s; B an operation
	}{
		// sda: 10 reads of 200 sectors, 5 writes of 80; sdb: 30 reads of 800, 5 writes of 20; all in 10 s.
		// (200+800)*512/10 = 51200, (80+20)*512/10 = 5120, (10+30)/10 = 4, (5+5)/10 = 1, 1100*512/50 = 11264
		"two disks": {
			sda(100, 1000, 50, 500) + sdb(0, 0, 0, 0), sda(110, 1200, 55, 580) + sdb(30, 800, 5, 20),
			[]float64{51200, 5120, 56320, 4, 1, 11264},
		},
		"nothing was transferred": {
			sda(100, 1000, 50, 500), sda(100, 1000, 50, 500), []float64{0, 0, 0, 0, 0, nan},
		},
		// sdb, with all that it ever did, counts for nothing: 200*512/10, 80*512/10, 10/10, 5/10, 280*512/15
		"a disk vanishes": {
			sda(100, 1000, 50, 500) + sdb(1e6, 1e9, 1e6, 1e9), sda(110, 1200, 55, 580),
			[]float64{10240, 4096, 14336, 1, 0.5, 280 * 512 / 15.0},
		},
		"a disk appears": {
			sda(100, 1000, 50, 500), sdb(1e6, 1e9, 1e6, 1e9) + sda(110, 1200, 55, 580),
			[]float64{10240, 4096, 14336, 1, 0.5, 280 * 512 / 15.0},
		},
		"one is replaced by another": {sda(100, 1000, 50, 500), sdb(1e6, 1e9, 1e6, 1e9), none},
		"a counter goes back":        {sda(100, 1000, 50, 500), sda(5, 10, 2, 20), none},
		"one of two goes back":       {sda(9, 9, 9, 9) + sdb(1, 1, 1, 1), sda(0, 0, 0, 0) + sdb(2, 2, 2, 2), none},
		"no disk":                    {"", "", none},
		"the order changes": {
			sda(100, 1000, 50, 500) + sdb(0, 0, 0, 0), sdb(30, 800, 5, 20) + sda(110, 1200, 55, 580),
			[]float64{51200, 5120, 56320, 4, 1, 11264},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows := tallied(t, newTally(diskCounters, everyName, grewAll), parseDisks, c.before, c.after)
			wantValues(t, c.want, formedOf(6, formDisks, rows[0], rows[1], 10*time.Second))
		})
	}
}

// A disk that is away for a reading, and one whose reading was refused, leave no trace in the intervals after.
func TestDisksOverManyReadings(t *testing.T) {
	sda := func(sectors uint64) string { return fmt.Sprintf("8 0 sda 0 0 %d 0 0 0 0 0 0 0 0\n", sectors) }
	sdb := func(sectors uint64) string { return fmt.Sprintf("8 16 sdb 0 0 %d 0 0 0 0 0 0 0 0\n", sectors) }
	a := newTally(diskCounters, everyName, grewAll)
	rows := tallied(t, a, parseDisks,
		sda(0)+sdb(5000), sda(100), sda(200)+sdb(9000), sda(300)+sdb(9300), sda(400)+sdb(7), sda(500)+sdb(107))
	read := func(i int) float64 { return formedOf(6, formDisks, rows[i-1], rows[i], 512*time.Second)[0] }
	// Over 512 s a sector is 1 B/s.
	wantValues(t, []float64{100, 100, 400, math.NaN(), 200}, []float64{read(1), read(2), read(3), read(4), read(5)})

	a.begin()
	if err := parseDisks(a, []byte(sda(600)+"8 16 sdb nonsense\n")); err == nil {
		t.Fatal("a garbled line was read")
	}
	rows = append(rows, tallied(t, a, parseDisks, sda(700)+sdb(207))...)
	// What passed is between the two good readings: 700 - 500 and 207 - 107.
	wantValues(t, []float64{300}, []float64{read(6)})
}

func TestParseDisksRefuses(t *testing.T) {
	for _, text := range []string{
		"8 0 sda 1 2 3 4 5 6 7", "8 0 sda 1 2 3 4 5 6\n", "8 0 sda\n", "\n", "8 0 sda 1 2 x 4 5 6 7 8\n", "nonsense\n",
		"8 0 sda 1 2 99999999999999999999 4 5 6 7 8\n", "8 0 sda -1 2 3 4 5 6 7 8\n",
	} {
		if err := parseDisks(newTally(diskCounters, everyName, grewAll), []byte(text)); err == nil {
			t.Errorf("parseDisks(%q) is no error", text)
		}
	}
}

// A host without disks has the source, since one may be attached, and says why there are no values now.
func TestDisklessHost(t *testing.T) {
	proc, sys := t.TempDir(), t.TempDir()
	link(t, "../devices/virtual/block/loop0", sys, "block", "loop0")
	write(t, filepath.Join(proc, "diskstats"), "7 0 loop0 1 2 3 4 5 6 7 8 9 0 1\n")
	p, err := openDisks(config.Agent{ProcPath: proc, SysPath: sys}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, m := range disks().metrics {
		if p.absent[m.name] == nil {
			t.Errorf("nothing says why %s is absent", m.name)
		}
	}
	write(t, filepath.Join(proc, "diskstats"), "7 0 loop0 1 2 3 4 5 6 7 8 9 0 1\n8 0 sda 0 0 0 0 0 0 0 0 0 0 0\n")
	link(t, "../devices/pci0000:00/block/sda", sys, "block", "sda")
	from, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(proc, "diskstats"), "7 0 loop0 1 2 9 4 5 6 7 8 9 0 1\n8 0 sda 1 0 8 0 0 0 0 0 0 0 0\n")
	to, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	got := formedOf(6, p.form, from[0], to[0], time.Second)
	wantValues(t, []float64{8 * 512, 0, 8 * 512, 1, 0, 8 * 512}, got)
}

// procfs reads between two readings of ours. The counters only grow.
func TestDisksAgreeWithProcfs(t *testing.T) {
	file, err := openKernelFile("/proc/diskstats")
	if err != nil {
		t.Skip("no /proc/diskstats here:", err)
	}
	defer file.close()
	all := newTally(diskCounters, everyName, grewAll)
	read := func() map[string][]uint64 { return countersOf(t, all, file, parseDisks) }
	fs, err := blockdevice.NewFS("/proc", "/sys")
	if err != nil {
		t.Skip("procfs cannot read the disks of this machine:", err)
	}
	before := read()
	stats, err := fs.ProcDiskstats()
	if err != nil {
		t.Fatal(err)
	}
	after := read()
	for _, s := range stats {
		theirs := []uint64{s.ReadIOs, s.ReadSectors, s.WriteIOs, s.WriteSectors}
		for i, v := range theirs {
			if lo, hi := before[s.DeviceName], after[s.DeviceName]; lo == nil || hi == nil || v < lo[i] || v > hi[i] {
				t.Errorf("%s: procfs says %v, we said %v before and %v after", s.DeviceName, theirs, lo, hi)
				break
			}
		}
	}
	if len(stats) == 0 || len(stats) != len(after) {
		t.Errorf("procfs found %d devices, we found %d", len(stats), len(after))
	}
}

func FuzzDisks(f *testing.F) {
	f.Add([]byte("8 0 sda 1 2 3 4 5 6 7 8 9 0 1\n8 16 sdb 1 2 3 4 5 6 7 8 9 0 1\n"),
		[]byte("8 0 sda 2 2 9 4 9 6 9 8 9 0 1\n"))
	f.Add([]byte("8 0 sda 0 0 0 0 0 0 0 0\n"),
		[]byte("8 0 sda 0 0 18446744073709551600 0 0 0 18446744073709551600 0\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		fuzzTally(t, newTally(diskCounters, everyName, grewAll), parseDisks, a, b, 6, formDisks,
			sector*2*math.MaxUint64)
	})
}

// fuzzTally reads both texts, and checks the values and the size of what is kept.
func fuzzTally(
	t *testing.T, c *tally, parse func(*tally, []byte) error, a, b []byte, metrics int,
	form func(from, to []uint64, elapsed time.Duration, out []float64), most float64,
) {
	var rows [][]uint64
	for _, text := range [][]byte{a, b} {
		c.begin()
		if parse(c, text) != nil {
			return
		}
		rows = append(rows, append([]uint64(nil), c.end()...))
		if lines := bytes.Count(text, []byte{'\n'}); len(c.known) > lines {
			t.Fatalf("%d devices in %d lines", len(c.known), lines)
		}
	}
	checkFinite(t, formedOf(metrics, form, rows[0], rows[1], time.Second), most)
}

func TestPhysicalInterfacesCount(t *testing.T) {
	class := filepath.Join(t.TempDir(), "class/net")
	for name, kind := range map[string]string{"eth0": "1\n", "enp3s0f1": "1\n", "ib0": "32\n", "odd0": ""} {
		mkdir(t, filepath.Join(class, name, "device"))
		write(t, filepath.Join(class, name, "type"), kind)
	}
	for _, name := range []string{"lo", "bond0", "br0", "veth12", "eth0.100"} { // they have no device
		mkdir(t, filepath.Join(class, name))
		write(t, filepath.Join(class, name, "type"), "1\n")
	}
	for _, name := range []string{"eth0", "enp3s0f1"} {
		if !isEthernet(class, name) {
			t.Errorf("%s does not count", name)
		}
	}
	for _, name := range []string{"ib0", "odd0", "lo", "bond0", "br0", "veth12", "eth0.100", "gone", ""} {
		if isEthernet(class, name) {
			t.Errorf("%q counts", name)
		}
	}
}

const interfaceHeading = "Inter-|   Receive                     |  Transmit\n" +
	" face |bytes    packets errs drop |bytes    packets\n"

func TestEthernet(t *testing.T) {
	line := func(name string, bytesIn, packetsIn, errsIn, dropIn, bytesOut, packetsOut, errsOut,
		dropOut uint64,
	) string {
		return fmt.Sprintf("%6s:%8d %7d %4d %4d 1 2 3 4 %8d %7d %4d %4d 5 6 7 8\n",
			name, bytesIn, packetsIn, errsIn, dropIn, bytesOut, packetsOut, errsOut, dropOut)
	}
	nan := math.NaN()
	none := []float64{nan, nan, nan, nan}
	for name, c := range map[string]struct {
		before, after string
		want          []float64 // B/s in and out, errors/s, drops/s
	}{
		// (9000-4000)/10, (800-300)/10, (2-1 + 5-2)/10, (3-1 + 4-4)/10
		"one interface": {
			line("eth0", 4000, 10, 1, 1, 300, 7, 2, 4), line("eth0", 9000, 20, 2, 3, 800, 9, 5, 4),
			[]float64{500, 50, 0.4, 0.2},
		},
		"two interfaces": {
			line("eth0", 0, 0, 0, 0, 0, 0, 0, 0) + line("eth1", 1e15, 1e9, 0, 0, 0, 0, 0, 0),
			line("eth0", 10, 1, 0, 0, 20, 1, 0, 0) + line("eth1", 1e15+40, 1e9+1, 0, 0, 30, 1, 0, 0),
			[]float64{5, 5, 0, 0},
		},
		// 2^32 - 4294960000 = 7296 to the wrap, then 2704: 10000 bytes in 8 packets
		"bytes of 32 bits wrap": {
			line("eth0", 4294960000, 100, 0, 0, 0, 0, 0, 0), line("eth0", 2704, 108, 0, 0, 0, 0, 0, 0),
			[]float64{1000, 0, 0, 0},
		},
		"bytes sent wrap": {
			line("eth0", 0, 0, 0, 0, 4294967295, 100, 0, 0), line("eth0", 0, 0, 0, 0, 99, 101, 0, 0),
			[]float64{0, 10, 0, 0},
		},
		"the driver began anew": {
			line("eth0", 4294960000, 100, 0, 0, 0, 0, 0, 0), line("eth0", 2704, 3, 0, 0, 0, 0, 0, 0), none,
		},
		"it began anew, and soon had more packets than before": {
			line("eth0", 4500, 3, 0, 0, 0, 0, 0, 0), line("eth0", 300, 5, 0, 0, 0, 0, 0, 0), none,
		},
		"a count above 32 bits does not wrap there": {
			line("eth0", 1<<32, 100, 0, 0, 0, 0, 0, 0), line("eth0", 2704, 1e6, 0, 0, 0, 0, 0, 0), none,
		},
		"errors go back": {
			line("eth0", 10, 1, 9, 0, 0, 0, 0, 0), line("eth0", 20, 2, 8, 0, 0, 0, 0, 0), none,
		},
		"an interface vanishes": {
			line("eth0", 0, 0, 0, 0, 0, 0, 0, 0) + line("eth1", 1e15, 1e9, 0, 0, 0, 0, 0, 0),
			line("eth0", 10, 1, 0, 0, 20, 1, 0, 0),
			[]float64{1, 2, 0, 0},
		},
		"an interface appears": {
			line("eth0", 0, 0, 0, 0, 0, 0, 0, 0),
			line("eth0", 10, 1, 0, 0, 20, 1, 0, 0) + line("eth1", 1e15, 1e9, 0, 0, 0, 0, 0, 0),
			[]float64{1, 2, 0, 0},
		},
		"none": {"", "", none},
	} {
		t.Run(name, func(t *testing.T) {
			rows := tallied(t, newTally(ethCounters, everyName, grewInterface), parseInterfaces,
				interfaceHeading+c.before, interfaceHeading+c.after)
			wantValues(t, c.want, formedOf(4, formEthernet, rows[0], rows[1], 10*time.Second))
		})
	}
	for _, text := range []string{
		"eth0: 1 2 3", "eth0: 1 2 3\n", "eth0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6\n", "nonsense\n", "\n",
		"eth0: 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 x\n", "eth0: 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6", "Inter-|",
	} {
		if err := parseInterfaces(newTally(ethCounters, everyName, grewInterface), []byte(text)); err == nil {
			t.Errorf("parseInterfaces(%q) is no error", text)
		}
	}
}

// procfs reads between two readings of ours. The counters only grow.
func TestEthernetAgreesWithProcfs(t *testing.T) {
	file, err := openKernelFile("/proc/net/dev")
	if err != nil {
		t.Skip("no /proc/net/dev here:", err)
	}
	defer file.close()
	all := newTally(ethCounters, everyName, grewInterface)
	read := func() map[string][]uint64 { return countersOf(t, all, file, parseInterfaces) }
	fs, err := procfs.NewFS("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	for range 20 { // interfaces come and go
		wrong = nil
		before := read()
		stats, err := fs.NetDev()
		if err != nil {
			t.Fatal(err)
		}
		after := read()
		for name, s := range stats {
			theirs := []uint64{
				s.RxBytes, s.RxPackets, s.RxErrors, s.RxDropped, s.TxBytes, s.TxPackets, s.TxErrors, s.TxDropped,
			}
			for i, v := range theirs {
				if lo, hi := before[name], after[name]; lo == nil || hi == nil || v < lo[i] || v > hi[i] {
					wrong = append(wrong, fmt.Sprintf("%s: procfs says %v, we said %v before and %v after", name,
						theirs, lo, hi))
					break
				}
			}
		}
		if wrong == nil {
			return
		}
	}
	t.Error(strings.Join(wrong, "\n"))
}

func FuzzEthernet(f *testing.F) {
	f.Add([]byte(interfaceHeading+"eth0: 4294960000 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6\n"),
		[]byte("eth0: 1 9 3 4 5 6 7 8 9 0 1 2 3 4 5 6\n"))
	f.Add([]byte("eth0:1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6\n"), []byte("eth1:1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		c := newTally(ethCounters, everyName, grewInterface)
		fuzzTally(t, c, parseInterfaces, a, b, 4, formEthernet, 2*math.MaxUint64)
	})
}

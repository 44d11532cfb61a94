package source

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

// nfsTree copies the fixture of an NFS client to where a test may change it.
func nfsTree(t *testing.T) (proc, mountstats string) {
	t.Helper()
	proc = t.TempDir()
	if err := os.CopyFS(proc, os.DirFS("testdata/nfsclient/proc")); err != nil {
		t.Fatal(err)
	}
	return proc, filepath.Join(proc, "self/mountstats")
}

func readRow(t *testing.T, p probe) []uint64 {
	t.Helper()
	r, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	return r[0]
}

// Ada's and Bob's home directories are mounts of one file system, and so show the same statistics. They count once.
func TestNFS(t *testing.T) {
	proc, path := nfsTree(t)
	p, err := openNFS(config.Agent{ProcPath: proc}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	from := readRow(t, p)
	text := string(readFile(t, "nfsclient", "proc", "self", "mountstats"))
	edit := strings.NewReplacer(
		"50000 7000", "60000 9000", // of both mounts of /home: 10000 B read, 2000 written
		"READ: 40", "READ: 50", "WRITE: 9", "WRITE: 11", // 12 operations
		"1000 2000", "1500 2100", // 500 B read, 100 written
		"GETATTR: 100", "GETATTR: 108", // 8 operations
	)
	write(t, path, edit.Replace(text))
	to := readRow(t, p)
	// (10000 + 500) / 10, (2000 + 100) / 10, (12 + 8) / 10
	wantValues(t, []float64{1050, 210, 2}, formedOf(3, p.form, from, to, 10*time.Second))

	// Bob's home is unmounted. The file system still counts, through Ada's.
	upToBob, _, _ := strings.Cut(text, "device nas:/home/bob")
	_, scratch, _ := strings.Cut(text, "device nas:/scratch")
	rest := upToBob + "device nas:/scratch" + scratch
	write(t, path, edit.Replace(rest))
	next := readRow(t, p)
	wantValues(t, []float64{0, 0, 0}, formedOf(3, p.form, to, next, 10*time.Second))

	// /scratch is mounted anew, and its counters begin at 0: what passed is not known. Then it is.
	write(t, path, strings.Replace(edit.Replace(rest), "1500 2100", "10 20", 1))
	anew := readRow(t, p)
	nan := math.NaN()
	wantValues(t, []float64{nan, nan, nan}, formedOf(3, p.form, next, anew, 10*time.Second))
	write(t, path, strings.Replace(edit.Replace(rest), "1500 2100", "50 60", 1))
	wantValues(t, []float64{4, 4, 0}, formedOf(3, p.form, anew, readRow(t, p), 10*time.Second))

	// Without any NFS mount there are no values, and it is no fault.
	write(t, path, "device proc mounted on /proc with fstype proc\n")
	from = readRow(t, p)
	wantValues(t, []float64{nan, nan, nan}, formedOf(3, p.form, from, readRow(t, p), 10*time.Second))
}

// A mount point may get another file system. It counts then by itself.
func TestNFSMountedAnew(t *testing.T) {
	proc, path := nfsTree(t)
	p, err := openNFS(config.Agent{ProcPath: proc}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	readRow(t, p)
	text := string(readFile(t, "nfsclient", "proc", "self", "mountstats"))
	upToBob, bob, _ := strings.Cut(text, "device nas:/home/bob")
	write(t, path, upToBob) // unmounted
	readRow(t, p)

	mountinfo := string(readFile(t, "nfsclient", "proc", "self", "mountinfo"))
	write(t, filepath.Join(proc, "self/mountinfo"), strings.Replace(mountinfo, "72 60 0:52", "72 60 0:60", 1))
	write(t, path, text)
	from := readRow(t, p)
	write(t, path, upToBob+"device nas:/home/bob"+strings.Replace(bob, "50000 7000", "60000 9000", 1))
	// 10000 B and 2000 B in 10 s, of Bob's home alone
	wantValues(t, []float64{1000, 200, 0}, formedOf(3, p.form, from, readRow(t, p), 10*time.Second))
}

// Mounts that mountinfo does not know count each.
func TestNFSWithoutMountinfo(t *testing.T) {
	proc, path := nfsTree(t)
	if err := os.Remove(filepath.Join(proc, "self/mountinfo")); err != nil {
		t.Fatal(err)
	}
	p, err := openNFS(config.Agent{ProcPath: proc}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	from := readRow(t, p)
	text := string(readFile(t, "nfsclient", "proc", "self", "mountstats"))
	write(t, path, strings.Replace(text, "50000 7000", "60000 9000", 1))
	wantValues(t, []float64{1000, 200, 0}, formedOf(3, p.form, from, readRow(t, p), 10*time.Second))
}

// Without a mount of NFS the statistics are read only after the mounts have changed.
func TestNFSIsReadWhenMountsChange(t *testing.T) {
	proc, path := nfsTree(t)
	text := string(readFile(t, "nfsclient", "proc", "self", "mountstats"))
	write(t, path, "device proc mounted on /proc with fstype proc\n")
	file, err := openKernelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mounted := false
	m := &nfsMounts{
		file: file, proc: proc, ids: map[string][]byte{},
		changed: func() bool { return mounted }, unwatch: func() {},
	}
	p, err := openTally(m, newTally(nfsCounters, everyName, grewAll), m.parse, formNFS, nfs().metrics, errNoNFS)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	nan := math.NaN()
	write(t, path, text)
	none := readRow(t, p)
	wantValues(t, []float64{nan, nan, nan}, formedOf(3, p.form, none, readRow(t, p), time.Second))
	mounted = true
	from := readRow(t, p)
	mounted = false // NFS is there, and is read again and again
	write(t, path, strings.Replace(text, "50000 7000", "60000 9000", 1))
	wantValues(t, []float64{1000, 200, 0}, formedOf(3, p.form, from, readRow(t, p), 10*time.Second))
}

// The kernel tells of a mount, and Go's own poller does not take the news. A thread with mounts of its own tries it,
// and ends with the test.
func TestMountsAreWatched(t *testing.T) {
	dir := t.TempDir()
	seen := make(chan bool)
	var refused error
	go func() {
		defer close(seen)
		runtime.LockOSThread()
		if refused = unix.Unshare(unix.CLONE_NEWNS); refused == nil {
			refused = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if refused != nil {
			return
		}
		changed, end := watchMounts("/proc/thread-self/mountinfo")
		defer end()
		before := changed()
		if refused = unix.Mount("none", dir, "tmpfs", 0, ""); refused == nil {
			seen <- !before && changed() && !changed()
		}
	}()
	if ok, tried := <-seen; !tried {
		t.Skipf("MOUNTS ARE NOT WATCHED HERE: this user cannot mount: %v", refused)
	} else if !ok {
		t.Error("a mount is not seen once")
	}
}

func TestParseNFSRefuses(t *testing.T) {
	head := "device nas:/a mounted on /a with fstype nfs4 statvers=1.1\n"
	for _, text := range []string{
		"device nas:/a mounted", head, head + "\tage:\t5\n\nnext\n", head + "\tbytes:\t1 2 3 4 5\n",
		head + "\tbytes:\t1 2 3 4 5 6",
		head + "\tbytes:\t1 2 3 4 5 x 7 8\n", head + "\tbytes:\t1 2 3 4 5 6 7 8\n\tper-op statistics\n\tREAD: x\n",
		head + "\tbytes:\t1 2 3 4 5 6 7 8\n\tper-op statistics\n\tREAD 1 2 3\n",
	} {
		m := &nfsMounts{ids: map[string][]byte{}}
		if err := m.parse(newTally(nfsCounters, everyName, grewAll), []byte(text)); err == nil {
			t.Errorf("parse(%q) is no error", text)
		}
	}
}

// procfs reads the same text.
func TestNFSAgreesWithProcfs(t *testing.T) {
	proc := t.TempDir()
	mkdir(t, filepath.Join(proc, "1"))
	text := readFile(t, "nfsclient", "proc", "self", "mountstats")
	known := strings.ReplaceAll(string(text), "no device mounted on /odd with fstype autofs\n", "")
	write(t, filepath.Join(proc, "1/mountstats"), known)
	fs, err := procfs.NewFS(proc)
	if err != nil {
		t.Fatal(err)
	}
	process, err := fs.Proc(1)
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := process.MountStats()
	if err != nil {
		t.Fatal(err)
	}
	var want [nfsCounters]uint64
	for _, mount := range mounts {
		if s, ok := mount.Stats.(*procfs.MountStatsNFS); ok && mount.Mount != "/home/bob" {
			want[nfsRead] += s.Bytes.ReadTotal
			want[nfsWritten] += s.Bytes.WriteTotal
			for _, op := range s.Operations {
				want[nfsOps] += op.Requests
			}
		}
	}
	c := newTally(nfsCounters, everyName, func(_, to, by []uint64) bool { copy(by, to); return true })
	m := &nfsMounts{proc: "testdata/nfsclient/proc", ids: map[string][]byte{}}
	rows := tallied(t, c, m.parse, string(text), string(text))
	if got := [nfsCounters]uint64(rows[1][tallySums:]); got != want || want[nfsOps] != 1+40+9+100 {
		t.Errorf("we read %v, procfs %v", got, want)
	}
}

func TestNFSCalls(t *testing.T) {
	proc := t.TempDir()
	mkdir(t, filepath.Join(proc, "net/rpc"))
	path := filepath.Join(proc, "net/rpc/nfs")
	write(t, path, "net 18628 0 18628 6\nrpc 4294967290 0 4338291\nproc3 22 1 4084749\n")
	p, err := openNFS(config.Agent{ProcPath: proc}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if p.absent["nfs_read_bw"] == nil || p.absent["nfs_write_bw"] == nil || p.absent["nfs_ops"] != nil {
		t.Errorf("absent: %v", p.absent)
	}
	from := readRow(t, p)
	write(t, path, "net 18628 0 18628 6\nrpc 94 0 4338291\n")
	to := readRow(t, p)
	nan := math.NaN()
	// 2^32 - 4294967290 = 6 calls to the wrap, then 94
	wantValues(t, []float64{nan, nan, 10}, formedOf(3, p.form, from, to, 10*time.Second))
	write(t, path, "rpc 3 0 0\n") // the client was loaded anew
	wantValues(t, []float64{nan, nan, nan}, formedOf(3, p.form, to, readRow(t, p), 10*time.Second))
	for _, text := range []string{"", "rpc 12", "rpc x\n", "rpc 4294967296 0 0\n", "net 1 2 3\n"} {
		if row, err := parseRPC(nil, []byte(text)); err == nil {
			t.Errorf("parseRPC(%q) = %v, want an error", text, row)
		}
	}
}

func FuzzNFS(f *testing.F) {
	text := readFile(f, "nfsclient", "proc", "self", "mountstats")
	f.Add(text, bytes.Replace(text, []byte("50000"), []byte("60000"), 1))
	f.Add([]byte("device a mounted on b with fstype nfs\n\tbytes:\t1 2 3 4 5 6\n"),
		[]byte("device a mounted on c with fstype nfs\n\tbytes:\t1 2 3 4 5 6\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		m := &nfsMounts{proc: "testdata/nfsclient/proc", ids: map[string][]byte{}}
		c := newTally(nfsCounters, everyName, grewAll)
		fuzzTally(t, c, m.parse, a, b, nfsCounters, formNFS, math.MaxUint64)
	})
}

// simpleMountinfo reads mountinfo by the layout of proc_pid_mountinfo(5), as the oracle of procfs. A line is such as
// 36 35 0:52 / /home rw,noatime shared:9 - nfs4 server:/home rw,vers=4.2.
func simpleMountinfo(data []byte, wanted func(kind []byte) bool) map[string]string {
	ids := map[string]string{}
	for line := range bytes.Lines(data) {
		fields, source, _ := bytes.Cut(line, []byte(" - "))
		f, s := bytes.Fields(fields), bytes.Split(source, []byte(" "))
		if len(f) >= 5 && len(s) >= 2 && wanted(s[0]) {
			ids[string(s[1])+" mounted on "+string(f[4])] = string(f[2])
		}
	}
	return ids
}

// Devices of mounts, by procfs and by a parser of the manual page, of the fixture and of this machine.
func TestMountinfoByBoth(t *testing.T) {
	text := readFile(t, "nfsclient", "proc", "self", "mountinfo")
	want := simpleMountinfo(text, isNFSType)
	got := nfsDevices("testdata/nfsclient/proc")
	if len(got) != len(want) || len(want) < 3 {
		t.Errorf("procfs has %d mounts of NFS, the parser %d", len(got), len(want))
	}
	for mount, id := range want {
		if string(got[mount]) != id {
			t.Errorf("%s: %s, want %s", mount, got[mount], id)
		}
		line := "device " + mount + " with fstype nfs" // as mountstats names it
		if string(nfsMount([]byte(line))) != mount {
			t.Errorf("%q is not the mount of %q", mount, line)
		}
	}
	before, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := procfs.GetMounts()
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Skip("MOUNTS CHANGED MEANWHILE")
	}
	lacked := simpleMountinfo(before, func([]byte) bool { return true })
	for _, m := range mounts {
		delete(lacked, m.Source+" mounted on "+m.MountPoint)
	}
	if len(mounts) == 0 || len(lacked) > 0 {
		t.Errorf("procfs has %d mounts, and lacks %v", len(mounts), lacked)
	}
}

func FuzzRPC(f *testing.F) {
	f.Add([]byte("net 1 2 3 4\nrpc 4329785 0 4338291\n"), []byte("rpc 1 0 0\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		from, err1 := parseRPC(nil, a)
		to, err2 := parseRPC(nil, b)
		if err1 == nil && err2 == nil {
			checkFinite(t, formedOf(3, formRPC, from, to, time.Second), math.MaxUint32)
		}
	})
}

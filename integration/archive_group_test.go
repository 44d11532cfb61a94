package integration

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestGroupReadsTheArchive makes an archive as the shipped units do: a user with the umask 0027 writes it below a
// directory with the set-group-ID bit. A member of the group can read all of it and write nothing. Nobody else can read
// it.
func TestGroupReadsTheArchive(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: NO MEMBER OF A GROUP READ THE ARCHIVE: taking another user takes root")
	}
	t.Parallel()
	const writer, reader, stranger, group = 30001, 30002, 30003, 30010
	m := newMachine(t)
	there := t.TempDir()
	dir, binary := filepath.Join(there, "archive"), filepath.Join(there, "weir")
	program, err := os.ReadFile(m.binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Chmod(filepath.Dir(there), 0o755), os.Chmod(there, 0o755), // others may enter, not only root
		os.WriteFile(binary, program, 0o755),
		os.Mkdir(dir, 0o750), os.Chown(dir, writer, group), os.Chmod(dir, 0o750|fs.ModeSetgid),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	as := func(uid uint32, args ...string) error {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `umask 027; exec "$@"`, "sh"}, args...)...)
		credential := &syscall.Credential{Uid: uid, Gid: uid}
		if uid != stranger {
			credential.Groups = []uint32{group}
		}
		cmd.Dir, cmd.SysProcAttr = there, &syscall.SysProcAttr{Credential: credential}
		out, err := cmd.CombinedOutput()
		t.Logf("user %d, %q: %v\n%s", uid, args, err, out)
		return err
	}
	for _, args := range []string{
		"simulate archive --days 2 --nodes 8 --interval 10m --period 1h " + dir,
		"archive compact --dir " + dir,
		"archive totals --through 2026-01-03T00:00:00Z --dir " + dir,
	} {
		if err := as(writer, append([]string{binary}, strings.Fields(args)...)...); err != nil {
			t.Fatalf("weir %s: %v", args, err)
		}
	}

	compacted := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o640)
		if d.IsDir() {
			want = fs.ModeDir | fs.ModeSetgid | 0o750
		}
		stat := info.Sys().(*syscall.Stat_t)
		if info.Mode() != want || stat.Uid != writer || stat.Gid != group {
			t.Errorf("%s has %v of user %d and group %d", path, info.Mode(), stat.Uid, stat.Gid)
		}
		if strings.HasPrefix(path, filepath.Join(dir, "rollups")+"/") {
			compacted++
		}
		return nil
	})
	if err != nil || compacted == 0 {
		t.Errorf("%d files of a compacted date: %v", compacted, err)
	}

	reads := [][]string{
		{binary, "archive", "verify", "--dir", dir},
		{binary, "archive", "stats", "--dir", dir},
		{binary, "report", "system", "--dir", dir},
		{"flock", "--shared", filepath.Join(dir, ".lock"), "true"},
	}
	for _, args := range reads {
		if err := as(reader, args...); err != nil {
			t.Errorf("a member of the group, %q: %v", args, err)
		}
		if as(stranger, args...) == nil {
			t.Errorf("a user outside the group, %q: allowed", args)
		}
	}
	if as(reader, "touch", filepath.Join(dir, "summaries", "x")) == nil {
		t.Error("a member of the group may write to the archive")
	}
	if as(reader, binary, "archive", "compact", "--dir", dir) == nil {
		t.Error("a member of the group may compact the archive")
	}
}

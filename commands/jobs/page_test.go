package jobs_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/jobs"
)

// TestJobPage writes a page over an older one. A page that cannot be written leaves the older one, and nothing else.
func TestJobPage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "job.html")
	if err := os.WriteFile(file, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := jobs.WritePage(file, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return io.ErrUnexpectedEOF
	}); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names the file", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "older" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if err := jobs.JobPage(file, &view.Job{Job: schemas.Job{JobID: "4711"}}, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "<title>Job 4711</title>") ||
		!strings.HasSuffix(string(text), "</html>\n") {
		t.Errorf("the page is %.200q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%d files are left, %v", len(files), err)
	}
	if err := jobs.JobPage(
		filepath.Join(dir, "none", "job.html"),
		&view.Job{},
		nil,
	); err == nil ||
		!strings.Contains(err.Error(), "--html") {
		t.Errorf("a directory that is not there gives %v", err)
	}
}

// TestPagesOfAnArchive makes pages of a made-up day. Where there is no page to write, no file is there.
func TestPagesOfAnArchive(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, tt := range []struct {
		args   string
		status int
		file   string // empty: none
		says   string // on the page, or on standard error
	}{
		{"simulate archive made --jobs habits --from 2026-01-01 --days 1 --interval 30m", cli.ExitDone, "", ""},
		{"job 1014 --dir made --html one.html", cli.ExitDone, "one.html", "<title>Job 1014"},
		{"job 1014 1015 --dir made --html two.html", cli.ExitDone, "two.html", "</html>"},
		{"report system --dir made --html system.html", cli.ExitDone, "system.html", "<title>The machine, 20"},
		{"job nosuch --dir made --html none.html", cli.ExitFailed, "", "no such job"},
		{"job 1014 --dir made --html none/none.html", cli.ExitFailed, "", "--html"},
		{"job 1014 --dir made --html none.html --json", cli.ExitUsage, "", "--html"},
		{"job 1014 --dir made --html none.html --rules", cli.ExitUsage, "", "--html"},
		{"report system --dir made --html none.html --csv", cli.ExitUsage, "", "--html"},
	} {
		status, stdout, stderr := clitest.Weir(ctx, strings.Fields(tt.args)...)
		if status != tt.status || status != cli.ExitDone && !strings.Contains(stderr, tt.says) {
			t.Errorf("%s: status %d, %q, %q", tt.args, status, stdout, stderr)
		}
		if tt.file == "" {
			continue
		}
		if page, err := os.ReadFile(tt.file); err != nil || !strings.Contains(string(page), tt.says) || stdout != "" {
			t.Errorf("%s: the page has not %q, %v; standard output %q", tt.args, tt.says, err, stdout)
		}
	}
	two, err := os.ReadFile("two.html")
	for _, says := range []string{"0 nodes", "The job has one node."} {
		if err != nil || strings.Contains(string(two), says) {
			t.Errorf("the page of two jobs says %q, %v", says, err)
		}
	}
	if err := os.Rename("made", "it's made"); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := clitest.Weir(ctx, "job", "1014", "--dir", "it's made", "--restart", "0", "--width", "500")
	want := "Charts: weir job 1014 --dir '" + here + `/it'\''s made' --restart 0 --html 1014.html`
	if status != cli.ExitDone || !strings.Contains(stdout, want) {
		t.Errorf("status %d, %s%s, want the line %q, which finds the same job", status, stdout, stderr, want)
	}
	if _, err := os.Stat("none.html"); !os.IsNotExist(err) {
		t.Errorf("a page is there that was refused: %v", err)
	}
}

// TestPageKeepsWhatTheFileIs: a link and a device stay what they are, and a page is as open as the file before it.
func TestPageKeepsWhatTheFileIs(t *testing.T) {
	dir := t.TempDir()
	private, link, pipe := filepath.Join(dir, "private"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(private, []byte("older"), 0o600), os.Symlink(private, link),
		syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	page := func(w io.Writer) error {
		_, err := io.WriteString(w, "page")
		return err
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that the writer need not wait
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for file, kind := range map[string]os.FileMode{link: os.ModeSymlink, pipe: os.ModeNamedPipe} {
		if err := jobs.WritePage(file, page); err != nil {
			t.Error(err)
		}
		if info, err := os.Lstat(file); err != nil || info.Mode().Type() != kind {
			t.Errorf("%s is now %v, %v", file, info.Mode(), err)
		}
	}
	if text, err := os.ReadFile(private); err != nil || string(text) != "page" {
		t.Errorf("the file of the link has %q, %v", text, err)
	}
	if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the link has mode %v, %v", info.Mode(), err)
	}
	defer syscall.Umask(syscall.Umask(0o027))
	file := filepath.Join(dir, "new")
	if err := jobs.WritePage(file, page); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("with umask 027: mode %v, %v", info.Mode(), err)
	}
}

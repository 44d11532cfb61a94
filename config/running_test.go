package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// running makes a directory whose weir-data/weir.yaml is as `weir up` leaves it, but for the text.
func running(t *testing.T, text string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "here")
	for _, d := range []string{dir, filepath.Join(dir, "weir-data")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, RunningFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRunningTellsThePlaceAlone: what names files and programs comes from files that somebody named.
func TestRunningTellsThePlaceAlone(t *testing.T) {
	dir := running(t, `
prefix: other.
interval: 6h
cluster: x
log_level: debug
topics: {counters_retention: 2000h, summary_retention: 2000h}
kafka:
  brokers: ['127.0.0.1:9092', '[::1]:9092', 'localhost:9092']
  client_id: x
  tls: {enabled: true, ca_file: x, cert_file: x, key_file: x}
  sasl: {mechanism: PLAIN, user: u, password_file: /etc/shadow}
balance: {slurm: {enabled: true, bin: /tmp}, drop_dir: x, jobs_file: x, tree_file: x}
sink: {dir: x}
machine: [{name: simulated, cpus: 32}]
find: {rules: /tmp/x, off: [serial], possible: true}
`)
	got, err := Running(dir, os.Geteuid(), Default())
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Prefix, want.Interval, want.Kafka.Brokers = "other.", 6*time.Hour,
		[]string{"127.0.0.1:9092", "[::1]:9092", "localhost:9092"}
	want.Machine, want.Find = []NodeType{{Name: "simulated", CPUs: 32}}, Find{Off: []string{"serial"}, Possible: true}
	want.Topics.CountersRetention, want.Topics.SummaryRetention = 3*Outage*want.Interval, Outage*want.Interval
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Load(Source{Defaults: got}); err != nil {
		t.Errorf("with such an interval: %v", err)
	}
}

// TestRunningArchive: the archive beside the file counts where nobody else can have planted it.
func TestRunningArchive(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"as weir up leaves it": {func(path string) error { return os.Mkdir(path, 0o755) }, "weir-data/archive"},
		"none":                 {func(string) error { return nil }, "archive"},
		"of everybody": {func(path string) error {
			return firstError(os.Mkdir(path, 0o755), os.Chmod(path, 0o777))
		}, "archive"},
		"a link": {func(path string) error { return os.Symlink("/tmp", path) }, "archive"},
		"a file": {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "archive"},
	} {
		dir := running(t, "kafka: {brokers: ['127.0.0.1:9092']}")
		if err := c.make(filepath.Join(dir, "weir-data/archive")); err != nil {
			t.Fatal(err)
		}
		got, err := Running(dir, os.Geteuid(), Default())
		if err != nil || got.Sink.Dir != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got.Sink.Dir, err, c.want)
		}
	}
}

// TestRunningIsIgnored: nobody named the file, so it counts only where nobody else can have planted it.
func TestRunningIsIgnored(t *testing.T) {
	const good = "kafka: {brokers: ['127.0.0.1:9092']}"
	file, data := RunningFile, filepath.Dir(RunningFile)
	mode := func(name string, mode os.FileMode) func(dir string) error {
		return func(dir string) error { return os.Chmod(filepath.Join(dir, name), mode) }
	}
	link := func(name string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			if err := os.Rename(path, path+".real"); err != nil {
				return err
			}
			return os.Symlink(path+".real", path)
		}
	}
	owner := func(name string) func(dir string) error {
		return func(dir string) error { return os.Lchown(filepath.Join(dir, name), 65534, -1) }
	}
	for name, c := range map[string]struct {
		text   string
		change func(dir string) error
		says   string // empty: it counts
	}{
		"as weir up leaves it":     {good, nil, ""},
		"readable by all":          {good, mode(data, 0o755), ""},
		"below a sticky directory": {good, mode(".", 0o777|os.ModeSticky), ""},
		"file, of the group":       {good, mode(file, 0o620), "weir.yaml can be written by its group"},
		"file, of everybody":       {good, mode(file, 0o602), "weir.yaml can be written by everybody"},
		"directory, of the group":  {good, mode(data, 0o770), "weir-data can be written by its group"},
		"directory, of everybody":  {good, mode(data, 0o777), "weir-data can be written by everybody"},
		"a sticky directory": {
			good, mode(data, 0o777|os.ModeSticky), "weir-data can be written by everybody",
		},
		"above, of the group":       {good, mode(".", 0o770), "here can be written by its group"},
		"above, of everybody":       {good, mode(".", 0o777), "here can be written by everybody"},
		"further above":             {good, mode("..", 0o777), "can be written by everybody"},
		"file is a link":            {good, link(file), "weir.yaml is a symbolic link"},
		"directory is a link":       {good, link(data), "weir-data is a symbolic link"},
		"file of another user":      {good, owner(file), "weir.yaml belongs to another user, 65534"},
		"directory of another user": {good, owner(data), "weir-data belongs to another user"},
		"above, of another user":    {good, owner("."), "here belongs to another user"},
		"planted in a sticky directory": {
			good, func(dir string) error { return firstError(mode(".", 0o777|os.ModeSticky)(dir), owner(data)(dir)) },
			"weir-data belongs to",
		},
		"file is a pipe": {good, func(dir string) error {
			return firstError(os.Remove(filepath.Join(dir, file)), syscall.Mkfifo(filepath.Join(dir, file), 0o600))
		}, "is not a regular file"},
		"no file": {
			good, func(dir string) error { return os.Remove(filepath.Join(dir, file)) }, "no such file",
		},
		"another host": {
			"kafka: {brokers: ['192.0.2.1:9092']}", nil, "its broker 192.0.2.1:9092 is not on the loopback",
		},
		"another host beside": {
			"kafka: {brokers: ['127.0.0.1:1', 'localhost.example:2']}", nil, "localhost.example:2",
		},
		"no configuration, in one line": {"a: 1\nb: 2", nil, "unknown key a"},
		"a password that nobody reads": {
			"kafka: {brokers: ['127.0.0.1:1'], sasl: {mechanism: SCRAM-SHA-512, user: u, password_file: /no}}", nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := running(t, c.text)
			if c.change != nil {
				if err := c.change(dir); os.IsPermission(err) && os.Geteuid() != 0 {
					t.Skip("only root gives files away: TestDistrust")
				} else if err != nil {
					t.Fatal(err)
				}
			}
			got, err := Running(dir, os.Geteuid(), Default())
			switch {
			case c.says == "" && (err != nil || len(got.Kafka.Brokers) == 0):
				t.Errorf("%v, %v", got.Kafka.Brokers, err)
			case c.says != "" && (err == nil || len(got.Kafka.Brokers) > 0):
				t.Errorf("it counts: %v", got.Kafka.Brokers)
			case c.says != "" && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")):
				t.Errorf("%q is not a line with %q", err, c.says)
			}
		})
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// info is a file as its directory tells of it.
type info struct {
	fs.FileInfo
	mode fs.FileMode
	sys  any
}

func (i info) Mode() fs.FileMode { return i.mode }
func (i info) Sys() any          { return i.sys }

// TestDistrust: who owns the file counts, for users and for root.
func TestDistrust(t *testing.T) {
	const me, other, dir = 1000, 1001, fs.ModeDir
	for _, c := range []struct {
		owner      uint32
		uid, above int
		mode       fs.FileMode
		says       string
	}{
		{me, me, 0, 0o644, ""},
		{0, me, 0, 0o644, ""},
		{other, me, 0, 0o644, "belongs to another user, 1001"},
		{me, 0, 0, 0o644, "belongs to another user, 1000"},
		{me, 0, 2, dir | 0o755, "belongs to another user, 1000"},
		{0, me, 2, dir | fs.ModeSticky | 0o777, ""},
		{other, me, 2, dir | fs.ModeSticky | 0o777, "belongs to another user, 1001"},
		{me, me, 1, dir | fs.ModeSticky | 0o777, "can be written by everybody"},
		{me, me, 2, dir | 0o775, "can be written by its group"},
		{me, me, 2, fs.ModeSymlink | 0o777, "is a symbolic link"},
		{me, me, 0, fs.ModeNamedPipe | 0o600, "is not a regular file"},
		{me, me, 1, 0o600, "is not a directory"},
	} {
		if got := distrust(info{mode: c.mode, sys: &syscall.Stat_t{Uid: c.owner}}, c.above, c.uid); got != c.says {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if got := distrust(info{mode: 0o600}, 0, 0); got == "" {
		t.Error(fmt.Errorf("a file without an owner is trusted"))
	}
}

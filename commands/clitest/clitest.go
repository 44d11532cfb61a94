// Package clitest runs commands in tests: in the test's own process, or as processes of their own.
package clitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/commands"
	"github.com/weirhpc/weir/commands/cli"
)

// Update is the flag -update of tests that compare pages.
var Update = flag.Bool("update", false, "write what pages are generated from the program")

// RunTests runs the tests of a package of commands, from the repository's root. The test binary is the program weir if
// AsWeir is in its environment.
func RunTests(m *testing.M) {
	if os.Getenv(AsWeir) != "" {
		commands.Main()
	}
	// weir check starts this program as its second process.
	if err := errors.Join(os.Setenv(AsWeir, "1"), toRoot()); err != nil {
		panic(err)
	}
	flag.Parse()
	// Parallel tests wait for intervals and processes. They hardly compute, so more of them run than there are CPUs.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// toRoot changes to the root of the repository, from which tests name pages and examples. A test that runs itself in
// another directory stays there.
func toRoot() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, os.Chdir(dir))
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// AsWeir in the environment makes the test binary the program weir.
const AsWeir = "TEST_PROCESS_OF_WEIR"

// Process returns weir as a process of its own, with env added to the test's environment.
func Process(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	// By default the race detector sleeps for a second at the end of each process.
	c.Env = append(os.Environ(), AsWeir+"=1", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	c.Env = append(c.Env, env...)
	return c
}

// Started is a running process, with its output.
type Started struct {
	*exec.Cmd
	Out, Errs kafkatest.Log
}

// Start starts a process. Parallel tests must run `weir up` in one, because the library for perf events has a global
// variable: two of them in the test process would race for it.
func Start(t *testing.T, c *exec.Cmd) *Started {
	t.Helper()
	s := &Started{Cmd: c}
	if c.Stderr = &s.Errs; c.Stdout == nil {
		c.Stdout = &s.Out
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Interrupt ends the process as Ctrl-C does, and returns its exit status.
func (s *Started) Interrupt(t *testing.T) int {
	t.Helper()
	if err := s.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	return s.End(t)
}

// End waits for the end of the process, and returns its exit status.
func (s *Started) End(t *testing.T) int {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		_ = s.Wait() // callers check the exit status
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(90 * time.Second):
		t.Fatal("it does not end")
	}
	return s.ProcessState.ExitCode()
}

// Weir runs weir in this process, and returns its exit status and its output.
func Weir(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, errs kafkatest.Log
	status = commands.Run(ctx, args, &out, &errs)
	return status, out.String(), errs.String()
}

// Page returns the text of a file below the root, such as a page of docs.
func Page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// BareHost makes a /proc of two CPUs and nothing else, and points the configuration of the test's commands at it.
func BareHost(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte("cpu  9 9 9 9\ncpu0 1 2 3 4\ncpu1 1 2 3 4\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_AGENT_PROC_PATH", dir)
	t.Setenv("WEIR_AGENT_SYS_PATH", t.TempDir())
	t.Setenv("WEIR_AGENT_PERF", "false")
	t.Setenv("WEIR_INTERVAL", "1s")
	t.Chdir(t.TempDir())
}

// Certificate writes cert.pem, which is its own authority and valid for an hour from a time on, and key.pem.
func Certificate(t *testing.T, dir string, from time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(time.Hour)}
	template.DNSNames = []string{"weir"}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Objects runs a command that prints one JSON object a line.
func Objects[T any](t *testing.T, args ...string) (rows []T) {
	t.Helper()
	status, stdout, stderr := Weir(t.Context(), args...)
	if status != cli.ExitDone {
		t.Fatalf("%v: status %d, %s", args, status, stderr)
	}
	for line := range strings.Lines(stdout) {
		var row T
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v: %q: %v", args, line, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// ListedMetrics returns the metrics that docs/metrics.md lists, as a map from name to type.
func ListedMetrics(t *testing.T) map[string]string {
	t.Helper()
	types := map[string]string{}
	rows := regexp.MustCompile("(?m)^\\| `(weir_[a-z_]+)` \\| (\\w+) \\|")
	for _, row := range rows.FindAllStringSubmatch(Page(t, "docs/metrics.md"), -1) {
		types[row[1]] = row[2]
	}
	return types
}

// Hostile is a text that clears a terminal, hides characters, and begins a line of its own.
const Hostile = "a\x1b[2J\u009b2J\x7f\u202e\u200b\r\nsink\tb\U000e0001c\xff"

// Drives reports whether a text may change what a terminal shows.
func Drives(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}

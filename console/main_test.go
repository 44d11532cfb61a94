package console

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
)

// askVariable makes the test binary a client of the socket that it names.
const askVariable = "TEST_ASK_CONSOLE"

func TestMain(m *testing.M) {
	if socket := os.Getenv(askVariable); socket != "" {
		if err := Ask(context.Background(), socket, Question{Command: "jobs"}, os.Stdout); err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key, a.pem = signed(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

func signed(t *testing.T, by *authority, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	c.NotBefore = c.NotAfter.Add(-48 * time.Hour)
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// files writes a certificate, its key and the authority into a directory of their own.
func (a *authority) files(c *x509.Certificate) config.ConsoleTLS {
	a.t.Helper()
	_, key, certPEM := signed(a.t, a, c)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	of := config.ConsoleTLS{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile: filepath.Join(dir, "key.pem"),
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for path, text := range map[string][]byte{of.CAFile: a.pem, of.CertFile: certPEM, of.KeyFile: keyPEM} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return of
}

func forServer(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

func forRelay(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// directory puts a getent, an id and a sacctmgr into PATH. Each call of getent is a line of the returned file. User 1004
// hangs.
func directory(t *testing.T) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	for name, script := range map[string]string{
		"getent": `echo "$*" >>` + calls + `
case "$*" in
"passwd 0") echo "root:x:0:0::/:/bin/sh" ;;
"passwd 65534") echo "nobody:x:65534:100::/:/bin/sh" ;;
"passwd 1001") echo "alice:x:1001:100::/:/bin/sh" ;;
"passwd 1002") echo "bob:x:1002:100::/:/bin/sh" ;;
"passwd 1003") echo "carol@example.org:x:1003:100::/:/bin/sh" ;;
"passwd 1004") sleep 600 & echo $! >` + dir + `/hung; wait ;;
"passwd 1005") echo "twin:x:1001:100::/:/bin/sh" ;;
"passwd 1006") echo broken >&2; exit 1 ;;
"passwd 20"??) echo "user$2:x:$2:100::/:/bin/sh" ;;
"group -- user support") echo "user support:*:500:nobody" ;;
*) exit 2 ;;
esac`,
		"id": `case "$*" in
"-G -- carol@example.org") echo "100 500" ;;
"-G -- "*) echo "100 5001" ;;
*) exit 1 ;;
esac`,
		"sacctmgr": `[ "$*" = "-nP show account withcoord format=account,coord" ] || exit 1
printf 'phys-a|bob,carol@example.org\nroot|\nchem|bob\n'`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return calls
}

// site is a service with a relay, and what the service logs.
type site struct {
	*testing.T
	authority *authority
	cfg       config.Console // of the service; Socket is the relay's
	log       lockedBuffer
	relayLog  lockedBuffer
}

// lockedBuffer is a log that is read while it grows.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newSite starts a service and a relay for users of the made-up directory. set may change the service's configuration.
func newSite(t *testing.T, answer Answer, set func(*config.Console)) *site {
	t.Helper()
	s := &site{T: t, authority: newAuthority(t)}
	s.cfg = config.Console{
		Listen: freeAddress(t), Relays: []string{"login1"}, TLS: s.authority.files(forServer("archive1")),
		Socket: filepath.Join(openDir(t), "socket"),
	}
	if set != nil {
		set(&s.cfg)
	}
	s.run(func(ctx context.Context) error {
		return Serve(ctx, s.cfg, answer, slog.New(slog.NewTextHandler(&s.log, nil)), NewMetrics(prometheus.NewRegistry()))
	})
	await(t, "tcp", s.cfg.Listen)
	s.relay(s.cfg.Socket, s.authority.files(forRelay("login1")), s.cfg.Listen)
	return s
}

// relay starts a relay.
func (s *site) relay(socket string, files config.ConsoleTLS, address string) {
	s.Helper()
	cfg := config.Console{Socket: socket, Address: address, TLS: files}
	s.run(func(ctx context.Context) error {
		return Relay(ctx, cfg, slog.New(slog.NewTextHandler(&s.relayLog, nil)))
	})
	await(s.T, "unix", socket)
}

func (s *site) run(f func(context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("it ends with %v", err)
		}
	})
}

// await waits until something listens.
func await(t *testing.T, network, address string) {
	t.Helper()
	for range 1000 {
		if conn, err := net.Dial(network, address); err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("nothing listens on %s", address)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// openDir returns a directory that other users can enter, with a path short enough for a socket.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "weir-console") //nolint:usetesting // nobody else may enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// needRoot skips a test that becomes other users.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: NOBODY ELSE COULD ASK THE RELAY: this test needs root")
	}
}

// connect connects to a socket as a user.
func connect(t *testing.T, socket string, uid int) net.Conn {
	t.Helper()
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		if uid == os.Geteuid() {
			conn, err := net.Dial("unix", socket)
			done <- result{conn, err}
			return
		}
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and with it the other user
		id := uintptr(uid)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
			done <- result{nil, errno}
			return
		}
		conn, err := net.Dial("unix", socket)
		done <- result{conn, err}
	}()
	r := <-done
	if r.err != nil {
		t.Fatalf("connecting as %d: %v", uid, r.err)
	}
	t.Cleanup(func() { _ = r.conn.Close() })
	return r.conn
}

// over sends a question over a connection.
func over(t *testing.T, conn net.Conn, path string, header http.Header) (status int, body string, h http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://console"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, header)
	response, err := (&http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives: true,
	}).RoundTrip(request)
	if err != nil {
		return 0, err.Error(), nil
	}
	return read(t, response)
}

func read(t *testing.T, response *http.Response) (status int, body string, h http.Header) {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

// asked asks as a user of a login node.
func (s *site) asked(uid int, path string) (status int, body string) {
	s.Helper()
	status, body, _ = over(s.T, connect(s.T, s.cfg.Socket, uid), path, nil)
	return status, body
}

// byRelay asks the service as a relay does, with any header.
func (s *site) byRelay(files config.ConsoleTLS, path string, header http.Header) (status int, body string, err error) {
	s.Helper()
	pair, pool, err := certificates(files)
	if err != nil {
		s.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
	}}}
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "https://"+s.cfg.Listen+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	request.Header = header
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	status, body, _ = read(s.T, response)
	return status, body, nil
}

// uidOf is the header of a relay.
func uidOf(uid int) http.Header { return http.Header{uidHeader: {strconv.Itoa(uid)}} }

// says answers with the viewer and the question.
func says(_ context.Context, v analysis.Viewer, q Question, out io.Writer) error {
	_, err := fmt.Fprintf(out, "user=%s all=%v accounts=%s command=%s arguments=%s flags=%s json=%v width=%d color=%v",
		v.User, v.All, strings.Join(v.Accounts, ","), q.Command, strings.Join(q.Arguments, " "), q.Flags.Encode(),
		q.JSON, q.Width, q.Color)
	return err
}

package console

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newTestMetrics() *Metrics { return NewMetrics(prometheus.NewRegistry()) }

// recorded is an answer without a connection.
type recorded struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) WriteHeader(status int)      { r.status = status }
func (r *recorded) Write(p []byte) (int, error) { return r.body.Write(p) }

// TestWhoAsks: the kernel names the user of a connection. Root, the overflow uid and strangers are refused, and no
// header of a client changes who asks.
func TestWhoAsks(t *testing.T) {
	needRoot(t)
	directory(t)
	s := newSite(t, says, nil)
	for uid, want := range map[int]string{
		1001: "user=alice all=false", 1003: "user=carol@example.org all=false", 0: "root owns no jobs",
		65534: "not visible outside your namespace", 1999: errStranger.Error(),
	} {
		if status, body := s.asked(uid, "/api/v1/jobs"); !strings.Contains(body, want) ||
			(status == http.StatusOK) != strings.HasPrefix(want, "user=") {
			t.Errorf("uid %d: %d %s", uid, status, body)
		}
	}
	for _, forged := range []http.Header{
		{"Weir-Uid": {"1002"}},
		{"weir-uid": {"1002"}},
		{"Weir-Uid": {"1002", "1002"}},
		{"Weir_Uid": {"1002"}},
		{"Connection": {"Weir-Uid"}},
		{"X-Forwarded-For": {"1002"}, "Weir-User": {"bob"}},
	} {
		conn := connect(t, s.cfg.Socket, 1001)
		if _, body, _ := over(t, conn, "/api/v1/jobs?Weir-Uid=1002", forged); !strings.HasPrefix(body, "user=alice all=false") {
			t.Errorf("%v: %s", forged, body)
		}
	}
	// Nothing that follows a question on its connection is one.
	conn := connect(t, s.cfg.Socket, 1001)
	two := "GET /api/v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 70\r\n\r\n" +
		"GET /api/v1/jobs HTTP/1.1\r\nHost: a\r\nWeir-Uid: 1002\r\n\r\n" + strings.Repeat("x", 70)
	if _, err := io.WriteString(conn, two); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if n := strings.Count(string(text), "HTTP/1.1 "); err != nil || n != 1 || !strings.Contains(string(text), "user=alice") {
		t.Errorf("%d answers: %s, %v", n, text, err)
	}
	if strings.Contains(s.log.String(), "user=bob") {
		t.Errorf("a client has asked as another user:\n%s", s.log.String())
	}
}

// unasked is a service that nobody may reach.
type unasked struct{ *testing.T }

func (u unasked) RoundTrip(r *http.Request) (*http.Response, error) {
	u.Errorf("the relay forwards %s of %q", r.URL, r.Header)
	return nil, errors.New("not reached")
}

// TestRelayRefuses: what the service refuses does not even leave the login node.
func TestRelayRefuses(t *testing.T) {
	r := newRelay(config.Console{}, discard())
	r.transport, r.overflow = unasked{t}, 4242
	for _, uid := range []any{uint32(0), uint32(65534), uint32(4242), ^uint32(0), nil, 1001} {
		w := &recorded{header: http.Header{}}
		ctx := context.WithValue(t.Context(), peerKey{}, uid)
		question, err := http.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.ServeHTTP(w, question); w.status != http.StatusForbidden {
			t.Errorf("%v: %d %s", uid, w.status, w.body.String())
		}
	}
}

// TestPassedConnection: whoever connects is who asks. A process that is handed the connection of another user asks as
// that user, who gave it away. It is no way to another user's jobs against that user's will.
func TestPassedConnection(t *testing.T) {
	needRoot(t)
	directory(t)
	s := newSite(t, says, nil)
	file, err := connect(t, s.cfg.Socket, 1001).(*net.UnixConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := make(chan string)
	go func() { // a process of user 1002 that was handed the descriptor
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 1002, 1002, 1002); errno != 0 {
			out <- errno.Error()
			return
		}
		conn, err := net.FileConn(file)
		if err != nil {
			out <- err.Error()
			return
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /api/v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			out <- err.Error()
			return
		}
		text, err := io.ReadAll(conn)
		if err != nil {
			out <- err.Error()
			return
		}
		out <- string(text)
	}()
	if text := <-out; !strings.Contains(text, "user=alice") {
		t.Errorf("over a passed connection: %s", text)
	}
}

// TestUserNamespaces: root of a namespace is the user who made it, and a user whom the namespace invents is a stranger.
func TestUserNamespaces(t *testing.T) {
	needRoot(t)
	directory(t)
	s := newSite(t, says, nil)
	for host, want := range map[int]string{1001: "user=alice", 101_000: errStranger.Error(), 0: "root owns no jobs"} {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), askVariable+"="+s.cfg.Socket)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: 1}},
			Credential:  &syscall.Credential{Uid: 0, Gid: 0},
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
			t.Skipf("SKIPPED: NO USER NAMESPACE ASKED: %v", err)
		}
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("root of a namespace that stands for %d: %s %v", host, out, err)
		}
	}
}

// TestIdleConnections: a user who opens connections and sends nothing keeps no other user out.
func TestIdleConnections(t *testing.T) {
	needRoot(t)
	directory(t)
	s := newSite(t, says, nil)
	for range 3 * connectionsEach {
		connect(t, s.cfg.Socket, 1001)
	}
	if status, body := s.asked(1001, "/api/v1/jobs"); status == http.StatusOK {
		t.Errorf("a user has more than %d connections: %s", connectionsEach, body)
	}
	if status, body := s.asked(1002, "/api/v1/jobs"); status != http.StatusOK {
		t.Errorf("another user: %d %s", status, body)
	}
}

// TestConnectionsEnd: a connection that has ended counts no longer.
func TestConnectionsEnd(t *testing.T) {
	needRoot(t)
	directory(t)
	s := newSite(t, says, nil)
	for i := range 3 * connectionsEach {
		if status, body := s.asked(1001, "/api/v1/jobs"); status != http.StatusOK {
			t.Fatalf("question %d: %d %s", i+1, status, body)
		}
	}
}

// TestConsoleIsAway: a user learns whom to ask, and the relay's log has the reason once.
func TestConsoleIsAway(t *testing.T) {
	needRoot(t)
	directory(t)
	s := newSite(t, says, nil)
	away1 := filepath.Join(openDir(t), "away")
	s.relay(away1, s.authority.files(forRelay("login1")), freeAddress(t))
	removed := filepath.Join(openDir(t), "removed")
	s.relay(removed, s.authority.files(forRelay("login2")), s.cfg.Listen)
	wrong := filepath.Join(openDir(t), "wrong") // the service of another authority
	other := newAuthority(t)
	s.relay(wrong, other.files(forRelay("login1")), s.cfg.Listen)
	for _, socket := range []string{away1, removed, wrong} {
		for range 3 {
			status, body, _ := over(t, connect(t, socket, 1001), "/api/v1/jobs", nil)
			if status != http.StatusBadGateway || !strings.Contains(body, away) {
				t.Errorf("%s: %d %s", socket, status, body)
			}
		}
	}
	if n := strings.Count(s.relayLog.String(), "does not answer"); n != 3 {
		t.Errorf("%d lines of the log, want 3:\n%s", n, s.relayLog.String())
	}
	if err := Ask(t.Context(), filepath.Join(t.TempDir(), "none"), Question{Command: "jobs"}, io.Discard); !errors.Is(err, ErrAway) {
		t.Errorf("no relay: %v", err)
	}
}

// TestHugeRequests: nobody fills the memory of a relay, and it goes on.
func TestHugeRequests(t *testing.T) {
	needRoot(t)
	directory(t)
	s := newSite(t, says, nil)
	status, body, _ := over(t, connect(t, s.cfg.Socket, 1001), "/api/v1/jobs",
		http.Header{"X-Huge": {strings.Repeat("x", 4*maxHeaderBytes)}})
	if status != http.StatusRequestHeaderFieldsTooLarge && status != 0 {
		t.Errorf("huge headers: %d %s", status, body)
	}
	if status, body := s.asked(1001, "/api/v1/jobs?"+strings.Repeat("x", 4*maxHeaderBytes)); status != http.StatusRequestURITooLong &&
		status != http.StatusRequestHeaderFieldsTooLarge && status != 0 {
		t.Errorf("a huge address: %d %s", status, body)
	}
	for _, path := range []string{"/", "/metrics", "/api/v2/jobs"} {
		if status, body := s.asked(1001, path); status == http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := s.asked(1001, "/api/v1/jobs"); status != http.StatusOK {
		t.Errorf("after that: %d %s", status, body)
	}
}

// TestTheUserLeaves: Ctrl-C on the login node ends the work beside the archive.
func TestTheUserLeaves(t *testing.T) {
	needRoot(t)
	directory(t)
	begun, ended := make(chan struct{}), make(chan error, 1)
	s := newSite(t, func(ctx context.Context, _ analysis.Viewer, _ Question, _ io.Writer) error {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}, nil)
	conn := connect(t, s.cfg.Socket, 1001)
	if _, err := io.WriteString(conn, "GET /api/v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(questionLimit / 2):
		t.Error("the work goes on for nobody")
	}
}

// TestSocket: the socket is everybody's. The one of a relay that has ended is replaced, that of a living relay is not,
// and a file is not.
func TestSocket(t *testing.T) {
	path := filepath.Join(openDir(t), "socket")
	listen := func() (net.Listener, error) { return listenLocal(t.Context(), path) }
	first, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := listen(); err == nil || !strings.Contains(err.Error(), "another relay listens") {
		t.Errorf("beside another relay: %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // it is killed
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := listen()
	if err != nil {
		t.Fatalf("after another relay: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(); err == nil {
		t.Error("it replaces a file")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// TestRefusalsReachTheUser: an error of the service is an error of the command, with its text.
func TestRefusalsReachTheUser(t *testing.T) {
	for status, c := range map[int]struct {
		text string
		want error
	}{
		404: {"no such job, or it is not yours", ErrNotThere}, 400: {"--html is refused", ErrBadQuestion},
		429: {"you ask too much (again in 7 s)", nil}, 502: {away, nil}, 500: {"answers 500", nil},
	} {
		path := filepath.Join(openDir(t), "socket")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		h := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			text, wait, again := strings.Cut(c.text, " (again in ")
			if status == 500 {
				w.WriteHeader(status)
				return
			}
			if !again {
				refuse(w, status, text, 0)
				return
			}
			seconds, err := time.ParseDuration(strings.TrimSuffix(wait, " s)") + "s")
			if err != nil {
				t.Error(err)
			}
			refuse(w, status, text, seconds)
		})}
		go func() { _ = h.Serve(listener) }()
		err = Ask(t.Context(), path, Question{Command: "jobs"}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.text) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%d: %v", status, err)
		}
		if c.want == nil && (errors.Is(err, ErrNotThere) || errors.Is(err, ErrBadQuestion)) {
			t.Errorf("%d is %v", status, err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCheckFiles: what is missing or has expired is named by its key, before a service starts.
func TestCheckFiles(t *testing.T) {
	a := newAuthority(t)
	good := a.files(forServer("archive1"))
	if err := CheckFiles(good, time.Now()); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*config.ConsoleTLS){
		"console.tls.ca_file is empty":   func(c *config.ConsoleTLS) { c.CAFile = "" },
		"console.tls.cert_file is empty": func(c *config.ConsoleTLS) { c.CertFile = "" },
		"reading console.tls.key_file":   func(c *config.ConsoleTLS) { c.KeyFile = "/nowhere" },
		"holds no certificate":           func(c *config.ConsoleTLS) { c.CAFile = c.KeyFile },
		"with console.tls.key_file":      func(c *config.ConsoleTLS) { c.CertFile = c.CAFile },
		"expired at 20":                  func(c *config.ConsoleTLS) { c.ServerName = "expired" },
	} {
		bad := good
		change(&bad)
		now := time.Now()
		if bad.ServerName != "" {
			now = now.Add(1000 * time.Hour)
		}
		if err := CheckFiles(bad, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

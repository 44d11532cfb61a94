package console

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
)

// TestCertificates: only the certificate of an accepted relay is heard, and only over TLS 1.3. A relay whose name was
// removed is refused like a stranger, before it can ask.
func TestCertificates(t *testing.T) {
	directory(t)
	s := newSite(t, says, nil)
	relay := s.authority.files(forRelay("login1"))
	if status, body, err := s.byRelay(relay, "/api/v1/jobs", uidOf(1001)); err != nil || status != http.StatusOK {
		t.Fatalf("an accepted relay: %d %s %v", status, body, err)
	}
	named := forRelay("x")
	named.DNSNames = []string{"other", "login1"}
	if status, _, err := s.byRelay(s.authority.files(named), "/api/v1/jobs", uidOf(1001)); err != nil || status != http.StatusOK {
		t.Errorf("an accepted relay by its second DNS name: %d %v", status, err)
	}
	other := newAuthority(t).files(forRelay("login1"))
	other.CAFile = relay.CAFile // it knows the service's authority
	expired := forRelay("login1")
	expired.NotAfter = time.Now().Add(-time.Minute)
	for what, files := range map[string]config.ConsoleTLS{
		"of another authority":                   other,
		"of a removed relay":                     s.authority.files(forRelay("login2")),
		"of a server with a relay's name":        s.authority.files(forServer("login1")),
		"that has expired":                       s.authority.files(expired),
		"with a relay's name in another place":   s.authority.files(&x509.Certificate{Subject: pkix.Name{Organization: []string{"login1"}}, ExtKeyUsage: forRelay("").ExtKeyUsage}),
		"whose name only begins like a relay's":  s.authority.files(forRelay("login1.evil.example.org")),
		"whose name differs by a capital letter": s.authority.files(forRelay("Login1")),
	} {
		if status, body, err := s.byRelay(files, "/api/v1/jobs", uidOf(1001)); err == nil {
			t.Errorf("a certificate %s: %d %s", what, status, body)
		}
	}
	if conn, err := tls.Dial("tcp", s.cfg.Listen, &tls.Config{InsecureSkipVerify: true}); err == nil { //nolint:gosec // any server
		if _, err = conn.Write([]byte("GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nWeir-Uid: 1001\r\n\r\n")); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if err == nil {
			t.Error("without a certificate it answers")
		}
	}
	pair, pool, err := certificates(relay)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.Dial("tcp", s.cfg.Listen, &tls.Config{
		RootCAs: pool, Certificates: []tls.Certificate{pair}, MaxVersion: tls.VersionTLS12,
	}); err == nil {
		t.Error("it speaks TLS 1.2, which shows the relay's certificate to listeners")
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.cfg.Listen+"/api/v1/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = uidOf(1001)
	if response, err := plain.Do(request); err == nil {
		if status, body, _ := read(t, response); status == http.StatusOK {
			t.Errorf("plaintext: %s", body)
		}
	}
	if n := strings.Count(s.log.String(), "status=200"); n != 2 {
		t.Errorf("%d questions were answered, want 2:\n%s", n, s.log.String())
	}
}

// TestHandlerNeedsARelay: even without the handshake's check no header of a stranger counts.
func TestHandlerNeedsARelay(t *testing.T) {
	directory(t)
	s := newSite(t, says, nil)
	h := newServer(s.cfg, says, discard(), newTestMetrics())
	for what, state := range map[string]*tls.ConnectionState{
		"plain": nil, "no certificate": {},
		"another name": {
			PeerCertificates: []*x509.Certificate{forRelay("login2")},
			VerifiedChains:   [][]*x509.Certificate{{forRelay("login2")}},
		},
	} {
		w := &recorded{header: http.Header{}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header, r.TLS = uidOf(1001), state
		if h.ServeHTTP(w, r); w.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", what, w.status, w.body.String())
		}
	}
}

// TestUsersOfARelay: a relay names one user by a number. Root, the overflow uid and strangers get nothing, whatever the
// relay claims.
func TestUsersOfARelay(t *testing.T) {
	directory(t)
	s := newSite(t, says, nil)
	relay := s.authority.files(forRelay("login1"))
	for what, values := range map[string][]string{
		"no header": nil, "two": {"1001", "1002"}, "two in one": {"1001, 1002"}, "a name": {"alice"}, "empty": {""},
		"root": {"0"}, "overflow": {"65534"}, "minus one": {"-1"}, "all bits": {"4294967295"}, "too large": {"4294968297"},
		"octal": {"01001"}, "signed": {"+1001"}, "a space": {"1001 x"}, "a stranger": {"1999"}, "another's line": {"1005"},
	} {
		header := http.Header{}
		if values != nil {
			header[uidHeader] = values
		}
		status, body, err := s.byRelay(relay, "/api/v1/jobs", header)
		want := http.StatusForbidden
		if what == "another's line" { // the directory answers with another uid
			want = http.StatusServiceUnavailable
		}
		if err != nil || status != want || !strings.Contains(body, `"detail":"`) {
			t.Errorf("%s: %d %s %v", what, status, body, err)
		}
	}
	if status, _, err := s.byRelay(relay, "/api/v1/jobs", http.Header{"Weir-Uid": {"1001"}, "Weir-User": {"bob"}, "X-Remote-User": {"bob"}}); err != nil || status != http.StatusOK {
		t.Errorf("%d %v", status, err)
	}
	if strings.Contains(s.log.String(), "user=bob") {
		t.Error("another header names the user")
	}
}

// TestErrors: "not yours" and "not there" are the same bytes, a refused question names its reason, and the text of a
// fault stays in the log of the service. What was written before an error is no answer.
func TestErrors(t *testing.T) {
	directory(t)
	s := newSite(t, func(_ context.Context, _ analysis.Viewer, q Question, out io.Writer) error {
		if _, err := io.WriteString(out, "a part"); err != nil {
			return err
		}
		switch q.Arguments[0] {
		case "1":
			return fmt.Errorf("job 1 of bob: %w", ErrNotThere)
		case "2":
			return ErrNotThere
		case "3":
			return fmt.Errorf("%w: --html", ErrBadQuestion)
		case "4":
			_, err := out.Write(make([]byte, maxAnswerBytes))
			return err
		}
		if q.Arguments[0] == "6" {
			return fmt.Errorf("%w: no interval yet", ErrNoAnswer)
		}
		return errors.New("/secret/path is broken")
	}, nil)
	relay := s.authority.files(forRelay("login1"))
	got := map[string]string{}
	for id, want := range map[string]int{"1": 404, "2": 404, "3": 400, "4": 400, "5": 500, "6": 422} {
		status, body, err := s.byRelay(relay, "/api/v1/job/"+id, uidOf(1001))
		if err != nil || status != want || strings.Contains(body, "a part") {
			t.Errorf("job %s: %d %s %v", id, status, body, err)
		}
		got[id] = body
	}
	if got["1"] != got["2"] || strings.Contains(got["1"], "bob") {
		t.Errorf("another's job %q, no job %q", got["1"], got["2"])
	}
	if strings.Contains(got["5"], "secret") || !strings.Contains(s.log.String(), "/secret/path is broken") {
		t.Errorf("a fault: %s\nlog: %s", got["5"], s.log.String())
	}
	if !strings.Contains(got["6"], "no interval yet") {
		t.Errorf("a command without an answer: %s", got["6"])
	}
	if !strings.Contains(got["3"], "--html") || !strings.Contains(got["4"], "16 MiB") {
		t.Errorf("%s%s", got["3"], got["4"])
	}
}

// TestQuestionsTravel: a question comes out of the service as it went into the client.
func TestQuestionsTravel(t *testing.T) {
	needRoot(t)
	directory(t)
	s := newSite(t, says, nil)
	for want, q := range map[string]Question{
		"command=job arguments=a@2026-11-20 184300_[1-60,70] flags=ascii=true&metrics=a%2Cb json=false width=99 color=true": {
			Command: "job", Arguments: []string{"a@2026-11-20", "184300_[1-60,70]"}, Width: 99, Color: true,
			Flags: map[string][]string{"metrics": {"a,b"}, "ascii": {"true"}},
		},
		"command=job arguments=4711+1 ../x?y#z%00 flags= json=false width=0 color=false": {
			Command: "job", Arguments: []string{"4711+1", "../x?y#z%00"},
		},
		"command=jobs arguments= flags=sort=wasted json=true width=0 color=false": {
			Command: "jobs", JSON: true, Flags: map[string][]string{"sort": {"wasted"}},
		},
		"command=top arguments= flags= json=false width=1000 color=false": {Command: "top", Width: 5000},
	} {
		request, err := q.request(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, body, header := over(t, connect(t, s.cfg.Socket, 1001), request.URL.RequestURI(), request.Header)
		if _, got, _ := strings.Cut(body, "accounts= "); got != want {
			t.Errorf("got  %s\nwant %s", body, want)
		}
		if header.Get("Content-Type") != contentType(q.JSON) {
			t.Errorf("%s: %v", want, header)
		}
	}
	for _, path := range []string{
		"/api/v1/jobs?width=x", "/api/v1/jobs?width=-1",
		"/api/v1/jobs?%zz",
	} {
		if status, body := s.asked(1002, path); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestLog: a line for each question has the user, the relay and the question, and nobody can begin a line of the log.
func TestLog(t *testing.T) {
	directory(t)
	s := newSite(t, says, nil)
	relay := s.authority.files(forRelay("login1"))
	long := strings.Repeat("x", 1000)
	if _, _, err := s.byRelay(relay, "/api/v1/jobs?user=a%0auser=root%1b[2J\"&"+long, uidOf(1003)); err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(s.log.String(), "msg=question")
	for _, want := range []string{` user=carol@example.org uid=1003 relay=login1 `, ` status=200 `, ` duration_ms=`} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	if len(line) > 600 || strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\n\x1b") {
		t.Errorf("the line is %q", line)
	}
}

// TestMinute: the 61st question within a minute is refused until the minute is over, for this user alone. An idle user
// takes no memory.
func TestMinute(t *testing.T) {
	l := limits{users: map[uint32]*usage{}}
	now := time.Unix(1e9, 0)
	for i := range 60 {
		leave, wait, _ := l.enter(1, now)
		if wait > 0 {
			t.Fatalf("question %d waits for %v", i+1, wait)
		}
		leave()
	}
	if _, wait, count := l.enter(1, now.Add(50*time.Second)); wait != 10*time.Second || count != 61 {
		t.Errorf("question %d waits for %v", count, wait)
	}
	if _, wait, _ := l.enter(2, now.Add(50*time.Second)); wait > 0 {
		t.Errorf("another user waits for %v", wait)
	}
	if _, wait, _ := l.enter(1, now.Add(time.Minute)); wait > 0 {
		t.Errorf("after a minute it waits for %v", wait)
	}
	for uid := range uint32(1000) {
		if leave, _, _ := l.enter(5000+uid, now.Add(2*time.Minute)); leave != nil {
			leave()
		}
	}
	l.enter(1, now.Add(10*time.Minute))
	if n := len(l.users); n > 2 { // users 1 and 2 have questions that run
		t.Errorf("%d users are kept", n)
	}
}

// TestOneUserStopsNobody: a user with two questions is refused a third at once, and another user is answered meanwhile.
// Beyond all users' bound questions wait, and beyond the queue they are refused.
func TestOneUserStopsNobody(t *testing.T) {
	directory(t)
	hold, begun := make(chan struct{}), make(chan struct{}, 100)
	s := newSite(t, func(ctx context.Context, v analysis.Viewer, q Question, out io.Writer) error {
		if q.Command == "top" {
			begun <- struct{}{}
			<-hold
		}
		return says(ctx, v, q, out)
	}, nil)
	relay := s.authority.files(forRelay("login1"))
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	ask := func(uid int) {
		all.Go(func() {
			status, _, _ := s.byRelay(relay, "/api/v1/top", uidOf(uid))
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	ask(1001)
	ask(1001)
	<-begun
	<-begun
	if status, body, err := s.byRelay(relay, "/api/v1/jobs", uidOf(1001)); err != nil || status != http.StatusTooManyRequests {
		t.Errorf("a third question: %d %s %v", status, body, err)
	}
	if status, body, err := s.byRelay(relay, "/api/v1/jobs", uidOf(1002)); err != nil || status != http.StatusOK {
		t.Errorf("another user: %d %s %v", status, body, err)
	}
	const beyond = 4
	for uid := 2010; uid < 2010+(answersAtOnce+queueAtMost+beyond)/2-1; uid++ {
		ask(uid)
		ask(uid)
	}
	for range answersAtOnce - 2 {
		<-begun
	}
	refused := func() int {
		mu.Lock()
		defer mu.Unlock()
		return statuses[http.StatusServiceUnavailable]
	}
	for refused() < beyond {
		if t.Context().Err() != nil {
			t.Fatal("a full queue refuses nobody")
		}
		time.Sleep(10 * time.Millisecond)
	}
	release()
	all.Wait()
	if len(statuses) != 2 || statuses[http.StatusOK] != answersAtOnce+queueAtMost || refused() != beyond {
		t.Errorf("statuses of those that waited, and of %d beyond: %v", beyond, statuses)
	}
}

// TestGetentThatHangs: while the directory hangs for one user, another is answered. The one is told to try again, and
// no process is left.
func TestGetentThatHangs(t *testing.T) {
	calls := directory(t)
	s := newSite(t, says, nil)
	relay := s.authority.files(forRelay("login1"))
	var hung sync.WaitGroup
	for range 2 {
		hung.Go(func() {
			began := time.Now()
			status, body, err := s.byRelay(relay, "/api/v1/jobs", uidOf(1004))
			if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, "try again") {
				t.Errorf("the user for whom it hangs: %d %s %v", status, body, err)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("the user for whom it hangs waits for %v", took)
			}
		})
	}
	for {
		if text, err := os.ReadFile(calls); err == nil && strings.Count(string(text), "1004") == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	began := time.Now()
	if status, body, err := s.byRelay(relay, "/api/v1/jobs", uidOf(1001)); err != nil || status != http.StatusOK {
		t.Errorf("another user: %d %s %v", status, body, err)
	}
	if took := time.Since(began); took > lookupLimit/2 {
		t.Errorf("another user waited for %v", took)
	}
	hung.Wait()
	if pid, err := os.ReadFile(strings.TrimSuffix(calls, "calls") + "hung"); err != nil {
		t.Error(err)
	} else if line, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline"); err == nil && len(line) > 0 {
		t.Errorf("a process of the getent that hangs is left: %q", line)
	}
}

// TestDirectoryIsAskedOnce: users and strangers are kept for a while; a failure is not.
func TestDirectoryIsAskedOnce(t *testing.T) {
	calls := directory(t)
	p := newPeople(config.Console{})
	for range 3 {
		for uid, want := range map[uint32]error{1001: nil, 1999: errStranger} {
			if _, err := p.viewer(t.Context(), uid); !errors.Is(err, want) {
				t.Errorf("%d: %v", uid, err)
			}
		}
		if _, err := p.viewer(t.Context(), 1006); err == nil || errors.Is(err, errStranger) {
			t.Errorf("a broken directory: %v", err)
		}
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	slices.Sort(lines)
	want := []string{"passwd 1001", "passwd 1006", "passwd 1006", "passwd 1006", "passwd 1999"}
	if !slices.Equal(lines, want) {
		t.Errorf("asked %q, want %q", lines, want)
	}
	p.mu.Lock()
	one := p.known[1001]
	one.until = time.Now().Add(-time.Second)
	p.known[1001], p.known[7] = one, one
	p.mu.Unlock()
	if _, err := p.viewer(t.Context(), 1001); err != nil || len(p.known) != 2 {
		t.Errorf("after a minute %d users are kept: %v", len(p.known), err)
	}
}

// TestRoles: nobody is support without the configuration. Support is a list of users or of groups, leaders are a list or
// Slurm's coordinators, and each role is exactly what was given.
func TestRoles(t *testing.T) {
	directory(t)
	sacctmgr := strings.Split(os.Getenv("PATH"), ":")[0] + "/sacctmgr"
	for what, c := range map[string]struct {
		cfg  config.Console
		want map[uint32]analysis.Viewer
	}{
		"nothing": {config.Console{}, map[uint32]analysis.Viewer{
			1001: {User: "alice"}, 1002: {User: "bob"}, 1003: {User: "carol@example.org"},
		}},
		"lists": {config.Console{
			Support: []string{"alice"}, Leaders: []config.Leader{{Account: "chem", Users: []string{"bob", "alic"}}, {Account: "x"}},
		}, map[uint32]analysis.Viewer{
			1001: {User: "alice", All: true}, 1002: {User: "bob", Accounts: []string{"chem"}}, 1003: {User: "carol@example.org"},
		}},
		"groups": {config.Console{SupportGroups: []string{"absent", "user support"}}, map[uint32]analysis.Viewer{
			1001: {User: "alice"}, 1003: {User: "carol@example.org", All: true},
		}},
		"coordinators": {config.Console{Sacctmgr: sacctmgr}, map[uint32]analysis.Viewer{
			1001: {User: "alice"}, 1002: {User: "bob", Accounts: []string{"phys-a", "chem"}},
			1003: {User: "carol@example.org", Accounts: []string{"phys-a"}},
		}},
	} {
		p := newPeople(c.cfg)
		if c.cfg.Sacctmgr != "" {
			if err := p.readCoordinators(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for uid, want := range c.want {
			got, err := p.viewer(t.Context(), uid)
			if err != nil || got.User != want.User || got.All != want.All || !slices.Equal(got.Accounts, want.Accounts) {
				t.Errorf("%s: %d is %+v, want %+v: %v", what, uid, got, want, err)
			}
		}
	}
	p := newPeople(config.Console{Sacctmgr: sacctmgr})
	if err := p.readCoordinators(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.coordinated = time.Now().Add(-2 * coordinatorsLast)
	if got, err := p.viewer(t.Context(), 1002); err != nil || len(got.Accounts) > 0 {
		t.Errorf("coordinators of two hours ago still count: %+v %v", got, err)
	}
}

// TestStrangersOnTheNetwork: connections that send nothing, or nothing that ends, keep no relay out.
func TestStrangersOnTheNetwork(t *testing.T) {
	directory(t)
	s := newSite(t, says, nil)
	for range 50 {
		conn, err := net.Dial("tcp", s.cfg.Listen)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	relay := s.authority.files(forRelay("login1"))
	if status, body, err := s.byRelay(relay, "/api/v1/jobs", uidOf(1001)); err != nil || status != http.StatusOK {
		t.Errorf("a relay beside them: %d %s %v", status, body, err)
	}
	huge := uidOf(1001)
	huge.Set("X-Huge", strings.Repeat("x", 4*maxHeaderBytes))
	if status, _, err := s.byRelay(relay, "/api/v1/jobs", huge); err == nil && status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("huge headers: %d", status)
	}
}

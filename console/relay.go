package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
)

const (
	// connectionsEach bounds the connections of a user to a relay, so that nobody takes all its file descriptors. It is
	// larger than atOnce: the service explains a refusal, and the relay only hangs up.
	connectionsEach = 16
	// forwardAtOnce bounds the connections of a relay to the service.
	forwardAtOnce = 128
)

// away is what users read while the service does not answer.
const away = "the console does not answer: ask your administrator"

// Relay listens on the socket of a login node until ctx ends. It forwards each question to the service, with the uid of
// the user who connected.
func Relay(ctx context.Context, cfg config.Console, log *slog.Logger) error {
	listener, err := listenLocal(ctx, cfg.Socket)
	if err != nil {
		return err
	}
	log.Info("listening for users", "socket", cfg.Socket, "console", cfg.Address)
	return serve(ctx, &http.Server{
		Handler: newRelay(cfg, log), ErrorLog: errorLog(log),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if p, is := c.(*peer); is {
				return context.WithValue(ctx, peerKey{}, p.uid)
			}
			return ctx
		},
	}, &peers{Listener: listener, open: map[uint32]int{}})
}

// listenLocal makes the socket, which all users may connect to. An old socket is removed only if nobody listens on it.
func listenLocal(ctx context.Context, path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("console.socket %s is there, and is no socket: name another path", path)
	case err == nil:
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
		if err == nil {
			_ = conn.Close() // nothing was sent
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("console.socket %s: another relay listens there: %w", path, unix.EADDRINUSE)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing the socket of a relay that has ended: %w", err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on console.socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// peers accepts connections of users. The kernel vouches for the uid: it is that of the process that connected, at the
// moment when it did. A process that is handed such a connection asks as that user.
type peers struct {
	net.Listener
	mu   sync.Mutex
	open map[uint32]int // connections by uid
}

// peer is the connection of a user.
type peer struct {
	*net.UnixConn
	uid   uint32
	close func() // once
}

// peerKey is the key of the uid in the context of a connection.
type peerKey struct{}

// Accept returns the next connection of a user who has not too many of them.
func (l *peers) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		local, is := conn.(*net.UnixConn)
		if !is {
			return nil, errors.Join(errors.New("not a Unix socket"), conn.Close())
		}
		uid, err := peerUID(local)
		if err != nil || !l.enter(uid) {
			_ = conn.Close() // nobody has read from it
			continue
		}
		return &peer{local, uid, sync.OnceFunc(func() { l.leave(uid) })}, nil
	}
}

func (l *peers) enter(uid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid] >= connectionsEach {
		return false
	}
	l.open[uid]++
	return true
}

func (l *peers) leave(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[uid]--; l.open[uid] == 0 {
		delete(l.open, uid)
	}
}

// Close ends the connection.
func (p *peer) Close() error {
	p.close()
	return p.UnixConn.Close()
}

// peerUID asks the kernel who connected.
func peerUID(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); failed != nil || err != nil {
		return 0, errors.Join(failed, err)
	}
	return cred.Uid, nil
}

// relay forwards questions.
type relay struct {
	address   string
	overflow  uint32
	transport http.RoundTripper
	log       *slog.Logger

	mu      sync.Mutex
	trouble retry.Trouble
}

func newRelay(cfg config.Console, log *slog.Logger) *relay {
	return &relay{
		address: cfg.Address, overflow: overflowUID(), log: log,
		transport: &http.Transport{
			DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return dial(ctx, cfg, network, address)
			},
			MaxConnsPerHost: forwardAtOnce, MaxResponseHeaderBytes: maxHeaderBytes, DisableKeepAlives: true,
			DisableCompression: true, ResponseHeaderTimeout: questionLimit + 2*headerLimit,
		},
	}
}

// dial connects to the service, with the certificates that are on disk now.
func dial(ctx context.Context, cfg config.Console, network, address string) (net.Conn, error) {
	pair, authority, err := certificates(cfg.TLS)
	if err != nil {
		return nil, err
	}
	name := cfg.TLS.ServerName
	if name == "" {
		if name, _, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, headerLimit)
	defer cancel()
	return (&tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: authority, ServerName: name,
	}}).DialContext(ctx, network, address)
}

// ServeHTTP forwards a question. Of the client's request only the address and the form of the answer go on: no header
// of a client can name a user.
func (r *relay) ServeHTTP(w http.ResponseWriter, asked *http.Request) {
	uid, known := asked.Context().Value(peerKey{}).(uint32)
	if !known {
		refuse(w, http.StatusForbidden, "the kernel does not name your user", 0)
		return
	}
	if err := refusedUID(uid, r.overflow); err != nil {
		refuse(w, http.StatusForbidden, err.Error(), 0)
		return
	}
	if asked.Method != http.MethodGet || !strings.HasPrefix(asked.URL.Path, apiPath) {
		refuse(w, http.StatusNotFound, "the console has no such address", 0)
		return
	}
	to := &url.URL{Scheme: "https", Host: r.address}
	to.Path, to.RawPath, to.RawQuery = asked.URL.Path, asked.URL.RawPath, asked.URL.RawQuery
	question := (&http.Request{Method: http.MethodGet, URL: to, Host: r.address, Header: http.Header{
		uidHeader: {strconv.FormatUint(uint64(uid), 10)}, "Accept": {asked.Header.Get("Accept")},
	}}).WithContext(asked.Context())
	answer, err := r.transport.RoundTrip(question)
	r.note(asked.Context(), err)
	if err != nil {
		refuse(w, http.StatusBadGateway, away, 0)
		return
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	for _, name := range []string{"Content-Type", "Content-Length", "Retry-After"} {
		if value := answer.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, answer.Body); err != nil {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
}

// note logs why the service does not answer, once for a trouble.
func (r *relay) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the user did not wait
	}
	var refused *net.OpError
	if errors.As(err, &refused) && refused.Op == "remote error" {
		err = fmt.Errorf("it refuses console.tls.cert_file: is the name in its console.relays? %w", refused)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil && r.trouble.Worth(err, time.Now()):
		r.log.Warn("the console does not answer", "err", err.Error()) // a text: advice about brokers would mislead
	case err == nil && r.trouble.Over():
		r.log.Info("the console answers again")
	}
}

package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
)

// uidHeader has the uid of the user who asks. It counts only in a connection with the certificate of an accepted relay.
const uidHeader = "Weir-Uid"

const (
	answersAtOnce  = 8  // of all users; each may take 45 MB
	queueAtMost    = 32 // questions that wait for one of these
	questionLimit  = time.Minute
	maxAnswerBytes = 16 << 20 // it is held until it is whole, so that an error is never half an answer
	maxHeaderBytes = 16 << 10
	maxWidth       = 1000
	headerLimit    = 5 * time.Second // of a handshake too
	writeLimit     = 2 * time.Minute // longer than questionLimit: it begins with the question
	loggedQuestion = 300             // bytes
)

var errLongAnswer = fmt.Errorf("the answer is longer than %d MiB: ask for fewer jobs", maxAnswerBytes>>20)

// Metrics are the metrics of the service.
type Metrics struct {
	questions *prometheus.CounterVec
	seconds   prometheus.Histogram
	running   prometheus.Gauge
}

// NewMetrics registers the metrics of this package. A registry accepts them only once.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	add := promauto.With(registry)
	m := &Metrics{
		questions: add.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_console_questions_total", Help: "Questions by the HTTP status of their answer.",
		}, []string{"status"}),
		seconds: add.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_console_seconds", Help: "Time from a question to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(.01, 2, 13),
		}),
		running: add.NewGauge(prometheus.GaugeOpts{
			Name: "weir_console_answering", Help: "Questions that are answered now.",
		}),
	}
	m.questions.WithLabelValues("200") // before the first question, so that an alert has a zero
	return m
}

// server answers the questions that relays forward.
type server struct {
	answer   Answer
	relays   []string
	people   *people
	limits   limits
	overflow uint32
	slots    chan struct{} // one for each answer that is made
	queue    chan struct{} // one for each question that waits for a slot
	log      *slog.Logger
	metrics  *Metrics
}

// Serve answers questions of relays until ctx ends.
func Serve(ctx context.Context, cfg config.Console, answer Answer, log *slog.Logger, metrics *Metrics) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening on console.listen: %w", err)
	}
	s := newServer(cfg, answer, log, metrics)
	log.Info("listening for relays", "address", listener.Addr().String(), "relays", cfg.Relays)
	group, ctx := errgroup.WithContext(ctx)
	if cfg.Sacctmgr != "" {
		group.Go(func() error {
			s.people.follow(ctx, log)
			return nil
		})
	}
	group.Go(func() error {
		return serve(ctx, &http.Server{Handler: s, ErrorLog: errorLog(log)},
			tls.NewListener(listener, serverTLS(cfg.TLS, cfg.Relays)))
	})
	return group.Wait()
}

func newServer(cfg config.Console, answer Answer, log *slog.Logger, metrics *Metrics) *server {
	return &server{
		answer: answer, relays: cfg.Relays, people: newPeople(cfg), limits: limits{users: map[uint32]*usage{}},
		overflow: overflowUID(), slots: make(chan struct{}, answersAtOnce), queue: make(chan struct{}, queueAtMost),
		log: log, metrics: metrics,
	}
}

// serve runs an HTTP server until ctx ends. A connection carries one question: so a certificate that has expired or
// was removed ends with the connection, and a user cannot keep connections.
func serve(ctx context.Context, h *http.Server, listener net.Listener) error {
	h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout = headerLimit, 2*headerLimit, writeLimit
	h.MaxHeaderBytes = maxHeaderBytes
	h.SetKeepAlivesEnabled(false)
	h.BaseContext = func(net.Listener) context.Context { return ctx }
	defer context.AfterFunc(ctx, func() { _ = h.Close() })() // questions can be asked again
	if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("listening on %s: %w", listener.Addr(), err)
	}
	return nil
}

// errorLog is for connections that fail before they ask, such as from a host without a certificate. Anybody on the
// network can cause them, so they are no warnings.
func errorLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelInfo) }

// ServeHTTP answers a question, and logs one line about it.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	asked := &asked{ResponseWriter: w, status: http.StatusOK}
	s.serve(asked, r)
	took := time.Since(began)
	s.metrics.questions.WithLabelValues(strconv.Itoa(asked.status)).Inc()
	s.metrics.seconds.Observe(took.Seconds())
	level, log := slog.LevelInfo, s.log
	if asked.status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	if asked.repeated {
		level = slog.LevelDebug
	}
	if asked.err != nil {
		log = log.With("err", asked.err)
	}
	question := r.URL.RequestURI()
	log.Log(r.Context(), level, "question", "user", asked.user, "uid", asked.uid, "relay", asked.relay,
		"method", r.Method, "question", question[:min(len(question), loggedQuestion)], "status", asked.status,
		"duration_ms", took.Milliseconds())
}

// asked collects what the log has about a question.
type asked struct {
	http.ResponseWriter
	user, relay string
	uid         uint32
	status      int
	repeated    bool // refused as the one before: nobody can flood the log
	err         error
}

// WriteHeader notes the status.
func (a *asked) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (s *server) serve(w *asked, r *http.Request) {
	var err error
	// The handshake has refused every certificate but those of relays. Without this check, the header of anybody would
	// count in a server that was set up in another way.
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		refuse(w, http.StatusForbidden, "a certificate is needed", 0)
		return
	}
	if w.relay, err = relayName(r.TLS.PeerCertificates[0], s.relays); err != nil {
		w.err = err
		refuse(w, http.StatusForbidden, "this is no relay", 0)
		return
	}
	if w.uid, err = askerOf(r.Header, s.overflow); err != nil {
		refuse(w, http.StatusForbidden, err.Error(), 0)
		return
	}
	leave, wait, count := s.limits.enter(w.uid, time.Now())
	if wait > 0 {
		w.repeated = count > aMinute+1
		refuse(w, http.StatusTooManyRequests,
			fmt.Sprintf("you ask too much: %d questions at a time and %d a minute", atOnce, aMinute), wait)
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), questionLimit)
	defer cancel()
	viewer, err := s.people.viewer(ctx, w.uid)
	if w.user = viewer.User; err != nil {
		w.err = err
		if errors.Is(err, errStranger) {
			refuse(w, http.StatusForbidden, err.Error(), 0)
		} else {
			refuse(w, http.StatusServiceUnavailable, "users cannot be looked up now: try again", lookupLimit)
		}
		return
	}
	q, err := questionOf(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	text, err := s.make(ctx, viewer, q)
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", contentType(q.JSON))
	w.Header().Set("Content-Length", strconv.Itoa(text.Len()))
	_, w.err = w.Write(text.Bytes())
}

// errBusy is returned if too many questions wait.
var errBusy = errors.New("too many questions wait")

// make makes an answer once fewer than answersAtOnce are made.
func (s *server) make(ctx context.Context, viewer analysis.Viewer, q Question) (*bytes.Buffer, error) {
	select {
	case s.slots <- struct{}{}:
	default:
		select {
		case s.queue <- struct{}{}:
		default:
			return nil, errBusy
		}
		select {
		case s.slots <- struct{}{}:
			<-s.queue
		case <-ctx.Done():
			<-s.queue
			return nil, fmt.Errorf("%w: %w", errBusy, ctx.Err())
		}
	}
	defer func() { <-s.slots }()
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	text := &answerBuffer{}
	err := s.answer(ctx, viewer, q, text)
	return &text.Buffer, err
}

// answerBuffer refuses an answer that is too long.
type answerBuffer struct{ bytes.Buffer }

func (b *answerBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxAnswerBytes {
		return 0, errLongAnswer
	}
	return b.Buffer.Write(p)
}

// fail reports why there is no answer. Faults of the service are for its log alone.
func (s *server) fail(w *asked, err error) {
	w.err = err
	switch {
	case errors.Is(err, ErrNotThere):
		refuse(w, http.StatusNotFound, ErrNotThere.Error(), 0) // one text, whatever the reason
	case errors.Is(err, ErrBadQuestion):
		refuse(w, http.StatusBadRequest, err.Error(), 0)
	case errors.Is(err, ErrNoAnswer):
		refuse(w, http.StatusUnprocessableEntity, err.Error(), 0)
	case errors.Is(err, errLongAnswer):
		refuse(w, http.StatusBadRequest, errLongAnswer.Error(), 0)
	case errors.Is(err, errBusy):
		refuse(w, http.StatusServiceUnavailable, "the console is busy: try again", 5*time.Second)
	case errors.Is(err, context.DeadlineExceeded):
		refuse(w, http.StatusServiceUnavailable, "the answer takes too long: ask for less", time.Minute)
	default:
		refuse(w, http.StatusInternalServerError, "the console failed: ask your administrator", 0)
	}
}

// askerOf returns the user who asks. A relay refuses root and the overflow uid; here a relay is not trusted with it.
func askerOf(h http.Header, overflow uint32) (uint32, error) {
	values := h.Values(uidHeader)
	if len(values) != 1 {
		return 0, errors.New("a relay names one user")
	}
	uid, err := strconv.ParseUint(values[0], 10, 32)
	if err != nil || strconv.FormatUint(uid, 10) != values[0] {
		return 0, errors.New("a relay names the user by a number")
	}
	return uint32(uid), refusedUID(uint32(uid), overflow)
}

// questionOf reads a question from its address: /api/v1/COMMAND, for job with a part of the path for each job.
func questionOf(r *http.Request) (Question, error) {
	bad := func(err error) (Question, error) { return Question{}, fmt.Errorf("%w: %w", ErrBadQuestion, err) }
	path, is := strings.CutPrefix(r.URL.EscapedPath(), apiPath)
	if r.Method != http.MethodGet || !is {
		return bad(fmt.Errorf("GET %sjob/ID, %[1]sjobs and %[1]stop are there", apiPath))
	}
	flags, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return bad(err)
	}
	parts := strings.Split(path, "/")
	for i := range parts {
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return bad(err)
		}
	}
	q := Question{Command: parts[0], Arguments: parts[1:], Flags: flags}
	q.JSON = r.Header.Get("Accept") == contentType(true)
	if text := flags.Get("width"); text != "" {
		if q.Width, err = strconv.Atoi(text); err != nil || q.Width < 0 || q.Width > maxWidth {
			return bad(fmt.Errorf("width %.20q must be 0 to %d", text, maxWidth))
		}
	}
	q.Color = flags.Get("color") == "true"
	flags.Del("width")
	flags.Del("color")
	return q, nil
}

func contentType(asJSON bool) string {
	if asJSON {
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// overflowUID is the uid that stands for users of other namespaces. On almost all hosts it is 65534.
func overflowUID() uint32 {
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return nobody
	}
	uid, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return nobody
	}
	return uint32(uid)
}

// nobody is the usual overflow uid.
const nobody = 65534

// refusedUID returns an error for numbers that are no person's. The overflow uid stands for every user whom a namespace
// does not map, and root of any machine has uid 0.
func refusedUID(uid, overflow uint32) error {
	switch uid {
	case 0:
		return errors.New("root owns no jobs: ask as yourself")
	case nobody, overflow, math.MaxUint32:
		return errors.New("your user is not visible outside your namespace or container: ask from the host itself")
	}
	return nil
}

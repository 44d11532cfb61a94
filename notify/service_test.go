package notify

import (
	"bufio"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/smtp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// TestMain is also the sendmail program of these tests: it reads a mail, and gives it to an SMTP server.
func TestMain(m *testing.M) {
	if server, is := strings.CutPrefix(os.Args[min(1, len(os.Args)-1)], "smtp="); is {
		if err := sendmail(server, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(75) // EX_TEMPFAIL
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func sendmail(server string, in io.Reader) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	parsed, err := mail.ReadMessage(strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	var to []string
	for _, field := range []string{"To", "Cc", "Bcc"} {
		if parsed.Header.Get(field) == "" {
			continue
		}
		all, err := parsed.Header.AddressList(field)
		if err != nil {
			return err
		}
		for _, a := range all {
			to = append(to, a.Address)
		}
	}
	from, err := mail.ParseAddress(parsed.Header.Get("From"))
	if err != nil {
		return err
	}
	return smtp.SendMail(server, nil, from.Address, to, []byte(strings.ReplaceAll(string(text), "\n", "\r\n")))
}

// received is a mail as the server got it.
type received struct {
	to   []string
	text string
}

// smtpServer is a small server of RFC 5321.
type smtpServer struct {
	address string
	mu      sync.Mutex
	mails   []received
	refuse  int // so many mails get 451
}

func startSMTP(t *testing.T) *smtpServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &smtpServer{address: listener.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.talk(c) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); all.Wait() })
	return s
}

func (s *smtpServer) talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	in, say := bufio.NewReader(c), func(line string) { _, _ = io.WriteString(c, line+"\r\n") }
	say("220 test")
	var one received
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.Fields(line + " x")[0]); verb {
		case "EHLO", "HELO", "MAIL":
			say("250 ok")
		case "RCPT":
			one.to = append(one.to, strings.Trim(strings.TrimSpace(line[len("RCPT TO:"):]), "<>"))
			say("250 ok")
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(strings.TrimPrefix(line, "."))
			}
			s.mu.Lock()
			if s.refuse > 0 {
				s.refuse--
				say("451 later")
			} else {
				one.text = text.String()
				s.mails = append(s.mails, one)
				say("250 ok")
			}
			one = received{}
			s.mu.Unlock()
		case "QUIT":
			say("221 bye")
			return
		default:
			say("500 what")
		}
	}
}

func (s *smtpServer) got() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// site is an installation with notify.
type site struct {
	cfg    config.Config
	broker *kfake.Cluster
	client *kgo.Client
}

func newSite(t *testing.T, server *smtpServer) *site {
	t.Helper()
	cfg := config.Default()
	cfg.Cluster = "c1"
	broker := kafkatest.Broker(t)
	cfg.Kafka.Brokers = broker.ListenAddrs()
	kafkatest.CreateTopics(t, broker, cfg)
	if server != nil {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Notify.Sendmail = self + " smtp=" + server.address + " -t -i"
		cfg.Notify.From, cfg.Notify.Domain = "HPC <hpc@example.org>", "example.org"
	}
	cfg.Notify.Link = "https://weir.example.org/job/{cluster}/{job}"
	return &site{cfg, broker, kafkatest.Client(t, cfg.Kafka.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))}
}

// ended writes a job that has just ended, and then its final findings.
func (s *site) ended(t *testing.T, id, user, name string, findings ...*schemas.Finding) {
	t.Helper()
	end := time.Now().UnixMilli()
	j := &schemas.Job{
		JobID: id, Name: name, User: user, State: "COMPLETED", Nodes: []string{"n1"}, Cores: new(int64(64)),
		Start: new(end - 10*hourMs), End: &end,
	}
	s.write(t, schemas.TopicJobs, j.Identity().Key(), j)
	for _, f := range findings {
		s.write(t, schemas.TopicFindings, f.Key(), f)
	}
}

func (s *site) write(t *testing.T, topic string, key []byte, r schemas.Record) {
	t.Helper()
	value, err := schemas.MarshalChecked(r)
	if err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: s.cfg.Prefix + topic, Key: key, Value: value}
	if err := s.client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func facts(context.Context) (Machine, error) { return plain, nil }

// run runs notify until end is called.
func (s *site) run(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, s.cfg, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()), facts)
	}()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}

// notices returns the committed notices by key.
func (s *site) notices(t *testing.T) map[string]*schemas.Notice {
	t.Helper()
	all := map[string]*schemas.Notice{}
	reader := kafkatest.Client(t, s.cfg.Kafka.Brokers, kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			s.cfg.Prefix + schemas.TopicNotices: {0: kgo.NewOffset().AtStart()},
		}))
	defer reader.Close()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		fetches := reader.PollFetches(ctx)
		cancel()
		if fetches.NumRecords() == 0 {
			return all
		}
		for r := range fetches.RecordsAll() {
			if v, err := schemas.Unmarshal(r.Value); err == nil {
				if n, is := v.(*schemas.Notice); is {
					all[string(r.Key)] = n
				}
			}
		}
	}
}

// TestMailReachesTheOwner: within a minute of the finding, one mail with one thing to change, by a real SMTP server.
// What is uncertain goes to nobody, and a process that starts again sends nothing twice.
func TestMailReachesTheOwner(t *testing.T) {
	t.Parallel()
	server := startSMTP(t)
	s := newSite(t, server)
	end := s.run(t)
	possible := finding("2", "idle-cores")
	possible.Certainty = schemas.Possible
	s.ended(t, "2", "bob", "x", possible)
	began := time.Now()
	s.ended(t, "1", "alice", "Störung 7", finding("1", "serial"), finding("1", "idle-cores"))
	kafkatest.Eventually(t, "the mail", func() bool { return len(server.got()) > 0 })
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("the mail took %v", took)
	} else {
		t.Logf("the mail took %v", took)
	}
	kafkatest.Eventually(t, "the notice", func() bool {
		n := s.notices(t)["1/0/MAIL"]
		return n != nil && n.State == schemas.NoticeSent
	})
	end()
	end = s.run(t)
	s.ended(t, "3", "carol", "y", finding("3", "idle-cores"))
	kafkatest.Eventually(t, "the next mail", func() bool { return len(server.got()) > 1 })
	end()
	mails := server.got()
	if len(mails) != 2 || !slices.Equal(mails[0].to, []string{"alice@example.org"}) ||
		!slices.Equal(mails[1].to, []string{"carol@example.org"}) {
		t.Fatalf("%+v", mails)
	}
	m, err := mail.ReadMessage(strings.NewReader(mails[0].text))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Hello alice", "Störung 7", "#SBATCH --nodes=6", "576 of 640 core-hours", "https://weir.example.org/job/c1/1",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if subject := m.Header.Get("Subject"); subject != "Job 1 on c1: Cores without work" {
		t.Errorf("subject %q", subject)
	}
}

// TestRefusedMailGoesLater: a server that is busy gets the mail again.
func TestRefusedMailGoesLater(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	server := startSMTP(t)
	server.refuse = 1
	s := newSite(t, server)
	s.run(t)
	s.ended(t, "1", "alice", "x", finding("1", "idle-cores"))
	kafkatest.Eventually(t, "the second try", func() bool { return len(server.got()) > 0 })
	kafkatest.Eventually(t, "the notice", func() bool {
		n := s.notices(t)["1/0/MAIL"]
		return n != nil && n.State == schemas.NoticeSent && n.Tries == 2
	})
}

var errKilled = errors.New("killed")

// TestKilledAnywhereSendsNoMailTwice: each transaction of a run fails in turn, before or after its commit, which is as
// if the process were killed there. Successors send what is left. No owner has two mails.
func TestKilledAnywhereSendsNoMailTwice(t *testing.T) {
	t.Parallel()   // they wait more than they compute
	const most = 3 // WAITING, SENDING, SENT
	for point := range most {
		for _, committed := range []bool{false, true} {
			t.Run(fmt.Sprintf("transaction %d, committed %v", point, committed), func(t *testing.T) {
				t.Parallel()
				server := startSMTP(t)
				s := newSite(t, server)
				s.ended(t, "1", "alice", "x", finding("1", "idle-cores"))
				service, err := newService(s.cfg, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()), facts)
				if err != nil {
					t.Fatal(err)
				}
				killed, kill := context.WithCancelCause(t.Context())
				var mu sync.Mutex
				n, over := 0, false
				s.broker.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
					s.broker.KeepControl()
					mu.Lock()
					defer mu.Unlock()
					switch n++; {
					case over, n <= point, n == point+1 && committed:
						if n == point+1 {
							kill(errKilled)
						}
						return nil, nil, false
					default: // the connection ends without an answer, and nothing is committed
						kill(errKilled)
						return nil, errKilled, true
					}
				})
				_ = service.active(killed)
				mu.Lock()
				over = true
				mu.Unlock()
				if killed.Err() == nil {
					t.Fatalf("the run has only %d transactions", n)
				}
				end := s.run(t)
				s.ended(t, "2", "bob", "y", finding("2", "idle-cores"))
				kafkatest.Eventually(t, "the mail to bob", func() bool {
					return slices.ContainsFunc(server.got(), func(m received) bool { return m.to[0] == "bob@example.org" })
				})
				kafkatest.Eventually(t, "the end of both notices", func() bool {
					a, b := s.notices(t)["1/0/MAIL"], s.notices(t)["2/0/MAIL"]
					return a != nil && b != nil && (a.State == schemas.NoticeSent || a.State == schemas.NoticeFailed) &&
						b.State == schemas.NoticeSent
				})
				end()
				alice := 0
				for _, m := range server.got() {
					if m.to[0] == "alice@example.org" {
						alice++
					}
				}
				if alice > 1 {
					t.Errorf("alice has %d mails", alice)
				}
				if sure := point < 1 || point == 1 && !committed; alice != 1 && sure {
					t.Errorf("alice has no mail, though nothing was sent before the kill")
				}
			})
		}
	}
}

// TestWebhook: a server that fails four times gets the message a fifth time, under the same id, and signed.
func TestWebhook(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var mu sync.Mutex
	var ids []string
	var last []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		signed := "sha256=" + signature([]byte("secret"), r.Header.Get("Weir-Time"), body)
		if !hmac.Equal([]byte(signed), []byte(r.Header.Get("Weir-Signature"))) {
			t.Errorf("signature %q", r.Header.Get("Weir-Signature"))
		}
		ids, last = append(ids, r.Header.Get("Weir-Id")), body
		if len(ids) <= 4 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	cfg := config.Default().Notify
	cfg.Webhook = config.Webhook{
		URLFile: put("url", server.URL+"/hook?token=s3cret\n"), SecretFile: put("secret", "secret\n"), Form: config.FormJSON,
	}
	texts, err := newTexts("c1", cfg)
	if err != nil {
		t.Fatal(err)
	}
	send := sender{cfg: cfg, texts: texts}
	b := newBook("c1", cfg, plain, channels(cfg), everybody)
	b.decide(finding("1", "idle-cores"), owned("alice"), aMonday)
	for now := aMonday; now < aMonday+hourMs; now += 1000 {
		ready, _ := b.due(now)
		for _, m := range ready {
			o := send.send(t.Context(), m, false)
			if strings.Contains(o.reason, "s3cret") {
				t.Errorf("the address is a secret: %s", o.reason)
			}
			b.settle(m, o, now)
		}
	}
	if n := b.of["1/0/WEBHOOK"]; n.State != schemas.NoticeSent || len(ids) != 5 || len(slices.Compact(ids)) != 1 {
		t.Fatalf("ids %q, notice %+v", ids, n)
	}
	var got posted
	if err := json.Unmarshal(last, &got); err != nil || got.ID != ids[0] || got.User != "alice" || len(got.Jobs) != 1 {
		t.Errorf("%v in %s", err, last)
	}
	server.Close()
	if o := send.send(t.Context(), message{channel: schemas.ChannelWebhook, user: "u", notices: []*schemas.Notice{
		b.of["1/0/WEBHOOK"],
	}}, false); o.kind != again || strings.Contains(o.reason, "s3cret") {
		t.Errorf("a server that is away: %+v", o)
	}
}

// TestDryRun: what would go is printed, and nothing is written to a topic.
func TestDryRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.ended(t, "1", "alice", "wrf", finding("1", "idle-cores"))
	var out kafkatest.Log
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Print(ctx, s.cfg, slog.New(slog.DiscardHandler), &out, facts) }()
	kafkatest.Eventually(t, "the message", func() bool { return strings.Contains(out.String(), "--nodes=6") })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "To: alice\nSubject: Job 1 on c1") || len(s.notices(t)) != 0 {
		t.Errorf("%s\n%v", &out, s.notices(t))
	}
}

// TestFirstStartPassesOldFindings: jobs that ended more than a day ago are no news.
func TestFirstStartPassesOldFindings(t *testing.T) {
	t.Parallel()
	server := startSMTP(t)
	s := newSite(t, server)
	end := time.Now().UnixMilli() - 2*dayMs
	j := &schemas.Job{JobID: "1", User: "alice", State: "COMPLETED", Cores: new(int64(64)), End: &end}
	s.write(t, schemas.TopicJobs, j.Identity().Key(), j)
	s.write(t, schemas.TopicFindings, finding("1", "idle-cores").Key(), finding("1", "idle-cores"))
	s.ended(t, "2", "bob", "y", finding("2", "idle-cores"))
	s.run(t)
	kafkatest.Eventually(t, "the mail to bob", func() bool { return len(server.got()) > 0 })
	if got := server.got(); got[0].to[0] != "bob@example.org" || s.notices(t)["1/0/MAIL"] != nil {
		t.Errorf("%+v", got)
	}
}

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// refusal is one fault between a service and Kafka, and the text that the service has to log about it. A single line
// must contain all of the names, and the host.
type refusal struct {
	name    string
	service string
	make    func(k *keys, user string) config.Kafka
	role    role
	says    []string
}

func refusals(prefix string) []refusal {
	byPassword := func(k *keys, user string) config.Kafka { return k.byPassword(user) }
	byCertificate := func(k *keys, user string) config.Kafka { return k.byCertificate(user) }
	all := roles()
	without := func(service string, change func(r *role)) role {
		r := all[service]
		change(&r)
		return r
	}
	drop := func(names []string, name string) []string {
		var rest []string
		for _, n := range names {
			if n != name {
				rest = append(rest, n)
			}
		}
		return rest
	}
	return []refusal{
		{"wrong password", "collect", func(k *keys, user string) config.Kafka {
			k.put(k.file(user, "password"), []byte("wrong"))
			return k.byPassword(user)
		}, all["collect"], []string{"user or password is wrong", "kafka.sasl.password_file"}},
		{"wrong password of the agent", "simulate", func(k *keys, user string) config.Kafka {
			k.put(k.file(user, "password"), []byte("wrong"))
			return k.byPassword(user)
		}, all["simulate"], []string{"user or password is wrong", "kafka.sasl.password_file"}},
		{"wrong mechanism", "merge", func(k *keys, user string) config.Kafka {
			kafka := k.byPassword(user)
			kafka.SASL.Mechanism = "PLAIN"
			return kafka
		}, all["merge"], []string{"kafka.sasl.mechanism"}},
		{"unknown authority", "merge", func(k *keys, user string) config.Kafka {
			kafka := k.byPassword(user)
			kafka.TLS.CAFile = k.file(user, "pem") // a certificate, but nobody's authority
			return kafka
		}, all["merge"], []string{"put its authority into kafka.tls.ca_file"}},
		{"plaintext to a TLS port", "balance", func(k *keys, user string) config.Kafka {
			kafka := k.byPassword(user)
			kafka.TLS, kafka.SASL = config.TLS{}, config.SASL{}
			return kafka
		}, all["balance"], []string{"set kafka.tls.enabled"}},
		{"TLS to a plaintext port", "sink", func(k *keys, user string) config.Kafka {
			kafka := k.byCertificate(user)
			kafka.Brokers = k.cfg.Kafka.Brokers
			return kafka
		}, all["sink"], []string{"set kafka.tls.enabled to false"}},
		// An expired certificate ends the service at its start: TestExpiredCertificateIsStatus2.
		{"certificate that is not valid yet", "collect", func(k *keys, user string) config.Kafka {
			k.issueFrom(user, time.Now().Add(time.Hour), 2*time.Hour)
			return k.byCertificate(user)
		}, all["collect"], []string{"kafka.tls.cert_file", "not valid before"}},
		{"no certificate", "sink", func(k *keys, user string) config.Kafka {
			kafka := k.byCertificate(user)
			kafka.TLS.CertFile, kafka.TLS.KeyFile = "", ""
			return kafka
		}, all["sink"], []string{"kafka.tls.cert_file"}},
		{
			"topic not readable", "collect", byPassword, without("collect",
				func(r *role) { r.reads = drop(r.reads, schemas.TopicCounters) }),
			[]string{prefix + schemas.TopicCounters, "permission on the topic is missing"},
		},
		{
			"topic not writable", "balance", byCertificate, without("balance",
				func(r *role) { r.writes = drop(r.writes, schemas.TopicBalance) }),
			[]string{prefix + schemas.TopicBalance, "permission on the topic is missing"},
		},
		{ // after a balancer that could write routes, without which it has nothing to send
			"topic of the agent not writable", "simulate", byPassword, without("simulate",
				func(r *role) { r.writes = nil }),
			[]string{prefix + schemas.TopicCounters, "permission"},
		},
		{
			"no group", "merge", byPassword, without("merge", func(r *role) { r.group = "" }),
			[]string{prefix + "merge", "permission READ on the group is missing"},
		},
		{
			"states not writable", "find", byPassword, without("find",
				func(r *role) { r.writes = drop(r.writes, schemas.TopicFindState) }),
			[]string{prefix + schemas.TopicFindState, "permission"},
		},
		{
			"no transactional id", "collect", byCertificate, without("collect", func(r *role) { r.transactions = "" }),
			[]string{"transactional id " + prefix + "collect-", "permission WRITE on the transactional id is missing"},
		},
	}
}

// TestRefused runs services that Kafka refuses, one for each reason. Each has to log a line that names the user, the
// place, the refused operation and the remedy. It has to go on trying, and must not fill the log.
func TestRefused(t *testing.T) {
	if os.Getenv("KAFKA_SASL_SEEDS") == "" || os.Getenv("KAFKA_MTLS_SEEDS") == "" || os.Getenv("KAFKA_DIR") == "" {
		t.Skip("SKIPPED: NO SERVICE WAS REFUSED ANYTHING BY A KAFKA, for KAFKA_SASL_SEEDS, KAFKA_MTLS_SEEDS " +
			"and KAFKA_DIR are not set: make test-kafka does")
	}
	m := newMachine(t)
	s := systemOn(t, findBrokers(t))
	k := newKeys(s)
	for i, c := range refusals(s.cfg.Prefix) {
		user := fmt.Sprintf("refused%d", i)
		t.Run(c.name, func(t *testing.T) {
			s.permit(user, c.role)
			k.setPassword(user, "first")
			k.issue(user, time.Hour)
			as := *s
			as.t = t
			as.cfg.Kafka = c.make(k, user)
			as.cfg.Sink.Dir = filepath.Join(t.TempDir(), "archive")
			args := []string{c.service, "--config", as.configFile()}
			switch c.service {
			case "simulate":
				args = append(args, "--nodes", fmt.Sprint(simulated))
			case "balance":
				args = append(args, "--simulate", fmt.Sprint(simulated))
			case "find":
				args = append(args, "--live")
				s.tellOfAJob() // without a job, find writes nothing
			}
			p := m.add(c.service+"-"+user, nil, args...)
			p.t = t
			p.start()
			says := append(c.says, as.cfg.Kafka.Brokers[0])
			if as.cfg.Kafka.SASL.User != "" || as.cfg.Kafka.TLS.CertFile != "" {
				says = append(says, s.user(user))
			}
			as.eventually("a line that explains it", func() bool { return len(linesWith(t, p.log, says)) > 0 })
			time.Sleep(2 * time.Second) // it tries again, and again
			p.end()
			if n := len(linesWith(t, p.log, nil)); n > 12 {
				t.Errorf("%d lines in a few seconds", n)
			}
			t.Log(linesWith(t, p.log, says)[0])
		})
	}
}

// tellOfAJob writes a summary in place of collect.
func (s *system) tellOfAJob() {
	s.t.Helper()
	ms := s.cfg.Interval.Milliseconds()
	value, err := schemas.Marshal(&schemas.JobSummary{
		Cluster: s.cfg.Cluster, JobID: "refused", IntervalStart: time.Now().UnixMilli() / ms * ms, IntervalMs: ms,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 1, NodesReported: 1,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	r := &kgo.Record{Topic: s.cfg.Prefix + schemas.TopicJobSummary, Key: []byte("refused/0"), Value: value}
	if err := s.cl.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// linesWith returns the warnings of a log that contain all of the texts.
func linesWith(t *testing.T, file string, texts []string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(b)) {
		holds := strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")
		for _, text := range texts {
			holds = holds && strings.Contains(line, text)
		}
		if holds {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

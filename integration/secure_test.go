package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// firstCertificates is the lifetime of the certificates with which the services start. They are renewed before it ends,
// even on a slow machine.
const firstCertificates = time.Minute

// askedAgain is the longest time after which Kafka asks a connected client for its password again.
const askedAgain = 10 * time.Second

// role holds the permissions of a service.
type role struct {
	writes, reads []string // topics
	group         string   // empty: no group
	transactions  string   // prefix of its transactional ids; empty: no transactions
}

// roles returns the roles of kafka.Rights that are services. The process that simulates nodes takes the agent's role.
func roles() map[string]role {
	all := map[string]role{}
	for service, name := range map[string]string{
		"simulate": "agent", "balance": "balance", "collect": "collect",
		"merge": "merge", "find": "find", "sink": "sink",
	} {
		rights, err := kafka.Rights(withoutPrefix(), name)
		if err != nil {
			panic(err) // the role is one of its own
		}
		var r role
		for _, right := range rights {
			switch write := right.Operations[0] == kmsg.ACLOperationWrite; {
			case right.Type == kmsg.ACLResourceTypeTransactionalId:
				r.transactions = right.Name
			case right.Type == kmsg.ACLResourceTypeGroup:
				r.group = right.Name
			case write:
				r.writes = append(r.writes, right.Name)
			default:
				r.reads = append(r.reads, right.Name)
			}
		}
		all[service] = r
	}
	return all
}

// withoutPrefix returns a configuration that uses the topic names of package schemas.
func withoutPrefix() config.Config {
	cfg := config.Default()
	cfg.Prefix = ""
	return cfg
}

// TestSecure runs every service over TLS. Of two processes of a service, one uses a password and one a certificate.
// Each has the least permissions of its role, and gets new certificates and passwords while it runs. The old ones are
// refused after a broker restart that forces all clients to connect again.
func TestSecure(t *testing.T) {
	if os.Getenv("KAFKA_SASL_SEEDS") == "" || os.Getenv("KAFKA_MTLS_SEEDS") == "" {
		t.Skip("SKIPPED: NO TLS, NO PASSWORD AND NO CERTIFICATE WAS TRIED, for KAFKA_SASL_SEEDS and KAFKA_MTLS_SEEDS " +
			"are not set: make test-kafka does")
	}
	c := findCluster(t)
	need(t, c, 3, Stop)
	m := newMachine(t)
	s := systemOn(t, brokersOf(t, c))
	k := newKeys(s)
	for name, r := range roles() {
		s.permit(name, r)
		k.setPassword(name, "first")
		k.issue(name, firstCertificates)
	}
	expiry := time.Now().Add(firstCertificates)
	services := m.addSecureServices(s, k)
	for _, p := range services {
		p.start()
	}
	s.summarizes()
	s.makeReplays(m.replayed)

	seen, since := -1, time.Now()
	s.eventually("the end of warnings of the replays", func() bool {
		if n := m.count("level=WARN"); n != seen {
			seen, since = n, time.Now()
		}
		return time.Since(since) > 5*time.Second
	})
	w := s.watchMachine()
	before, calm := time.Now(), m.count("level=WARN")
	old := k.copy("sink")
	for name := range roles() {
		k.issue(name, time.Hour)
	}
	time.Sleep(3 * time.Second) // the services check the files and log the faults
	if n := m.count("level=WARN") - calm; n > 0 && !w.within(before.UnixMilli(), time.Now().UnixMilli()) {
		t.Errorf("new certificates in place of those in use are worth %d warnings", n)
	}
	w.stop()
	for name := range roles() {
		k.setPassword(name, "second")
	}
	time.Sleep(askedAgain + 2*time.Second) // every connection needs the new password
	renewed := time.Now()

	time.Sleep(time.Until(expiry)) // the first certificates open no connection from now on
	id, leads := s.busiestBroker()
	stopped := time.Now()
	c.Break(t, id, Stop)()
	s.eventually("all replicas are in sync", s.inSync)
	s.electPreferred()
	back := time.Now()
	time.Sleep(3 * time.Second) // clients connect to the broker anew
	s.eventually("the new leaders know their partitions' ends", s.endsKnown)
	s.injectFaults()
	if n := m.count("unknown certificate") + m.count("bad certificate"); n > 0 {
		t.Errorf("Kafka refused certificates, by %d lines: a new connection was made with an old one", n)
	}
	// One process of a service could do the work of the other, so the ones with passwords work alone for a while.
	seconds := []*process{
		services["balance-b"], services["collect-b"], services["merge-b"], services["find-b"],
		services["sink-b"],
	}
	endAll(seconds...)
	alone := time.Now()
	s.eventually("commits of those that have passwords", func() bool {
		return s.committedSince(alone, schemas.TopicFindProgress)
	})
	for _, p := range seconds {
		p.start()
	}

	s.meetAll()
	s.drain(services)
	s.replays.Store(m.listen().replayed)
	s.judge()
	s.judgeTicks()
	k.judgeOld(old)
	t.Logf("longest time without a commit: with new certificates and passwords %s; "+
		"without broker %d, which led %s and was back after %.1f s, %s",
		s.commitGaps(before, renewed), id, leads, back.Sub(stopped).Seconds(), s.commitGaps(stopped, back))
	t.Logf("%v", m.listen())
}

// addSecureServices describes all services: a with a password, b with a certificate, and so are the nodes.
func (m *machine) addSecureServices(s *system, k *keys) map[string]*process {
	services := map[string]*process{}
	add := func(kind, instance string, with config.Kafka, more ...string) {
		as := *s
		as.cfg.Kafka, as.cfg.Instance = with, instance
		name := kind + "-" + instance
		services[name] = m.add(name, nil, append([]string{kind, "--config", as.configFile()}, more...)...)
	}
	nodes := fmt.Sprint(simulated)
	add("simulate", "a", k.byCertificate("simulate"), "--nodes", nodes)
	for _, kind := range []string{"balance", "collect", "merge", "find", "sink"} {
		var more []string
		switch kind {
		case "balance":
			more = []string{"--simulate", nodes}
		case "find":
			more = []string{"--live"}
		}
		add(kind, "a", k.byPassword(kind), more...)
		add(kind, "b", k.byCertificate(kind), more...)
	}
	return services
}

// count is how many lines of the processes have a text in them.
func (m *machine) count(text string) int {
	m.t.Helper()
	n := 0
	for _, p := range m.all {
		n += p.count(text)
	}
	return n
}

// user is who a service is, by password and by certificate. Permissions outlast a test, so no two tests have the same.
func (s *system) user(role string) string { return s.cfg.Prefix + role }

// permit gives a user exactly the permissions of a role.
func (s *system) permit(name string, r role) {
	s.t.Helper()
	var acls []*kadm.ACLBuilder
	topics := func(names []string, operation kadm.ACLOperation) {
		for _, n := range names {
			acls = append(acls, kadm.NewACLs().Topics(s.cfg.Prefix+n).Operations(operation).
				ResourcePatternType(kadm.ACLPatternLiteral))
		}
	}
	topics(r.reads, kadm.OpRead)
	topics(r.writes, kadm.OpWrite)
	if r.group != "" {
		acls = append(acls, kadm.NewACLs().Groups(s.cfg.Prefix+r.group).Operations(kadm.OpRead).
			ResourcePatternType(kadm.ACLPatternLiteral))
	}
	if r.transactions != "" {
		acls = append(acls, kadm.NewACLs().TransactionalIDs(s.cfg.Prefix+r.transactions).Operations(kadm.OpWrite).
			ResourcePatternType(kadm.ACLPatternPrefixed))
	}
	for _, a := range acls {
		results, err := kadm.NewClient(s.cl).CreateACLs(s.t.Context(), a.Allow("User:"+s.user(name)))
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		if err != nil {
			s.t.Fatalf("permissions of %s: %v", name, err)
		}
	}
}

// electPreferred gives a broker that was away its partitions back.
func (s *system) electPreferred() {
	s.t.Helper()
	// For most partitions the answer is that no election is needed.
	if _, err := kadm.NewClient(s.cl).ElectLeaders(s.t.Context(), kadm.ElectPreferredReplica, nil); err != nil {
		s.t.Fatal(err)
	}
}

// keys are the services' files of certificates and passwords, one of each for a role.
type keys struct {
	*system
	dir    string
	caFile string
	ca     tls.Certificate
	serial int64
}

func newKeys(s *system) *keys {
	s.t.Helper()
	from := filepath.Join(os.Getenv("KAFKA_DIR"), "tls")
	k := &keys{system: s, dir: s.t.TempDir(), caFile: filepath.Join(from, "ca.crt")}
	var err error
	if k.ca, err = tls.LoadX509KeyPair(k.caFile, filepath.Join(from, "ca.key")); err != nil {
		s.t.Fatal(err)
	}
	return k
}

func (k *keys) file(role, what string) string { return filepath.Join(k.dir, role+"."+what) }

// put replaces a file at once, as who renews certificates should.
func (k *keys) put(file string, content []byte) {
	k.t.Helper()
	if err := errors.Join(os.WriteFile(file+".new", content, 0o600), os.Rename(file+".new", file)); err != nil {
		k.t.Fatal(err)
	}
}

// issue gives a role a new certificate with its key in the same file, so that no reader meets one of each pair.
func (k *keys) issue(role string, lasting time.Duration) {
	k.t.Helper()
	k.issueFrom(role, time.Now().Add(-time.Minute), lasting)
}

// issueFrom is issue for a certificate that is valid from another time on.
func (k *keys) issueFrom(role string, from time.Time, lasting time.Duration) {
	k.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		k.t.Fatal(err)
	}
	k.serial++
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1000 + k.serial), Subject: pkix.Name{
			CommonName:   k.user(role),
			Organization: []string{"weir"},
		},
		NotBefore: from, NotAfter: time.Now().Add(lasting),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, k.ca.Leaf, &key.PublicKey, k.ca.PrivateKey)
	if err != nil {
		k.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		k.t.Fatal(err)
	}
	k.put(k.file(role, "pem"), append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...))
}

// setPassword changes a role's password, first in Kafka, then in the file.
func (k *keys) setPassword(role, password string) {
	k.t.Helper()
	altered, err := kadm.NewClient(k.cl).AlterUserSCRAMs(k.t.Context(), nil, []kadm.UpsertSCRAM{
		{User: k.user(role), Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password},
	})
	if err := errors.Join(err, altered.Error()); err != nil {
		k.t.Fatalf("the password of %s: %v", role, err)
	}
	k.put(k.file(role, "password"), []byte(password+"\n"))
}

func (k *keys) byCertificate(role string) config.Kafka {
	settings := k.cfg.Kafka
	settings.Brokers = strings.Split(os.Getenv("KAFKA_MTLS_SEEDS"), ",")
	settings.TLS = config.TLS{
		Enabled: true, CAFile: k.caFile, CertFile: k.file(role, "pem"),
		KeyFile: k.file(role, "pem"),
	}
	return settings
}

func (k *keys) byPassword(role string) config.Kafka {
	settings := k.cfg.Kafka
	settings.Brokers = strings.Split(os.Getenv("KAFKA_SASL_SEEDS"), ",")
	settings.TLS = config.TLS{Enabled: true, CAFile: k.caFile}
	settings.SASL = config.SASL{Mechanism: "SCRAM-SHA-512", User: k.user(role), PasswordFile: k.file(role, "password")}
	return settings
}

// copy keeps the present credentials of a role: by certificate and by password.
func (k *keys) copy(role string) []config.Kafka {
	k.t.Helper()
	kept := *k
	kept.dir = k.t.TempDir()
	for _, what := range []string{"pem", "password"} {
		content, err := os.ReadFile(k.file(role, what))
		if err != nil {
			k.t.Fatal(err)
		}
		kept.put(kept.file(role, what), content)
	}
	return []config.Kafka{kept.byCertificate(role), kept.byPassword(role)}
}

// judgeOld requires that new connections need the new credentials: the old ones are refused.
func (k *keys) judgeOld(old []config.Kafka) {
	k.t.Helper()
	for _, settings := range append(old, k.byCertificate("sink"), k.byPassword("sink")) {
		cfg := k.cfg
		cfg.Kafka = settings
		opts, err := kafka.ClientOpts(context.Background(), cfg)
		if err != nil {
			k.t.Fatal(err)
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			k.t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(k.t.Context(), 5*time.Second)
		err = cl.Ping(ctx)
		cancel()
		cl.Close()
		isOld := filepath.Dir(settings.TLS.CertFile+settings.SASL.PasswordFile) != k.dir
		switch {
		case isOld && err == nil:
			k.t.Errorf("the old certificate or password still opens a connection to %v", settings.Brokers)
		case isOld:
			k.t.Logf("refused: %v", err)
		case err != nil:
			k.t.Errorf("the new certificate or password opens no connection: %v", err)
		}
	}
}

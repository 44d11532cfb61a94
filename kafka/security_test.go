package kafka

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
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a certificate that is valid until a time, and its key, as PEM.
func (a *authority) issue(until time.Time) (certPEM, keyPEM []byte) {
	a.t.Helper()
	return a.issueFrom(time.Now().Add(-2*time.Hour), until)
}

func (a *authority) issueFrom(from, until time.Time) (certPEM, keyPEM []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "weir"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   from, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// secureBroker wants TLS with a client certificate, and SCRAM.
func secureBroker(t *testing.T, a *authority, until time.Time) string {
	t.Helper()
	certPEM, keyPEM := a.issue(until)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return kafkatest.Broker(t, kfake.EnableSASL(),
		kfake.Superuser(config.ScramSHA512, "ada", "secret"), kfake.TLS(&tls.Config{
			Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
			MinVersion: tls.VersionTLS12,
		})).ListenAddrs()[0]
}

// secureConfig has everything that secureBroker wants, in files of a directory.
func secureConfig(t *testing.T, a *authority, broker string) (config.Config, string) {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, b []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	certPEM, keyPEM := a.issue(time.Now().Add(time.Hour))
	c := config.Default()
	c.BackoffCap = 200 * time.Millisecond
	c.Kafka.Brokers = []string{broker}
	c.Kafka.TLS = config.TLS{
		Enabled: true, CAFile: put("ca.pem", a.pem), CertFile: put("cert.pem", certPEM),
		KeyFile: put("key.pem", keyPEM),
	}
	c.Kafka.SASL = config.SASL{
		Mechanism: config.ScramSHA512, User: "ada",
		PasswordFile: put("password", []byte("secret\n")),
	}
	return c, dir
}

func ping(t *testing.T, c config.Config) (*kgo.Client, error) {
	t.Helper()
	opts, err := ClientOpts(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl, pingClient(t, cl)
}

func pingClient(t *testing.T, cl *kgo.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return cl.Ping(ctx)
}

// TestRefusals: a broker and we can disagree in many ways about who we are. Each ends in a line with the two names and
// the remedy. The embedded broker only ends the connection where Kafka would report a wrong password.
func TestRefusals(t *testing.T) {
	a := newAuthority(t, "ours")
	broker := secureBroker(t, a, time.Now().Add(time.Hour))
	good, _ := secureConfig(t, a, broker)
	if _, err := ping(t, good); err != nil {
		t.Fatal(err)
	}
	open := kafkatest.Broker(t)
	for name, c := range map[string]struct {
		change func(c *config.Config)
		says   string
	}{
		"unknown authority": {func(c *config.Config) {
			c.Kafka.TLS.CAFile = write(t, string(newAuthority(t, "another").pem))
		}, "kafka.tls.ca_file"},
		"no certificate": {
			func(c *config.Config) { c.Kafka.TLS.CertFile, c.Kafka.TLS.KeyFile = "", "" },
			"kafka.tls.cert_file",
		},
		"no TLS": {func(c *config.Config) { c.Kafka.TLS = config.TLS{} }, "kafka.tls"},
		"no TLS, no user": {
			func(c *config.Config) { c.Kafka.TLS, c.Kafka.SASL = config.TLS{}, config.SASL{} },
			"kafka.tls.enabled",
		},
		"another host":   {func(c *config.Config) { c.Kafka.TLS.ServerName = "elsewhere" }, "kafka.tls.server_name"},
		"wrong password": {func(c *config.Config) { c.Kafka.SASL.PasswordFile = write(t, "wrong") }, "kafka.sasl"},
		"no password":    {func(c *config.Config) { c.Kafka.SASL = config.SASL{} }, "kafka.sasl"},
		"expired broker": {func(c *config.Config) {
			c.Kafka.Brokers = []string{secureBroker(t, a, time.Now().Add(-time.Hour))}
		}, "broker's certificate is valid from"},
		"TLS to a plaintext port": {func(c *config.Config) {
			c.Kafka.Brokers, c.Kafka.SASL = open.ListenAddrs(), config.SASL{}
			c.Kafka.DialTimeout = 3 * time.Second // the broker waits for more, without end
		}, "kafka.tls.enabled to false"},
		"expired client": {func(c *config.Config) {
			certPEM, keyPEM := a.issue(time.Now().Add(-time.Minute))
			c.Kafka.TLS.CertFile, c.Kafka.TLS.KeyFile = write(t, string(certPEM)), write(t, string(keyPEM))
			c.Kafka.SASL = config.SASL{}
		}, "valid until"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			c.change(&bad)
			_, err := ping(t, bad)
			if err == nil {
				t.Fatal("it is let in")
			}
			explained := Explain(bad.Kafka, err)
			if !errors.Is(explained, err) {
				t.Errorf("the error itself is lost: %v", explained)
			}
			if text := explained.Error(); !strings.Contains(text, c.says) ||
				!strings.Contains(text, bad.Kafka.Brokers[0]) || strings.Contains(text, "\n") {
				t.Errorf("not one line that says %q and where: %v", c.says, text)
			}
		})
	}
}

// TestCheckFiles: a certificate that has expired needs a hand, one that is not valid yet only time. The broker's
// refusal says which.
func TestCheckFiles(t *testing.T) {
	a := newAuthority(t, "ours")
	c, dir := secureConfig(t, a, "h:1")
	now := time.Now()
	if err := CheckFiles(c.Kafka, now); err != nil {
		t.Errorf("good files: %v", err)
	}
	for name, tc := range map[string]struct {
		from, until time.Time
		says        []string
		later       bool
		explained   string
	}{
		"expired": {
			now.Add(-2 * time.Hour), now.Add(-time.Hour),
			[]string{"expired at " + stamp(now.Add(-time.Hour)), "renew it"},
			false,
			"valid until " + stamp(now.Add(-time.Hour)),
		},
		"not valid": {
			now.Add(time.Hour), now.Add(2 * time.Hour),
			[]string{"valid from " + stamp(now.Add(time.Hour)), "clock"},
			true,
			"not valid before " + stamp(now.Add(time.Hour)),
		},
	} {
		certPEM, keyPEM := a.issueFrom(tc.from, tc.until)
		for file, text := range map[string][]byte{"cert.pem": certPEM, "key.pem": keyPEM} {
			if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := CheckFiles(c.Kafka, now)
		if err == nil || errors.Is(err, ErrNotYetValid) != tc.later {
			t.Fatalf("%s: %v", name, err)
		}
		for _, part := range append(tc.says, c.Kafka.TLS.CertFile) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not say %q", name, err, part)
			}
		}
		c.Kafka.SASL = config.SASL{}
		if text := Explain(c.Kafka, kerr.TopicAuthorizationFailed).Error(); !strings.Contains(text, tc.explained) {
			t.Errorf("%s: %s does not say %q", name, text, tc.explained)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckFiles(c.Kafka, now); err == nil ||
		!strings.Contains(err.Error(), "kafka.tls.key_file "+c.Kafka.TLS.KeyFile) {
		t.Errorf("no key: %v", err)
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// TestExplain holds what only Kafka itself says; integration's TestRefused has it from there.
func TestExplain(t *testing.T) {
	k := config.Kafka{
		Brokers: []string{"k1:9093"},
		SASL:    config.SASL{Mechanism: config.ScramSHA512, User: "ada", PasswordFile: "/etc/weir/password"},
	}
	for err, says := range map[error]string{
		kerr.SaslAuthenticationFailed:           "/etc/weir/password",
		kerr.UnsupportedSaslMechanism:           "kafka.sasl.mechanism",
		kerr.TopicAuthorizationFailed:           "permission on the topic is missing",
		kerr.GroupAuthorizationFailed:           "permission READ on the group is missing",
		kerr.TransactionalIDAuthorizationFailed: "permission WRITE on the transactional id is missing",
		kerr.FencedInstanceID:                   "`instance`",
	} {
		text := Explain(k, fmt.Errorf("reading weir.counters-3: %w", err)).Error()
		for _, part := range []string{"weir.counters-3", "user ada", "k1:9093", says} {
			if !strings.Contains(text, part) {
				t.Errorf("%v: %q does not say %q", err, text, part)
			}
		}
	}
	plain := errors.New("disk full")
	if got := Explain(k, plain); got.Error() != "disk full" || Explain(k, nil) != nil {
		t.Error("an error that has nothing to do with Kafka is changed")
	}
}

// TestFilesAreReadAgain: what is wrong on disk can be mended under a running client.
func TestFilesAreReadAgain(t *testing.T) {
	a := newAuthority(t, "ours")
	c, dir := secureConfig(t, a, secureBroker(t, a, time.Now().Add(time.Hour)))
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("password", []byte("old"))
	cl, err := ping(t, c)
	if err == nil {
		t.Fatal("a wrong password is accepted")
	}
	put("password", []byte("secret"))
	if err := pingClient(t, cl); err != nil {
		t.Errorf("the new password is not used: %v", err)
	}

	put("ca.pem", newAuthority(t, "another").pem)
	if cl, err = ping(t, c); err == nil {
		t.Fatal("an unknown authority is accepted")
	}
	put("ca.pem", a.pem)
	if err := pingClient(t, cl); err != nil {
		t.Errorf("the new authority is not used: %v", err)
	}
}

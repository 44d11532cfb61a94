package config

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Kafka says how to reach the brokers.
type Kafka struct {
	Brokers     []string      `mapstructure:"brokers"` // host:port; Kafka's bootstrap.servers
	ClientID    string        `mapstructure:"client_id"`
	DialTimeout time.Duration `mapstructure:"dial_timeout"`
	TLS         TLS           `mapstructure:"tls"`
	SASL        SASL          `mapstructure:"sasl"`
}

// TLS encrypts the connection, and with a certificate of its own proves who the client is.
type TLS struct {
	Enabled    bool   `mapstructure:"enabled"`
	CAFile     string `mapstructure:"ca_file"` // empty: the system's
	CertFile   string `mapstructure:"cert_file"`
	KeyFile    string `mapstructure:"key_file"`
	ServerName string `mapstructure:"server_name"` // empty: the broker's host name
}

// SASL proves who the client is by a password. The configuration holds the name of the password's file, never the
// password.
type SASL struct {
	Mechanism    string `mapstructure:"mechanism"` // empty: none
	User         string `mapstructure:"user"`
	PasswordFile string `mapstructure:"password_file"`
}

const (
	scram512 = "SCRAM-SHA-512"
	scram256 = "SCRAM-SHA-256"
	saslNone = ""
	plainTLS = "PLAIN" // the password travels as it is: only inside TLS
)

var mechanisms = []string{scram512, scram256, plainTLS}

// maxBatchBytes is the largest batch that a client sends, and what our topics are made to take (max.message.bytes): a Tick
// that lists 100,000 nodes fits.
const maxBatchBytes = 4 << 20

// ErrNoBrokers is returned when a client is asked for and kafka.brokers is empty.
var ErrNoBrokers = errors.New("kafka.brokers is empty: name at least one broker, as host:port")

func (k Kafka) validate(
	fault func(rule error, key string, value any, limit string),
	oneOf func(key, value string, choices ...string),
	lasting func(key string, value, low, high time.Duration),
) {
	for _, b := range k.Brokers {
		if _, port, _ := net.SplitHostPort(b); !IsAddress(b) {
			fault(ErrAddress, "kafka.brokers", fmt.Sprintf("%q", b), "")
		} else if strings.Trim(port, "0") == "" {
			fault(ErrAddress, "kafka.brokers", fmt.Sprintf("%q", b), "nobody can connect to port 0")
		}
	}
	lasting("kafka.dial_timeout", k.DialTimeout, 100*time.Millisecond, time.Minute)
	oneOf("kafka.sasl.mechanism", k.SASL.Mechanism, append([]string{saslNone}, mechanisms...)...)
	if slices.Contains(mechanisms, k.SASL.Mechanism) && (k.SASL.User == "" || k.SASL.PasswordFile == "") {
		fault(ErrTogether, "kafka.sasl.mechanism", k.SASL.Mechanism, "kafka.sasl.user and kafka.sasl.password_file")
	}
	if k.SASL.Mechanism == plainTLS && !k.TLS.Enabled {
		fault(ErrTogether, "kafka.sasl.mechanism", k.SASL.Mechanism, "kafka.tls.enabled, since PLAIN sends the password as it is")
	}
	if (k.TLS.CertFile == "") != (k.TLS.KeyFile == "") {
		fault(ErrTogether, "kafka.tls.cert_file", fmt.Sprintf("%q", k.TLS.CertFile), "kafka.tls.key_file beside it")
	}
}

// IsAddress reports whether s is host:port; an IPv6 host is in brackets. To listen, port 0 is any free one.
func IsAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	_, errPort := strconv.ParseUint(port, 10, 16)
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:%-" // of names and of addresses
	return err == nil && errPort == nil && host != "" && strings.Trim(host, letters) == ""
}

// ErrNotYetValid is returned for a certificate that time alone makes valid.
var ErrNotYetValid = errors.New("not valid yet: set this machine's clock, or wait")

// CheckFiles returns nil if the files that the configuration names can be read, and the client's certificate is valid at now.
// A file that is missing at the start is a mistake; one that vanishes later is waited for.
func (k Kafka) CheckFiles(now time.Time) error {
	if _, err := k.SASL.mechanism(); err != nil {
		return err
	}
	if !k.TLS.Enabled {
		return nil
	}
	c, err := k.TLS.config()
	if err != nil || len(c.Certificates) == 0 {
		return err
	}
	switch leaf := c.Certificates[0].Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("kafka.tls.cert_file %s expired at %s: renew it, or set this machine's clock (%s)",
			k.TLS.CertFile, leaf.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("kafka.tls.cert_file %s is valid from %s: %w", k.TLS.CertFile, leaf.NotBefore.UTC().Format(time.RFC3339), ErrNotYetValid)
	}
	return nil
}

// ClientOpts returns the options that every Kafka client of weir has: where the brokers are, how to prove who we are,
// and how patient to be. Callers add what is theirs. The client does nothing after ctx has ended: without that its close
// waits ten seconds for a broker that hangs, so ctx ends before, or with, the need for answers.
func (c Config) ClientOpts(ctx context.Context) ([]kgo.Opt, error) {
	if len(c.Kafka.Brokers) == 0 {
		return nil, ErrNoBrokers
	}
	limit := c.BackoffCap
	opts := []kgo.Opt{
		kgo.WithContext(ctx),
		kgo.SeedBrokers(c.Kafka.Brokers...),
		kgo.ClientID(c.Kafka.ClientID),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return Backoff(tries, limit) }),
		// Idle connections close after 20 s by default: with an interval longer than that, each send would dial.
		kgo.ConnIdleTimeout(max(30*time.Second, 3*c.Interval)),
		// A default poll of metadata is 5 minutes apart; a partition's new leader is found by errors long before.
		kgo.MetadataMinAge(250 * time.Millisecond),
		// A broker that hangs costs this much, in place of 10 s, before another is asked.
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.ProducerBatchMaxBytes(maxBatchBytes),
		kgo.DisableClientMetrics(),
		// A fetch session saves naming many partitions in each fetch, and we read few. It would cost a slot of the 1,000 that a
		// broker keeps, for every agent; and at its end the client waits for a last answer, ten seconds from a broker that hangs.
		kgo.DisableFetchSessions(),
	}
	if c.Kafka.TLS.Enabled {
		if _, err := c.Kafka.TLS.config(); err != nil { // now, not at the first dial
			return nil, err
		}
		opts = append(opts, kgo.Dialer(c.Kafka.dialTLS))
	} else {
		opts = append(opts, kgo.DialTimeout(c.Kafka.DialTimeout))
	}
	m, err := c.Kafka.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	if m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts, nil
}

// Backoff is how long to wait before try number tries (from 1): from a quarter of a second, doubling, at most limit, with
// half of it drawn by chance so that ten thousand agents do not come back at once.
func Backoff(tries int, limit time.Duration) time.Duration {
	d := min(250*time.Millisecond<<min(max(tries-1, 0), 10), limit)
	return d/2 + rand.N(d/2+1)
}

// Pause waits for d, and reports whether ctx still goes on then. It returns at once when ctx ends.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Outlive returns a context that ends after limit, and two seconds after ctx does: so that a transaction in hand is
// finished at the end, since left open it would hold up every reader, and still the process ends soon where it cannot be.
func Outlive(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		if Pause(longer, 2*time.Second) {
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}

// dialTLS opens a connection with the certificates as they are on disk now: a renewed one needs no restart.
func (k Kafka) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := k.TLS.config()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, k.DialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if c.ServerName == "" {
		if c.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	secure := tls.Client(conn, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // which the handshake may have done
		return nil, fmt.Errorf("%w with %s: %w", errHandshake, address, err)
	}
	return secure, nil
}

// errHandshake marks what went wrong after the connection and before TLS stood.
var errHandshake = errors.New("TLS handshake")

func (t TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := readFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading kafka.tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("kafka.tls.ca_file %s holds no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := t.pair()
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// pair reads the client's certificate and its key.
func (t TLS) pair() (tls.Certificate, error) {
	certPEM, err := readFile(t.CertFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading kafka.tls.cert_file: %w", err)
	}
	keyPEM, err := readFile(t.KeyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading kafka.tls.key_file: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("kafka.tls.cert_file %s with kafka.tls.key_file %s: %w", t.CertFile, t.KeyFile, err)
	}
	return pair, nil
}

func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s.Mechanism == saslNone {
		return nil, nil
	}
	if _, err := s.password(); err != nil { // now, not at the first connection
		return nil, err
	}
	secret := func(context.Context) (scram.Auth, error) {
		password, err := s.password()
		return scram.Auth{User: s.User, Pass: password}, err
	}
	switch s.Mechanism {
	case scram512:
		return scram.Sha512(secret), nil
	case scram256:
		return scram.Sha256(secret), nil
	default:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := s.password()
			return plain.Auth{User: s.User, Pass: password}, err
		}), nil
	}
}

// password reads the password as it is on disk now: a new one needs no restart.
func (s SASL) password() (string, error) {
	b, err := readFile(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("reading kafka.sasl.password_file: %w", err)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" {
		return "", fmt.Errorf("kafka.sasl.password_file %s holds no password", s.PasswordFile)
	}
	return password, nil
}

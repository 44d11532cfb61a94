package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/weirhpc/weir/config"
)

// ErrNotYetValid is returned for a certificate that becomes valid in the future.
var ErrNotYetValid = errors.New("not valid yet: set this machine's clock, or wait")

// CheckFiles returns nil if the files that the configuration names can be read, and the client's certificate is valid
// at now. A file that is missing at the start is a mistake. If a file vanishes later, connections are tried until it is
// back.
func CheckFiles(k config.Kafka, now time.Time) error {
	if _, err := mechanism(k.SASL); err != nil {
		return err
	}
	if !k.TLS.Enabled {
		return nil
	}
	c, err := tlsConfig(k.TLS)
	if err != nil || len(c.Certificates) == 0 {
		return err
	}
	switch leaf := c.Certificates[0].Leaf; {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("kafka.tls.cert_file %s expired at %s: renew it, or set this machine's clock (%s)",
			k.TLS.CertFile, leaf.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("kafka.tls.cert_file %s is valid from %s: %w",
			k.TLS.CertFile, leaf.NotBefore.UTC().Format(time.RFC3339), ErrNotYetValid)
	}
	return nil
}

// dialTLS opens a connection with the certificates that are on disk now, so a renewed one needs no restart.
func dialTLS(ctx context.Context, k config.Kafka, network, address string) (net.Conn, error) {
	c, err := tlsConfig(k.TLS)
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
		_ = conn.Close() // the handshake may have closed it already
		return nil, fmt.Errorf("%w with %s: %w", errHandshake, address, err)
	}
	return secure, nil
}

// errHandshake marks a fault after the connection was made and before TLS was.
var errHandshake = errors.New("TLS handshake")

// tlsConfig reads the files at each call. So a renewed certificate counts at the next connection, and no service
// restarts for it.
func tlsConfig(t config.TLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		var err error
		if c.RootCAs, err = config.Authorities("kafka.tls.ca_file", t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile != "" {
		pair, err := config.Certificate("kafka.tls", t.CertFile, t.KeyFile)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// mechanism returns nil if no SASL is configured. The password is read once here to fail early, and again at each
// connection, so that a new one needs no restart.
func mechanism(s config.SASL) (sasl.Mechanism, error) {
	if s.Mechanism == config.NoSASL {
		return nil, nil
	}
	if _, err := password(s); err != nil { // now, not at the first connection
		return nil, err
	}
	secret := func(context.Context) (scram.Auth, error) {
		password, err := password(s)
		return scram.Auth{User: s.User, Pass: password}, err
	}
	switch s.Mechanism {
	case config.ScramSHA512:
		return scram.Sha512(secret), nil
	case config.ScramSHA256:
		return scram.Sha256(secret), nil
	default:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := password(s)
			return plain.Auth{User: s.User, Pass: password}, err
		}), nil
	}
}

// password reads the password that is on disk now, so a new one needs no restart.
func password(s config.SASL) (string, error) {
	return secret("kafka.sasl.password_file", s.PasswordFile)
}

// secret reads the password in the file that a key names.
func secret(key, path string) (string, error) {
	b, err := config.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", key, err)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" {
		return "", fmt.Errorf("%s %s holds no password", key, path)
	}
	return password, nil
}

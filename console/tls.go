package console

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
)

// errNoRelay refuses a certificate of the right authority that is no accepted relay's.
var errNoRelay = errors.New("is not in console.relays")

// certificates reads the files of one side at each call, so that a renewed certificate counts at the next connection.
func certificates(t config.ConsoleTLS) (pair tls.Certificate, authority *x509.CertPool, err error) {
	for _, f := range []struct{ key, path string }{
		{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile},
	} {
		if f.path == "" {
			return pair, nil, fmt.Errorf("console.tls.%s is empty: each side needs a certificate, "+
				"and the authority of the other's", f.key)
		}
	}
	if authority, err = config.Authorities("console.tls.ca_file", t.CAFile); err != nil {
		return pair, nil, err
	}
	pair, err = config.Certificate("console.tls", t.CertFile, t.KeyFile)
	return pair, authority, err
}

// CheckFiles returns nil if the certificates of a side can be used at now.
func CheckFiles(t config.ConsoleTLS, now time.Time) error {
	pair, _, err := certificates(t)
	if err == nil && now.After(pair.Leaf.NotAfter) {
		err = fmt.Errorf("console.tls.cert_file %s expired at %s: renew it", t.CertFile,
			pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return err
}

// serverTLS accepts connections of the relays with these names, and ends every other one before it can ask anything.
// TLS 1.3 also keeps the certificate of a relay from listeners on the network.
func serverTLS(t config.ConsoleTLS, relays []string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair, authority, err := certificates(t)
			if err != nil {
				return nil, err
			}
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority, SessionTicketsDisabled: true,
				VerifyConnection: func(c tls.ConnectionState) error {
					_, err := relayName(c.PeerCertificates[0], relays)
					return err
				},
			}, nil
		},
	}
}

// relayName returns the name by which a certificate is accepted.
func relayName(c *x509.Certificate, relays []string) (string, error) {
	for _, name := range append(slices.Clone(c.DNSNames), c.Subject.CommonName) {
		if slices.Contains(relays, name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("certificate of %.80q, %.200q: %w", c.Subject.CommonName, c.DNSNames, errNoRelay)
}

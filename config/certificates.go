package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// Authorities reads the certificates of the file that a key names.
func Authorities(key, path string) (*x509.CertPool, error) {
	pem, err := ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s %s holds no certificate", key, path)
	}
	return pool, nil
}

// Certificate reads the certificate and the private key that cert_file and key_file of a section name.
func Certificate(section, certFile, keyFile string) (tls.Certificate, error) {
	certPEM, err := ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading %s.cert_file: %w", section, err)
	}
	keyPEM, err := ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading %s.key_file: %w", section, err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s.cert_file %s with %[1]s.key_file %[3]s: %[4]w",
			section, certFile, keyFile, err)
	}
	return pair, nil
}

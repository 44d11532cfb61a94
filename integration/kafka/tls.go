package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Beside the nodes' data there is the authority that signs the brokers' certificates. Its key is there too, so that
// others can have theirs signed.
const (
	tlsDir = "tls"
	caCert = "ca.crt"
	caKey  = "ca.key"
)

// validity is how long the certificates hold; up may run for days.
const validity = 365 * 24 * time.Hour

// writeCertificates makes an authority in dir, and a certificate for each node.
func writeCertificates(dir string, nodes []node) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the authority's key: %w", err)
	}
	ca := template("weir's authority for tests", 1)
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	cert, err := sign(ca, ca, key, key)
	if err != nil {
		return err
	}
	keyPEM, err := marshalKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, tlsDir), 0o755); err != nil {
		return fmt.Errorf("making a directory for certificates: %w", err)
	}
	files := map[string][]byte{filepath.Join(dir, tlsDir, caCert): cert, filepath.Join(dir, tlsDir, caKey): keyPEM}
	for _, n := range nodes {
		if files[n.keystore()], err = issue(n, ca, key); err != nil {
			return err
		}
	}
	for file, text := range files {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return fmt.Errorf("writing a certificate: %w", err)
		}
	}
	return nil
}

// issue returns a node's key and certificate. A broker needs one that is good for both ends of a connection.
func issue(n node, ca *x509.Certificate, caKey *ecdsa.PrivateKey) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of broker %d: %w", n.id, err)
	}
	t := template(fmt.Sprintf("broker%d", n.id), int64(n.id)+1)
	t.IPAddresses, t.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	cert, err := sign(t, ca, key, caKey)
	if err != nil {
		return nil, err
	}
	keyPEM, err := marshalKey(key)
	return append(keyPEM, cert...), err
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name, Organization: []string{"weir"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
	}
}

// sign returns the certificate of key as PEM.
func sign(t, ca *x509.Certificate, key, caKey *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of %s: %w", t.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// marshalKey returns the key as PEM in PKCS #8, the one form that Kafka reads.
func marshalKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

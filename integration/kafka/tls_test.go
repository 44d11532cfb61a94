package main

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

// TestCertificates: what each broker has is good for both ends of a connection, and the authority's key is beside its
// certificate.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	nodes := newNodes(dir, []int{1, 2, 3, 4, 5, 6, 7, 8})
	for _, n := range nodes {
		if err := os.MkdirAll(n.dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeCertificates(dir, nodes); err != nil {
		t.Fatal(err)
	}
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls", "ca.crt"), filepath.Join(dir, "tls", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	for i, n := range nodes {
		pair, err := tls.LoadX509KeyPair(n.keystore(), n.keystore())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := pair.PrivateKey.(*ecdsa.PrivateKey); !ok {
			t.Errorf("the key of broker %d is a %T", n.id, pair.PrivateKey)
		}
		for _, host := range []string{"127.0.0.1", "localhost"} {
			for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
				if _, err := pair.Leaf.Verify(x509.VerifyOptions{
					Roots: roots, DNSName: host,
					KeyUsages: []x509.ExtKeyUsage{usage},
				}); err != nil {
					t.Errorf("broker %d as %s, usage %d: %v", n.id, host, usage, err)
				}
			}
		}
		if name := pair.Leaf.Subject.String(); name != []string{"CN=broker1,O=weir", "CN=broker2,O=weir"}[i] {
			t.Errorf("broker %d is %s", n.id, name)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "tls", "ca.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
)

// explainedError is an error of a Kafka client, with the explanation that Explain added.
type explainedError struct{ error }

// Unwrap returns the client's own error.
func (e explainedError) Unwrap() error { return e.error }

// Explain adds to err the facts that a Kafka client's error leaves out: who was refused, by whom, and the remedy. It
// returns nil, an unknown error and an error that it has explained before unchanged.
func Explain(k config.Kafka, err error) error {
	var before explainedError
	if err == nil || errors.As(err, &before) {
		return err
	}
	if text := remedy(k, err); text != "" {
		return explainedError{fmt.Errorf("%w (%s; %s)", err, who(k), text)}
	}
	return err
}

// remedy returns advice against err. It is empty for an unknown error.
func remedy(k config.Kafka, err error) string {
	for _, of := range []func(config.Kafka, error) string{denied, clockRefused, loginRefused, tlsRefused, wrongPort} {
		if text := of(k, err); text != "" {
			return text
		}
	}
	return ""
}

// who describes which user we are, and at which brokers.
func who(k config.Kafka) string {
	user := "nobody: neither kafka.sasl nor kafka.tls.cert_file is set"
	if k.TLS.Enabled && k.TLS.CertFile != "" {
		user = "the holder of " + k.TLS.CertFile
		if pair, err := config.Certificate("kafka.tls", k.TLS.CertFile, k.TLS.KeyFile); err == nil {
			user = fmt.Sprintf("%s of %s, %s", pair.Leaf.Subject, k.TLS.CertFile, validity(pair.Leaf, time.Now()))
		}
	}
	if k.SASL.Mechanism != config.NoSASL {
		user = "user " + k.SASL.User
	}
	return fmt.Sprintf("we are %s, at %s", user, strings.Join(k.Brokers, ","))
}

// validity describes until when, or from when on, a certificate is valid.
func validity(c *x509.Certificate, now time.Time) string {
	if now.Before(c.NotBefore) {
		return "not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
	}
	return "valid until " + c.NotAfter.UTC().Format(time.RFC3339)
}

// denied explains a refused permission or membership. The error's own text names the resource.
func denied(_ config.Kafka, err error) string {
	const list = "the table in docs/security.md lists the permissions that each part of weir needs"
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return "permission on the topic is missing: " + list
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return "permission READ on the group is missing: " + list
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return "permission WRITE on the transactional id is missing: " + list
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return "permission is missing on every topic, or on the cluster: " + list
	case errors.Is(err, kerr.FencedInstanceID):
		return "another process runs under the same name: give each its own `instance`"
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return "the brokers' group.min.session.timeout.ms is above " + sessionMs + ": lower it"
	}
	return ""
}

// clockRefused explains a timestamp that the broker refuses.
func clockRefused(_ config.Kafka, err error) string {
	if !errors.Is(err, kerr.InvalidTimestamp) {
		return ""
	}
	return "this host's clock and the broker's differ by more than the broker allows, an hour by default " +
		"(log.message.timestamp.after.max.ms): compare them, and set the wrong one"
}

// loginRefused explains refusals by SASL.
func loginRefused(k config.Kafka, err error) string {
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		const text = "user or password is wrong: check kafka.sasl.user and the file %s of kafka.sasl.password_file"
		return fmt.Sprintf(text, k.SASL.PasswordFile)
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		const text = "this port does not take kafka.sasl.mechanism %q: " +
			"set the one in the brokers' sasl.enabled.mechanisms"
		return fmt.Sprintf(text, k.SASL.Mechanism)
	}
	return ""
}

// tlsRefused explains a refused certificate: the broker's, which we refuse, or ours, which it refuses.
func tlsRefused(k config.Kafka, err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var alert tls.AlertError
	switch {
	case errors.As(err, &unknown):
		ca := k.TLS.CAFile
		if ca == "" {
			ca = "the system's authorities"
		}
		const text = "no authority in %s signed the broker's certificate: put its authority into kafka.tls.ca_file"
		return fmt.Sprintf(text, ca)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the broker's certificate is valid from %s to %s: renew it there, or set this clock",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &invalid):
		return "the broker's certificate will not do: renew it there"
	case errors.As(err, &name):
		return "the broker's certificate is another host's: " +
			"set kafka.tls.server_name to a name in it, or renew it there"
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls:"):
		return "the broker refuses our side: check kafka.tls.cert_file, its authority and its dates"
	}
	return ""
}

// wrongPort explains a port with another protocol than ours. A broker only ends the connection then.
func wrongPort(k config.Kafka, err error) string {
	var closed *kgo.ErrFirstReadEOF
	switch {
	case errors.Is(err, errHandshake) && errors.Is(err, context.DeadlineExceeded):
		return "this port is slow, or does not speak TLS: raise kafka.dial_timeout; " +
			"or set kafka.tls.enabled to false, or name the port that does in kafka.brokers"
	case errors.Is(err, errHandshake):
		return "this port does not seem to speak TLS: " +
			"set kafka.tls.enabled to false, or name the port that does in kafka.brokers"
	case strings.Contains(err.Error(), "speaking to a tls endpoint"),
		errors.As(err, &closed) && !k.TLS.Enabled && k.SASL.Mechanism == config.NoSASL:
		return "this port seems to want TLS or a user: " +
			"set kafka.tls.enabled and kafka.sasl, or name a port that does without in kafka.brokers"
	case errors.As(err, &closed), errors.Is(err, io.EOF):
		return "the broker ends the connection at once: check kafka.sasl and kafka.tls against the port's listener"
	}
	return ""
}

package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kafka configures the connections to the brokers.
type Kafka struct {
	Brokers     []string      `mapstructure:"brokers"` // host:port; Kafka's bootstrap.servers
	ClientID    string        `mapstructure:"client_id"`
	DialTimeout time.Duration `mapstructure:"dial_timeout"`
	TLS         TLS           `mapstructure:"tls"`
	SASL        SASL          `mapstructure:"sasl"`
}

// TLS encrypts the connection. A client certificate also proves who the client is.
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

// The values of kafka.sasl.mechanism.
const (
	ScramSHA512 = "SCRAM-SHA-512"
	ScramSHA256 = "SCRAM-SHA-256"
	NoSASL      = ""
	plainSASL   = "PLAIN" // the password travels as it is: only inside TLS
)

var mechanisms = []string{ScramSHA512, ScramSHA256, plainSASL}

// validate looks at the values only. kafka.CheckFiles checks the contents of the files, because this package knows
// nothing of TLS.
func (k Kafka) validate(f *findings) {
	for _, b := range k.Brokers {
		if _, port, _ := net.SplitHostPort(b); !IsAddress(b) {
			f.wrong(errAddress, "kafka.brokers", fmt.Sprintf("%q", b), "")
		} else if strings.Trim(port, "0") == "" {
			f.wrong(errAddress, "kafka.brokers", fmt.Sprintf("%q", b), "nobody can connect to port 0")
		}
	}
	f.lasting("kafka.dial_timeout", k.DialTimeout, 100*time.Millisecond, time.Minute)
	f.oneOf("kafka.sasl.mechanism", k.SASL.Mechanism, append([]string{NoSASL}, mechanisms...)...)
	if slices.Contains(mechanisms, k.SASL.Mechanism) && (k.SASL.User == "" || k.SASL.PasswordFile == "") {
		f.wrong(errTogether, "kafka.sasl.mechanism", k.SASL.Mechanism, "kafka.sasl.user and kafka.sasl.password_file")
	}
	if k.SASL.Mechanism == plainSASL && !k.TLS.Enabled {
		f.wrong(errTogether, "kafka.sasl.mechanism", k.SASL.Mechanism,
			"kafka.tls.enabled, since PLAIN sends the password as it is")
	}
	if (k.TLS.CertFile == "") != (k.TLS.KeyFile == "") {
		f.wrong(errTogether, "kafka.tls.cert_file", fmt.Sprintf("%q", k.TLS.CertFile), "kafka.tls.key_file beside it")
	}
}

// IsAddress reports whether s is host:port. An IPv6 host is in brackets. Port 0 is valid: to listen, it is any free
// port.
func IsAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	_, errPort := strconv.ParseUint(port, 10, 16)
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:%-" // of names and of addresses
	return err == nil && errPort == nil && host != "" && strings.Trim(host, letters) == ""
}

package config

import (
	"fmt"
	"net/url"
)

// The values of topics.wire.
const (
	WireSingleObject = "single-object" // values name their schema by its fingerprint
	WireConfluent    = "confluent"     // values name their schema by the id of a registry
)

// Registry configures the connection to a schema registry.
type Registry struct {
	URL          string `mapstructure:"url"` // empty: none
	User         string `mapstructure:"user"`
	PasswordFile string `mapstructure:"password_file"`
	CAFile       string `mapstructure:"ca_file"` // empty: the system's
}

func (r Registry) validate(f *findings) {
	u, err := url.Parse(r.URL)
	switch {
	case r.URL == "" && (r.User != "" || r.PasswordFile != "" || r.CAFile != ""):
		f.wrong(errTogether, "registry.url", `""`, "an address, since other keys of registry are set")
	case r.URL == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "":
		// The given text may contain a password.
		f.wrong(errChoice, "registry.url", "(not shown)",
			"http://host:port or https://host:port, with a path at most; registry.user has the login")
	case (r.User == "") != (r.PasswordFile == ""):
		f.wrong(errTogether, "registry.user", fmt.Sprintf("%q", r.User),
			"registry.password_file, which needs a user too")
	case r.User != "" && u.Scheme != "https":
		f.wrong(errTogether, "registry.user", fmt.Sprintf("%q", r.User),
			"an https address in registry.url, since the password is sent as it is")
	}
}

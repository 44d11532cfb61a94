package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Console is the configuration of `weir console`, which answers questions of job owners, of its relays on login nodes,
// and of the commands that ask a relay.
type Console struct {
	Socket        string     `mapstructure:"socket"`         // where a relay listens, and commands ask
	Address       string     `mapstructure:"address"`        // host:port to which a relay forwards; empty: no relay
	Listen        string     `mapstructure:"listen"`         // host:port where the service listens for relays
	Relays        []string   `mapstructure:"relays"`         // names in the certificates of accepted relays
	Support       []string   `mapstructure:"support"`        // users who see all jobs
	SupportGroups []string   `mapstructure:"support_groups"` // groups of users who see all jobs
	Leaders       []Leader   `mapstructure:"leaders"`        // users who see the jobs of an account
	Sacctmgr      string     `mapstructure:"sacctmgr"`       // Slurm's command, for its coordinators; empty: not asked
	TLS           ConsoleTLS `mapstructure:"tls"`
}

// ConsoleSocket is the socket of the shipped unit of a relay. Its directory is the relay's own: /run/weir also has the
// reports of jobs.
const ConsoleSocket = "/run/weir/console/socket"

// Leader gives users the jobs of an account.
type Leader struct {
	Account string   `mapstructure:"account"`
	Users   []string `mapstructure:"users"`
}

// ConsoleTLS holds the certificates of one side, the service or a relay. Each side must prove its name to the other.
type ConsoleTLS struct {
	CAFile     string `mapstructure:"ca_file"` // the authority of the other side's certificate
	CertFile   string `mapstructure:"cert_file"`
	KeyFile    string `mapstructure:"key_file"`
	ServerName string `mapstructure:"server_name"` // of the service; empty: the host of Address
}

// maxLeaders bounds the accounts with leaders in a file. A site with more has them in Slurm.
const maxLeaders = 10_000

// validate checks each value by itself. A process needs more of them: `weir console` names what is missing when it
// starts.
func (c *Console) validate(f *findings) {
	if len(c.Socket) > 100 { // sockaddr_un has 108 bytes
		f.wrong(errRange, "console.socket", fmt.Sprintf("%.120q", c.Socket), "at most 100 bytes")
	}
	if !filepath.IsAbs(c.Socket) || hasNUL(c.Socket) {
		f.wrong(errPath, "console.socket", fmt.Sprintf("%.120q", c.Socket), "")
	}
	for _, a := range []struct{ key, value string }{
		{"console.address", c.Address}, {"console.listen", c.Listen},
	} {
		if a.value != "" && !IsAddress(a.value) {
			f.wrong(errAddress, a.key, fmt.Sprintf("%q", a.value), "such as archive1:7119")
		}
	}
	if c.Address != "" && c.Listen != "" {
		f.wrong(errTogether, "console.address", fmt.Sprintf("%q", c.Address),
			"an empty console.listen: a relay has a configuration of its own")
	}
	f.users("console.relays", c.Relays)
	f.users("console.support", c.Support)
	f.users("console.support_groups", c.SupportGroups)
	f.within("console.leaders", int64(len(c.Leaders)), 0, maxLeaders)
	for i, l := range c.Leaders {
		key := fmt.Sprintf("console.leaders[%d]", i)
		f.users(key+".account", []string{l.Account})
		f.users(key+".users", l.Users)
	}
	if c.Sacctmgr != "" {
		f.file("console.sacctmgr", c.Sacctmgr)
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		f.wrong(errTogether, "console.tls.cert_file", fmt.Sprintf("%q", c.TLS.CertFile),
			"console.tls.key_file beside it")
	}
}

// users checks names of users, groups, accounts and hosts. Directories have names beyond the rule of naming, such as
// alice@example.org, but none that a command would take for an option.
func (f *findings) users(key string, names []string) {
	for _, name := range names {
		if name == "" || len(name) > 256 || strings.HasPrefix(name, "-") || strings.ContainsFunc(name, notPrintable) ||
			strings.ContainsAny(name, ":,|") {
			f.wrong(errUser, key, fmt.Sprintf("%.80q", name), "")
		}
	}
}

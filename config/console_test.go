package config

import (
	"errors"
	"strings"
	"testing"
)

// TestConsoleIsChecked: what cannot be an address, a path or a name is a fault of its key. Names of directories count
// as names, options of commands do not.
func TestConsoleIsChecked(t *testing.T) {
	t.Parallel()
	good := Default()
	good.Console = Console{
		Socket: "/run/x", Listen: "0.0.0.0:7119", Relays: []string{"login1.example.org"},
		Support: []string{"alice@example.org"}, SupportGroups: []string{"domain users"},
		Leaders:  []Leader{{Account: "phys-a", Users: []string{"bob"}}},
		Sacctmgr: "/usr/bin/sacctmgr", TLS: ConsoleTLS{CAFile: "ca", CertFile: "cert", KeyFile: "key"},
	}
	good.derive()
	if err := good.Validate(); err != nil {
		t.Errorf("a whole console: %v", err)
	}
	for key, c := range map[string]struct {
		set  func(*Console)
		want error
	}{
		"console.socket":                 {func(c *Console) { c.Socket = "console.sock" }, errPath},
		"console.socket = \"/long":       {func(c *Console) { c.Socket = "/long" + strings.Repeat("x", 100) }, errRange},
		"console.address":                {func(c *Console) { c.Address, c.Listen = "archive1", "" }, errAddress},
		"console.address = \"a1:7119\":": {func(c *Console) { c.Address = "a1:7119" }, errTogether},
		"console.listen":                 {func(c *Console) { c.Listen = ":x" }, errAddress},
		"console.relays":                 {func(c *Console) { c.Relays = []string{""} }, errUser},
		"console.support":                {func(c *Console) { c.Support = []string{"-x"} }, errUser},
		"console.support_groups":         {func(c *Console) { c.SupportGroups = []string{"a:b"} }, errUser},
		"console.leaders[0].account":     {func(c *Console) { c.Leaders[0].Account = "" }, errUser},
		"console.leaders[0].users":       {func(c *Console) { c.Leaders[0].Users = []string{"a\nb"} }, errUser},
		"console.sacctmgr":               {func(c *Console) { c.Sacctmgr = "sacctmgr" }, errPath},
		"console.tls.cert_file":          {func(c *Console) { c.TLS.KeyFile = "" }, errTogether},
	} {
		bad := good
		bad.Console.Leaders = []Leader{good.Console.Leaders[0]}
		c.set(&bad.Console)
		if err := bad.Validate(); !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

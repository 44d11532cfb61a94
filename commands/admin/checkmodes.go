package admin

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/weirhpc/weir/config"
)

// named is a path in the configuration, with its use.
type named struct {
	key, path string
	secret    bool // no other user may read it
	runs      bool // weir runs it
}

// namedPaths returns the paths that the configuration names, and the paths of Slurm's commands.
func namedPaths(cfg config.Config) []named {
	all := []named{
		{key: "kafka.sasl.password_file", path: cfg.Kafka.SASL.PasswordFile, secret: true},
		{key: "kafka.tls.key_file", path: cfg.Kafka.TLS.KeyFile, secret: true},
		{key: "kafka.tls.cert_file", path: cfg.Kafka.TLS.CertFile},
		{key: "kafka.tls.ca_file", path: cfg.Kafka.TLS.CAFile},
		{key: "registry.password_file", path: cfg.Registry.PasswordFile, secret: true},
		{key: "registry.ca_file", path: cfg.Registry.CAFile},
		{key: "balance.jobs_file", path: cfg.Balance.JobsFile},
		{key: "balance.tree_file", path: cfg.Balance.TreeFile},
		{key: "balance.drop_dir", path: cfg.Balance.DropDir},
		{key: "agent.metrics_file", path: cfg.Agent.MetricsFile},
		{key: "agent.report_dir", path: cfg.Agent.ReportDir},
		{key: "sink.dir", path: cfg.Sink.Dir},
		{key: "console.tls.key_file", path: cfg.Console.TLS.KeyFile, secret: true},
		{key: "console.tls.cert_file", path: cfg.Console.TLS.CertFile},
		{key: "console.tls.ca_file", path: cfg.Console.TLS.CAFile},
		{key: "console.sacctmgr", path: cfg.Console.Sacctmgr, runs: true},
		{key: "notify.webhook.url_file", path: cfg.Notify.Webhook.URLFile, secret: true},
		{key: "notify.webhook.secret_file", path: cfg.Notify.Webhook.SecretFile, secret: true},
		{key: "notify.template", path: cfg.Notify.Template},
		{key: "notify.address_command", path: cfg.Notify.AddressCommand, runs: true},
	}
	if program := strings.Fields(cfg.Notify.Sendmail); len(program) > 0 {
		all = append(all, named{key: "notify.sendmail", path: program[0], runs: true})
	}
	for i, s := range cfg.Agent.Sources {
		key := fmt.Sprintf("agent.sources[%d]", i)
		if len(s.Exec) > 0 {
			all = append(all, named{key: key + ".exec", path: s.Exec[0], runs: true})
		}
		all = append(all, named{key: key + ".file", path: s.File})
	}
	if cfg.Balance.Slurm.Enabled {
		for _, name := range []string{"squeue", "scontrol", "sinfo"} {
			if path, err := exec.LookPath(filepath.Join(cfg.Balance.Slurm.Bin, name)); err == nil {
				all = append(all, named{key: "balance.slurm.bin", path: path, runs: true})
			}
		}
	}
	return all
}

// exposed returns a note with a remedy for each path of the configuration that weir relies on and other users may read
// or change. It also checks the paths in others, such as the configuration file itself. Missing or unreadable paths are
// left to other checks.
func exposed(cfg config.Config, others ...named) (notes []string) {
	seen := map[string]bool{}
	note := func(text string) {
		if text != "" && !seen[text] {
			seen[text] = true
			notes = append(notes, text)
		}
	}
	for _, n := range append(others, namedPaths(cfg)...) {
		if n.path == "" {
			continue
		}
		info, err := config.Answer(n.path, func() (fs.FileInfo, error) { return os.Stat(n.path) })
		if err != nil {
			continue
		}
		note(n.exposed(info))
		if !n.runs {
			continue
		}
		// A user who may write to its directory can replace the program.
		program, err := filepath.EvalSymlinks(n.path)
		if err != nil {
			continue
		}
		dir := named{key: n.key + ", the directory", path: filepath.Dir(program), runs: true}
		if info, err := os.Stat(dir.path); err == nil && info.Mode()&fs.ModeSticky == 0 {
			note(dir.exposed(info))
		}
	}
	return notes
}

// exposed returns how other users may read or change a path, with the remedy. It is empty if they may not.
func (n named) exposed(info fs.FileInfo) string {
	mode := info.Mode().Perm()
	owner, group := uint32(0), uint32(0)
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		owner, group = s.Uid, s.Gid
	}
	switch what := fmt.Sprintf("%s %s (mode %04o)", n.key, n.path, mode); {
	case mode&0o002 != 0 && n.runs:
		return fmt.Sprintf("%s: every user may write to it, and so decides what weir runs: chmod go-w %s", what, n.path)
	case mode&0o002 != 0:
		return fmt.Sprintf("%s: every user may write to it: chmod o-w %s", what, n.path)
	case n.runs && mode&0o020 != 0 && group != 0:
		return fmt.Sprintf("%s: group %d may write to it, and so decides what weir runs: chmod go-w %s",
			what, group, n.path)
	case n.runs && owner != 0 && owner != uint32(os.Geteuid()):
		return fmt.Sprintf("%s: user %d owns it, and so decides what weir runs: chown root %s", what, owner, n.path)
	case n.secret && mode&0o007 != 0:
		return fmt.Sprintf("%s: every user may read it: chmod o= %s, or LoadCredential= of systemd", what, n.path)
	}
	return ""
}

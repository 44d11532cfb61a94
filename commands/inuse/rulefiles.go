package inuse

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
)

// RuleText is a file of rules. Package rules compiles it.
type RuleText struct {
	Name string
	Text []byte
}

// rule is the part of a rule that declares its metrics.
type rule struct {
	ID    string   `yaml:"id"`
	Needs []string `yaml:"needs"`
	Uses  []string `yaml:"uses"`
}

// rules returns the rules of a file: a list of rules, or a mapping that contains one. It ignores faults. Every command
// that compiles rules reports them.
func (t RuleText) rules() []rule {
	var all []rule
	var file struct {
		Rules []rule `yaml:"rules"`
	}
	if yaml.Unmarshal(t.Text, &file) == nil {
		return file.Rules
	}
	_ = yaml.Unmarshal(t.Text, &all) // what can be read of it counts
	return all
}

// SiteRules reads a rule file, or all *.yaml files of a directory. Without a name it returns no rules.
func SiteRules(name string) (files []RuleText, err error) {
	if name == "" {
		return nil, nil
	}
	names := []string{name}
	switch info, err := os.Stat(name); {
	case err != nil:
		return nil, fmt.Errorf("find.rules %s: %w", name, naming.Pathless(err))
	case info.IsDir():
		if names, err = filepath.Glob(filepath.Join(name, "*.yaml")); err != nil {
			return nil, fmt.Errorf("find.rules %s: %w", name, err)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		text, err := RuleFile(n)
		if err != nil {
			return nil, fmt.Errorf("find.rules %s: %w", n, err)
		}
		files = append(files, RuleText{Name: n, Text: text})
	}
	return files, nil
}

// maxRuleBytes bounds a rule file or an example, in bytes.
const maxRuleBytes = 64 << 20

var errTooLarge = errors.New("larger than 64 MiB")

// RuleFile reads a file of at most maxRuleBytes.
func RuleFile(name string) ([]byte, error) {
	return config.Answer(name, func() ([]byte, error) {
		f, err := os.Open(name)
		if err != nil {
			return nil, naming.Pathless(err)
		}
		defer f.Close()
		return Bounded(f)
	})
}

// Bounded reads at most maxRuleBytes of r.
func Bounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxRuleBytes+1))
	if err == nil && len(text) > maxRuleBytes {
		err = errTooLarge
	}
	if err != nil {
		return nil, naming.Pathless(err)
	}
	return text, nil
}

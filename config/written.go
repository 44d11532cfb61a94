package config

import (
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reference documents every key.
//
//go:embed reference.yaml
var reference string

// sections are the sections that a role reads, apart from the settings that all roles share.
var sections = map[string][]string{
	"agent":   {"agent"},
	"balance": {"balance", "metrics", "agent"}, // balance and agent must agree on agent.sampling
	"collect": {"collect", "metrics"},
	"merge":   {"collect", "metrics"},
	"find":    {"find", "machine", "metrics"},
	"notify":  {"notify", "find", "machine", "metrics"},
	"sink":    {"sink", "metrics"},
	"samples": {"sink", "samples", "metrics"},
	"nodes":   {"sink", "nodes", "metrics"},
	"topics":  {"topics"},
	"status":  {"topics", "sink"},
	"console": {"sink", "machine", "find", "console", "metrics"},
	relayRole: {"console", "metrics"},
}

// relayRole is the role of a relay of the console, which has nothing to do with Kafka.
const relayRole = "relay"

// NeedsBrokers reports whether a role connects to Kafka.
func NeedsBrokers(role string) bool { return role != relayRole }

// Roles returns the roles for which a configuration can be written, sorted.
func Roles() []string { return slices.Sorted(maps.Keys(sections)) }

// agreed are the keys that have one value in all parts of an installation.
var agreed = []string{"cluster", "prefix", "interval", "collectors", "partitions", "kafka.brokers"}

var keyLine = regexp.MustCompile(`^( *)([a-z0-9_]+):(.*?)( +#.*)?$`)

// Commented returns the configuration as a file for a role. It contains the role's keys with their comments from
// reference.yaml. A key with the default's value is commented out, unless all parts must agree on it.
func (c Config) Commented(role string) (string, error) {
	own, ok := sections[role]
	if !ok {
		return "", fmt.Errorf("role %q must be one of %s", role, strings.Join(Roles(), ", "))
	}
	base, err := Load(Source{Defaults: Default()})
	if err != nil {
		return "", fmt.Errorf("the default configuration: %w", err)
	}
	ours, defaults := yamlNode(reflect.ValueOf(c)), yamlNode(reflect.ValueOf(base))
	var out strings.Builder
	var path []string
	wanted := false
	for line := range strings.Lines(reference) {
		line = strings.TrimSuffix(line, "\n")
		m := keyLine.FindStringSubmatch(line)
		if m == nil { // a comment goes with the key before it
			if wanted {
				out.WriteString(line + "\n")
			}
			continue
		}
		path = append(path[:len(m[1])/2], m[2])
		if len(path) == 1 {
			_, section := sectionNode(ours, path)
			shared := !section && path[0] != "machine" || path[0] == "partitions" || path[0] == "kafka"
			if role == relayRole {
				shared = strings.HasPrefix(path[0], "log_")
			}
			wanted = shared || slices.Contains(own, path[0])
		}
		if !wanted {
			continue
		}
		text, err := rewritten(line, m, ours, defaults, path)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// rewritten returns a line of the reference, m its parts, with the value of our tree.
func rewritten(line string, m []string, ours, defaults *yaml.Node, path []string) (string, error) {
	node, section := sectionNode(ours, path)
	if section {
		return line + "\n", nil
	}
	value, err := yamlText(node)
	if err != nil {
		return "", err
	}
	standard, _ := sectionNode(defaults, path)
	usual, err := yamlText(standard)
	if err != nil {
		return "", err
	}
	indent, comment := m[1], m[4]
	agree := slices.Contains(agreed, strings.Join(path, ".")) || slices.Contains(agreed, path[0])
	switch {
	case value == usual && !agree:
		at := strings.Index(line, "  #") // the comment stays in its column
		if at < 0 {
			at = len(line)
		}
		return indent + "#" + strings.TrimPrefix(line[:at], indent) + strings.TrimPrefix(line[at:], " ") + "\n", nil
	case strings.Contains(value, "\n"):
		return indent + m[2] + ":" + comment + "\n" + indented(value, indent+"  "), nil
	}
	text := indent + m[2] + ": " + value
	if comment != "" {
		words := strings.TrimLeft(comment, " ")
		text = fmt.Sprintf("%-*s %s", len(line)-len(words)-1, text, words)
	}
	return text + "\n", nil
}

// sectionNode finds the node of a key, and reports whether it is a section with keys below it.
func sectionNode(n *yaml.Node, path []string) (*yaml.Node, bool) {
	for _, name := range path {
		i := 0
		for i < len(n.Content) && n.Content[i].Value != name {
			i += 2
		}
		if i >= len(n.Content) {
			return &yaml.Node{Kind: yaml.ScalarNode, Value: ""}, false
		}
		n = n.Content[i+1]
	}
	return n, n.Kind == yaml.MappingNode
}

// yamlText returns a value as it stands behind its key: on one line, or, for a list of sections, on several.
func yamlText(n *yaml.Node) (string, error) {
	if n.Kind == yaml.SequenceNode && (len(n.Content) == 0 || n.Content[0].Kind == yaml.ScalarNode) {
		flow := *n
		flow.Style = yaml.FlowStyle
		n = &flow
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return "", fmt.Errorf("writing a value: %w", err)
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

func indented(text, indent string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(indent + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

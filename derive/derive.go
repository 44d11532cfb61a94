// Package derive computes metrics from recorded metrics, by an expression that a user writes. It is pure: a definition
// and the values of one node go in, the values of the new metric come out.
//
// The language is a subset of expr-lang/expr: numbers, comparisons, choices and a few functions. There are no loops, no
// lists and no texts, so that the cost of an expression is bounded by its length. Expressions are evaluated over all
// values of a record at once.
package derive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

// Definition is one metric that is computed from others.
type Definition struct {
	Name  string `yaml:"name"`
	Unit  string `yaml:"unit"`  // empty: 1
	Scope string `yaml:"scope"` // empty: the scope of the metrics it uses; node if these are of scope node
	Kind  string `yaml:"kind"`  // the meaning of the values, for readers and not for the computation
	Expr  string `yaml:"expr"`
}

// ErrDefinition is wrapped by every error of a definition. Its text names the definition and the remedy.
var ErrDefinition = errors.New("definition of a metric")

func (d *Definition) fault(format string, args ...any) error {
	return fmt.Errorf("%w %q: %w", ErrDefinition, d.Name, fmt.Errorf(format, args...))
}

// Parse reads a definition from one text: NAME[:SCOPE[:UNIT]]=EXPRESSION.
func Parse(text string) (Definition, error) {
	left, expression, ok := strings.Cut(text, "=")
	if !ok {
		return Definition{}, fmt.Errorf("%w %q: write NAME[:SCOPE[:UNIT]]=EXPRESSION, for example "+
			"ipc:core=instructions/cycles", ErrDefinition, text)
	}
	d := Definition{Expr: strings.TrimSpace(expression)}
	parts := append(strings.SplitN(strings.TrimSpace(left), ":", 3), "", "")
	d.Name, d.Scope, d.Unit = parts[0], parts[1], parts[2]
	return d, d.check()
}

// maxFileBytes bounds a file of definitions.
const maxFileBytes = 1 << 20

// ReadYAML reads definitions from a YAML file: a list under the key metrics.
func ReadYAML(r io.Reader) ([]Definition, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading definitions of metrics: %w", err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%w: a file of more than %d bytes", ErrDefinition, maxFileBytes)
	}
	var file struct {
		Metrics []Definition `yaml:"metrics"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w: write metrics: [{name, unit, scope, kind, expr}]", ErrDefinition, err)
	}
	if len(file.Metrics) == 0 {
		return nil, fmt.Errorf("%w: there is none: write metrics: [{name, unit, scope, kind, expr}]", ErrDefinition)
	}
	for i := range file.Metrics {
		if err := file.Metrics[i].check(); err != nil {
			return nil, err
		}
	}
	return file.Metrics, nil
}

func (d *Definition) check() error {
	switch {
	case !naming.Valid(d.Name) || strings.Contains(d.Name, ":"):
		return d.fault("its name must match [A-Za-z0-9._-]{1,%d}", naming.MaxBytes)
	case d.Scope != "" && !schemas.ValidScope(d.Scope):
		return d.fault("scope %q is not core, socket, gpu, job or node", d.Scope)
	case len(d.Unit) > naming.MaxBytes || schemas.Printable(d.Unit) != d.Unit:
		return d.fault("its unit has at most %d bytes, and only printable characters", naming.MaxBytes)
	case d.Expr == "":
		return d.fault("it has no expression")
	}
	return nil
}

// metric is a metric that is computed.
type metric struct {
	Definition
	uses []string // names of metrics, recorded or defined before
	eval term
}

// Set is a list of metrics that are computed one after the other. A later one may use an earlier one. It serves one
// goroutine.
type Set struct {
	metrics []metric
	frame   frame
}

// Compile compiles definitions.
func Compile(definitions []Definition) (*Set, error) {
	s := &Set{}
	for _, d := range definitions {
		if err := d.check(); err != nil {
			return nil, err
		}
		for i := range s.metrics {
			if s.metrics[i].Name == d.Name {
				return nil, d.fault("it is defined twice")
			}
		}
		m := metric{Definition: d}
		if m.Unit == "" {
			m.Unit = "1"
		}
		if err := m.compile(); err != nil {
			return nil, err
		}
		s.metrics = append(s.metrics, m)
	}
	return s, nil
}

// Names returns the names of the metrics.
func (s *Set) Names() (names []string) {
	for i := range s.metrics {
		names = append(names, s.metrics[i].Name)
	}
	return names
}

// Uses returns, by the name of each metric, the metrics from which it is computed: recorded metrics, and metrics
// defined before it.
func (s *Set) Uses() map[string][]string {
	uses := map[string][]string{}
	for i := range s.metrics {
		uses[s.metrics[i].Name] = slices.Clone(s.metrics[i].uses)
	}
	return uses
}

// Resolve compares the names in the expressions with the scopes of recorded metrics, by name. It sets the scopes that
// the definitions leave open.
func (s *Set) Resolve(recorded map[string]string) error {
	known := map[string]string{}
	maps.Copy(known, recorded)
	for i := range s.metrics {
		m := &s.metrics[i]
		if _, twice := recorded[m.Name]; twice {
			return m.fault("a metric of this name is recorded: choose another name")
		}
		if err := m.place(known); err != nil {
			return err
		}
		known[m.Name] = m.Scope
	}
	return nil
}

// place sets the scope of a metric, or compares it with the scopes that it uses. Metrics of scope node have the same
// value everywhere. Beside these a metric uses only one scope, which is its own, because it is unknown which GPU
// belongs to which core.
func (m *metric) place(known map[string]string) error {
	one, of := schemas.ScopeNode, "" // the scope that is not node, and a metric of it
	for _, name := range m.uses {
		scope, ok := known[name]
		switch {
		case !ok:
			return m.fault("there is no metric %q%s", name, naming.Nearest(name, known))
		case scope == schemas.ScopeNode || scope == one:
		case of != "":
			return m.fault("%s is of scope %s and %s of scope %s: besides scope node it may use only one",
				of, one, name, scope)
		default:
			one, of = scope, name
		}
	}
	switch {
	case m.Scope == "":
		m.Scope = one
	case of != "" && m.Scope != one:
		return m.fault("its scope is %s, and %s is of scope %s: its scope must be %[3]s", m.Scope, of, one)
	case of == "" && (m.Scope == schemas.ScopeSocket || m.Scope == schemas.ScopeGPU):
		return m.fault("it needs a metric of scope %s, which says how many there are", m.Scope)
	}
	return nil
}

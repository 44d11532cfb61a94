package config

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/naming"
)

// Bounds on the sources and metrics that a site adds. They fit into a record beside the metrics of the catalogue.
const (
	maxSiteSources = 64
	maxSiteMetrics = 256
	maxSourceName  = 24 // bytes; it becomes part of the names of metrics
	maxPatterns    = 64
)

var (
	errTwice   = errors.New("is there twice")
	errUnit    = errors.New("must be at most 64 bytes, and printable")
	errPath    = errors.New("must be an absolute path")
	errPattern = errors.New("must be a path below the cgroup file system with a * in its last part")
)

// validateSite checks the form of the sources and metrics that a site adds. The agent compares their names with its own
// metrics when it starts.
func (a *Agent) validateSite(f *findings) {
	f.within("agent.sources", int64(len(a.Sources)), 0, maxSiteSources)
	sources, metrics := map[string]bool{}, map[string]bool{}
	for i := range a.Sources {
		s := &a.Sources[i]
		key := fmt.Sprintf("agent.sources[%d]", i)
		if sources[s.Name] {
			f.wrong(errTwice, key+".name", fmt.Sprintf("%q", s.Name), "")
		}
		sources[s.Name] = true
		s.validate(f, key)
		for j, m := range s.Metrics {
			m.validate(f, fmt.Sprintf("%s.metrics[%d]", key, j), metrics)
		}
	}
	for i, m := range a.Metrics {
		m.validate(f, fmt.Sprintf("agent.metrics[%d]", i), metrics)
	}
	f.within("agent.metrics", int64(len(metrics)), 0, maxSiteMetrics)
	f.within("agent.cgroups", int64(len(a.Cgroups)), 0, maxPatterns)
	for i, p := range a.Cgroups {
		_, err := path.Match(p, "")
		if err != nil || strings.HasPrefix(p, "/") || slices.Contains(strings.Split(p, "/"), "..") ||
			!strings.ContainsAny(path.Base(p), "*?[") {
			f.wrong(errPattern, fmt.Sprintf("agent.cgroups[%d]", i), fmt.Sprintf("%.200q", p),
				"such as system.slice/slurmstepd.scope/job_*")
		}
	}
}

func (s *SiteSource) validate(f *findings, key string) {
	if !naming.Valid(s.Name) || len(s.Name) > maxSourceName || strings.Contains(s.Name, ":") {
		f.wrong(errName, key+".name", fmt.Sprintf("%.80q", s.Name),
			fmt.Sprintf("at most %d bytes, without a colon", maxSourceName))
	}
	if (len(s.Exec) > 0) == (s.File != "") {
		f.wrong(errTogether, key, fmt.Sprintf("%.80q", s.Name), "either exec or file")
	}
	if len(s.Exec) > 0 {
		if f.file(key+".exec", s.Exec[0]); strings.ContainsAny(s.Exec[0], " \t") { // a line for a shell
			f.wrong(errPath, key+".exec", fmt.Sprintf("%.80q", s.Exec[0]), "write [/path, argument]")
		}
		f.lasting(key+".timeout", s.Timeout, 10*time.Millisecond, s.Interval)
		if i := slices.IndexFunc(s.Exec, hasNUL); i > 0 {
			f.wrong(errChoice, key+".exec", fmt.Sprintf("%.80q", s.Exec[i]), "a text without NUL")
		}
	} else if s.Timeout != 0 {
		f.wrong(errTogether, key+".timeout", s.Timeout, "exec")
	}
	if s.File != "" {
		f.file(key+".file", s.File)
		f.lasting(key+".max_age", s.MaxAge, s.Interval, 24*time.Hour)
	} else if s.MaxAge != 0 {
		f.wrong(errTogether, key+".max_age", s.MaxAge, "file")
	}
	if len(s.Metrics) == 0 {
		f.wrong(errTogether, key, fmt.Sprintf("%.80q", s.Name), "metrics: [{name, unit, scope, kind}]")
	}
}

func (m SiteMetric) validate(f *findings, key string, taken map[string]bool) {
	f.metric(key, m.Name, m.Unit, taken)
	f.oneOf(key+".scope", m.Scope, "node", "core", "socket", "gpu")
	f.oneOf(key+".kind", m.Kind, "gauge", "rate", "ratio")
}

func (m DerivedMetric) validate(f *findings, key string, taken map[string]bool) {
	f.metric(key, m.Name, m.Unit, taken)
	f.oneOf(key+".scope", m.Scope, "", "node", "core", "socket", "gpu", "job")
	f.oneOf(key+".kind", m.Kind, "", "gauge", "rate", "ratio")
	if m.Expr == "" {
		f.wrong(errTogether, key, fmt.Sprintf("%.80q", m.Name), "expr")
	}
}

// metric checks the name and unit of a metric. Its name must not be in taken, and is added to it.
func (f *findings) metric(key, name, unit string, taken map[string]bool) {
	switch value := fmt.Sprintf("%.80q", name); {
	case !naming.Valid(name) || strings.Contains(name, ":"):
		f.wrong(errName, key+".name", value, "without a colon")
	case strings.HasPrefix(name, "weir_"):
		f.wrong(errName, key+".name", value, "weir_ begins the names of the agent's own")
	case taken[name]:
		f.wrong(errTwice, key+".name", value, "")
	}
	taken[name] = true
	if len(unit) > naming.MaxBytes || strings.ContainsFunc(unit, notPrintable) {
		f.wrong(errUnit, key+".unit", fmt.Sprintf("%.80q", unit), "")
	}
}

func (f *findings) file(key, name string) {
	if !filepath.IsAbs(name) || hasNUL(name) {
		f.wrong(errPath, key, fmt.Sprintf("%.80q", name), "")
	}
}

func hasNUL(s string) bool { return strings.Contains(s, "\x00") }

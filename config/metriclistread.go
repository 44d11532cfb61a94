package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/naming"
)

// Bounds of a list. One of 5,000 metrics with the model of each takes 2 MB.
const (
	maxListBytes = 16 << 20
	maxListed    = 100_000
)

// listVersion is the form of metrics.yaml that this program knows.
const listVersion = 1

var (
	errNoMetric = errors.New("names no metric: nothing would be measured; name those to keep, or leave " +
		"agent.metrics_file empty to measure everything")
	errVersion   = errors.New("is no version that this weir knows: select the metrics anew with this weir")
	errTime      = errors.New("must be a time such as 2026-11-23T03:00:00Z")
	errBoth      = errors.New("is kept and dropped: leave one out")
	errNotKept   = errors.New("is not in keep: add it there, or leave it out here")
	errDocuments = errors.New("more than one document: only one may stand between lines of ---")
)

// ReadMetricList reads the list of a file. The error names the file, and each fault with its key.
func ReadMetricList(path string) (*MetricList, error) {
	text, err := readFile(path, maxListBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the list of metrics: %w", err)
	}
	l, err := parseMetricList(text)
	if err != nil {
		return nil, fmt.Errorf("reading the list of metrics %s: %w", path, err)
	}
	return l, nil
}

// parseMetricList reads the text of a metrics.yaml. The error joins all faults, each with its key, its value and the
// remedy.
func parseMetricList(text []byte) (*MetricList, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	l := &MetricList{}
	if err := d.Decode(l); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("keep %w", errNoMetric)
	} else if err != nil {
		return nil, listError(err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errDocuments
	}
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return l, nil
}

var listWords = strings.NewReplacer(
	" not found in type config.MetricList", " is no key of metrics.yaml",
	" not found in type config.", " is no key of ", "into config.MetricList", "as metrics.yaml", "config.", "",
	"!!", "",
)

// listError makes a line of an error of the YAML library, in the words of a person who edits the file.
func listError(err error) error {
	text := listWords.Replace(oneLine(err).Error())
	const most = 400 // a malformed file causes an error for each line
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return errors.New(text)
}

// Validate returns nil, or all faults of the list joined.
func (l *MetricList) Validate() error {
	f := &findings{}
	if l.Version != listVersion {
		f.wrong(errVersion, "version", l.Version, strconv.Itoa(listVersion))
	}
	if _, err := time.Parse(time.RFC3339, l.Created); l.Created != "" && err != nil {
		f.wrong(errTime, "created", fmt.Sprintf("%.80q", l.Created), "")
	}
	if !(l.Canary >= 0 && l.Canary <= 1) { // also refuses NaN
		f.wrong(errRange, "canary", l.Canary, "0 (no node) to 1 (all nodes), such as 0.02")
	}
	f.within("rows", int64(l.Rows), 0, 1<<53)
	f.within("blocks", int64(l.Blocks), 0, 1<<53)
	for i, name := range l.Responses {
		f.name(fmt.Sprintf("responses[%d]", i), name)
	}
	f.within("keep", int64(len(l.Keep)), 0, maxListed)
	f.within("dropped", int64(len(l.Dropped)), 0, maxListed)
	kept := map[string]bool{}
	for i, name := range l.Keep {
		f.listed(fmt.Sprintf("keep[%d]", i), name, kept)
	}
	if len(l.Keep) == 0 {
		f.wrong(errNoMetric, "keep", "[]", "")
	}
	why := map[string]bool{}
	for i, k := range l.Kept {
		key := fmt.Sprintf("kept[%d].name", i)
		if f.listed(key, k.Name, why) && !kept[k.Name] {
			f.wrong(errNotKept, key, k.Name, "")
		}
	}
	dropped := map[string]bool{}
	for i, d := range l.Dropped {
		key := fmt.Sprintf("dropped[%d]", i)
		if f.listed(key+".name", d.Name, dropped) && kept[d.Name] {
			f.wrong(errBoth, key+".name", d.Name, "")
		}
		if d.Representative != "" {
			f.name(key+".representative", d.Representative)
		}
		if !(d.R >= -1 && d.R <= 1) {
			f.wrong(errRange, key+".r", d.R, "-1 to 1")
		}
		if !(d.R2 <= 1) { // of held-out rows it may be far below 0
			f.wrong(errRange, key+".r2", d.R2, "at most 1")
		}
	}
	l.Drift.validate(f, kept, dropped)
	return f.err()
}

// listed checks a name of a list in which no name is twice. It reports whether the name is right.
func (f *findings) listed(key, name string, taken map[string]bool) bool {
	if f.name(key, name); !naming.Valid(name) {
		return false
	}
	if taken[name] {
		f.wrong(errTwice, key, name, "")
	}
	taken[name] = true
	return true
}

// err joins the faults, or the first of many.
func (f *findings) err() error {
	const most = 20
	var all []error
	for _, fault := range f.faults[:min(most, len(f.faults))] {
		all = append(all, fault)
	}
	if more := len(f.faults) - most; more > 0 {
		all = append(all, fmt.Errorf("%d faults more", more))
	}
	return errors.Join(all...)
}

// With returns the list with more names to keep.
func (l *MetricList) With(names []string) *MetricList {
	more := *l
	more.Keep = slices.Concat(l.Keep, names)
	slices.Sort(more.Keep)
	more.Keep = slices.Compact(more.Keep)
	return &more
}

// Measures reports whether a node measures a metric. A canary measures all, and so does every node without a list. The
// agent's metrics about itself are always measured, and so are the responses, because `weir metrics drift` watches
// them.
func (l *MetricList) Measures(node, metric string) bool {
	return l == nil || strings.HasPrefix(metric, ownPrefix) || slices.Contains(l.Keep, metric) ||
		slices.Contains(l.Responses, metric) || Canary(node, l.Canary)
}

// Canary reports whether a node belongs to the share of nodes that continue to measure everything. A canary stays one
// when the share grows: its name alone decides. So agents need no list of nodes, and a restart changes nothing.
func Canary(node string, share float64) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(node)) // a hash does not fail
	x := h.Sum64()
	// FNV leaves the names n0001, n0002 near each other. The finaliser of splitmix64 scatters them.
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return cmp.Less(float64(x>>11)/(1<<53), share)
}

// ownPrefix begins the names of the agent's metrics about itself.
const ownPrefix = "weir_"

package config

import (
	"testing"
	"time"
)

// TestSinkPeriod: a file of the archive holds five minutes, or an interval if that is longer.
func TestSinkPeriod(t *testing.T) {
	for name, c := range map[string]struct {
		yaml string
		want time.Duration
	}{
		"default":         {"", 5 * time.Minute},
		"shorter":         {"sink: {period: 10s}", 10 * time.Second},
		"a long interval": {"interval: 20m\nsink: {period: 10s}\ntopics: {counters_retention: 100h}", 20 * time.Minute},
	} {
		got, err := Load(Source{File: write(t, c.yaml), Defaults: Default()})
		if err != nil || got.FilePeriod() != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got.FilePeriod(), err, c.want)
		}
	}
	for _, yaml := range []string{
		"sink: {period: 0s}", "sink: {period: 25h}", "sink: {period: -1s}",
		"sink: {period: 2h}\ntopics: {summary_retention: 3h}", // the topic may forget what a killed sink had in hand
	} {
		if _, err := Load(Source{File: write(t, yaml), Defaults: Default()}); err == nil {
			t.Errorf("%s is accepted", yaml)
		}
	}
}

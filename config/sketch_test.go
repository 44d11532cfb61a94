package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestSketch: a certified summary has a size whose accuracy is known. Another one is refused with the choices.
func TestSketch(t *testing.T) {
	load := func(value string) (Config, error) {
		return Load(Source{File: write(t, "collect: {sketch: "+value+"}"), Defaults: Default()})
	}
	for value, want := range map[string]int{"512": 512, "210": 210, "0": 0} {
		if c, err := load(value); err != nil || c.Collect.Sketch != want {
			t.Errorf("%s: %d, %v", value, c.Collect.Sketch, err)
		}
	}
	for _, value := range []string{"511", "1", "-1", "99999999999999999999"} {
		_, err := load(value)
		if !errors.Is(err, errChoice) || !strings.Contains(err.Error(), "collect.sketch") ||
			!strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), "512, 210, 0") {
			t.Errorf("%s: %v", value, err)
		}
	}
	if _, err := load("large"); !errors.Is(err, errValue) {
		t.Errorf("a word: %v", err)
	}
	if c := Default(); c.Collect.Sketch != 512 || c.Topics.SummaryRetention != 72*time.Hour {
		t.Errorf("%+v %+v", c.Collect, c.Topics)
	}
}

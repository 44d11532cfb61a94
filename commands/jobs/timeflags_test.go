package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/commands/cli"
)

// TestTimesOfFlags: all commands read times alike. A date is one of UTC, wherever the reader is, and days are ages.
func TestTimesOfFlags(t *testing.T) {
	here := time.Local
	defer func() { time.Local = here }()
	time.Local = time.FixedZone("far away", 5*3600)
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	readers := map[string]func(text string) (time.Time, error){
		"jobs --since": func(text string) (time.Time, error) {
			a, err := (&jobsFlags{since: text}).ask(now)
			return a.Since, err
		},
		"job --from": func(text string) (time.Time, error) {
			a, err := (&jobFlags{from: text}).ask(now)
			return a.From, err
		},
		"job --to": func(text string) (time.Time, error) {
			a, err := (&jobFlags{to: text}).ask(now)
			return a.To, err
		},
		"report system --from": func(text string) (time.Time, error) {
			a, err := (&systemFlags{from: text}).ask(now)
			return a.From, err
		},
		"report system --to": func(text string) (time.Time, error) {
			a, err := (&systemFlags{to: text}).ask(now)
			return a.To, err
		},
		"find RULE --since": func(text string) (time.Time, error) { return cli.TimeFlag("since", text, now) },
	}
	for text, want := range map[string]time.Time{
		"24h": now.Add(-24 * time.Hour), "7d": now.AddDate(0, 0, -7), "90m": now.Add(-90 * time.Minute), "": {},
		"2026-11-01":                time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		"2026-11-01T06:00:00+02:00": time.Date(2026, 11, 1, 4, 0, 0, 0, time.UTC),
	} {
		for flag, read := range readers {
			if got, err := read(text); err != nil || !got.Equal(want) {
				t.Errorf("%s %q: %v, %v", flag, text, got, err)
			}
		}
	}
	for _, text := range []string{"yesterday", "-1h", "-7d", "7", "d", "99999999d", "2026-13-01", "1960-01-01"} {
		says := "of UTC such as 2026-11-21"
		if text == "1960-01-01" {
			says = "times begin on 1970-01-02"
		}
		for flag, read := range readers {
			if at, err := read(text); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s %q: %v, %v", flag, text, at, err)
			}
		}
	}
}

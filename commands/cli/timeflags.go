package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TimeFlag reads an age, a date, or a time in the form of RFC 3339. Dates are in UTC, like the archive's and those of
// `weir sql`, so that a command means the same everywhere. An empty text is the zero time.
func TimeFlag(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := ageOf(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		at, err := time.Parse(layout, text)
		if err == nil && at.Unix() <= 0 {
			return time.Time{}, fmt.Errorf("--%s %s: times begin on 1970-01-02", flag, text)
		}
		if err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("--%s %q is neither a time such as 2026-11-21T08:00:00Z, nor a date of UTC such as "+
		"2026-11-21, nor an age such as 24h or 7d", flag, text)
}

// ageOf parses a duration. Days have 24 hours.
func ageOf(text string) (time.Duration, error) {
	if days, is := strings.CutSuffix(text, "d"); is {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// Age is a flag for a duration that may be given in days.
type Age time.Duration

func (a *Age) String() string {
	if *a == 0 {
		return "0" // the help does not show a default of 0
	}
	return time.Duration(*a).String()
}

// Type returns the name of the type, for help.
func (a *Age) Type() string { return "duration" }

// Set parses the flag's text.
func (a *Age) Set(text string) error {
	d, err := ageOf(text)
	*a = Age(d)
	return err
}

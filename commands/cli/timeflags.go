package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TimeFlag reads a time: an age, a date, or a time as RFC 3339 has it. A date is one of UTC, as those of the archive
// and of `weir sql` are: so a command means the same everywhere. Without text it is zero.
func TimeFlag(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := ageOf(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil && at.Unix() > 0 {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("--%s %q is neither a time such as 2026-11-21T08:00:00Z, nor a date of UTC such as "+
		"2026-11-21, nor an age such as 24h or 7d", flag, text)
}

// ageOf reads a length of time. Days have 24 hours.
func ageOf(text string) (time.Duration, error) {
	if days, is := strings.CutSuffix(text, "d"); is {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// Age is a flag of a length of time that may have days.
type Age time.Duration

func (a *Age) String() string {
	if *a == 0 {
		return "0" // which the help does not show
	}
	return time.Duration(*a).String()
}

func (a *Age) Type() string { return "duration" }

// Set reads the flag's text.
func (a *Age) Set(text string) error {
	d, err := ageOf(text)
	*a = Age(d)
	return err
}

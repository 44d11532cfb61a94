package machine

import (
	"math"
	"strconv"
	"strings"
	"time"
)

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// quantile interpolates between neighbours in the same way as quantile_cont in SQL. Values are in ascending order.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	k := int(math.Floor(at))
	if k+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[k] + (at-float64(k))*(sorted[k+1]-sorted[k])
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// shortest writes a duration without its zero parts, such as 10m.
func shortest(d time.Duration) string {
	text := d.String()
	if cut, found := strings.CutSuffix(text, "m0s"); found {
		text = cut + "m"
	}
	if cut, found := strings.CutSuffix(text, "h0m"); found {
		text = cut + "h"
	}
	return text
}

// Span names the time of a report. Days are in UTC, and the last one is included. A whole month is written by its name.
func (o *Options) Span() string {
	from, to := time.UnixMilli(o.FromMs).UTC(), time.UnixMilli(o.ToMs).UTC()
	midnight := func(t time.Time) bool { return t.Equal(t.Truncate(24 * time.Hour)) }
	switch last := to.AddDate(0, 0, -1); {
	case !midnight(from) || !midnight(to) || !from.Before(to):
		return from.Format("2006-01-02 15:04") + " to " + to.Format("2006-01-02 15:04") + " UTC"
	case from.Day() == 1 && to.Equal(from.AddDate(0, 1, 0)):
		return from.Format("January 2006")
	case last.Equal(from):
		return from.Format(time.DateOnly)
	default:
		return from.Format(time.DateOnly) + " to " + last.Format(time.DateOnly)
	}
}

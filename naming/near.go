package naming

import (
	"maps"
	"slices"
	"strings"
)

// Nearest returns the end of a message about an unknown metric: names that are near, or the first that there are.
func Nearest[V any](name string, known map[string]V) string {
	if len(known) == 0 {
		return ": no record has a metric"
	}
	if near := Meant(name, known); near != "" {
		return near
	}
	const shown = 20
	names := slices.Sorted(maps.Keys(known))
	if len(names) > shown {
		names = append(names[:shown], "…")
	}
	return ": there are " + strings.Join(names, ", ")
}

// Meant returns the end of a message about an unknown name: the known names that are near it. It is empty if none is.
func Meant[V any](name string, known map[string]V) string {
	const most = 3
	names := slices.Sorted(maps.Keys(known))
	distance := map[string]int{}
	for _, n := range names {
		distance[n] = edits(strings.ToLower(name), strings.ToLower(n))
	}
	near := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return distance[n] > max(2, len(name)/3) && !strings.Contains(n, name)
	})
	slices.SortStableFunc(near, func(a, b string) int { return distance[a] - distance[b] })
	if len(near) > 0 {
		return ": did you mean " + strings.Join(near[:min(most, len(near))], " or ") + "?"
	}
	return ""
}

// edits returns how many characters must be changed, added or removed to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

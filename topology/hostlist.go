package topology

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds what one hostlist stands for.
const maxHosts = 1 << 20

var errHostlist = errors.New("not a hostlist such as n[001-128],login1")

// expand returns the names that a hostlist of Slurm's stands for: n[1-3,7]r[0-1] with the zeros that are written.
func expand(text string) ([]string, error) {
	var names []string
	for text != "" {
		end := topComma(text)
		if end == 0 {
			return nil, fmt.Errorf("%.80q: %w", text, errHostlist)
		}
		some, err := expandOne([]string{""}, text[:end])
		if err != nil {
			return nil, err
		}
		if names = append(names, some...); len(names) > maxHosts {
			return nil, fmt.Errorf("%w: more than %d names", errHostlist, maxHosts)
		}
		if end == len(text) {
			break
		}
		if text = text[end+1:]; text == "" {
			return nil, fmt.Errorf("a comma at the end: %w", errHostlist)
		}
	}
	return names, nil
}

// topComma returns the position of the first comma outside brackets, or the length.
func topComma(text string) int {
	depth := 0
	for i, c := range text {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth == 0:
			return i
		}
	}
	return len(text)
}

// expandOne appends to each prefix all that one expression stands for.
func expandOne(prefixes []string, text string) ([]string, error) {
	whole := text
	for text != "" {
		plain, rest, bracket := strings.Cut(text, "[")
		if strings.ContainsRune(plain, ']') {
			return nil, fmt.Errorf("%.80q: %w", whole, errHostlist)
		}
		suffixes := []string{plain}
		if bracket {
			inside, after, closed := strings.Cut(rest, "]")
			if !closed {
				return nil, fmt.Errorf("%.80q: %w", whole, errHostlist)
			}
			numbers, err := expandRanges(inside)
			if err != nil {
				return nil, fmt.Errorf("%.80q: %w", whole, err)
			}
			suffixes = suffixes[:0]
			for _, n := range numbers {
				suffixes = append(suffixes, plain+n)
			}
			rest = after
		}
		if len(prefixes)*len(suffixes) > maxHosts {
			return nil, fmt.Errorf("%.80q: %w: more than %d names", whole, errHostlist, maxHosts)
		}
		longer := make([]string, 0, len(prefixes)*len(suffixes))
		for _, p := range prefixes {
			for _, s := range suffixes {
				longer = append(longer, p+s)
			}
		}
		prefixes, text = longer, rest
	}
	return prefixes, nil
}

// expandRanges returns the numbers of 1-3,07-12, as wide as the first of each range is written.
func expandRanges(text string) ([]string, error) {
	var numbers []string
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		a, errA := strconv.ParseUint(low, 10, 31)
		b, errB := strconv.ParseUint(high, 10, 31)
		if errA != nil || errB != nil || a > b || len(low) > 16 {
			return nil, fmt.Errorf("range %.80q: %w", part, errHostlist)
		}
		if uint64(len(numbers))+b-a >= maxHosts {
			return nil, fmt.Errorf("%w: more than %d names", errHostlist, maxHosts)
		}
		for n := a; n <= b; n++ {
			numbers = append(numbers, fmt.Sprintf("%0*d", len(low), n))
		}
	}
	return numbers, nil
}

package balancer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxHosts bounds what one hostlist may expand to.
	maxHosts = 1 << 18
	// maxHostBytes is what a host's name has at most, and maxHostDigits a number in it.
	maxHostBytes  = 64
	maxHostDigits = 18
)

// ErrHostlist is returned where a text is no hostlist.
var ErrHostlist = errors.New("not a hostlist")

// hostPart is a piece of an item of a hostlist: a literal, or the numbers between brackets.
type hostPart struct {
	literal string
	ranges  []hostRange // nil: the literal
}

type hostRange struct {
	low, high int64
	width     int // digits at least, with leading zeros
}

// ExpandHosts returns the hosts of a list as Slurm writes it, such as n[001-003,7],rack[1-2]node[01-16],login, in the order
// in which they stand there, and with what stands there twice. Unlike Slurm's own tools it does not guess at what a
// bracket that is empty or never closed could mean. A list of more than 2^18 hosts is refused before any of them is made.
func ExpandHosts(list string) ([]string, error) {
	var items [][]hostPart
	total := 0
	for _, text := range splitHosts(list) {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		parts, count, err := parseHosts(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %.80q: %w", ErrHostlist, text, err)
		}
		if total += count; total > maxHosts {
			return nil, fmt.Errorf("%w: more than %d hosts", ErrHostlist, maxHosts)
		}
		items = append(items, parts)
	}
	hosts := make([]string, 0, total)
	for _, parts := range items {
		hosts = appendHosts(hosts, "", parts)
	}
	return hosts, nil
}

// splitHosts splits at the commas outside brackets.
func splitHosts(list string) (items []string) {
	inside, from := false, 0
	for i := range len(list) {
		switch list[i] {
		case '[':
			inside = true
		case ']':
			inside = false
		case ',':
			if !inside {
				items = append(items, list[from:i])
				from = i + 1
			}
		}
	}
	return append(items, list[from:])
}

// parseHosts returns the parts of one item and how many hosts it has, at most maxHosts.
func parseHosts(text string) (parts []hostPart, count int, err error) {
	count, longest := 1, 0
	for text != "" {
		at := strings.IndexAny(text, "[] \t\n")
		if at < 0 {
			at = len(text)
		}
		if at > 0 {
			parts = append(parts, hostPart{literal: text[:at]})
			longest += at
		} else {
			end := strings.IndexByte(text, ']')
			if text[0] != '[' || end < 0 {
				return nil, 0, errors.New("a bracket without its other, or a blank within a name")
			}
			ranges, n, err := parseRanges(text[1:end])
			if err != nil {
				return nil, 0, err
			}
			if count *= n; count > maxHosts { // both are bounded, so that the product is too
				return nil, 0, fmt.Errorf("more than %d hosts", maxHosts)
			}
			parts = append(parts, hostPart{ranges: ranges})
			longest++ // at least
			at = end + 1
		}
		if longest > maxHostBytes {
			return nil, 0, fmt.Errorf("a name longer than %d bytes", maxHostBytes)
		}
		text = text[at:]
	}
	return parts, count, nil
}

func parseRanges(text string) (ranges []hostRange, count int, err error) {
	for one := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(one, "-")
		if !isRange {
			high = low
		}
		r := hostRange{width: len(low)}
		if r.low, err = hostNumber(low); err == nil {
			r.high, err = hostNumber(high)
		}
		if err != nil {
			return nil, 0, err
		}
		if r.high < r.low {
			return nil, 0, fmt.Errorf("range %.40q runs backwards", one)
		}
		if n := r.high - r.low; n >= maxHosts || count+int(n)+1 > maxHosts {
			return nil, 0, fmt.Errorf("more than %d numbers", maxHosts)
		}
		count += int(r.high-r.low) + 1
		ranges = append(ranges, r)
	}
	return ranges, count, nil
}

// hostNumber is strict: digits alone.
func hostNumber(text string) (int64, error) {
	if text == "" || len(text) > maxHostDigits || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%.40q is not a number", text)
	}
	return strconv.ParseInt(text, 10, 64)
}

func appendHosts(hosts []string, prefix string, parts []hostPart) []string {
	if len(parts) == 0 {
		return append(hosts, prefix)
	}
	if parts[0].ranges == nil {
		return appendHosts(hosts, prefix+parts[0].literal, parts[1:])
	}
	for _, r := range parts[0].ranges {
		for n := r.low; n <= r.high; n++ {
			hosts = appendHosts(hosts, prefix+padded(n, r.width), parts[1:])
		}
	}
	return hosts
}

func padded(n int64, width int) string {
	digits := strconv.FormatInt(n, 10)
	return strings.Repeat("0", max(0, width-len(digits))) + digits
}

// FoldHosts returns a short list of the hosts, which ExpandHosts expands again: sorted, each once, and with ranges where
// names differ by the number at their end.
func FoldHosts(hosts []string) string {
	type host struct {
		name, stem string
		number     int64
		digits     int // 0: the name does not end with a number
	}
	sorted := make([]host, 0, len(hosts))
	for _, name := range hosts {
		stem := strings.TrimRight(name, "0123456789")
		if d := len(name) - len(stem); d > maxHostDigits {
			stem = name[:len(name)-maxHostDigits]
		}
		h := host{name: name, stem: stem, digits: len(name) - len(stem)}
		h.number, _ = strconv.ParseInt(name[len(stem):], 10, 64) // 0 where there are no digits
		sorted = append(sorted, h)
	}
	slices.SortFunc(sorted, func(a, b host) int {
		return cmp.Or(cmp.Compare(a.stem, b.stem), cmp.Compare(a.number, b.number), cmp.Compare(a.digits, b.digits))
	})
	sorted = slices.CompactFunc(sorted, func(a, b host) bool { return a.name == b.name })
	var items []string
	for i := 0; i < len(sorted); {
		stem := sorted[i].stem
		if sorted[i].digits == 0 {
			items = append(items, stem)
			i++
			continue
		}
		var ranges []string
		single := true // one host alone needs no brackets
		for first := i; i < len(sorted) && sorted[i].stem == stem && sorted[i].digits > 0; {
			low := sorted[i]
			last := i
			for last+1 < len(sorted) && sorted[last+1].name == stem+padded(low.number+int64(last+1-i), low.digits) {
				last++
			}
			text := low.name[len(stem):]
			if last > i {
				text += "-" + sorted[last].name[len(stem):]
			}
			ranges = append(ranges, text)
			i = last + 1
			single = i-first == 1
		}
		if single {
			items = append(items, sorted[i-1].name)
		} else {
			items = append(items, stem+"["+strings.Join(ranges, ",")+"]")
		}
	}
	return strings.Join(items, ",")
}

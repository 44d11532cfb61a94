package topology

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	// maxHosts bounds the expansion of one hostlist.
	maxHosts = 1 << 20
	// maxHostBytes bounds the name of a host, and maxHostDigits a number in it.
	maxHostBytes  = 64
	maxHostDigits = 18
)

// errHostlist is returned for a text that is no hostlist, or that stands for more hosts than any machine has.
var errHostlist = errors.New("not a hostlist such as n[001-128],login1")

// hostPart is a piece of an item of a hostlist: text, and the numbers in the brackets after it.
type hostPart struct {
	text   string
	ranges []hostRange // nil: no brackets
}

// hostRange is the numbers from low to high.
type hostRange struct {
	low, high int64
	width     int // the least number of digits, with leading zeros
}

// ExpandHosts returns the hosts of a list as Slurm writes it, such as n[001-003,7],rack[1-2]node[01-16],login. It keeps
// their order, and hosts that are listed twice. As Slurm's own tools do, it ignores blanks around an item, and empty
// items. Unlike them it refuses a bracket that is empty or never closed, and accepts text after brackets. A list of
// more than 2^20 hosts, or with a name of more than 64 bytes, is refused before any host is made. Errors wrap
// errHostlist.
func ExpandHosts(list string) ([]string, error) {
	var items [][]hostPart
	total := 0
	for item := range Items(list) {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		parts, count, err := parseItem(item)
		if err != nil {
			return nil, fmt.Errorf("%.80q is %w: %w", item, errHostlist, err)
		}
		if total += count; total > maxHosts {
			return nil, fmt.Errorf("%.80q is %w: more than %d hosts", list, errHostlist, maxHosts)
		}
		items = append(items, parts)
	}
	hosts := make([]string, 0, total)
	for _, parts := range items {
		hosts = appendHosts(hosts, "", parts)
	}
	return hosts, nil
}

// Items returns the items of a list of names between its commas. A comma within brackets separates numbers, not items.
// An empty list is one empty item.
func Items(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			end := itemEnd(list)
			if !yield(list[:end]) || end == len(list) {
				return
			}
			list = list[end+1:]
		}
	}
}

// itemEnd returns the position of the first comma outside brackets, or the length.
func itemEnd(list string) int {
	inside := false
	for i := range len(list) {
		switch list[i] {
		case '[':
			inside = true
		case ']':
			inside = false
		case ',':
			if !inside {
				return i
			}
		}
	}
	return len(list)
}

// parseItem returns the parts of one item and the number of hosts that it stands for, at most maxHosts.
func parseItem(item string) (parts []hostPart, count int, err error) {
	if strings.ContainsFunc(item, unicode.IsSpace) {
		return nil, 0, errors.New("a blank within a name")
	}
	count, longest := 1, 0 // hosts so far, and bytes of the longest name
	for item != "" {
		text, rest, opens := strings.Cut(item, "[")
		numbers, after, closes := strings.Cut(rest, "]")
		if opens != closes || strings.Contains(text, "]") {
			return nil, 0, errors.New("a bracket without its other")
		}
		p := hostPart{text: text}
		longest += len(text)
		if opens {
			var n int
			if p.ranges, n, err = parseRanges(numbers); err != nil {
				return nil, 0, err
			}
			if n > maxHosts/count {
				return nil, 0, fmt.Errorf("more than %d hosts", maxHosts)
			}
			count *= n
			digits := 0
			for _, r := range p.ranges {
				digits = max(digits, len(padded(r.high, r.width)))
			}
			longest += digits
		}
		if longest > maxHostBytes {
			return nil, 0, fmt.Errorf("a name longer than %d bytes", maxHostBytes)
		}
		parts, item = append(parts, p), after
	}
	return parts, count, nil
}

// ExpandRanges returns the numbers of a list such as 0-3,8. It keeps their order, and numbers that are listed twice. It
// refuses a list of more than 2^20 numbers, or with anything but digits, hyphens and commas.
func ExpandRanges(list string) ([]int64, error) {
	ranges, count, err := parseRanges(list)
	if err != nil {
		return nil, err
	}
	numbers := make([]int64, 0, count)
	for _, r := range ranges {
		for n := r.low; n <= r.high; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// parseRanges returns the ranges of a list and the number of their numbers, at most maxHosts.
func parseRanges(list string) (ranges []hostRange, count int, err error) {
	for one := range strings.SplitSeq(list, ",") {
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
		if r.high-r.low >= int64(maxHosts-count) {
			return nil, 0, fmt.Errorf("more than %d numbers", maxHosts)
		}
		count += int(r.high-r.low) + 1
		ranges = append(ranges, r)
	}
	return ranges, count, nil
}

// hostNumber takes digits alone: no sign, no blank.
func hostNumber(text string) (int64, error) {
	if text == "" || len(text) > maxHostDigits || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%.40q is not a number of up to %d digits", text, maxHostDigits)
	}
	return strconv.ParseInt(text, 10, 64)
}

// appendHosts counts as an odometer does: the last range runs fastest, as in Slurm. The caller has bounded the product
// of all ranges.
func appendHosts(hosts []string, prefix string, parts []hostPart) []string {
	if len(parts) == 0 {
		return append(hosts, prefix)
	}
	prefix += parts[0].text
	if parts[0].ranges == nil {
		return appendHosts(hosts, prefix, parts[1:])
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

// FoldHosts returns a short list of the hosts, which ExpandHosts expands again. The list is sorted and contains each
// host once. Names that differ only by the number at their end become ranges.
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
		h.number, _ = strconv.ParseInt(name[len(stem):], 10, 64) // 0 if there are no digits
		sorted = append(sorted, h)
	}
	slices.SortFunc(sorted, func(a, b host) int {
		return cmp.Or(cmp.Compare(a.stem, b.stem), cmp.Compare(a.number, b.number), cmp.Compare(a.digits, b.digits))
	})
	sorted = slices.CompactFunc(sorted, func(a, b host) bool { return a.name == b.name })
	follows := func(a, b host, by int) bool { // with more than maxHostDigits digits the stem differs
		return b.stem == a.stem && b.name == a.stem+padded(a.number+int64(by), a.digits)
	}
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
		for first := i; i < len(sorted) && sorted[i].stem == stem; {
			low, last := sorted[i], i
			for last+1 < len(sorted) && follows(low, sorted[last+1], last+1-i) {
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

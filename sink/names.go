package sink

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func fileName(topic string, partition int32, start int64) string {
	return fmt.Sprintf("%s-%d-%0*d%s", topic, partition, startDigits, start, suffix)
}

// parseName is the inverse of fileName; ok is false for every other name.
func parseName(topic, name string) (partition int32, start int64, ok bool) {
	rest, ok := strings.CutPrefix(name, topic+"-")
	if !ok {
		return 0, 0, false
	}
	left, right, ok := strings.Cut(strings.TrimSuffix(rest, suffix), "-")
	if !ok {
		return 0, 0, false
	}
	p, err := strconv.ParseInt(left, 10, 32)
	if err != nil || p < 0 {
		return 0, 0, false
	}
	start, err = strconv.ParseInt(right, 10, 64)
	if err != nil || start < 0 || fileName(topic, int32(p), start) != name {
		return 0, 0, false
	}
	return int32(p), start, true
}

// CompactedName returns the name of a partition's compacted file, given the start of its first range.
func CompactedName(topic string, partition int32, start int64) string {
	return fmt.Sprintf("%s-%d-%s%0*d%s", topic, partition, compactedMark, startDigits, start, suffix)
}

// parseCompacted is the inverse of CompactedName; ok is false for every other name.
func parseCompacted(topic, name string) (partition int32, start int64, ok bool) {
	left, right, ok := strings.Cut(strings.TrimPrefix(name, topic+"-"), "-"+compactedMark)
	if !ok {
		return 0, 0, false
	}
	partition, start, ok = parseName(topic, topic+"-"+left+"-"+right)
	return partition, start, ok && CompactedName(topic, partition, start) == name
}

// parseDate returns the date that a directory of the archive is named by.
func parseDate(name string) (date string, ok bool) {
	date, ok = strings.CutPrefix(name, datePrefix)
	if !ok {
		return "", false
	}
	_, err := time.Parse(time.DateOnly, date)
	return date, err == nil
}

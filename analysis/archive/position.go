package archive

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/sink"
)

// Position returns where the archive's files of a partition end in a topic, and the topic's id. It is not ok without a
// file. It reads the footers of a few files, not of all: so the position may be too early, but never too late. Who
// reads on from there drops what the archive has. The caller holds the lock of the archive.
func Position(dir, topic string, partition int32) (next int64, topicID string, ok bool, err error) {
	paths, err := filesOf(dir, "summaries", "", "")
	if err != nil {
		return 0, "", false, err
	}
	prefix := topic + "-" + strconv.Itoa(int(partition)) + "-"
	newest, newestStart := "", int64(-1)
	var look, dates []string
	for _, path := range slices.Backward(paths) {
		start, is := strings.CutPrefix(filepath.Base(path), prefix)
		if !is {
			continue
		}
		if start, is := strings.CutPrefix(start, "c"); is && isNumber(start) {
			// A compacted file may hold the end of the chain only if rows of its date came late.
			date := dateOf(path)
			if len(dates) < compactedDates && !slices.Contains(dates, date) {
				dates = append(dates, date)
			}
			if slices.Contains(dates, date) {
				look = append(look, path)
			}
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSuffix(start, ".parquet"), 10, 64); err == nil && n > newestStart {
			newest, newestStart = path, n
		}
	}
	if newest != "" {
		look = append(look, newest)
	}
	for _, path := range look {
		f, err := sink.ReadFooter(path)
		if errors.Is(err, sink.ErrBadFile) || errors.Is(err, fs.ErrNotExist) {
			continue // another file tells it, or it is read again
		}
		if err != nil {
			return 0, "", false, err
		}
		if ok = true; f.Next > next {
			next, topicID = f.Next, f.TopicID
		}
	}
	return next, topicID, ok, nil
}

// compactedDates is how many dates with compacted files are looked at.
const compactedDates = 2

func isNumber(name string) bool {
	_, err := strconv.ParseInt(strings.TrimSuffix(name, ".parquet"), 10, 64)
	return err == nil
}

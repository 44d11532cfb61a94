package archive

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/sink"
)

// Position returns where the archive's files of a partition end in a topic, and the topic's id. It is not ok without a
// file. It reads one footer, not all. A date is compacted only if later files follow, so the last file is a small one.
// What cannot be read makes the position too early, and never too late. Who reads on from there drops what the archive
// has. The caller holds the lock of the archive.
func Position(dir, topic string, partition int32) (next int64, topicID string, ok bool, err error) {
	paths, err := filesOf(dir, "summaries", "", "")
	if err != nil {
		return 0, "", false, err
	}
	prefix := topic + "-" + strconv.Itoa(int(partition)) + "-"
	last, lastStart := "", int64(-1)
	for _, path := range paths {
		name, is := strings.CutPrefix(filepath.Base(path), prefix)
		start, no := strconv.ParseInt(strings.TrimSuffix(name, ".parquet"), 10, 64)
		if is && no == nil && start > lastStart {
			last, lastStart = path, start
		}
	}
	if last == "" {
		return 0, "", false, nil
	}
	f, err := sink.ReadFooter(last)
	switch {
	case errors.Is(err, sink.ErrBadFile), errors.Is(err, fs.ErrNotExist):
		return lastStart, "", true, nil
	case err != nil:
		return 0, "", false, err
	}
	return f.Next, f.TopicID, true, nil
}

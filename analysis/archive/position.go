package archive

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/sink"
)

// Position returns the offset behind a partition's archived records, and the id of their topic. It is not ok if the
// archive contains no file of the partition. It reads one footer: a date is compacted only if later files follow, so
// the last file is never compacted. An unreadable footer makes the position too early, never too late, and a reader
// that continues there drops records that are archived already. The caller holds the lock of the archive.
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

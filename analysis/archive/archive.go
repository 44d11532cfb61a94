// Package archive answers questions about single jobs from the archive's files. It reads the columns that a question
// needs, at the rows that the page index names. Rows as a whole take fifty times as long.
package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhpc/weir/sink/table"
)

// Dates returns the first and the last date that may contain summaries of a job with these lives. An empty date is no
// bound. The macro job_summaries of package query implements the same rule and explains it.
func Dates(lives []table.Life, now time.Time) (first, last string) {
	if len(lives) == 0 {
		return "", ""
	}
	start, end := now.UnixMilli(), int64(math.MinInt64)
	for _, l := range lives {
		start, end = min(start, l.Start()), max(end, l.To)
	}
	const hour = time.Hour
	if start != math.MinInt64 {
		first = DateAt(start - hour.Milliseconds())
	}
	if end < now.Add(-24*hour).UnixMilli() {
		last = DateAt(end + hour.Milliseconds())
	}
	return first, last
}

// LastDate returns the last date with summaries, or "" if there is none.
func LastDate(dir string) (last string, err error) {
	paths, err := filesOf(dir, "summaries", "", "")
	for _, p := range paths {
		last = max(last, dateOf(p))
	}
	return last, err
}

// filesOf returns the files of a table from one date to another.
func filesOf(dir, table, first, last string) (paths []string, err error) {
	dates, err := os.ReadDir(filepath.Join(dir, table))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing dates of the archive: %w", err)
	}
	for _, d := range dates {
		date, is := strings.CutPrefix(d.Name(), "date=")
		if !is || date < first || last != "" && date > last {
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, table, d.Name()))
		if err != nil {
			return nil, fmt.Errorf("listing files of the archive: %w", err)
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ".parquet") {
				paths = append(paths, filepath.Join(dir, table, d.Name(), f.Name()))
			}
		}
	}
	return paths, nil
}

package totals

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// jobsPath returns the file with the jobs that ended on a date.
func jobsPath(dir, date string) string {
	return filepath.Join(dir, "jobs", datePrefix+date, "jobs.parquet")
}

// jobsOf returns the jobs that ended on a date. It needs few of the file's columns.
func jobsOf(dir, date string) (jobs []Job, err error) {
	path := jobsPath(dir, date)
	err = read(path, nil, func(r *struct {
		JobID   string `parquet:"job_id,dict"`
		Restart int32  `parquet:"restart"`
		Start   *int64 `parquet:"start,optional,timestamp(millisecond)"`
		End     int64  `parquet:"end,timestamp(millisecond)"`
	}) error {
		jobs = append(jobs, Job{schemas.JobKey{JobID: r.JobID, Restart: r.Restart}, r.Start, r.End})
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading jobs: %s: bring it back from a copy: %w", path, err)
	}
	return jobs, err
}

// datesIn returns the dates of a table that have a file, oldest first.
func datesIn(path func(date string) string) (dates []string, err error) {
	found, err := filepath.Glob(path("*"))
	for _, file := range found {
		date := strings.TrimPrefix(filepath.Base(filepath.Dir(file)), datePrefix)
		if _, no := time.Parse(time.DateOnly, date); no == nil {
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				dates = append(dates, date)
			}
		}
	}
	slices.Sort(dates)
	return dates, err
}

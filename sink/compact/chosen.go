package compact

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/schemas"
)

// CompareJobs orders jobs as files do.
func CompareJobs(a, b schemas.JobKey) int {
	return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
}

// chosen selects the jobs to read. A nil pointer selects all.
type chosen struct {
	keys  []schemas.JobKey // sorted
	asked schemas.JobKey   // the last job that was looked up; is holds the result: rows of a job are adjacent
	is    bool
	// cuts are times at which a job's id passed to a namesake, in order. An hour with one inside is cut.
	cuts map[schemas.JobKey][]int64
}

// cut reports whether the hour around a time is cut, and returns the start of the piece that contains the time.
func (c *chosen) cut(jobID string, restart int32, ms int64) (since int64, is bool) {
	if c == nil || len(c.cuts) == 0 {
		return 0, false
	}
	since = hourOf(ms)
	end := since + hourMs
	for _, at := range c.cuts[schemas.JobKey{JobID: jobID, Restart: restart}] {
		if hourOf(ms) < at && at < end {
			is = true
			if at <= ms {
				since = at
			}
		}
	}
	return since, is
}

func (c *chosen) has(jobID string, restart int32) bool {
	if c == nil {
		return true
	}
	if k := (schemas.JobKey{JobID: jobID, Restart: restart}); k != c.asked || jobID == "" {
		c.asked = k
		_, c.is = slices.BinarySearchFunc(c.keys, k, CompareJobs)
	}
	return c.is
}

// between reports whether the ids of some of the jobs lie between two bounds.
func (c *chosen) between(least, most string) bool {
	at, _ := slices.BinarySearchFunc(c.keys, least, func(k schemas.JobKey, id string) int {
		return cmp.Compare(k.JobID, id)
	})
	return at < len(c.keys) && c.keys[at].JobID <= most
}

// span is a stretch of rows of a row group.
type span struct{ first, rows int64 }

// spans returns the stretches of a row group that may contain rows of the jobs, by the statistics of the pages of
// job_id. The column is a leaf of the schema.
func (c *chosen) spans(group parquet.RowGroup, column int) (found []span, err error) {
	rows := group.NumRows()
	if c == nil {
		return []span{{0, rows}}, nil
	}
	chunks := group.ColumnChunks()
	if chunk, is := chunks[column].(*parquet.FileColumnChunk); is {
		least, most, ok := chunk.Bounds()
		if ok && !c.between(string(least.ByteArray()), string(most.ByteArray())) {
			return nil, nil
		}
	}
	bounds, err := chunks[column].ColumnIndex()
	if errors.Is(err, parquet.ErrMissingColumnIndex) {
		return []span{{0, rows}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the index of job_id: %w", err)
	}
	for _, chunk := range chunks { // so that every column is read from its page on
		if _, err := chunk.OffsetIndex(); err != nil && !errors.Is(err, parquet.ErrMissingOffsetIndex) {
			return nil, fmt.Errorf("reading the index of pages: %w", err)
		}
	}
	pages, err := chunks[column].OffsetIndex()
	if err != nil {
		return []span{{0, rows}}, nil //nolint:nilerr // without it all rows are read
	}
	for i := range min(bounds.NumPages(), pages.NumPages()) {
		if !c.between(string(bounds.MinValue(i).ByteArray()), string(bounds.MaxValue(i).ByteArray())) {
			continue
		}
		first, next := pages.FirstRowIndex(i), rows
		if i+1 < pages.NumPages() {
			next = pages.FirstRowIndex(i + 1)
		}
		if n := len(found); n > 0 && found[n-1].first+found[n-1].rows == first {
			found[n-1].rows += next - first
			continue
		}
		found = append(found, span{first, next - first})
	}
	return found, nil
}

// columnOf returns the leaf of a column.
func columnOf(schema *parquet.Schema, name string) (int, error) {
	for i, path := range schema.Columns() {
		if path[0] == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("there is no column %s", name)
}

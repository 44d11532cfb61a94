package totals

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/table"
)

const (
	dirName = "job_totals"

	groupRows = 64 << 10
	pageBytes = 32 << 10
)

// errBadFile is returned for a file that is not one of totals, or damaged.
var errBadFile = errors.New("not job totals")

func storeIn(dir string) table.Dated { return table.Dated{Dir: dir, Name: dirName, File: "totals"} }

// Path returns the file with the totals of the jobs that ended on a date.
func Path(dir, date string) string { return storeIn(dir).Path(date) }

// Dates returns the dates that have totals, oldest first.
func Dates(dir string) ([]string, error) { return storeIn(dir).Dates() }

func (r recipe) put(set func(key, value string), rows int64) error {
	dates, err := json.Marshal(append([]string{}, r.dates...))
	waiting, waitErr := json.Marshal(append([]string{}, r.waiting...))
	next, nextErr := json.Marshal(r.next)
	if err := cmp.Or(err, waitErr, nextErr); err != nil {
		return fmt.Errorf("encoding the footer: %w", err)
	}
	for _, pair := range [][2]string{
		{"weir.totals", "1"},
		{"weir.topic", r.topic},
		{"weir.jobs", r.jobs},
		{"weir.dates", string(dates)},
		{"weir.next", string(next)},
		{"weir.waiting", string(waiting)},
		{"weir.interim", strconv.FormatBool(r.interim)},
		{"weir.rows", strconv.FormatInt(rows, 10)},
	} {
		set(pair[0], pair[1])
	}
	return nil
}

func parseRecipe(lookup func(key string) (string, bool)) (r recipe, rows int64, err error) {
	text := func(key string) string { v, _ := lookup(key); return v }
	if text("weir.totals") != "1" {
		return r, 0, errors.New("weir.totals is not 1")
	}
	r.topic, r.jobs = text("weir.topic"), text("weir.jobs")
	if err := json.Unmarshal([]byte(text("weir.dates")), &r.dates); err != nil {
		return r, 0, fmt.Errorf("weir.dates: %w", err)
	}
	if err := json.Unmarshal([]byte(text("weir.next")), &r.next); err != nil {
		return r, 0, fmt.Errorf("weir.next: %w", err)
	}
	if err := json.Unmarshal([]byte(text("weir.waiting")), &r.waiting); err != nil {
		return r, 0, fmt.Errorf("weir.waiting: %w", err)
	}
	r.interim = text("weir.interim") == "true"
	if rows, err = strconv.ParseInt(text("weir.rows"), 10, 64); err != nil {
		return r, 0, errors.New("weir.rows is not a number")
	}
	return r, rows, nil
}

// writer writes totals in the order in which they come.
type writer struct {
	out  *parquet.GenericWriter[Total]
	rows int64
}

func newWriter(w io.Writer) *writer {
	return &writer{out: parquet.NewGenericWriter[Total](w,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.DefaultEncodingFor(parquet.Double, &parquet.ByteStreamSplit),
		parquet.CreatedBy("weir", "1", sink.Build()),
		parquet.MaxRowsPerRowGroup(groupRows),
		parquet.PageBufferSize(pageBytes),
	)}
}

func (w *writer) add(t *Total) error {
	w.rows++
	if _, err := w.out.Write([]Total{*t}); err != nil {
		return fmt.Errorf("writing a total: %w", err)
	}
	return nil
}

func (w *writer) end(r recipe) error {
	return cmp.Or(r.put(w.out.SetKeyValueMetadata, w.rows), w.out.Close())
}

// damaged names a file, and the remedy: totals can be made again as long as the archive still holds their sources.
func damaged(path string, err error) error {
	return fmt.Errorf("%w: %s: %w: delete it, and it is made again", errBadFile, path, err)
}

// read calls each with every row of a file of the archive's tables, in the columns of T. head looks at the footer
// first. It returns fs.ErrNotExist if there is no file.
func read[T any](path string, head func(lookup func(string) (string, bool)) error, each func(*T) error) (err error) {
	file, err := sink.OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	defer sink.Recovered(&err)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	p, err := parquet.OpenFile(file, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	if head != nil {
		if err := head(p.Lookup); err != nil {
			return err
		}
	}
	if each == nil {
		return nil
	}
	return sink.EachRow(p, each)
}

// made returns the recipe of a file of totals, and the number of its rows; nil if there is no file.
func made(path string) (r *recipe, rows int64, err error) {
	var found recipe
	err = read[Total](path, func(lookup func(string) (string, bool)) (err error) {
		found, rows, err = parseRecipe(lookup)
		return err
	}, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, nil
	case err != nil:
		return nil, 0, damaged(path, err)
	}
	return &found, rows, nil
}

// finals returns the jobs with final totals in a file, and when these begin.
func finals(path string) (map[schemas.JobKey][]int64, error) {
	was := map[schemas.JobKey][]int64{}
	err := read(path, nil, func(t *struct {
		JobID   string `parquet:"job_id,dict"`
		Restart int32  `parquet:"restart"`
		Start   int64  `parquet:"start,timestamp(millisecond)"`
		Final   bool   `parquet:"final"`
	},
	) error {
		k := schemas.JobKey{JobID: t.JobID, Restart: t.Restart}
		if t.Final && !slices.Contains(was[k], t.Start) {
			was[k] = append(was[k], t.Start)
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return was, nil
	case err != nil:
		return nil, damaged(path, err)
	}
	return was, nil
}

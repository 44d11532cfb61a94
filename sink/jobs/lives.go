package jobs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// Life is when a job ran.
type Life struct {
	schemas.JobKey
	StartMs *int64 // nil: it never started
	EndMs   int64
}

// Lives returns when the jobs ran that ended on a date; none if there is no file. It reads four columns.
func Lives(dir, date string) (lives []Life, err error) {
	f, err := open(Path(dir, date))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	if lives, err = f.lives(); err != nil {
		return nil, fault(f.path, err)
	}
	return lives, nil
}

// lifeRow has the columns of a Row that say when the job ran.
type lifeRow struct {
	JobID   string `parquet:"job_id,dict"`
	Restart int32  `parquet:"restart"`
	Start   *int64 `parquet:"start,optional,timestamp(millisecond)"`
	End     int64  `parquet:"end,timestamp(millisecond)"`
}

func (f *file) lives() (lives []Life, err error) {
	defer sink.Recovered(&err)
	p, err := f.Columns("job_id", "restart", "start", "end")
	if err != nil {
		return nil, err
	}
	r := parquet.NewGenericReader[lifeRow](p)
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		batch := make([]lifeRow, batchRows)
		n, err := r.Read(batch)
		for _, row := range batch[:n] {
			lives = append(lives, Life{schemas.JobKey{JobID: row.JobID, Restart: row.Restart}, row.Start, row.End})
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading rows: %w", err)
		}
	}
	if int64(len(lives)) != f.rows {
		return nil, fmt.Errorf("%d rows where weir.rows says %d", len(lives), f.rows)
	}
	return lives, nil
}

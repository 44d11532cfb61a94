package archive

import (
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/schemas"
)

// runs returns the runs of the jobs that are wanted.
func (f *file) runs(h *handle, q *Query) (all []run, err error) {
	err = f.guard(func() error {
		for i, group := range f.RowGroups() {
			pieces, err := f.pieces(group, q)
			if err != nil {
				return err
			}
			for _, p := range pieces {
				all = append(all, run{p, h, i})
			}
		}
		return nil
	})
	return all, err
}

// pieces divides a row group by job, restart and metric.
func (f *file) pieces(group parquet.RowGroup, q *Query) (pieces []piece, err error) {
	texts := newSlab()
	if q.Job != "" {
		spans, err := f.find(group, q.Job, "")
		if err != nil {
			return nil, err
		}
		for _, s := range spans {
			pieces = append(pieces, piece{span: s, job: q.Job})
		}
	} else {
		pieces, err = refine(f.chunk(group, "job_id"), []piece{{span: span{0, group.NumRows()}}},
			func(p *piece, v parquet.Value) bool { return p.job == string(v.ByteArray()) },
			func(p *piece, v parquet.Value) { p.job = *texts.text(v) })
		if err != nil {
			return nil, err
		}
	}
	pieces, err = refine(f.chunk(group, "restart"), pieces,
		func(p *piece, v parquet.Value) bool { return p.restart == v.Int32() },
		func(p *piece, v parquet.Value) { p.restart = v.Int32() })
	if err != nil {
		return nil, err
	}
	if q.Jobs != nil {
		pieces = slices.DeleteFunc(pieces, func(p piece) bool {
			return !q.Jobs[schemas.JobKey{JobID: p.job, Restart: p.restart}]
		})
	}
	pieces, err = refine(f.chunk(group, "metric"), pieces,
		func(p *piece, v parquet.Value) bool { return p.null == v.IsNull() && p.metric == string(v.ByteArray()) },
		func(p *piece, v parquet.Value) {
			if p.null = v.IsNull(); !p.null {
				p.metric = *texts.text(v)
			}
		})
	return slices.DeleteFunc(pieces, func(p piece) bool {
		return !p.null && q.Metric != nil && !q.Metric(p.metric)
	}), err
}

// refine divides pieces at the rows in which a further column changes. It leaves the pieces of a file without the
// column as they are.
func refine(chunk *parquet.FileColumnChunk, pieces []piece, same func(*piece, parquet.Value) bool,
	set func(*piece, parquet.Value),
) (fine []piece, err error) {
	if chunk == nil {
		return pieces, nil
	}
	spans := make([]span, len(pieces))
	for i := range pieces {
		spans[i] = pieces[i].span
	}
	at := 0
	err = read(chunk, spans, func(row int64, v []parquet.Value) {
		for pieces[at].to <= row {
			at++
		}
		last := len(fine) - 1
		if last >= 0 && fine[last].to == row && row != pieces[at].from && same(&fine[last], v[0]) {
			fine[last].to++
			return
		}
		p := pieces[at]
		p.span = span{row, row + 1}
		set(&p, v[0])
		fine = append(fine, p)
	})
	return fine, err
}

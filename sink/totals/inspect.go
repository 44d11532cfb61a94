package totals

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"reflect"
	"slices"

	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
)

// Stats are the numbers of a date.
type Stats struct{ Rows, Bytes int64 }

// Sizes returns the numbers of all dates that have totals. It reads footers alone.
func Sizes(dir string) (map[string]Stats, error) {
	dates, err := Dates(dir)
	all := map[string]Stats{}
	for _, date := range dates {
		s := Stats{Bytes: sizeOf(Path(dir, date))}
		if _, rows, err := made(Path(dir, date)); err == nil {
			s.Rows = rows
		}
		all[date] = s
	}
	return all, err
}

// Verified is the result of Verify for a date.
type Verified struct {
	Table string `json:"table"`
	Date  string `json:"date"`
	Rows  int64  `json:"rows"`
	// Outdated is true if the archive contains other rows or jobs by now, or if some of them were deleted. Then the
	// totals are not compared.
	Outdated bool     `json:"outdated"`
	Faults   []string `json:"faults"`
}

// Verify makes the totals of dates anew, or of all, and compares them with the files. It returns compact.ErrWrong if
// one differs.
func Verify(ctx context.Context, dir, topic string, dates []string, report func(Verified)) error {
	all, err := Dates(dir)
	if err != nil || len(all) == 0 {
		return err
	}
	scratch, err := os.MkdirTemp("", "weir-totals-")
	if err != nil {
		return fmt.Errorf("making a directory for files in between: %w", err)
	}
	defer os.RemoveAll(scratch)
	m := newMaker(Options{Dir: dir, Topic: topic})
	if err := sink.Reading(ctx, dir, m.survey); err != nil {
		return err
	}
	if m.namesakes, err = namesakesIn(dir); err != nil {
		return err
	}
	wrong := false
	for _, date := range all {
		if len(dates) > 0 && !slices.Contains(dates, date) {
			continue
		}
		v := Verified{Table: dirName, Date: date, Faults: []string{}}
		err := sink.Reading(ctx, dir, func() error { return m.verify(ctx, &v, scratch) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			v.Faults = append(v.Faults, err.Error())
		}
		wrong = wrong || len(v.Faults) > 0
		report(v)
	}
	if wrong {
		return compact.ErrWrong
	}
	return nil
}

// errDiffers is returned when a total differs from its rows.
var errDiffers = errors.New("its totals are not those of the archive's rows: delete it, and it is made again")

// verify compares the totals of a date with new ones. The caller holds the lock.
func (m *maker) verify(ctx context.Context, v *Verified, scratch string) error {
	path := Path(m.Dir, v.Date)
	there, rows, err := made(path)
	if err != nil || there == nil {
		return err
	}
	v.Rows = rows
	ended, err := jobs.Lives(m.Dir, v.Date)
	if err != nil {
		return err
	}
	var p plan
	p.jobs, p.waiting = pick(ended, m.namesakes, func(j *picked) bool {
		return !slices.Contains(there.waiting, j.name())
	}, there.interim)
	if err := m.find(&p); err != nil {
		return err
	}
	if v.Outdated = !p.recipe.same(*there); v.Outdated {
		return nil
	}
	next, stop := iter.Pull2(rowsOf(path))
	defer stop()
	compared := int64(0)
	out := folder{whose: p.whose, out: func(want *Total) error {
		compared++
		got, err, more := next()
		switch {
		case err != nil:
			return damaged(path, err)
		case !more || !reflect.DeepEqual(got, want):
			return fmt.Errorf("%s: row %d: %w", path, compared-1, errDiffers)
		}
		return nil
	}}
	s := &compact.Scratch{Prefix: scratch + "/" + v.Date + "-", Progress: m.Progress}
	if err := compact.EachHour(ctx, p.inputs, s, out.add); err != nil {
		return err
	}
	if err := out.flush(); err != nil {
		return err
	}
	if _, _, more := next(); more || compared != rows {
		return fmt.Errorf("%s: %d rows, not %d: %w", path, rows, compared, errDiffers)
	}
	return nil
}

// rowsOf yields the rows of a file of totals. An error ends it.
func rowsOf(path string) iter.Seq2[*Total, error] {
	errEnough := errors.New("enough")
	return func(yield func(*Total, error) bool) {
		err := read(path, nil, func(t *Total) error {
			if !yield(t, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

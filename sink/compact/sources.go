package compact

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/weirhpc/weir/sink"
)

// input is a sorted file: a file of the archive, or a run. Its few methods let two kinds of files be merged.
type input interface {
	fill() error // io.EOF behind the last row
	current() *batch
	close() error
}

// source is an input and its place among the inputs. Of equal rows the one of the earlier input comes first.
type source struct {
	input
	*batch
	place int
}

// sources are a heap: the source with the least row comes first.
type sources []source

func (s sources) less(i, j int) bool {
	c := sink.CompareRows(&s[i].rows[s[i].at].Row, &s[j].rows[s[j].at].Row)
	return c < 0 || c == 0 && s[i].place < s[j].place
}

// down moves a source down to its place. The next row often comes from the same source: then it takes two comparisons.
func (s sources) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s); child++ {
			if s.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// merge writes the rows of sorted inputs in order. It calls seen with each row ahead, which may change it.
func merge(ctx context.Context, inputs []input, write func([]row) (int, error), seen func(*row) error,
) error {
	var from sources
	for i, r := range inputs {
		switch err := r.fill(); {
		case errors.Is(err, io.EOF):
			continue
		case err != nil:
			return err
		}
		from = append(from, source{r, r.current(), i})
	}
	for i := len(from)/2 - 1; i >= 0; i-- {
		from.down(i)
	}
	out := make([]row, 0, batchRows)
	flush := func() error {
		for i := range out {
			if err := seen(&out[i]); err != nil {
				return err
			}
		}
		_, err := write(out)
		out = out[:0]
		return err
	}
	for len(from) > 0 {
		s := from[0]
		out = append(out, s.rows[s.at])
		s.at++
		if len(out) == cap(out) || s.at == len(s.rows) { // rows point into their batch: they go before it does
			if err := flush(); err != nil {
				return fmt.Errorf("writing rows: %w", err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if s.at < len(s.rows) {
			from.down(0)
			continue
		}
		switch err := s.fill(); {
		case errors.Is(err, io.EOF):
			from[0] = from[len(from)-1]
			from = from[:len(from)-1]
		case err != nil:
			return err
		}
		from.down(0)
	}
	return nil
}

package page

import (
	"math"

	"github.com/weirhpc/weir/report/view"
)

// coarser joins neighbouring bins until at most n remain. The bounds of a joined bin are the lowest and the highest of
// its parts, so every statement that holds for all parts holds for it.
func coarser(bins []view.Bin, n int) []view.Bin {
	if len(bins) <= n {
		return bins
	}
	by := (len(bins) + n - 1) / n
	out := make([]view.Bin, 0, n)
	for from := 0; from < len(bins); from += by {
		b := bins[from]
		for i := from + 1; i < min(from+by, len(bins)); i++ {
			b = join(b, &bins[i])
		}
		out = append(out, b)
	}
	return out
}

func join(a view.Bin, b *view.Bin) view.Bin {
	a.EndMs = b.EndMs
	a.Intervals, a.Complete = a.Intervals+b.Intervals, a.Complete+b.Complete
	a.Expected, a.Reported = a.Expected+b.Expected, a.Reported+b.Reported
	a.Hourly = a.Hourly || b.Hourly
	switch {
	case b.Measured == 0:
		return a
	case a.Measured == 0:
		a.Low, a.High, a.Mean, a.Count = b.Low, b.High, b.Mean, b.Count
		a.D5Min, a.D5Max, a.D5Mean = b.D5Min, b.D5Max, b.D5Mean
	default:
		for k := range a.Low {
			a.Low[k], a.High[k] = math.Min(a.Low[k], b.Low[k]), math.Max(a.High[k], b.High[k])
		}
		if n := a.Count + b.Count; n > 0 {
			a.Mean = (a.Mean*float64(a.Count) + b.Mean*float64(b.Count)) / float64(n)
		}
		a.Count += b.Count
		a.D5Min, a.D5Max = math.Min(a.D5Min, b.D5Min), math.Max(a.D5Max, b.D5Max)
		n, m := float64(a.Measured), float64(b.Measured)
		a.D5Mean = a.D5Mean*(n/(n+m)) + b.D5Mean*(m/(n+m))
	}
	a.Measured += b.Measured
	return a
}

package like

import (
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"
)

// someJobs makes deciles of jobs: of some metrics, and for some jobs with bounds.
func someJobs(r *rand.Rand, jobs, metrics int) (all [][]*Metric) {
	for range jobs {
		of := make([]*Metric, metrics)
		for i := range of {
			if r.IntN(10) == 0 {
				continue
			}
			m := &Metric{}
			for k := range m.D {
				m.D[k] = math.Round(10*r.ExpFloat64()) / 10
			}
			slices.Sort(m.D[:])
			m.Lo, m.Hi = m.D, m.D
			if r.IntN(2) == 0 {
				for k := 1; k < deciles-1; k++ {
					m.Lo[k], m.Hi[k] = m.D[k-1], m.D[k+1]
				}
			}
			of[i] = m
		}
		all = append(all, of)
	}
	return all
}

func spaceOf(all [][]*Metric, metrics int) Space {
	space := make(Space, metrics)
	for i := range space {
		var values []float32
		for _, of := range all {
			if of[i] != nil {
				values = append(values, sign(of, nil).Of(i)...)
			}
		}
		space[i] = NewDistribution(values)
	}
	return space
}

// sign returns the deciles of a job, or their ranks in a space.
func sign(of []*Metric, space Space) Signature {
	s := Unsigned(len(of))
	for i, m := range of {
		if m != nil {
			s.Set(i, m.D)
		}
	}
	if space != nil {
		space.Sign(s)
	}
	return s
}

// rank is the definition: the share of values below one, and half of those that are equal.
func rank(values []float64, v float64) float64 {
	sum := 0.0
	for _, o := range values {
		switch {
		case o < v:
			sum++
		case o == v:
			sum += 0.5
		}
	}
	return sum / float64(len(values))
}

func TestRankIsTheShareBelow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	values := make([]float64, 300)
	for i := range values {
		values[i] = float64(r.IntN(40))
	}
	seen := []float32{float32(math.NaN())}
	for _, v := range values {
		seen = append(seen, float32(v))
	}
	d := NewDistribution(seen)
	for _, v := range values {
		if got, want := d.rank(v), rank(values, v); math.Abs(got-want) > 1e-12 {
			t.Fatalf("rank of %g is %g, want %g", v, got, want)
		}
	}
	before := 0.0
	for v := -1.0; v < 41; v += 0.125 {
		if got := d.rank(v); got < before || got < 0 || got > 1 {
			t.Fatalf("rank of %g is %g, after %g", v, got, before)
		} else {
			before = got
		}
	}
	if got := NewDistribution(nil).rank(1); !math.IsNaN(got) {
		t.Errorf("a rank among nothing is %g", got)
	}
}

// TestDistanceIsTheDefinition: it is the mean of the differences of ranks over shared metrics. From a job to itself it
// is 0. It is the same in both directions, and within its bounds. So is the distance of the true deciles.
func TestDistanceIsTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const metrics = 9
	all := someJobs(r, 60, metrics)
	space := spaceOf(all, metrics)
	few := 0
	for i, a := range all {
		for k, b := range all {
			x, y := sign(a, space), sign(b, space)
			got, shared, ok := Distance(x, y)
			sum, n := 0.0, 0
			low, high := space.Bounds(a, b)
			truth := 0.0
			for m := range metrics {
				if a[m] == nil || b[m] == nil {
					continue
				}
				n++
				for q := range deciles {
					sum += math.Abs(space[m].rank(a[m].D[q]) - space[m].rank(b[m].D[q]))
					u := a[m].Lo[q] + r.Float64()*(a[m].Hi[q]-a[m].Lo[q])
					v := b[m].Lo[q] + r.Float64()*(b[m].Hi[q]-b[m].Lo[q])
					truth += math.Abs(space[m].rank(u) - space[m].rank(v))
				}
			}
			if shared != n || ok != (n >= MinShared) {
				t.Fatalf("%d shared, %v: want %d", shared, ok, n)
			}
			if !ok {
				few++
				continue
			}
			want := sum / float64(n*deciles)
			truth /= float64(n * deciles)
			back, _, _ := Distance(y, x)
			if math.Abs(got-want) > 1e-6 || back != got || i == k && got != 0 {
				t.Fatalf("%g and back %g, want %g", got, back, want)
			}
			if got < low-1e-6 || got > high+1e-6 || truth < low-1e-9 || truth > high+1e-9 {
				t.Fatalf("%g and the true %g are not within %g and %g", got, truth, low, high)
			}
		}
	}
	if few == 0 || few > 60*60/2 {
		t.Errorf("%d pairs share too little", few)
	}
}

// BenchmarkDistance compares one job with 200,000 others by 16 metrics. The goal is 100 ms.
func BenchmarkDistance(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 3))
	const metrics, jobs = 16, 200_000
	all := make(Signature, jobs*metrics*deciles)
	for i := range all {
		all[i] = r.Float32()
	}
	size := metrics * deciles
	mine := slices.Clone(all[:size])
	begin := processorTime(b)
	for b.Loop() {
		best := 2.0
		for at := 0; at < len(all); at += size {
			if d, _, ok := Distance(mine, all[at:at+size]); ok && d < best {
				best = d
			}
		}
		if best != 0 {
			b.Fatal(best)
		}
	}
	b.ReportMetric((processorTime(b)-begin).Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// processorTime returns what the process has taken of all cores: other programs may keep them busy.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package discover

import (
	"math"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
)

// candidate is one explanation of a matrix. Candidates of any kind compete by their description length.
type candidate struct {
	network *network.Network
	kind    string
	offsets bool

	score    float64 // description length in nats: data and structure; lower is better
	margin   float64 // of the weakest part of the structure: nats that it saves in the description
	residual float64 // relative RMS of the latencies against the model's, outliers apart
	sigma    float64 // noise by the description
	outliers float64 // share of latencies that are outliers

	placed   float64        // of a tree: nats by which the least certain node prefers its switch; 0: unknown
	weakest  int            // that node
	doubtful []latency.Pair // pairs that would settle the place of such nodes

	path func(a, b int) float64 // latency of a pair by the model, in microseconds
}

// leastNoise is the least relative noise of a description. It keeps data without noise from an infinite likelihood.
const leastNoise = .002

// description is how well a model describes a matrix.
type description struct {
	nats     float64 // -ln of the density of the ln(latencies)
	sigma    float64 // relative noise
	outliers float64 // share of latencies that are outliers
	pairs    int
	additive bool // the noise is in microseconds, the same for all pairs, and not relative to the latency
}

// describe returns the description length of the measured latencies, given those of a model. The density of each
// ln(latency) is a normal distribution about the model's, mixed with a broad one for outliers. The noise is either
// relative to the latency or additive, whichever describes better. TestDescribe pins it.
func describe(m *latency.Matrix, path func(a, b int) float64) description {
	n := m.Len()
	step := 1 + n*(n-1)/2/describedPairs
	r := residuals{each: float64(step)}
	for a := range n {
		for b := a + 1 + a%step; b < n; b += step {
			if us := m.At(a, b); us > 0 {
				r.add(us, path(a, b))
			}
		}
	}
	return r.describe(m.TickUs)
}

// floor is the least relative noise of latencies by a clock of such steps.
func (r *residuals) floor(tickUs float64) float64 {
	if len(r.ln) == 0 {
		return leastNoise
	}
	return max(leastNoise, tickUs/math.Sqrt(12)/math.Exp(r.sumLn/float64(len(r.ln))))
}

// describe describes the residuals by the noise that describes them better.
func (r *residuals) describe(tickUs float64) description {
	floor := r.floor(tickUs)
	relative := r.fit(floor, false)
	if additive := r.fit(floor, true); additive.nats < relative.nats {
		return additive
	}
	return relative
}

// residuals contains the residuals of all measured pairs.
type residuals struct {
	ln    []float64 // ln(latency/model)
	share []float64 // (latency - model) as a share of the latency
	us    []float64
	sumLn float64

	each float64 // pairs that a residual stands for
}

func (r *residuals) add(us, model float64) {
	model = max(model, us*1e-6)
	r.ln = append(r.ln, math.Log(us/model))
	r.share = append(r.share, 1-model/us)
	r.us = append(r.us, us)
	r.sumLn += math.Log(us)
}

// emLimit bounds how many residuals the noise is estimated from.
const emLimit = 10_000

// fit finds noise and share of outliers by expectation maximisation.
func (r *residuals) fit(floor float64, additive bool) description {
	size := len(r.ln)
	if size == 0 {
		return description{sigma: floor}
	}
	typical := math.Exp(r.sumLn / float64(size))
	// scale is the difference of ln(latency) that corresponds to one sigma, over sigma.
	normal := func(i int, sigma float64) float64 {
		x, scale := r.ln[i], 1.
		if additive {
			x, scale = r.share[i], typical/r.us[i]
		}
		z := x / (sigma * scale)
		return math.Exp(-z*z/2) / (sigma * scale * math.Sqrt(2*math.Pi))
	}
	square := func(i int) float64 {
		if additive {
			x := r.share[i] * r.us[i] / typical
			return x * x
		}
		return r.ln[i] * r.ln[i]
	}
	d := description{sigma: .1, outliers: .05, pairs: size, additive: additive}
	step := max(1, size/emLimit)
	for range 30 {
		var sum, weight, count float64
		for i := 0; i < size; i += step {
			count++
			good := (1 - d.outliers) * normal(i, d.sigma)
			w := good / (good + d.outliers*broad(r.ln[i]))
			weight += w
			sum += w * square(i)
		}
		before := d.sigma
		d.sigma = max(floor, math.Sqrt(sum/max(weight, 1e-9)))
		d.outliers = min(max(1-weight/count, .5/(count+1)), .5)
		if math.Abs(d.sigma-before) < 1e-4*before {
			break
		}
	}
	d.nats = r.nats(d, typical)
	d.nats *= r.each
	d.pairs = int(float64(size) * r.each)
	return d
}

// nats returns the description length. Each residual counts as noise or as an outlier, whichever is shorter. That is
// near the mixture of both, and avoids an exponential for each.
func (r *residuals) nats(d description, typical float64) float64 {
	constant := math.Log(d.sigma*math.Sqrt(2*math.Pi)) - math.Log(1-d.outliers)
	slow, fast := -math.Log(d.outliers*broad(1)), -math.Log(d.outliers*broad(-1))
	inverse := 1 / (2 * d.sigma * d.sigma)
	sum := 0.
	for i, x := range r.ln {
		noise := constant
		if d.additive {
			e := r.share[i] * r.us[i] / typical
			noise += e*e*inverse - math.Log(r.us[i]/typical)
		} else {
			noise += x * x * inverse
		}
		if x > 0 {
			sum += min(noise, slow)
		} else {
			sum += min(noise, fast)
		}
	}
	return sum
}

// broad is the density of an outlier's ln(latency/model). It is slower, by up to a factor of forty. A disturbance makes
// no latency faster, so a fast value shows a link or switch that the model lacks.
func broad(x float64) float64 {
	if x > 0 {
		return .25
	}
	return .001
}

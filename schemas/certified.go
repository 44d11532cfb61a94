package schemas

// Certified bounds what is known of a share's values. Ranks count from 1. Validate leaves it to quantile.Summary.Check,
// which whoever merges calls: what its numbers have to be to each other is mathematics.
type Certified struct {
	Eps             float64   `avro:"eps"`
	OrderStatistics []float64 `avro:"order_statistics"`
	Knots           []Knot    `avro:"knots"`
	Atoms           []Atom    `avro:"atoms"`
}

// Knot is a value of the data with its exact rank.
type Knot struct {
	Value float64 `avro:"value"`
	Rank  int64   `avro:"rank"`
}

// Atom is a value and how often it occurs.
type Atom struct {
	Value float64 `avro:"value"`
	Count int64   `avro:"count"`
}

// NewCertified returns a summary as records have it, of one with knots and atoms of another package's types.
func NewCertified[
	K ~struct {
		Value float64
		Rank  int64
	},
	A ~struct {
		Value float64
		Count int64
	},
](eps float64, order []float64, knots []K, atoms []A) Certified {
	c := Certified{Eps: eps, OrderStatistics: order}
	for _, k := range knots {
		c.Knots = append(c.Knots, Knot(k))
	}
	for _, a := range atoms {
		c.Atoms = append(c.Atoms, Atom(a))
	}
	return c
}

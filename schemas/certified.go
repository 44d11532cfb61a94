package schemas

import "slices"

// Certified is a summary of a share's values with exact ranks. Ranks count from 1. Validate does not check its
// consistency: callers that merge must call quantile.Summary.Check.
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

// Atom is a value and the number of its occurrences.
type Atom struct {
	Value float64 `avro:"value"`
	Count int64   `avro:"count"`
}

// NewCertified makes a Certified from knots and atoms of another package's types.
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
	c.Knots, c.Atoms = slices.Grow(c.Knots, len(knots)), slices.Grow(c.Atoms, len(atoms))
	for _, k := range knots {
		c.Knots = append(c.Knots, Knot(k))
	}
	for _, a := range atoms {
		c.Atoms = append(c.Atoms, Atom(a))
	}
	return c
}

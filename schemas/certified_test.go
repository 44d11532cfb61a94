package schemas

import (
	"errors"
	"strings"
	"testing"
)

// TestCertifiedNeedsValues: a metric without values has no certified summary either.
func TestCertifiedNeedsValues(t *testing.T) {
	s := samples()[7].(*JobSummary)
	if m := &s.Metrics[0]; m.Certified == nil || s.Validate() != nil {
		t.Fatalf("%+v: %v", m, s.Validate())
	}
	s.Metrics[1].Certified = &Certified{}
	if err := s.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "metrics.certified: none") {
		t.Error(err)
	}
}

// TestRowsHaveTheCertifiedSummary, in the form that the summary has, and null elsewhere.
func TestRowsHaveTheCertifiedSummary(t *testing.T) {
	s := samples()[7].(*JobSummary)
	rows := s.Rows()
	r, c := &rows[0], s.Metrics[0].Certified
	if *r.Eps != c.Eps || len(r.OrderStatistics) != 11 || r.KnotValues[0] != 1.25 || r.KnotRanks[0] != 2 ||
		len(r.AtomValues) != 2 || r.AtomCounts[1] != 2 {
		t.Errorf("%+v", r)
	}
	if r := &rows[1]; r.Eps != nil || r.OrderStatistics != nil || r.KnotValues != nil || r.AtomCounts != nil {
		t.Errorf("%+v", r)
	}
	s.Metrics[0].Certified = &Certified{OrderStatistics: []float64{}, Atoms: []Atom{{1, 3}}} // as it is decoded
	if r := s.Rows()[0]; r.OrderStatistics != nil || r.KnotRanks != nil || r.AtomCounts[0] != 3 {
		t.Errorf("%+v", r)
	}
}

package audit

import (
	"math/bits"
)

// DecodedOneIn is how many records there are to one that an audit decodes twice, unless it decodes all.
const DecodedOneIn = 100

// decodeTwice decodes a record a second time if its offset is chosen. The services decode by the same codec as the rest
// of the audit, so its faults show here only.
func (b *Books) decodeTwice(s Source, e Entry) {
	n := &b.report.Decoded
	n.Read++
	if !chosen(e.Offset, b.terms.DecodedOneIn) {
		return
	}
	found, err := b.second.Compare(e.Value)
	if err != nil {
		n.Malformed++
		return
	}
	n.Twice++
	for _, d := range found {
		b.report.differ(Difference{
			Kind: kindDecoding, Topic: b.terms.Prefix + s.Topic, Partition: s.Partition, Offset: &e.Offset,
			Field: d.Field, Text: d.String(),
		})
	}
}

// chosen reports whether one of so many offsets, about, is this one. Offset 0 always is.
//
// The fractions of the multiples of the golden ratio fill the interval from 0 to 1 evenly, and so do the fractions of
// every n-th multiple. Records that recur at a fixed distance, as Ticks do, are so chosen as often as all others.
func chosen(offset, oneIn int64) bool {
	if oneIn <= 0 {
		return false
	}
	const golden = 0x9E3779B97F4A7C15 // 2^64 / 1.618...
	part, _ := bits.Mul64(uint64(offset)*golden, uint64(oneIn))
	return part == 0
}

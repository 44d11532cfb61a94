package sink

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime/metrics"
	"slices"
	"testing"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// flipBudget is how much a damaged file may make its reader allocate.
func flipBudget(size int) uint64 { return 64<<20 + 100*uint64(size) }

// allocated returns how much was allocated to decode a file, rows included.
func allocated(b []byte) uint64 {
	total := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := total()
	_, _, err := decodeFile(bytes.NewReader(b), int64(len(b)))
	_ = err // any: what counts is what it took
	return total() - before
}

// TestFlippedByte changes one byte of a file at a time. No such file may make its reader ask for more memory than a
// process has: that ends the process, and cannot be caught. It tries some bytes by chance. With
// WEIR_ALL_FLIPS=1 it tries every byte, and every bit of the footer.
func TestFlippedByte(t *testing.T) {
	whole := sample(t)
	footer := int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	rnd, all := random(t), os.Getenv("WEIR_ALL_FLIPS") != ""
	every := 8 // one byte of so many is tried
	if kafkatest.Raced {
		every = 32
	}
	check := func(at int, value byte) {
		if value == whole[at] {
			return
		}
		b := slices.Clone(whole)
		b[at] = value
		if got := allocated(b); got > flipBudget(len(b)) {
			t.Fatalf("byte %d of %d (footer from %d): %#x became %#x: %d bytes allocated, want at most %d",
				at, len(b), len(b)-8-footer, whole[at], value, got, flipBudget(len(b)))
		}
	}
	for at := range whole {
		if !all && rnd.IntN(every) > 0 {
			continue
		}
		check(at, 0xFF)
		check(at, byte(rnd.Uint32()))
		for bit := range 8 {
			if inFooter := at >= len(whole)-8-footer; inFooter && (all || bit == rnd.IntN(8)) {
				check(at, whole[at]^1<<bit)
			}
		}
	}
	for range 2400 / every {
		at, n := rnd.IntN(len(whole)), 1+rnd.IntN(8)
		b := slices.Clone(whole)
		for i := at; i < min(at+n, len(b)); i++ {
			b[i] = byte(rnd.Uint32())
		}
		if got := allocated(b); got > flipBudget(len(b)) {
			t.Fatalf("bytes %d to %d of %d are %x: %d bytes allocated", at, at+n, len(b), b[at:min(at+n, len(b))], got)
		}
	}
}

package find

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/maphash"
	"io"

	"github.com/weirhpc/weir/schemas"
)

const (
	// mostYoung is how many records of jobs that do not run are at hand. Most summaries of a job come soon after it.
	mostYoung = 10_000
	// packBytes is how much is packed at a time, and unpacked to look at one record.
	packBytes = 32 << 10
)

// jobTable holds the records of topic jobs, which span days. Records of running jobs, and the latest records, stay
// unpacked. The others are compressed to a tenth of the memory.
type jobTable struct {
	young map[string]*schemas.Job // by the record's key
	queue []string                // keys of young ones that do not run, oldest first

	seed   maphash.Seed
	places map[uint64]packedAt // of packed records, by a hash of the key
	blocks []block
	open   []byte // the next block
	live   int    // records of open that hold

	writer   *flate.Writer
	unpacked struct { // the block that was looked at last
		number int
		text   []byte
	}
}

// packedAt is where a packed record lies.
type packedAt struct{ block, at uint32 }

type block struct {
	packed []byte
	live   int // records that hold
}

func newJobTable() *jobTable {
	t := &jobTable{young: map[string]*schemas.Job{}, seed: maphash.MakeSeed(), places: map[uint64]packedAt{}}
	t.unpacked.number = -1
	return t
}

// put keeps the record of a job in place of an older one.
func (t *jobTable) put(key string, j *schemas.Job) {
	t.dropPacked(key)
	t.young[key] = j
	if j.State != schemas.StateRunning {
		t.queue = append(t.queue, key)
	}
	for len(t.queue) > mostYoung {
		first := t.queue[0]
		t.queue = t.queue[1:]
		if old := t.young[first]; old != nil && old.State != schemas.StateRunning {
			t.pack(first, old)
		}
	}
}

// get returns the record of a job, or nil.
func (t *jobTable) get(key string) *schemas.Job {
	if j := t.young[key]; j != nil {
		return j
	}
	at, is := t.places[t.hash(key)]
	if !is {
		return nil
	}
	text := t.text(int(at.block))
	if uint64(at.at) >= uint64(len(text)) {
		return nil
	}
	size, n := binary.Uvarint(text[at.at:])
	rest := text[int(at.at)+max(n, 0):]
	if n <= 0 || size > uint64(len(rest)) {
		return nil
	}
	value, err := schemas.Unmarshal(rest[:size])
	if j, is := value.(*schemas.Job); err == nil && is && j.Identity().String() == key {
		return j
	}
	return nil
}

func (t *jobTable) delete(key string) {
	delete(t.young, key)
	t.dropPacked(key)
}

func (t *jobTable) hash(key string) uint64 { return maphash.String(t.seed, key) }

// dropPacked forgets a packed record. A block without any is freed: the topic forgets jobs in the order of their ends.
func (t *jobTable) dropPacked(key string) {
	h := t.hash(key)
	at, is := t.places[h]
	if !is {
		return
	}
	delete(t.places, h)
	if int(at.block) == len(t.blocks) {
		t.live--
		return
	}
	b := &t.blocks[at.block]
	if b.live--; b.live == 0 {
		b.packed = nil
	}
}

// pack moves a record out of reach. One that cannot be encoded came from no topic, and stays.
func (t *jobTable) pack(key string, j *schemas.Job) {
	value, err := schemas.Marshal(j)
	if err != nil {
		return
	}
	delete(t.young, key)
	t.places[t.hash(key)] = packedAt{uint32(len(t.blocks)), uint32(len(t.open))}
	t.open = append(binary.AppendUvarint(t.open, uint64(len(value))), value...)
	if t.live++; len(t.open) >= packBytes {
		t.close()
	}
}

// close ends the open block.
func (t *jobTable) close() {
	b := block{live: t.live}
	if t.live > 0 {
		var packed bytes.Buffer
		if t.writer == nil {
			t.writer, _ = flate.NewWriter(nil, flate.BestSpeed) // that level is one
		}
		t.writer.Reset(&packed)
		_, _ = t.writer.Write(t.open) // a buffer takes everything
		_ = t.writer.Close()
		b.packed = bytes.Clone(packed.Bytes())
	}
	t.blocks, t.open, t.live = append(t.blocks, b), t.open[:0], 0
}

// text returns the records of a block.
func (t *jobTable) text(number int) []byte {
	switch {
	case number == len(t.blocks):
		return t.open
	case number != t.unpacked.number:
		text, err := io.ReadAll(flate.NewReader(bytes.NewReader(t.blocks[number].packed)))
		if err != nil {
			return nil
		}
		t.unpacked.number, t.unpacked.text = number, text
	}
	return t.unpacked.text
}

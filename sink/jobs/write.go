package jobs

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/sink"
)

// compression is shared by all writers: an encoder takes megabytes.
var compression = &zstd.Codec{Level: zstd.SpeedFastest}

// index is what a footer says of the ids in a file.
type index struct {
	rows        int64
	first, last string
	hashes      []byte // of all ids, four bytes each; empty if there are too many
}

// hashOf returns the hash of a job's id in a footer.
func hashOf(id string) uint32 { return crc32.ChecksumIEEE([]byte(id)) }

// add adds the id of the next row.
func (x *index) add(id string) {
	if x.rows == 0 {
		x.first = id
	}
	if (x.rows == 0 || x.last != id) && len(x.hashes) <= 4*maxHashes {
		x.hashes = binary.LittleEndian.AppendUint32(x.hashes, hashOf(id))
	}
	x.rows, x.last = x.rows+1, id
}

// complete returns the index behind the last row.
func (x *index) complete() index {
	if len(x.hashes) > 4*maxHashes {
		x.hashes = nil
	}
	return *x
}

// mayHave returns false if the file has none of the jobs.
func (x *index) mayHave(ids map[string]bool) bool {
	hashes := map[uint32]bool{}
	for id := range ids {
		if x.first <= id && id <= x.last {
			hashes[hashOf(id)] = true
		}
	}
	if len(hashes) == 0 || len(x.hashes) == 0 {
		return len(hashes) > 0
	}
	for i := 0; i+4 <= len(x.hashes); i += 4 {
		if hashes[binary.LittleEndian.Uint32(x.hashes[i:])] {
			return true
		}
	}
	return false
}

// writer writes rows in the order in which they come.
type writer struct {
	out *parquet.GenericWriter[Row]
	index
}

func newWriter(w io.Writer) *writer {
	return &writer{out: parquet.NewGenericWriter[Row](w,
		parquet.Compression(compression),
		parquet.CreatedBy("weir", strconv.Itoa(version), sink.Build()),
		parquet.MaxRowsPerRowGroup(groupRows),
	)}
}

func (w *writer) add(r *Row) error {
	w.index.add(r.JobID)
	if _, err := w.out.Write([]Row{*r}); err != nil {
		return fmt.Errorf("writing a job: %w", err)
	}
	return nil
}

// close ends the file with its footer.
func (w *writer) close(topic, topicID string) error {
	x := w.complete()
	for _, pair := range [][2]string{
		{"weir.jobs", strconv.Itoa(version)},
		{"weir.topic", topic},
		{"weir.topic_id", topicID},
		{"weir.rows", strconv.FormatInt(x.rows, 10)},
		{"weir.first_job", x.first},
		{"weir.last_job", x.last},
		{"weir.job_hashes", base64.StdEncoding.EncodeToString(x.hashes)},
	} {
		w.out.SetKeyValueMetadata(pair[0], pair[1])
	}
	return w.out.Close()
}

// schema is the schema of a file: that of an empty one.
var schema = sync.OnceValue(func() sink.Schema {
	var b bytes.Buffer
	err := newWriter(&b).close("", "")
	if err == nil {
		var s sink.Schema
		if s, err = sink.SchemaOf(b.Bytes()); err == nil {
			return s
		}
	}
	panic(err) // this cannot fail once the tests have passed
})

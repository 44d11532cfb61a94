package compact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// A disk that is really full ends the run in the middle of a file. The date stays, and nothing else does.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("a small disk needs root:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	_, rows := smallFiles(t, dir, 2, newMachine(false))
	f := sink.Footer{Topic: testTopic, Start: 2, Next: 3, PreviousDate: testDate}
	if err := sink.Append(dir, testTopic, nextDate, nil, f); err != nil {
		t.Fatal(err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	put(t, filler, strings.Repeat("x", int(disk.Bavail)*int(disk.Bsize)-100_000))
	p := &player{w: &world{}, t: t, dir: dir}
	if err := p.runPlainly(testNow); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("on a full disk: %v", err)
	}
	if entries, err := leftovers(dir); err != nil || len(entries) > 0 {
		t.Errorf("it leaves %v, %v in the stage", entries, err)
	}
	count := func() (n int64, files []sink.File) {
		files, err := sink.FilesIn(sink.DatePath(dir, testDate), testTopic, testDate)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			n += f.Footer.Rows
		}
		return n, files
	}
	if n, files := count(); n != rows || generation(files) != 0 {
		t.Errorf("%d rows of %d, generation %d", n, rows, generation(files))
	}
	if err := errors.Join(os.Remove(filler), p.runPlainly(testNow)); err != nil {
		t.Fatal(err)
	}
	if n, files := count(); n != rows || len(files) != 1 || generation(files) != 1 {
		t.Errorf("with space again: %d rows of %d in %d files", n, rows, len(files))
	}
}

// Where locks do not keep others out, nothing is compacted, and the message has the remedy.
func TestFileSystemWithoutLocks(t *testing.T) {
	w := newWorld(t)
	for name, lock := range map[string]func(path string) (*sink.Lock, error){
		"no flock": func(path string) (*sink.Lock, error) { return nil, fmt.Errorf("%s: %w", path, sink.ErrNoLocks) },
		"it grants one lock twice": func(path string) (*sink.Lock, error) {
			return sink.TakeLock(t.Context(), path+fmt.Sprint(rand.Uint64()), true, 0)
		},
	} {
		take := func(_ context.Context, path string, _ bool, _ time.Duration) (*sink.Lock, error) { return lock(path) }
		p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
		p.breaks = func(c *compactor) { c.take = take }
		err := p.runPlainly(testNow)
		if !errors.Is(err, sink.ErrNoLocks) || !strings.Contains(err.Error(), "on Lustre, mount with -o flock") {
			t.Errorf("%s: %v", name, err)
		}
		if p.read(); p.err != nil {
			t.Errorf("%s: %v", name, p.err)
		}
	}
}

// Files of an older weir lack the six columns of the certified summary. Their rows are compacted, and the rollups have
// no summaries of them.
func TestOlderColumns(t *testing.T) {
	dir := t.TempDir()
	rows := randomRows(rand.New(rand.NewPCG(1, 1)), 200)
	f := sink.Footer{Topic: testTopic, Next: 1, Rows: int64(len(rows)), PreviousDate: testDate}
	if err := sink.Append(dir, testTopic, testDate, rows, f); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(sink.DatePath(dir, testDate), testTopic+"-0-00000000000000000000.parquet")
	rows, f, err := sink.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, path+".old", string(olderFile(t, rows, &f)))
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if reports := compactTest(t, dir, 1); reports[0].State != Compacted || reports[0].Rows != 200 {
		t.Errorf("reports: %+v", reports)
	}
	if err := Verify(t.Context(), dir, testTopic, nil, func(v Verified) { t.Log(v) }); err != nil {
		t.Error(err)
	}
	got, _, err := sink.ReadFile(filepath.Join(sink.DatePath(dir, testDate), sink.CompactedName(testTopic, 0, 0)))
	if err != nil || len(got) != 200 || got[0].JobID != rows[0].JobID || got[0].Eps != nil {
		t.Errorf("%d rows, %v", len(got), err)
	}
	rollups, err := rollupsOf(rollupsPath(dir, testDate))
	if err != nil || len(rollups) == 0 {
		t.Fatal(len(rollups), err)
	}
	for _, r := range rollups {
		if r.CertifiedCount != 0 || r.Eps != nil {
			t.Errorf("a rollup of older rows has a summary of %d values", r.CertifiedCount)
		}
	}
}

// olderFile returns a file of rows without the last six columns.
func olderFile(t *testing.T, rows []schemas.Row, f *sink.Footer) []byte {
	t.Helper()
	var fields []reflect.StructField
	for _, field := range reflect.VisibleFields(reflect.TypeFor[schemas.Row]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("parquet"), ","); name != "" && name != "-" && !ofSummary(name) {
			field.Offset, field.Index = 0, nil
			fields = append(fields, field)
		}
	}
	older := reflect.StructOf(fields)
	var b bytes.Buffer
	schema := parquet.SchemaOf(reflect.New(older).Interface())
	w := parquet.NewWriter(io.Writer(&b), schema, parquet.Compression(&zstd.Codec{}))
	for i := range rows {
		to := reflect.New(older)
		for _, field := range fields {
			to.Elem().FieldByName(field.Name).Set(reflect.ValueOf(&rows[i]).Elem().FieldByName(field.Name))
		}
		if err := w.Write(to.Interface()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Put(w.SetKeyValueMetadata), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

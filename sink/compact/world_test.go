package compact

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// A world is an archive that the tests copy by links, and what must be in it.
type world struct {
	template string
	rows     []string // of the files in place
	foreign  map[string]string
	late     lateFile
	after    lateFile // what the partition gets next, of a later date
}

// atomOf returns a value for each name of a row: the place where a rollup shows it.
func atomOf(row string) float64 {
	var p, start, i int
	if _, err := fmt.Sscanf(row, "p%d-%d-%d", &p, &start, &i); err != nil {
		panic(err)
	}
	return float64(p*1_000_000 + start*1000 + i)
}

// lateFile lies beside the archive until a late sink links it.
type lateFile struct {
	path, name string
	rows       []string
}

const (
	nextDate   = "2026-11-22"
	partitions = 2
	testAgain  = 4
)

var testNow = time.UnixMilli(dayMs).Add(72 * time.Hour)

// hoursLater returns a time after the test's date is due, and after the old files of now may go.
func hoursLater(n int) time.Time {
	now := time.Now()
	if now.Before(testNow) {
		now = testNow
	}
	return now.Add(time.Duration(n) * keepFor)
}

// chainOf writes the files of a world.
type chainOf struct {
	t        testing.TB
	dir      string
	next     map[int32]int64
	previous map[int32]string
}

// add appends a file of n rows to a partition, and returns the names of the rows.
func (c *chainOf) add(dir string, partition int32, date string, n int, change func(*sink.Footer),
) (name string, rows []string) {
	c.t.Helper()
	start := c.next[partition]
	f := sink.Footer{
		Topic: testTopic, Partition: partition, Start: start, Next: start + int64(n) + 1, Rows: int64(n),
		PreviousDate: c.previous[partition], TopicID: "id",
	}
	if change != nil {
		change(&f)
	}
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		c.t.Fatal(err)
	}
	var all []schemas.Row
	for i := range n {
		v := []float64{1, 2, 3, float64(start), 5}
		interval := at.UnixMilli() + start*1000 + int64(i)
		v = append(v, make([]float64, 59)...)
		r := rowOf(fmt.Sprint("job", i%3), fmt.Sprint("metric", i%2), interval, 1000, 1, 5, v)
		r.Cluster = fmt.Sprintf("p%d-%d-%d", partition, start, i)
		atom := atomOf(r.Cluster) // which the rollups keep
		count, zero := int64(1), 0.0
		r.Count, r.Mean, r.Stddev, r.Eps = &count, &atom, &zero, &zero
		r.AtomValues, r.AtomCounts = []float64{atom}, []int64{1}
		all = append(all, r)
		rows = append(rows, r.Cluster)
	}
	if err := sink.Append(dir, testTopic, date, all, f); err != nil {
		c.t.Fatal(err)
	}
	c.next[partition], c.previous[partition] = f.Next, date
	return fmt.Sprintf("%s-%d-%020d.parquet", testTopic, partition, start), rows
}

// newWorld makes an archive whose date is due: small files with a gap and what could not be read, and a user's file.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{template: t.TempDir(), foreign: map[string]string{"notes.txt": "mine"}}
	c := &chainOf{t, w.template, map[int32]int64{}, map[int32]string{}}
	for p := range int32(partitions) {
		for i := range 4 {
			_, rows := c.add(w.template, p, testDate, 2+i, func(f *sink.Footer) {
				if i == 2 {
					f.Undecodable, f.UndecodableCount = []sink.Undecodable{{Offset: f.Start, Reason: "why"}}, 1
				}
			})
			w.rows = append(w.rows, rows...)
		}
	}
	c.add(w.template, 0, testDate, 0, func(f *sink.Footer) { f.Gap = true })
	for p := range int32(partitions) {
		_, rows := c.add(w.template, p, nextDate, 1, nil)
		w.rows = append(w.rows, rows...)
	}
	for name, text := range w.foreign {
		path := filepath.Join(sink.DatePath(w.template, testDate), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.stash(t, c)
	return w
}

// stash makes the file that a late sink will link, and the one behind it. Until then they lie in another archive.
func (w *world) stash(t testing.TB, c *chainOf) {
	t.Helper()
	elsewhere := t.TempDir()
	name, rows := c.add(elsewhere, 0, testDate, 2, nil)
	w.late = lateFile{filepath.Join(sink.DatePath(elsewhere, testDate), name), name, rows}
	name, rows = c.add(elsewhere, 0, nextDate, 2, nil)
	w.after = lateFile{filepath.Join(sink.DatePath(elsewhere, nextDate), name), name, rows}
}

// again returns a world whose date was compacted once, and has so many late files that it is due again.
func (w *world) again(t testing.TB) *world {
	t.Helper()
	dir := w.clone(t)
	for _, now := range []time.Time{testNow, hoursLater(2)} {
		c := newCompactor(Options{Dir: dir, Topic: testTopic})
		c.now, c.again = func() time.Time { return now }, testAgain
		if err := c.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return w.grown(t, dir, w.rows)
}

// grown gives the archive in dir, which has rows, so many late files that its date is due again.
func (w *world) grown(t testing.TB, dir string, rows []string) *world {
	t.Helper()
	next := &world{template: dir, rows: slices.Clone(rows), foreign: w.foreign}
	c := &chainOf{t, dir, map[int32]int64{}, map[int32]string{}}
	files, err := sink.Files(filepath.Join(dir, "summaries"), testTopic)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Footer.Next > c.next[f.Partition] {
			c.next[f.Partition], c.previous[f.Partition] = f.Footer.Next, f.Date
		}
	}
	for range testAgain {
		_, added := c.add(dir, 0, testDate, 1, nil)
		next.rows = append(next.rows, added...)
	}
	_, added := c.add(dir, 0, nextDate, 1, nil)
	next.rows = append(next.rows, added...)
	next.stash(t, c)
	return next
}

// clone copies the archive by links. No file is ever written to again.
func (w *world) clone(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(w.template, func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(dir, strings.TrimPrefix(path, w.template))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Name() == "lock" || d.Name() == ".lock":
			return nil
		}
		return os.Link(path, to)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

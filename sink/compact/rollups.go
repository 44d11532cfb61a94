package compact

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/sink"
)

const (
	rollupsDir  = "rollups"
	rollupsFile = "rollups.parquet"
	// rollupGroup is how many rollups a row group has. They are large, and a group is in memory while it is written.
	rollupGroup = 8 << 10
)

// errRollups is returned when the rollups of a date cannot be what a compaction wrote.
var errRollups = errors.New("not rollups of this date")

// rollupsPath returns the file with the rollups of a date.
func rollupsPath(dir, date string) string {
	return filepath.Join(dir, rollupsDir, stagePrefix+date, rollupsFile)
}

// rollupsFooter describes a file of rollups. It is key/value metadata, as that of other files.
type rollupsFooter struct {
	topic string
	// generation is that of the compaction that wrote the file. All rows of the date's compacted files up to this
	// generation are in it.
	generation int64
	// inputs are the small files that this generation took. If the generation was not published, they are still small.
	inputs []string
	// deleted is how many rows of summaries users have deleted with the date's directory.
	deleted int64
	// next is the position behind the last file of each partition that is in them.
	next map[int32]int64
	rollupTally
}

// rollupTally is what a read-back compares.
type rollupTally struct {
	rows      int64
	intervals int64  // rows of summaries
	hash      uint64 // of all columns, in any order
}

func (t *rollupTally) add(r *Rollup) {
	t.rows++
	t.intervals += r.Intervals
	t.hash += r.hash()
}

// hash returns a hash of all columns.
func (r *Rollup) hash() uint64 {
	h := uint64(hashSeed)
	for _, field := range reflect.ValueOf(r).Elem().Fields() {
		switch v := field.Addr().Interface().(type) {
		case *string:
			h = mixText(h, *v)
		case *int32:
			h = mix(h, uint64(uint32(*v)))
		case *int64:
			h = mix(h, uint64(*v))
		case **string:
			if h = mix(h, hashNull); *v != nil {
				h = mixText(h, **v)
			}
		case **float64:
			if h = mix(h, hashNull); *v != nil {
				h = mix(h, math.Float64bits(**v))
			}
		case *[]float64:
			h = mixList(h, *v, math.Float64bits)
		case *[]int64:
			h = mixList(h, *v, func(n int64) uint64 { return uint64(n) })
		}
	}
	return mix(h, h>>32)
}

func (f *rollupsFooter) put(set func(key, value string)) error {
	inputs, err := json.Marshal(append([]string{}, f.inputs...))
	if err != nil {
		return fmt.Errorf("encoding the footer: %w", err)
	}
	next, err := json.Marshal(f.next)
	if err != nil {
		return fmt.Errorf("encoding the footer: %w", err)
	}
	for _, pair := range [][2]string{
		{"weir.rollups", "1"},
		{"weir.topic", f.topic},
		{"weir.generation", strconv.FormatInt(f.generation, 10)},
		{"weir.inputs", string(inputs)},
		{"weir.next", string(next)},
		{"weir.rows", strconv.FormatInt(f.rows, 10)},
		{"weir.intervals", strconv.FormatInt(f.intervals, 10)},
		{"weir.deleted", strconv.FormatInt(f.deleted, 10)},
		{"weir.hash", strconv.FormatUint(f.hash, 16)},
	} {
		set(pair[0], pair[1])
	}
	return nil
}

func parseRollups(lookup func(key string) (string, bool)) (f rollupsFooter, err error) {
	text := func(key string) string { v, _ := lookup(key); return v }
	var faults []error
	number := func(key string) int64 {
		n, err := strconv.ParseInt(text(key), 10, 64)
		if err != nil || n < 0 {
			faults = append(faults, fmt.Errorf("%s is not a number from 0", key))
		}
		return n
	}
	if text("weir.rollups") != "1" {
		return f, errors.New("weir.rollups is not 1")
	}
	f.topic, f.generation = text("weir.topic"), number("weir.generation")
	f.rows, f.intervals = number("weir.rows"), number("weir.intervals")
	f.deleted = number("weir.deleted")
	if f.hash, err = strconv.ParseUint(text("weir.hash"), 16, 64); err != nil {
		faults = append(faults, errors.New("weir.hash is not a hexadecimal number"))
	}
	if err := json.Unmarshal([]byte(text("weir.inputs")), &f.inputs); err != nil {
		faults = append(faults, fmt.Errorf("weir.inputs: %w", err))
	}
	if err := json.Unmarshal([]byte(text("weir.next")), &f.next); err != nil {
		faults = append(faults, fmt.Errorf("weir.next: %w", err))
	}
	return f, errors.Join(faults...)
}

// begin says what a generation of a date's rollups is made of. If base, it is made of the rollups that are there, nil
// being none. The small files are added, but for those that has names.
//
// A crash between the rollups and the exchange leaves rollups of a generation that the date does not have yet. They
// have the inputs of that generation already, and only what came since is added.
func begin(there *rollupsFooter, topic string, generation int64) (base bool, has map[string]bool, err error) {
	has = map[string]bool{}
	switch {
	case there == nil && generation == 1:
		return false, has, nil
	case there == nil:
		return false, nil, fmt.Errorf("%w: those of generation %d are missing: bring them back from a copy",
			errRollups, generation-1)
	case there.topic != topic:
		return false, nil, fmt.Errorf("%w: they are of topic %s: move them away", errRollups, there.topic)
	case there.generation == generation:
		for _, name := range there.inputs {
			has[name] = true
		}
		return true, has, nil
	case there.generation == generation-1:
		return true, has, nil
	}
	return false, nil, fmt.Errorf("%w: they are of generation %d, and the date of %d: "+
		"bring both back from the same copy", errRollups, there.generation, generation-1)
}

// openRollups opens a file of rollups. The caller closes the file.
func openRollups(path string) (*os.File, *parquet.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening rollups: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		var p *parquet.File
		if p, err = parquet.OpenFile(file, info.Size(), parquet.SkipBloomFilters(true)); err == nil {
			return file, p, nil
		}
	}
	_ = file.Close()
	return nil, nil, fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, path, err)
}

// footerOfRollups returns the footer of a date's rollups; nil if there are none.
func footerOfRollups(path string) (*rollupsFooter, error) {
	file, p, err := openRollups(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := parseRollups(p.Lookup)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, path, err)
	}
	return &f, nil
}

// rollupReader reads rollups one by one.
type rollupReader struct {
	file   *os.File
	rows   *parquet.GenericReader[Rollup]
	lookup func(key string) (string, bool) // in the footer
	read   []Rollup
	end    bool
}

func newRollupReader(path string) (*rollupReader, error) {
	file, p, err := openRollups(path)
	if err != nil {
		return nil, err
	}
	return &rollupReader{file: file, rows: parquet.NewGenericReader[Rollup](p), lookup: p.Lookup}, nil
}

func (r *rollupReader) close() error { return errors.Join(r.rows.Close(), r.file.Close()) }

// current returns the first rollup that was not taken; nil behind the last.
func (r *rollupReader) current() (*Rollup, error) {
	for len(r.read) == 0 {
		if r.end {
			return nil, nil
		}
		batch := make([]Rollup, 64) // a new one: who took a rollup may keep it
		n, err := r.rows.Read(batch)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, r.file.Name(), err)
		}
		r.read, r.end = batch[:n], err != nil
	}
	return &r.read[0], nil
}

// joinRollups joins sorted rollups, and calls out with each in order. A rollup that only one of them has stays as it
// is, bit for bit.
func joinRollups(ctx context.Context, from []*rollupReader, out func(*Rollup) error) error {
	for ctx.Err() == nil {
		least, err := leastOf(from)
		if err != nil || len(least) == 0 {
			return err
		}
		result := least[0].read[0]
		if len(least) > 1 {
			h := newHour(keyOfRollup(&result))
			for _, r := range least {
				h.join(&r.read[0])
			}
			result = h.done()
		}
		for _, r := range least {
			r.read = r.read[1:]
		}
		if err := out(&result); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// leastOf returns the readers whose next rollup has the least key; none behind the last.
func leastOf(from []*rollupReader) (least []*rollupReader, err error) {
	for _, r := range from {
		next, err := r.current()
		switch {
		case err != nil:
			return nil, err
		case next == nil:
			continue
		}
		c := -1
		if len(least) > 0 {
			c = compareRollups(next, &least[0].read[0])
		}
		if c < 0 {
			least = least[:0]
		}
		if c <= 0 {
			least = append(least, r)
		}
	}
	return least, nil
}

func keyOfRollup(r *Rollup) Rollup {
	return Rollup{
		Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart, Hour: r.Hour,
		Metric: r.Metric, Unit: r.Unit, Scope: r.Scope,
	}
}

// rollupWriter writes rollups in the order in which they come.
type rollupWriter struct {
	file     *os.File
	buffered *bufio.Writer
	out      *parquet.GenericWriter[Rollup]
	tally    rollupTally
}

func newRollupWriter(path string) (*rollupWriter, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	w := &rollupWriter{file: file, buffered: bufio.NewWriterSize(file, 256<<10)}
	w.out = parquet.NewGenericWriter[Rollup](w.buffered,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.DefaultEncodingFor(parquet.Double, &parquet.ByteStreamSplit),
		parquet.CreatedBy("weir", "2", sink.Build()),
		parquet.MaxRowsPerRowGroup(rollupGroup),
		parquet.PageBufferSize(pageBytes),
	)
	return w, nil
}

func (w *rollupWriter) add(r *Rollup) error {
	w.tally.add(r)
	if _, err := w.out.Write([]Rollup{*r}); err != nil {
		return fmt.Errorf("writing a rollup: %w", err)
	}
	return nil
}

// close ends the file with a footer. The tally of the footer is that of the rollups.
func (w *rollupWriter) close(f rollupsFooter, sync func() error) error {
	f.rollupTally = w.tally
	err := cmp.Or(f.put(w.out.SetKeyValueMetadata), w.out.Close(), w.buffered.Flush())
	if err == nil {
		err = sync()
	}
	return cmp.Or(err, w.file.Close())
}

// readRollups returns what a file of rollups holds, and an error if it is not in order or not as its footer says.
func readRollups(ctx context.Context, path string) (f rollupsFooter, err error) {
	r, err := newRollupReader(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, fmt.Errorf("%w: %s is missing: bring it back from a copy", errRollups, path)
	}
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if f, err = parseRollups(r.lookup); err != nil {
		return f, fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, path, err)
	}
	var held rollupTally
	var last Rollup
	err = joinRollups(ctx, []*rollupReader{r}, func(r *Rollup) error {
		if held.rows > 0 && compareRollups(&last, r) >= 0 {
			return fmt.Errorf("%w: %s is not sorted at row %d", errRollups, path, held.rows)
		}
		held.add(r)
		last = *r
		return nil
	})
	if err == nil && held != f.rollupTally {
		err = fmt.Errorf("%w: %s: its rows are not those that were written: bring it back from a copy",
			errRollups, path)
	}
	return f, err
}

// roller makes the rollups of a date, while its files are merged.
type roller struct {
	c       *compactor
	t       task
	base    bool            // the date's rollups are a part of the new ones
	has     map[string]bool // files that they have already
	deleted int64           // rows of theirs that the date has no longer
	next    map[int32]int64 // behind the files that they will have
	parts   []string        // of partitions
}

// roll returns what makes the rollups of a generation.
func (c *compactor) roll(t task) (*roller, error) {
	there, err := footerOfRollups(rollupsPath(c.dir, t.date))
	if err != nil {
		return nil, err
	}
	base, has, err := c.begin(there, c.topic, t.generation)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rollupsPath(c.dir, t.date), err)
	}
	return &roller{c: c, t: t, base: base, has: has, deleted: deletedRows(t, there), next: nextOf(t, there)}, nil
}

// fresh reports whether the rollups lack a file's rows.
func (r *roller) fresh(f sink.File) bool { return !f.Compacted && !r.has[f.Name] }

// part begins the rollups of a partition.
func (r *roller) part(partition int32) (*rollupWriter, error) {
	path := filepath.Join(r.c.stage(), fmt.Sprintf("%srollups-%s-%d", runPrefix, r.t.date, partition))
	r.parts = append(r.parts, path)
	var w *rollupWriter
	err := r.c.do(actCreate, path, func() (err error) { w, err = newRollupWriter(path); return err })
	if err != nil {
		return nil, fmt.Errorf("making rollups: %w", err)
	}
	return w, nil
}

// write joins the rollups of all partitions with those that are there. It returns where they are, durable and read
// back.
func (r *roller) write(ctx context.Context, as fs.FileInfo) (path string, err error) {
	paths := r.parts
	if r.base {
		paths = append([]string{rollupsPath(r.c.dir, r.t.date)}, paths...)
	}
	var from []*rollupReader
	defer func() {
		for _, in := range from {
			err = errors.Join(err, in.close())
		}
	}()
	for _, p := range paths {
		in, err := newRollupReader(p)
		if err != nil {
			return "", err
		}
		from = append(from, in)
	}
	path = filepath.Join(r.c.stage(), runPrefix+"rollups-"+r.t.date)
	var w *rollupWriter
	err = r.c.do(actCreate, path, func() (err error) { w, err = newRollupWriter(path); return err })
	if err != nil {
		return "", fmt.Errorf("making rollups: %w", err)
	}
	err = joinRollups(ctx, from, w.add)
	f := rollupsFooter{
		topic: r.c.topic, generation: r.t.generation, inputs: r.inputs(), deleted: r.deleted, next: r.next,
	}
	closed := w.close(f, func() error { return r.c.do(actSync, path, w.file.Sync) })
	if err := cmp.Or(err, closed, owned(path, as)); err != nil {
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	if err := r.c.makeHome(r.t.date, as); err != nil {
		return "", err
	}
	read, err := readRollups(ctx, path)
	if err == nil && read.rollupTally != w.tally {
		err = fmt.Errorf("%w: %s", errDiffers, path)
	}
	return path, err
}

// inputs returns the names of the small files that the generation has, in order.
func (r *roller) inputs() (names []string) {
	for name := range r.has {
		names = append(names, name)
	}
	for _, of := range r.t.inputs {
		for _, f := range of {
			if r.fresh(f) {
				names = append(names, f.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// makeHome makes the directory of a date's rollups, durably.
func (c *compactor) makeHome(date string, as fs.FileInfo) error {
	dir := filepath.Dir(rollupsPath(c.dir, date))
	for _, d := range []string{filepath.Dir(dir), dir} {
		if _, err := os.Stat(d); err == nil {
			continue
		}
		if err := c.do(actMakeDir, d, func() error { return os.Mkdir(d, as.Mode().Perm()) }); err != nil {
			return fmt.Errorf("making a directory for rollups: %w", err)
		}
		if err := cmp.Or(os.Chmod(d, as.Mode().Perm()), owned(d, as)); err != nil {
			return fmt.Errorf("making a directory for rollups: %w", err)
		}
	}
	return cmp.Or(c.syncDir(c.dir), c.syncDir(filepath.Dir(dir))) // a run that made them may have died before
}

// publishRollups puts the rollups at their place, durably. The caller holds the lock, and exchanges the date next.
func (c *compactor) publishRollups(made, date string) error {
	path := rollupsPath(c.dir, date)
	if err := c.rename(made, path); err != nil {
		return fmt.Errorf("publishing rollups: %w", err)
	}
	return c.syncDir(filepath.Dir(path))
}

package compact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strconv"

	"github.com/weirhpc/weir/sink"
)

const (
	rollupsDir  = "rollups"
	rollupsFile = "rollups.parquet"
	// rollupGroup is the number of rollups in a row group. They are large, and a group is in memory while it is
	// written.
	rollupGroup = 8 << 10
)

// errRollups is returned when the rollups of a date cannot come from its compactions.
var errRollups = errors.New("not rollups of this date")

// rollupsPath returns the file with the rollups of a date.
func rollupsPath(dir, date string) string {
	return filepath.Join(dir, rollupsDir, stagePrefix+date, rollupsFile)
}

// rollupsFooter describes a file of rollups. It is key/value metadata, as in other files.
type rollupsFooter struct {
	topic string
	// generation is the number of the compaction that wrote the file. The file contains all rows of the date's
	// compacted files up to this generation.
	generation int64
	// inputs are the small files that this generation took. If the generation was not published, they are still small.
	inputs []string
	// before is the lineage of the generation before; empty in the first.
	before string
	// deleted is how many rows of summaries users have deleted with the date's directory.
	deleted int64
	// next is the position behind the last file of each partition that is in them.
	next map[int32]int64
	rollupTally
}

// lineage names all small files that the rollups are made of, and how a compaction took them together.
func (f *rollupsFooter) lineage() string { return lineageOf(f.before, f.inputs) }

// lineageOf returns the lineage of rollups made of an earlier generation and of small files with these sorted names.
func lineageOf(before string, names []string) string {
	h := sha256.New()
	for _, name := range append([]string{before}, names...) {
		fmt.Fprintf(h, "%s\n", name)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// rollupTally holds the numbers that a read-back compares.
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
		case *[]string:
			h = mix(h, uint64(len(*v)))
			for _, text := range *v {
				h = mixText(h, text)
			}
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
		{"weir.before", f.before},
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
	f.topic, f.generation, f.before = text("weir.topic"), number("weir.generation"), text("weir.before")
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

// interrupted checks rollups of a generation that the date has not reached yet. It returns nil if a run that died made
// them. Then the date still contains the files that they were made of, and other files lie behind these. Otherwise the
// date was read from the topic anew, and the rollups already contain its rows.
func interrupted(there *rollupsFooter, generation int64, small []sink.File) error {
	if there == nil || there.generation != generation {
		return nil
	}
	left := map[string]bool{}
	for _, name := range there.inputs {
		left[name] = true
	}
	anew := false
	for _, f := range small {
		anew = anew || !left[f.Name] && f.Start < there.next[f.Partition]
		delete(left, f.Name)
	}
	if anew || len(left) > 0 {
		return fmt.Errorf("%w: they were made of other files than the date has: bring both back from the same copy, "+
			"or move the rollups away", errRollups)
	}
	return nil
}

// begin returns the sources of a generation of a date's rollups. If base is true, they include the existing rollups;
// there is nil if none exist. All small files are added, except the ones in has.
//
// A crash between the rollups and the exchange leaves rollups of a generation that the date has not reached yet. They
// already contain the inputs of that generation, and only newer files are added.
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

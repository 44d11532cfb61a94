package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxUndecodable bounds the list in a footer. UndecodableCount also counts those beyond it.
const maxUndecodable = 10_000

// Footer describes a file. It is key/value metadata of the Parquet footer, under names that begin with "weir.".
type Footer struct {
	Topic     string
	Partition int32
	Start     int64 // the position of the first record
	Next      int64 // behind everything that was fetched, transaction markers included: the start of the next file
	Rows      int64
	// FirstInterval and LastInterval are the least and greatest interval_start, in Unix milliseconds; 0 without rows.
	FirstInterval, LastInterval int64
	// Undecodable lists the summaries that could not be read, the first 10,000 of them.
	Undecodable      []Undecodable
	UndecodableCount int64
	// Gap marks an empty file: [Start, Next) is lost. A person accepted the loss of summaries.
	Gap          bool
	PreviousDate string // the date of the file before; empty in the first
	// TopicID is Kafka's id of the topic, in hex. It is empty in older files, and if the broker has none.
	TopicID string

	// Compacted is nil in the files that a sink writes.
	Compacted *Compacted
}

// Compacted is the part of a footer that only compacted files have. They took the place of other files of their date.
type Compacted struct {
	// Ranges are the stretches of the chain that the file holds, in order. Around midnight there are several.
	Ranges []Range
	// Inputs are the names of the files that it took the place of.
	Inputs []string
	// Generation counts the compactions of the date, from 1.
	Generation int64
	// Hash is the sum of the hashes of all rows, in any order.
	Hash uint64
}

// Range is a stretch of the chain: [Start, Next).
type Range struct {
	Start        int64  `json:"start"`
	Next         int64  `json:"next"`
	PreviousDate string `json:"previous_date"`
	Gap          bool   `json:"gap,omitempty"`
}

// Ranges returns the stretches of the chain that the file holds, in order.
func (f *Footer) Ranges() []Range {
	if f.Compacted != nil {
		return f.Compacted.Ranges
	}
	return []Range{{f.Start, f.Next, f.PreviousDate, f.Gap}}
}

// format returns the version of the file. Only compacted files have the new one: an older weir reads the others.
func (f *Footer) format() int {
	if f.Compacted != nil {
		return formatCompacted
	}
	return formatSmall
}

// Undecodable is a record of the topic that is no summary of this cluster.
type Undecodable struct {
	Offset int64  `json:"offset"`
	Reason string `json:"reason"`
}

// Put sets the footer as key/value metadata.
func (f *Footer) Put(set func(key, value string)) error {
	kv, err := f.keyValues()
	for _, pair := range kv {
		set(pair[0], pair[1])
	}
	return err
}

// keyValues returns the footer as key/value metadata.
func (f *Footer) keyValues() ([][2]string, error) {
	undecodable, err := json.Marshal(append([]Undecodable{}, f.Undecodable...)) // none is [], not null
	if err != nil {
		return nil, fmt.Errorf("encoding the footer: %w", err)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	kv := [][2]string{
		{"weir.format", number(int64(f.format()))},
		{"weir.topic", f.Topic},
		{"weir.partition", number(int64(f.Partition))},
		{"weir.start", number(f.Start)},
		{"weir.next", number(f.Next)},
		{"weir.rows", number(f.Rows)},
		{"weir.undecodable", string(undecodable)},
		{"weir.undecodable_count", number(f.UndecodableCount)},
		{"weir.previous_date", f.PreviousDate},
	}
	if f.Rows > 0 {
		kv = append(kv,
			[2]string{"weir.first_interval", number(f.FirstInterval)},
			[2]string{"weir.last_interval", number(f.LastInterval)})
	}
	if f.TopicID != "" {
		kv = append(kv, [2]string{"weir.topic_id", f.TopicID})
	}
	if f.Gap {
		kv = append(kv, [2]string{"weir.gap", "true"})
	}
	if c := f.Compacted; c != nil {
		ranges, err := json.Marshal(c.Ranges)
		if err != nil {
			return nil, fmt.Errorf("encoding the footer: %w", err)
		}
		inputs, err := json.Marshal(c.Inputs)
		if err != nil {
			return nil, fmt.Errorf("encoding the footer: %w", err)
		}
		kv = append(kv, [2]string{"weir.ranges", string(ranges)}, [2]string{"weir.inputs", string(inputs)},
			[2]string{"weir.generation", number(c.Generation)},
			[2]string{"weir.hash", strconv.FormatUint(c.Hash, 16)})
	}
	return kv, nil
}

// parseFooter reads the key/value metadata that lookup finds.
func parseFooter(lookup func(key string) (string, bool)) (Footer, error) {
	var f Footer
	var faults []error
	text := func(key string) string {
		v, ok := lookup(key)
		if !ok {
			faults = append(faults, fmt.Errorf("%s is missing", key))
		}
		return strings.Clone(v) // the library's texts lie in the whole file's footer, which they would keep in memory
	}
	number := func(key string, bits int) int64 {
		n, err := strconv.ParseInt(text(key), 10, bits)
		if err != nil || n < 0 {
			faults = append(faults, fmt.Errorf("%s is not a number from 0", key))
		}
		return n
	}
	version := number("weir.format", 64)
	if version > formatCompacted {
		return f, fmt.Errorf("%w: %d", errNewerFormat, version)
	}
	f.Topic = text("weir.topic")
	f.Partition = int32(number("weir.partition", 32))
	f.Start, f.Next, f.Rows = number("weir.start", 64), number("weir.next", 64), number("weir.rows", 64)
	f.UndecodableCount = number("weir.undecodable_count", 64)
	f.PreviousDate = text("weir.previous_date")
	if err := json.Unmarshal([]byte(text("weir.undecodable")), &f.Undecodable); err != nil {
		faults = append(faults, fmt.Errorf("weir.undecodable: %w", err))
	}
	if f.Rows > 0 {
		f.FirstInterval, f.LastInterval = number("weir.first_interval", 64), number("weir.last_interval", 64)
	}
	if id, has := lookup("weir.topic_id"); has {
		f.TopicID = strings.Clone(id)
	}
	gap, _ := lookup("weir.gap")
	f.Gap = gap == "true"
	if version == formatCompacted {
		c := &Compacted{Generation: number("weir.generation", 64)}
		faults = append(faults, c.parse(text, &f))
		f.Compacted = c
	}
	if f.Next <= f.Start {
		faults = append(faults, fmt.Errorf("weir.next %d is not behind weir.start %d", f.Next, f.Start))
	}
	return f, errors.Join(faults...)
}

// parse reads the keys of a compacted file, and compares them with the rest of the footer.
func (c *Compacted) parse(text func(key string) string, f *Footer) error {
	var err error
	if c.Hash, err = strconv.ParseUint(text("weir.hash"), 16, 64); err != nil {
		return errors.New("weir.hash is not a hexadecimal number")
	}
	if err := json.Unmarshal([]byte(text("weir.inputs")), &c.Inputs); err != nil {
		return fmt.Errorf("weir.inputs: %w", err)
	}
	if err := json.Unmarshal([]byte(text("weir.ranges")), &c.Ranges); err != nil {
		return fmt.Errorf("weir.ranges: %w", err)
	}
	if len(c.Ranges) == 0 || c.Ranges[0].Start != f.Start || c.Ranges[len(c.Ranges)-1].Next != f.Next {
		return errors.New("weir.ranges do not reach from weir.start to weir.next")
	}
	for i, r := range c.Ranges {
		if r.Next <= r.Start || i > 0 && r.Start < c.Ranges[i-1].Next {
			return fmt.Errorf("weir.ranges: [%d, %d) is not behind the range before it", r.Start, r.Next)
		}
	}
	if c.Generation == 0 {
		return errors.New("weir.generation is 0")
	}
	return nil
}

package measure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// journalHead begins a journal. It ends with the number of nodes and the names of the columns.
const journalHead = "# weir topology journal 1\n# nodes %d\na,b,latency_us,pass\n"

// Longest line of a journal, in bytes: two names of nodes, a latency and a pass.
const longestLine = 4096

// journal keeps each latency of a campaign in a file, in the order in which they were measured. It answers them again
// when the campaign is started again.
type journal struct {
	file    *os.File
	names   []string
	answers map[latency.Pair][]float64 // in microseconds, not given again yet
}

// openJournal opens a journal, or creates it. A last line that was cut off is removed. It fails if the file is none of
// these nodes, or if another campaign writes it.
func openJournal(path string, names []string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o644) // a pipe does not hold it up
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &journal{file: file, names: names}
	if err := j.read(); err != nil {
		_ = file.Close() // it was only read
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	return j, nil
}

var (
	errNoJournal    = errors.New("it is no journal of weir topology measure: give another name")
	errJournalInUse = errors.New("another campaign writes it: give another name, or end that campaign")
)

// read reads the journal's lines, and leaves the file at the end of the last whole line.
func (j *journal) read() error {
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errNoJournal
	}
	if err := syscall.Flock(int(j.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("%w (%w)", errJournalInUse, err)
	}
	answers, whole, err := readJournal(j.file, j.names)
	if err != nil {
		return err
	}
	j.answers = answers
	if err := j.file.Truncate(whole); err != nil {
		return err
	}
	if _, err := j.file.Seek(whole, io.SeekStart); err != nil {
		return err
	}
	if whole == 0 {
		_, err = fmt.Fprintf(j.file, journalHead, len(j.names))
	}
	return err
}

// readJournal reads the latencies of a journal by pair, in their order. It returns the length of its whole lines in
// bytes, 0 if its head was cut off.
func readJournal(r io.Reader, names []string) (answers map[latency.Pair][]float64, whole int64, err error) {
	in := bufio.NewReaderSize(r, longestLine)
	head := fmt.Sprintf(journalHead, len(names))
	begin, err := in.Peek(len(head))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	switch {
	case string(begin) == head:
	case strings.HasPrefix(head, string(begin)):
		return nil, 0, nil
	default:
		return nil, 0, foreign(begin, len(names))
	}
	numbers := make(map[string]int, len(names))
	for i, n := range names {
		numbers[n] = i
	}
	answers = map[latency.Pair][]float64{}
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return answers, whole, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, 0, fmt.Errorf("line %d is longer than %d bytes: %w", number, longestLine, errNoJournal)
		case err != nil:
			return nil, 0, err
		}
		whole += int64(len(line))
		if whole <= int64(len(head)) {
			continue
		}
		pair, us, err := parseEntry(string(bytes.TrimSuffix(line, []byte("\n"))), numbers)
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", number, err)
		}
		answers[pair] = append(answers[pair], us)
	}
}

// foreign explains why a file with this beginning is no journal of n nodes.
func foreign(begin []byte, n int) error {
	var of int
	if _, err := fmt.Sscanf(string(begin), "# weir topology journal 1\n# nodes %d", &of); err == nil {
		return fmt.Errorf("it is of %d nodes, and these are %d: give another name", of, n)
	}
	return errNoJournal
}

// parseEntry reads one line.
func parseEntry(line string, numbers map[string]int) (pair latency.Pair, us float64, err error) {
	fields := strings.Split(line, ",")
	if len(fields) != 4 {
		return pair, 0, fmt.Errorf("%.80q lacks the columns a,b,latency_us,pass", line)
	}
	a, isA := numbers[fields[0]]
	b, isB := numbers[fields[1]]
	switch {
	case !isA || !isB:
		return pair, 0, fmt.Errorf("%.80q names a node that is not measured now: measure the same nodes, or give "+
			"another journal", line)
	case a == b:
		return pair, 0, fmt.Errorf("%.80q is one node twice", line)
	}
	us, err = strconv.ParseFloat(fields[2], 64)
	if err != nil || !(us > 0) || math.IsInf(us, 0) {
		return pair, 0, fmt.Errorf("latency %.40q is no positive number", fields[2])
	}
	return latency.Pair{A: min(a, b), B: max(a, b)}, us, nil
}

// answer returns the journal's next latency of a pair, in microseconds.
func (j *journal) answer(p latency.Pair) (us float64, known bool) {
	left := j.answers[p]
	if len(left) == 0 {
		return 0, false
	}
	j.answers[p] = left[1:]
	return left[0], true
}

// add writes the latencies of a round, in microseconds. It leaves out lost pairs, so they are measured again when the
// campaign resumes. It writes a round in one call, so that a kill cuts off at most its end.
func (j *journal) add(round []latency.Pair, us []float64, pass int) error {
	var text []byte
	for i, p := range round {
		if math.IsNaN(us[i]) {
			continue
		}
		text = append(text, j.names[p.A]...)
		text = append(text, ',')
		text = append(text, j.names[p.B]...)
		text = append(text, ',')
		text = strconv.AppendFloat(text, us[i], 'g', -1, 64)
		text = append(text, ',')
		text = strconv.AppendInt(text, int64(pass), 10)
		text = append(text, '\n')
	}
	if _, err := j.file.Write(text); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// close closes the file. Its contents are on the disk then, as far as the disk keeps its promise.
func (j *journal) close() error {
	err := j.file.Sync()
	return errors.Join(err, j.file.Close())
}

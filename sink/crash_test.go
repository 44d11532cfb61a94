package sink

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// reader reads of a file of a table, for each row, the offset that it came from and its interval_start.
type reader func(t testing.TB, path string) (offsets, starts []int64)

// readSummaries takes the offset from IntervalMs, where the tests put it.
func readSummaries(t testing.TB, path string) (offsets, starts []int64) {
	t.Helper()
	rows, _, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		offsets, starts = append(offsets, r.IntervalMs), append(starts, r.IntervalStart)
	}
	return offsets, starts
}

// storedOffsets returns, in file order of the chain, the offsets that a partition's rows came from.
func storedOffsets(t testing.TB, a *archive) []int64 {
	t.Helper()
	return offsetsIn(t, a, readSummaries)
}

func offsetsIn(t testing.TB, a *archive, read reader) []int64 {
	t.Helper()
	found, _, err := chains(a.root, a.topic)
	if err != nil {
		t.Fatal(err)
	}
	links := found[0]
	if holes, err := check(links, ""); err != nil || len(holes) > 0 {
		t.Fatalf("the chain is broken: %v %v", holes, err)
	}
	var all []int64
	for _, l := range links {
		offsets, starts := read(t, l.path)
		for i, offset := range offsets {
			if dateOf(starts[i]) != l.date || offset < l.start || offset >= l.next {
				t.Errorf("%s holds a row of %s from offset %d", l.path, dateOf(starts[i]), offset)
			}
		}
		all = append(all, offsets...)
	}
	return all
}

// TestCrashes runs a sink over random logs and lets it crash ahead of a random action on the disk, again and again.
// Every row must be stored once, and no link may be made before the link that it follows is durable.
func TestCrashes(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	t.Run("summaries", func(t *testing.T) {
		t.Parallel()
		crashes(t, summaries(cfg), func(day, offset int64) schemas.Row {
			return schemas.Row{JobID: "j", IntervalStart: day, IntervalMs: offset}
		}, readSummaries)
	})
	t.Run("samples", func(t *testing.T) {
		t.Parallel()
		crashes(t, samples(cfg), func(day, offset int64) measured {
			b := batchOf("n", "j", day)
			b.Metrics = b.Metrics[:1]
			return measured{batch: b, position: offset}
		}, readSamples)
	})
}

func crashes[R any](t *testing.T, of stream[R], row func(day, offset int64) R, read reader) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(kafkatest.Cases(10, 4)) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel() // the rounds wait for the disk
			rnd := rand.New(rand.NewPCG(seed, round))
			log := make([]item[R], 30)
			var want []int64
			for i := range log {
				log[i] = item[R]{offset: int64(i)}
				switch day := int64(rnd.IntN(3)/2) * 24 * 3600 * 1000; rnd.IntN(6) {
				case 0:
					log[i].marker = true
				case 1:
					log[i].reason, log[i].date = "why", dateOf(day)
				case 2:
					log[i].date = dateOf(day) // nothing to archive
				default:
					log[i].date, log[i].start = dateOf(day), day
					log[i].rows = []R{row(day, int64(i))}
					want = append(want, int64(i))
				}
			}
			dir := t.TempDir()
			var trace [][2]string
			crashes := 0
			for {
				left := 1 + rnd.IntN(40) // actions before the crash
				if round == 0 && crashes == 0 {
					left = 2 // of three that open a new archive
				}
				err := onePass(dir, of, log, rnd, func(action, path string) error {
					if left--; left < 0 {
						return errCrash
					}
					trace = append(trace, [2]string{action, path})
					return nil
				})
				if err == nil {
					break
				}
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				crashes++
			}
			a := openTest(t, dir, nil)
			a.root, a.topic = filepath.Join(dir, of.dir), of.topic
			if diff := cmp.Diff(want, offsetsIn(t, a, read)); diff != "" {
				t.Fatalf("stored (-want +got):\n%s", diff)
			}
			checkOrder(t, trace)
			t.Logf("%d crashes", crashes)
			if round == 0 && crashes == 0 {
				t.Error("nothing crashed")
			}
		})
	}
}

// onePass is the sink's loop without Kafka: it goes on from the chain's end to the log's.
func onePass[R any](
	dir string, of stream[R], log []item[R], rnd *rand.Rand, before func(action, path string) error,
) error {
	a := newArchive(dir, of.topic, before)
	a.root = filepath.Join(dir, of.dir)
	if err := a.open(); err != nil {
		return err
	}
	tails, err := a.tails()
	if err != nil {
		return err
	}
	p := newDraft[R](0, tails[0])
	write := func() error {
		f := p.footer(of.topic)
		if err := a.commitFile(p.date, f, of.encoder(p.rows)); err != nil {
			return err
		}
		p = newDraft[R](0, tail{next: p.next, date: p.date})
		return nil
	}
	for _, it := range log[p.next:] {
		if p.ends(it) || !p.empty() && rnd.IntN(4) == 0 {
			if err := write(); err != nil {
				return err
			}
		}
		p.add(it, time.Time{})
	}
	if p.empty() {
		return nil
	}
	return write()
}

// checkOrder replays the actions that were done, and fails where a power cut could leave a hole. A link leaves one if
// its file, its directory or the link before it is not durable.
func checkOrder(t *testing.T, trace [][2]string) {
	t.Helper()
	synced, made := map[string]bool{}, map[string]bool{}
	pending := map[string]bool{} // directories with a name that is not durable
	temp := ""
	for _, e := range trace {
		action, path := e[0], e[1]
		switch action {
		case ActMakeDir:
			if !made[path] {
				made[path], pending[filepath.Dir(path)] = true, true
			}
		case ActSyncDir:
			delete(pending, path)
		case ActCreate:
			temp = path
		case ActSync:
			synced[path] = true
		case ActLink:
			if !synced[temp] {
				t.Fatalf("%s is linked before it is synced", path)
			}
			root := filepath.Dir(filepath.Dir(path))
			for dir := range pending {
				if strings.HasPrefix(dir, root) {
					t.Fatalf("%s is linked while %s is not durable", path, dir)
				}
			}
			pending[filepath.Dir(path)] = true
		}
	}
}

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

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// TestCrashes runs a sink over random logs and lets it crash ahead of a random action on the disk, again and again.
// Every row must be stored once, and no link may be made before the link that it follows is durable.
func TestCrashes(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(kafkatest.Cases(10, 4)) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel() // the rounds wait for the disk
			rnd := rand.New(rand.NewPCG(seed, round))
			log := make([]item[schemas.Row], 30)
			var want []int64
			for i := range log {
				log[i] = item[schemas.Row]{offset: int64(i)}
				switch day := int64(rnd.IntN(3)/2) * 24 * 3600 * 1000; rnd.IntN(5) {
				case 0:
					log[i].marker = true
				case 1:
					log[i].reason, log[i].date = "why", dateOf(day)
				default:
					log[i].date = dateOf(day)
					log[i].rows = []schemas.Row{{JobID: "j", IntervalStart: day, IntervalMs: int64(i)}}
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
				err := onePass(dir, log, rnd, func(action, path string) error {
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
			if diff := cmp.Diff(want, storedOffsets(t, openTest(t, dir, nil))); diff != "" {
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
func onePass(dir string, log []item[schemas.Row], rnd *rand.Rand, before func(action, path string) error) error {
	a := newArchive(dir, "t", before)
	if err := a.open(); err != nil {
		return err
	}
	tails, err := a.tails()
	if err != nil {
		return err
	}
	p := newDraft[schemas.Row](0, tails[0])
	write := func() error {
		f := p.footer("t")
		sortRows(p.rows)
		if err := a.commit(p.date, p.rows, f); err != nil {
			return err
		}
		p = newDraft[schemas.Row](0, tail{next: p.next, date: p.date})
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
		case actMakeDir:
			if !made[path] {
				made[path], pending[filepath.Dir(path)] = true, true
			}
		case actSyncDir:
			delete(pending, path)
		case actCreate:
			temp = path
		case actSync:
			synced[path] = true
		case actLink:
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

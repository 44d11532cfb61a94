package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// killed measures until it has measured some rounds.
type killed struct {
	latency.Measurer
	left int
	kill context.CancelFunc
}

func (k *killed) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	if k.left--; k.left < 0 {
		k.kill()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return k.Measurer.Measure(ctx, round)
}

// TestResume kills campaigns, and lets them go on. The latencies are those that the journal has, and none is measured
// twice for it.
func TestResume(t *testing.T) {
	for method, truth := range map[string]*network.Network{
		MethodAll: simulated.Tree([]int{3, 8}), MethodAdaptive: simulated.Tree([]int{3, 4, 8}),
	} {
		for _, rounds := range []int{0, 1, 15} {
			journal := filepath.Join(t.TempDir(), "journal.csv")
			cluster := simulated.Measurer(truth, simulated.Noise{Sigma: .03}, 1)
			ctx, kill := context.WithCancel(t.Context())
			first := Campaign{Measurer: &killed{cluster, rounds, kill}, Journal: journal, Method: method, Passes: 1}
			if _, err := first.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s killed after %d rounds: %v", method, rounds, err)
			}
			kill()
			kept := entries(t, journal)
			tear(t, journal)
			second := Campaign{Measurer: cluster, Journal: journal, Method: method, Passes: 1}
			out, err := second.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if out.Replayed != kept {
				t.Errorf("%s killed after %d rounds: %d replayed, want %d", method, rounds, out.Replayed, kept)
			}
			if !network.Equal(out.Result.Network, truth) {
				t.Errorf("%s killed after %d rounds: wrong network", method, rounds)
			}
			again, err := (&Campaign{Measurer: cluster, Journal: journal, Method: method, Passes: 1}).Run(t.Context())
			if err != nil || again.Replayed != again.Pairs {
				t.Errorf("%s: %d of %d pairs replayed (%v)", method, again.Replayed, again.Pairs, err)
			}
		}
	}
}

// entries returns how many latencies a journal has.
func entries(t *testing.T, journal string) int {
	t.Helper()
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n")) - 3
}

// tear appends half a line, as a kill in the middle of a write leaves it.
func tear(t *testing.T, journal string) {
	t.Helper()
	f, err := os.OpenFile(journal, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("n0,n1,1."); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTornHead starts with each beginning of a journal's head.
func TestTornHead(t *testing.T) {
	head := fmt.Sprintf(journalHead, 12)
	for cut := range len(head) + 1 {
		journal := filepath.Join(t.TempDir(), "journal.csv")
		if err := os.WriteFile(journal, []byte(head[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(journal, network.Numbered(12))
		if err != nil {
			t.Fatalf("%d bytes: %v", cut, err)
		}
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(journal); err != nil || string(text) != head {
			t.Fatalf("%d bytes became %q (%v)", cut, text, err)
		}
	}
}

var three = []string{"0", "1", "2"}

func TestBadJournal(t *testing.T) {
	head := fmt.Sprintf(journalHead, 3)
	for text, want := range map[string]string{
		"a,b\n1,2\n":                                   "no journal",
		fmt.Sprintf(journalHead, 4):                    "of 4 nodes, and these are 3",
		head + "0,1,1,1\n0,1\n":                        "line 5",
		head + "0,9,1,1\n":                             "not measured now",
		head + "1,1,1,1\n":                             "twice",
		head + "0,1,-1,1\n":                            "no positive number",
		head + "0,1,nan,1\n":                           "no positive number",
		head + strings.Repeat("x", longestLine) + "\n": "longer than",
	} {
		journal := filepath.Join(t.TempDir(), "journal.csv")
		if err := os.WriteFile(journal, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openJournal(journal, three)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), journal) {
			t.Errorf("%.60q: %v, want %q and the file", text, err, want)
		}
		if after, _ := os.ReadFile(journal); string(after) != text {
			t.Errorf("%.60q was changed to %.60q", text, after)
		}
	}
}

func TestJournalInUse(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal.csv")
	j, err := openJournal(journal, three)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openJournal(journal, three); !errors.Is(err, errJournalInUse) {
		t.Errorf("second campaign: %v", err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
}

// TestSilentNode has nodes that never answer. The campaign ends, gives them up and says so.
func TestSilentNode(t *testing.T) {
	for _, method := range []string{MethodAll, MethodAdaptive} {
		dead := simulated.Noise{Sigma: .03, Dead: []int{5, 37}}
		cluster := simulated.Measurer(simulated.Tree([]int{3, 4, 4}), dead, 1)
		out, err := (&Campaign{Measurer: cluster, Method: method}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Warnings) == 0 || !strings.Contains(out.Warnings[0], "n5, n37") {
			t.Errorf("%s: warnings %q", method, out.Warnings)
		}
		if most := silentRounds; cluster.Measured()[5] > most {
			t.Errorf("%s: the silent node was measured %d times", method, cluster.Measured()[5])
		}
		if out.Result.Confidence.Level != "low" {
			t.Errorf("%s: confidence %+v", method, out.Result.Confidence)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	cluster := simulated.Measurer(simulated.Star(4), simulated.Noise{Dead: []int{0, 1, 2, 3}}, 1)
	if _, err := (&Campaign{Measurer: cluster}).Run(t.Context()); !errors.Is(err, errSilent) {
		t.Errorf("error %v", err)
	}
}

// slow takes a time for a round, and sends packets.
type slow struct {
	latency.Measurer
	took time.Duration
}

func (s slow) PacketsPerPair() int { return 100 }

func (s slow) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	time.Sleep(s.took)
	return s.Measurer.Measure(ctx, round)
}

// TestBudget measures with a clock that only sleep moves, so the times are exact.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		budget Budget
		period time.Duration // from round to round
	}{
		{Budget{}, 10 * time.Millisecond},
		{Budget{Share: .25}, 40 * time.Millisecond},
		{Budget{PacketsPerSecond: 1000}, 100 * time.Millisecond},
		{Budget{PacketsPerSecond: 1e6, Share: .5}, 20 * time.Millisecond},
		{Budget{PacketsPerSecond: 1000, Share: .05}, 200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			cluster := simulated.Measurer(simulated.Star(8), simulated.Noise{}, 1)
			out, err := (&Campaign{
				Measurer: slow{cluster, 10 * time.Millisecond}, Budget: c.budget, Passes: 2,
			}).Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if want := time.Duration(out.Rounds) * c.period; out.Elapsed != want {
				t.Errorf("%+v: %d rounds took %v, want %v", c.budget, out.Rounds, out.Elapsed, want)
			}
			if b := c.budget; b.PacketsPerSecond > 0 && out.Spent.PacketsPerSecond > b.PacketsPerSecond+1e-9 ||
				b.Share > 0 && out.Spent.Share > b.Share+1e-9 {
				t.Errorf("budget %+v, spent %+v", c.budget, out.Spent)
			}
		})
	}
}

func TestBadCampaign(t *testing.T) {
	star := simulated.Measurer(simulated.Star(4), simulated.Noise{}, 1)
	comma := simulated.Star(4)
	comma.Names[2] = "a,b"
	for want, c := range map[string]Campaign{
		"two nodes":     {Measurer: simulated.Measurer(network.New([]string{"a"}), simulated.Noise{}, 1)},
		"method":        {Measurer: star, Method: "some"},
		"passes":        {Measurer: star, Passes: -1},
		"share of time": {Measurer: star, Budget: Budget{Share: math.NaN()}},
		"at least 0":    {Measurer: star, Budget: Budget{PacketsPerSecond: -1}},
		"sends packets": {Measurer: star, Budget: Budget{PacketsPerSecond: 1}},
		"commas":        {Measurer: simulated.Measurer(comma, simulated.Noise{}, 1)},
	} {
		if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestSequential measures one pair at a time.
func TestSequential(t *testing.T) {
	cluster := simulated.Measurer(simulated.Star(6), simulated.Noise{}, 1)
	out, err := (&Campaign{Measurer: cluster, Sequential: true, Passes: 1}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if cluster.Rounds() < 15 || cluster.Rounds() != out.Pairs {
		t.Errorf("%d pairs in %d rounds", out.Pairs, cluster.Rounds())
	}
}

// TestNoiseOfRepeats has outliers, which the noise does not count.
func TestNoiseOfRepeats(t *testing.T) {
	for _, sigma := range []float64{.01, .05, .15} {
		cluster := simulated.Measurer(simulated.Tree([]int{4, 8}), simulated.Noise{Sigma: sigma, Outliers: .05}, 1)
		out, err := (&Campaign{Measurer: cluster}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(out.Matrix.Noise-sigma) > .2*sigma {
			t.Errorf("noise %v, want %v", out.Matrix.Noise, sigma)
		}
	}
}

// TestBusyNetwork warns of repeats that differ.
func TestBusyNetwork(t *testing.T) {
	cluster := simulated.Measurer(simulated.Star(40), simulated.Noise{Sigma: .02, Outliers: .2}, 1)
	out, err := (&Campaign{Measurer: cluster}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "differ by more than a quarter") {
		t.Errorf("warnings %q", out.Warnings)
	}
}

func FuzzJournal(f *testing.F) {
	head := fmt.Sprintf(journalHead, 3)
	for _, text := range []string{"", head, head[:9], head + "0,1,1.5,1\n1,2,2,2\n0,2,", head + "0,1,1e999,1\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		answers, whole, err := readJournal(bytes.NewReader(text), three)
		if err != nil {
			return
		}
		if whole < 0 || whole > int64(len(text)) || whole > 0 && text[whole-1] != '\n' {
			t.Errorf("%q: whole lines have %d bytes", text, whole)
		}
		for p, all := range answers {
			for _, us := range all {
				if p.A >= p.B || p.B > 2 || !(us > 0) || math.IsInf(us, 0) {
					t.Errorf("%q: %v has %v", text, p, us)
				}
			}
		}
	})
}

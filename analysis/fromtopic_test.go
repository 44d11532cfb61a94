package analysis

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// TestLoadOfArchiveAndTopic: no interval counts twice and none is lost, wherever the archive ends. A sink may write
// between the look at its end and the look into it.
func TestLoadOfArchiveAndTopic(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 2))
	mine := measure(r, "47", 1, loadStart, 60_000, 60, "cpu_user")
	other := measure(r, "46", 0, loadStart, 60_000, 40, "cpu_user")
	mine.job.State, mine.job.End = schemas.StateRunning, nil
	all := interleave(mine.summaries, other.summaries)
	b := topicstest.NewBrokers(t, "")
	b.Put(t, schemas.TopicJobs, mine.job.Identity().Key(), &mine.job)
	b.Summaries(t, all)
	for _, c := range []struct {
		name               string
		archived, meantime int
		from               string
	}{
		{"topic alone", 0, 0, "topic"},
		{"half archived", len(all) / 2, 0, "archive and topic"},
		{"a sink writes meanwhile", len(all) / 2, 11, "archive and topic"},
		{"a sink catches up meanwhile", len(all) / 2, len(all) - len(all)/2, "archive"},
		{"all archived", len(all), 0, "archive"},
	} {
		d := &disk{dir: t.TempDir()}
		d.append(t, all[:c.archived], 7)
		cfg := b.Config
		cfg.Sink.Dir = d.dir
		l, err := newLoader(t.Context(), cfg, everybody, nil, "47", Ask{Topic: true, Restart: -1})
		if err != nil {
			t.Fatal(err)
		}
		l.looked = func() { d.append(t, all[c.archived:c.archived+c.meantime], 7) }
		j, err := l.load(t.Context())
		l.Close()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if j.From != c.from || !j.Running || j.Restart != 1 || j.User != "u47" {
			t.Errorf("%s: from %q, %+v", c.name, j.From, j.Job)
		}
		mine.same(t, j, "cpu_user")
	}
}

// TestLoadOfAnotherTopic: an archive of a topic that was deleted and made again ends nowhere in the new one.
func TestLoadOfAnotherTopic(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 3))
	mine := measure(r, "47", 0, loadStart, 60_000, 30, "cpu_user")
	b := topicstest.NewBrokers(t, t.TempDir())
	b.Summaries(t, mine.summaries[10:])
	d := &disk{dir: b.Config.Sink.Dir, next: 1000}
	d.append(t, mine.summaries[:15], 5)
	j, err := Load(t.Context(), b.Config, everybody, nil, "47", Ask{Topic: true, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	mine.same(t, j, "cpu_user")
	d = &disk{dir: t.TempDir(), next: 5, id: "0123456789abcdef0123456789abcdef"} // it ends within the new topic
	d.append(t, mine.summaries[:10], 5)
	b.Config.Sink.Dir = d.dir
	if j, err = Load(t.Context(), b.Config, everybody, nil, "47", Ask{Topic: true, Restart: -1}); err != nil {
		t.Fatal(err)
	}
	mine.same(t, j, "cpu_user")
}

// TestLoadOfNothing: a job that is not there, one that waits, and one interval have clear answers.
func TestLoadOfNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 4))
	b := topicstest.NewBrokers(t, t.TempDir())
	cfg := b.Config
	b.Put(t, schemas.TopicJobs, schemas.JobKey{JobID: "8"}.Key(), &schemas.Job{JobID: "8", State: schemas.StatePending})
	one := measure(r, "9", 0, loadStart, 60_000, 1, "cpu_user")
	bare := measure(r, "10", 0, loadStart, 60_000, 3)
	b.Summaries(t, append(one.summaries, bare.summaries...))
	b.Raw(t, schemas.TopicJobSummary, []byte("9/0"), []byte("rubbish"))
	b.Raw(t, schemas.TopicJobs, []byte("9/0"), []byte("rubbish"))
	ask := Ask{Topic: true, Restart: -1}
	for _, dir := range []string{cfg.Sink.Dir, "/nowhere/at/all"} {
		cfg.Sink.Dir = dir
		if _, err := Load(t.Context(), cfg, everybody, nil, "7", ask); !errors.Is(err, ErrNoJob) || !strings.Contains(err.Error(),
			"7") {
			t.Errorf("a job that is not there: %v", err)
		}
		j, err := Load(t.Context(), cfg, everybody, nil, "8", ask)
		if !errors.Is(err, ErrNoInterval) || j == nil || j.State != schemas.StatePending ||
			!strings.Contains(err.Error(), "pending") {
			t.Errorf("a job that waits: %v", err)
		}
		if j, err = Load(t.Context(), cfg, everybody, nil, "9", ask); err != nil || len(j.Metrics[0].Bins) != 1 {
			t.Fatalf("one interval: %v", err)
		}
		one.same(t, j, "cpu_user")
		if j, err = Load(t.Context(), cfg, everybody, nil, "10", ask); err != nil || j.Intervals != 3 || len(j.Metrics) > 0 {
			t.Errorf("intervals without metrics: %v, %+v", err, j)
		}
	}
	if _, err := Load(t.Context(), config.Default(), everybody, nil, "7", Ask{Dir: t.TempDir(), Restart: -1}); !errors.Is(err,
		ErrNoJob) {
		t.Errorf("an archive of nothing: %v", err)
	}
}

// TestLoadOfLives: the last life is shown, and the earlier ones are named. Another one may be asked for.
func TestLoadOfLives(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 5))
	first := measure(r, "47", 0, loadStart, 60_000, 20, "cpu_user")
	second := measure(r, "47", 1, loadStart+3_600_000, 60_000, 20, "cpu_user")
	first.job.State = schemas.StateFailed
	d := &disk{dir: t.TempDir()}
	d.append(t, append(first.summaries, second.summaries...), 9)
	for _, known := range []bool{false, true} {
		if known {
			d.jobs(t, first.job, second.job)
		}
		j, err := Load(t.Context(), config.Default(), everybody, nil, "47", Ask{Dir: d.dir, Restart: -1})
		if err != nil {
			t.Fatal(err)
		}
		second.same(t, j, "cpu_user")
		if known && (len(j.Earlier) != 1 || j.Earlier[0].State != schemas.StateFailed) {
			t.Errorf("earlier: %+v", j.Earlier)
		}
		if j, err = Load(t.Context(), config.Default(), everybody, nil, "47", Ask{Dir: d.dir}); err != nil {
			t.Fatal(err)
		}
		first.same(t, j, "cpu_user")
	}
}

// TestLoadOfALongJob: a life of very many intervals is read by the hour where it is compacted, and by the interval
// elsewhere.
func TestLoadOfALongJob(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	r := rand.New(rand.NewPCG(16, 6))
	mine := measure(r, "47", 0, loadStart, 1000, 22_000, "cpu_user") // six hours, over midnight
	end := loadStart + 22_000_000
	d := &disk{dir: t.TempDir()}
	d.jobs(t, mine.job)
	d.append(t, mine.summaries, 4000)
	d.append(t, measure(r, "99", 0, end+24*3_600_000, 1000, 1).summaries, 1)
	if err := compactDates(t, d, "2026-01-05"); err != nil {
		t.Fatal(err)
	}
	j, err := Load(t.Context(), config.Default(), everybody, ruleSetOf(t), "47", Ask{Dir: d.dir, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	hourly, intervals := 0, int64(0)
	for _, b := range j.Metrics[0].Bins {
		if b.Hourly {
			hourly++
		}
		intervals += int64(b.Intervals)
		if (b.EndMs-b.StartMs)%3_600_000 != 0 {
			t.Errorf("a bin of %d ms", b.EndMs-b.StartMs)
		}
	}
	if len(j.Map) != 2 || j.Map[0].Why != whyUnwatched { // a date has too many intervals to hold them all
		t.Errorf("the map: %+v", j.Map)
	}
	total := j.Metrics[0].Total
	if hourly != 4 || intervals != int64(len(mine.summaries)) || j.Intervals != intervals || !total.Known ||
		total.Count != int64(len(mine.values["cpu_user"])) || j.IntervalMs != 1000 {
		t.Errorf("%d hours, %d and %d intervals of %d, %d ms: %+v", hourly, intervals, j.Intervals, len(mine.summaries),
			j.IntervalMs, total)
	}
	from, to := time.UnixMilli(end-3_600_000), time.UnixMilli(end-1_800_000)
	if j, err = Load(t.Context(), config.Default(), everybody, nil, "47", Ask{
		Dir: d.dir, Restart: -1, From: from,
		To: to,
	}); err != nil {
		t.Fatal(err)
	}
	bins := j.Metrics[0].Bins
	if first, last := bins[0], bins[len(bins)-1]; first.StartMs < from.UnixMilli() ||
		last.EndMs > to.UnixMilli()+8000 ||
		len(bins) < 200 || first.Hourly {
		t.Errorf("%d bins from %d to %d, hourly %v", len(bins), first.StartMs-from.UnixMilli(),
			last.EndMs-to.UnixMilli(),
			first.Hourly)
	}
	if got := j.Metrics[0].Total; got.Count != total.Count {
		t.Errorf("a part of the picture has a total of %d values, not %d", got.Count, total.Count)
	}
}

// TestLoadOfAJobWithoutAStart: its picture has its intervals, and not the hours of a year.
func TestLoadOfAJobWithoutAStart(t *testing.T) {
	began := time.Now().Add(-2 * time.Hour).UnixMilli()
	mine := measure(rand.New(rand.NewPCG(16, 7)), "host", 0, began, 1000, 200, "cpu_user")
	d := &disk{dir: t.TempDir()}
	d.append(t, mine.summaries, 50)
	j, err := Load(t.Context(), config.Default(), everybody, nil, "host", Ask{Dir: d.dir, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	if bins := j.Metrics[0].Bins; len(bins) != 200 || bins[0].StartMs != began || bins[0].EndMs != began+1000 {
		t.Errorf("%d bins, the first of %d ms", len(bins), bins[0].EndMs-bins[0].StartMs)
	}
}

// TestLoadOfManyNodes: ten thousand nodes are no hindrance.
func TestLoadOfManyNodes(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 7))
	mine := measure(r, "47", 0, loadStart, 60_000, 5, "cpu_user")
	mine.job.Nodes = nil
	for i := range 10_000 {
		mine.job.Nodes = append(mine.job.Nodes, "n"+string(rune('a'+i%26))+strings.Repeat("0",
			i%7)+time.Duration(i).String())
	}
	d := &disk{dir: t.TempDir()}
	d.jobs(t, mine.job)
	d.append(t, mine.summaries, 2)
	j, err := Load(t.Context(), config.Default(), everybody, &rules.Set{}, "47", Ask{Dir: d.dir, Restart: -1})
	if err != nil || len(j.Nodes) != 10_000 || j.Nodes[9999] != mine.job.Nodes[9999] {
		t.Fatal(err, len(j.Nodes))
	}
	mine.same(t, j, "cpu_user")
	if _, err := view.Merge([]*view.Job{j, j}); err != nil {
		t.Error(err)
	}
}

// TestLoadOfAPartOfATopic: a read that runs out of time shows the windows that are whole, and says so. Neither totals
// nor findings are made of a part.
func TestLoadOfAPartOfATopic(t *testing.T) {
	mine := measure(rand.New(rand.NewPCG(16, 9)), "47", 0, loadStart, 60_000, 300, "alpha", "beta")
	l, err := newLoader(t.Context(), config.Default(), everybody, ruleSetOf(t), "47", Ask{Dir: t.TempDir(), Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	since := mine.summaries[210].IntervalStart // ten late ones are of an interval before
	h := behind{all: slices.Clone(mine.summaries[200:]), read: 100, since: time.UnixMilli(since)}
	h.all = append(h.all, mine.summaries[:40]...) // the beginning of an older window
	l.key, l.job.JobID, l.end, l.job.Running = schemas.JobKey{JobID: "47"}, "47", time.Now(), true
	if !l.cut(&h) {
		t.Fatal("nothing is left")
	}
	l.addSummaries(h.all)
	if !l.build.Into(l.job) {
		t.Fatal("nothing is drawn")
	}
	l.merge()
	if err := l.judge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.job.FirstMs != since || !l.job.Part || l.job.Metrics[0].Total.Known || len(l.job.Findings) > 0 ||
		!strings.Contains(l.partial, "before "+time.UnixMilli(since).UTC().Format(time.RFC3339)) {
		t.Errorf("from %d, not %d; known %v; %d findings; %q", l.job.FirstMs, since, l.job.Metrics[0].Total.Known,
			len(l.job.Findings), l.partial)
	}
	if none := (behind{all: mine.summaries[:3]}); (&loader{}).cut(&none) {
		t.Error("the beginning of a window is shown alone")
	}
}

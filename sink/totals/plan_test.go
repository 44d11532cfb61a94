package totals

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
)

func jobOf(id string, start, end int64) jobs.Life {
	return lifeOf(schemas.JobKey{JobID: id}, &start, end)
}

// TestPick: the order of the jobs does not matter, and none is twice.
func TestPick(t *testing.T) {
	lives := []jobs.Life{
		jobOf("a", 0, 10), jobOf("b", 0, 20), jobOf("c", 0, 10), jobOf("d", 0, 30), jobOf(schemas.JobRest, 0, 5),
		jobOf(schemas.JobSystem, 0, 5), jobOf("a", 0, 10), lifeOf(schemas.JobKey{JobID: "never"}, nil, 5),
	}
	f := Frontier{ThroughMs: 19, Waiting: map[schemas.JobKey]int64{{JobID: "c"}: 0}}
	final := func(j *picked) bool { return f.final(j.Life, j.to) || j.JobID == "d" }
	for range 20 {
		rand.Shuffle(len(lives), func(i, k int) { lives[i], lives[k] = lives[k], lives[i] })
		for interim, want := range map[bool]string{false: "a+ d+ ", true: "a+ b- c- d+ "} {
			all, waiting := pick(lives, nil, final, interim)
			got := ""
			for _, j := range all {
				got += j.JobID + map[bool]string{true: "+ ", false: "- "}[j.final]
			}
			if got != want || len(waiting) != 2 || waiting[0].JobID != "b" {
				t.Fatalf("interim %v: %q, %v wait, want %q and 2", interim, got, waiting, want)
			}
		}
	}
}

// TestTouched: a job that ends just before midnight may have intervals behind it.
func TestTouched(t *testing.T) {
	const day = 24 * hourMs
	lives := []picked{
		{Life: jobOf("a", 0, day-1)},
		{Life: jobOf("b", 0, day)},
		{Life: jobOf("c", 2*day, 5*day+1)},
		{Life: jobOf("d", -day, 0)},
	}
	known := []string{"1970-01-01", "1970-01-02", "1970-01-03", "1970-01-05", "1970-01-06", "1970-01-07"}
	dates, of := touched(lives, known)
	want := map[string]string{
		"1970-01-01": "abd", "1970-01-02": "ab", "1970-01-03": "c", "1970-01-05": "c", "1970-01-06": "c",
	}
	got := map[string]string{}
	for date, keys := range of {
		for _, k := range keys {
			got[date] += k.JobID
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(dates) != len(want) {
		t.Errorf("%v (-want +got):\n%s", dates, diff)
	}
}

func TestRecipe(t *testing.T) {
	lives := []picked{{Life: jobOf("a", 0, 10), final: true}}
	inputs := []compact.Inputs{{Date: "2026-01-05", Lineage: "x"}, {Date: "2026-01-06"}}
	r := recipeOf("t", lives, inputs)
	kv := map[string]string{}
	if err := r.put(func(key, value string) { kv[key] = value }, 7); err != nil {
		t.Fatal(err)
	}
	lookup := func(key string) (string, bool) { v, ok := kv[key]; return v, ok }
	back, rows, err := parseRecipe(lookup)
	if err != nil || rows != 7 || !back.same(r) || len(r.dates) != 1 {
		t.Errorf("%+v became %+v with %d rows, %v", r, back, rows, err)
	}
	for _, key := range []string{"weir.totals", "weir.dates", "weir.next", "weir.waiting", "weir.rows"} {
		kept := kv[key]
		kv[key] = "?"
		if _, _, err := parseRecipe(lookup); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is wrong: %v", key, err)
		}
		kv[key] = kept
	}
	for name, other := range map[string]recipe{
		"topic":      recipeOf("u", lives, inputs),
		"end":        recipeOf("t", []picked{{Life: jobOf("a", 0, 11), final: true}}, inputs),
		"start":      recipeOf("t", []picked{{Life: jobOf("a", 1, 10), final: true}}, inputs),
		"a namesake": recipeOf("t", []picked{{Life: jobOf("a", 0, 10), final: true, cuts: []int64{5}}}, inputs),
		"interim":    recipeOf("t", []picked{{Life: jobOf("a", 0, 10), final: false}}, inputs),
		"rows":       recipeOf("t", lives, []compact.Inputs{{Date: "2026-01-05", Lineage: "y"}}),
		"a date":     recipeOf("t", lives, []compact.Inputs{{Date: "2026-01-04", Lineage: "x"}}),
	} {
		if other.same(r) {
			t.Errorf("%s does not change the recipe", name)
		}
	}
}

func TestDecide(t *testing.T) {
	of := func(dates ...string) recipe { return recipe{topic: "t", jobs: "j", dates: dates} }
	there := of("2026-01-05 x", "2026-01-06 y")
	otherJobs := recipe{topic: "t", jobs: "k", dates: there.dates}
	for _, c := range []struct {
		name    string
		there   *recipe
		now     recipe
		jobs    int
		present string
		want    verdict
	}{
		{"no job", nil, of(), 0, "", leave},
		{"the first", nil, of(), 1, "", write},
		{"the same", &there, there, 1, "", leave},
		{"late rows", &there, of("2026-01-05 x", "2026-01-06 z"), 1, "2026-01-05 2026-01-06", write},
		{"a job that began later", &there, of("2026-01-06 y"), 1, "2026-01-05 2026-01-06", write},
		{"a deleted date", &there, of("2026-01-06 y"), 1, "2026-01-06", keep},
		{"a deleted date whose rollups stayed", &there, otherJobs, 1, "2026-01-06", write},
		{"a deleted date with late rows", &there, of("2026-01-05 w", "2026-01-06 y"), 1, "2026-01-06", keep},
		{"no job any longer", &there, of(), 0, "2026-01-05 2026-01-06", write},
	} {
		v, lost := decide(c.there, c.now, c.jobs, func(date string) bool { return strings.Contains(c.present, date) })
		if v != c.want || (lost != "") != (v == keep) {
			t.Errorf("%s: %v, %q", c.name, v, lost)
		}
	}
}

func TestThrough(t *testing.T) {
	closed := func(ms int64, id string) *schemas.Progress {
		return &schemas.Progress{Closed: &ms, ClosedIntervalMs: 10, TopicID: id}
	}
	stageOf := func(name string, partitions int, last map[int32]*schemas.Progress) stage {
		return stage{name, partitions, last, "id", kafka.SameTopic}
	}
	merge := stageOf("merge", 1, map[int32]*schemas.Progress{0: closed(100, "")})
	for _, c := range []struct {
		name    string
		collect stage
		want    int64
		says    string
	}{
		{
			"all", stageOf("collect", 2, map[int32]*schemas.Progress{0: closed(90, "id"), 1: closed(95, "id")}), 100,
			"collect, partition 0",
		},
		{
			"merge is last", stageOf("collect", 1, map[int32]*schemas.Progress{0: closed(200, "id")}), 110,
			"merge, partition 0",
		},
		{
			"a silent collector", stageOf("collect", 2, map[int32]*schemas.Progress{0: closed(90, "id")}), nothing,
			"no interval of partition 1",
		},
		{"one that closed nothing", stageOf("collect", 1, map[int32]*schemas.Progress{0: {}}), nothing, "partition 0"},
		{
			"a topic made anew", stageOf("collect", 1, map[int32]*schemas.Progress{0: closed(90, "old")}), nothing,
			"anew",
		},
		{"no topic", stageOf("collect", 0, nil), nothing, "no partitions"},
	} {
		if got, reason := through(c.collect, merge); got != c.want || !strings.Contains(reason, c.says) {
			t.Errorf("%s: %d, %q, want %d, %q", c.name, got, reason, c.want, c.says)
		}
	}
}

func TestBehind(t *testing.T) {
	type of map[int32]int64
	type ranges = map[int32]kafka.Range
	for _, c := range []struct {
		name         string
		positions    of
		bounds, want ranges
		says         string
	}{
		{"all is archived", of{0: 5, 1: 7}, ranges{0: {From: 0, To: 5}, 1: {From: 2, To: 7}}, ranges{}, ""},
		{
			"some is not",
			of{0: 5, 1: 6},
			ranges{0: {From: 0, To: 5}, 1: {From: 2, To: 7}},
			ranges{1: {From: 6, To: 7}},
			"",
		},
		{"no file yet", of{}, ranges{0: {From: 3, To: 5}}, ranges{0: {From: 3, To: 5}}, ""},
		{"retention was first", of{0: 2}, ranges{0: {From: 3, To: 5}}, nil, "retention"},
		{"another topic", of{0: 9}, ranges{0: {From: 0, To: 5}}, nil, "another topic"},
	} {
		got, reason := behind(c.positions, c.bounds)
		diff := cmp.Diff(c.want, got)
		if diff != "" || (reason == "") != (c.says == "") || !strings.Contains(reason, c.says) {
			t.Errorf("%s: %q (-want +got):\n%s", c.name, reason, diff)
		}
	}
}

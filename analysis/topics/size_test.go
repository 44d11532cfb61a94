package topics

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

// mostAllocated is how many bytes may be allocated for each byte that is read. Reading takes four at most, of client
// and broker, and one more where a fetch is repeated. Decoding every summary takes eight and more in all.
const mostAllocated = 7

// allocated returns how many bytes f allocates, with those of the broker beside it.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestFewSummariesAreDecoded: a record that is passed over costs what the client takes for it, and not its decoding.
func TestFewSummariesAreDecoded(t *testing.T) {
	i := topicstest.NewOn(t, 2)
	i.Config.Interval = time.Minute // which no load of the machine makes old
	written := i.Summaries(400, 12, 50)
	for name, read := range map[string]func(t *testing.T){
		"one job of 400": func(t *testing.T) {
			if rows, _, err := Job(t.Context(), i.Config, "job7", 12); err != nil || len(rows) != 12*50 {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		},
		"the last one of twelve": func(t *testing.T) {
			if rows, err := Jobs(t.Context(), i.Config, everyJob); err != nil || len(rows) != 400 || *rows[0].Metrics != 50 {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := allocated(func() { read(t) })
			t.Logf("%.1f bytes allocated for each byte read", float64(n)/float64(written))
			if n > mostAllocated*written {
				t.Errorf("%d bytes allocated for %d bytes of summaries", n, written)
			}
		})
	}
}

// TestJobReadsBack: -n asks for intervals, however long ago they were.
func TestJobReadsBack(t *testing.T) {
	i := topicstest.NewOn(t, 2)
	i.Summaries(2, 100, 1)
	for n, want := range map[int]int{3: 3, 100: 100, 120: 100} {
		rows, why, err := Job(t.Context(), i.Config, "job1", n)
		if err != nil || len(rows) != want {
			t.Errorf("-n %d: %d rows, want %d: %v", n, len(rows), want, err)
		}
		if want < n != strings.Contains(why, "100 of 120 intervals") {
			t.Errorf("-n %d: %q", n, why)
		}
	}
}

// TestJobThatEndedLongAgo: what is far back is found too, and where reading ends is said.
func TestJobThatEndedLongAgo(t *testing.T) {
	i := topicstest.NewOn(t, 2)
	ended := time.Now().Add(-40*time.Minute).UnixMilli() / 2000 * 2000
	start := ended - 3*2000
	i.Write(schemas.TopicJobs, ended, &schemas.Job{JobID: "known", Start: &start, State: schemas.StateCompleted},
		"known/0")
	for n := range int64(3) {
		for _, job := range []string{"known", "unknown"} {
			i.Write(schemas.TopicJobSummary, start+n*2000+2000, topicstest.Summary(job, 0, start+n*2000, "x"), job+"/0")
		}
	}
	i.Summaries(1, 3, 1)
	for job, want := range map[string]string{
		"known":   "job known has 3 of 9 intervals: it began at ",
		"unknown": "job unknown has 3 of 9 intervals: topic test.job-summary has no more",
	} {
		rows, fewer, err := Job(t.Context(), i.Config, job, 9)
		if err != nil || len(rows) != 3 || !strings.HasPrefix(fewer, want) {
			t.Errorf("%s: %d rows, %q, %v", job, len(rows), fewer, err)
		}
		if rows, fewer, err := Job(t.Context(), i.Config, job, 2); err != nil || len(rows) != 2 || fewer != "" {
			t.Errorf("%s -n 2: %d rows, %q, %v", job, len(rows), fewer, err)
		}
	}
	rows, fewer, err := Job(t.Context(), i.Config, "typo", math.MaxInt)
	if err != nil || rows != nil || !strings.Contains(fewer, "has no more") {
		t.Errorf("typo: %d rows, %q, %v", len(rows), fewer, err)
	}
}

// TestLateSummaries: n summaries are not the last n intervals where some of a later interval were written before them.
func TestLateSummaries(t *testing.T) {
	h := history{jobID: "j", mine: everySummary, n: 2}
	take := func(start int64) {
		value, err := schemas.Marshal(topicstest.Summary("j", 1, start))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.add(&kgo.Record{Key: []byte("j/1"), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	take(1000)
	take(2000)
	if h.window(time.UnixMilli(5000)); h.enough() {
		t.Error("intervals that began before the window are taken for the last ones")
	}
	take(3000) // written before both
	if h.window(time.UnixMilli(2000)); !h.enough() {
		t.Error("the last two intervals are there")
	}
	began := int64(2500)
	if h.scheduled(map[schemas.JobKey]*schemas.Job{{JobID: "j"}: {Start: &began}}); h.whole() {
		t.Error("the begin of an earlier restart is taken for that of the last one")
	}
	if h.scheduled(map[schemas.JobKey]*schemas.Job{{JobID: "j", Restart: 1}: {Start: &began}}); !h.whole() {
		t.Error("the job began after what was read")
	}
}

// TestEmptyInstallation has nothing to show, and that is no error.
func TestEmptyInstallation(t *testing.T) {
	i := topicstest.New(t)
	if rows, err := Jobs(t.Context(), i.Config, everyJob); err != nil || rows == nil || len(rows) > 0 {
		t.Errorf("%v, %v", rows, err)
	}
	for n, want := range map[int]string{0: "", 1: "job j has 0 of 1 intervals: topic test.job-summary has no more"} {
		if rows, why, err := Job(t.Context(), i.Config, "j", n); err != nil || rows != nil ||
			!strings.HasPrefix(why, want) || (want == "") != (why == "") {
			t.Errorf("-n %d: %v, %q, %v", n, rows, why, err)
		}
	}
}

// TestJobsThatAreGone are not shown, although topic jobs had them before.
func TestJobsThatAreGone(t *testing.T) {
	i := topicstest.New(t)
	for _, job := range []string{"n1", "n2"} {
		i.WriteNow(schemas.TopicJobs, job+"/0", &schemas.Job{JobID: job, State: schemas.StateRunning, User: "ada"})
	}
	i.WriteNow(schemas.TopicJobs, "n1/0", nil)
	rows, err := Jobs(t.Context(), i.Config, everyJob)
	if err != nil || len(rows) != 1 || rows[0].JobID != "n2" || rows[0].User != "ada" || rows[0].IntervalStart != nil {
		t.Errorf("%+v, %v", rows, err)
	}
}

// everyJob is a reader who may see all jobs.
func everyJob(*schemas.Job, int64) bool { return true }

func everySummary(*schemas.JobSummary) bool { return true }

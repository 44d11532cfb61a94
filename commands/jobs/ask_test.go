package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/analysis/topics/topicstest"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/console"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/findings"
	archived "github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/jobs"
)

const minute = int64(60_000)

// madeJob is a life of a job that a world may contain.
type madeJob struct {
	schemas.Job
	intervals int  // from its start on
	found     bool // a rule holds for it
	forgotten bool // the scheduler's record is gone
	live      bool // it runs: its record and its measurements are in the topics
}

// madeJobs are jobs of 50 users, with arrays, reused numbers and restarts. Each user has a metric, a node and a name of
// a job that no other user has. All began after a time.
func madeJobs(base int64) (all []madeJob) {
	add := func(id string, restart int32, user int, from, intervals int64, change ...func(*madeJob)) {
		name := fmt.Sprintf("u%02d", user)
		start, cores := base+from*minute, int64(4)
		end := start + intervals*minute
		m := madeJob{intervals: int(intervals), found: true, Job: schemas.Job{
			JobID: id, Restart: restart, Name: fmt.Sprintf("name-%s-%d", name, len(all)), User: name,
			Account: fmt.Sprintf("a%d", user%10), Queue: "batch", Nodes: []string{"node-" + name}, Cores: &cores,
			Start: &start, End: &end, State: schemas.StateCompleted,
		}}
		for _, c := range change {
			c(&m)
		}
		all = append(all, m)
	}
	task := func(number int32) func(*madeJob) {
		return func(m *madeJob) { m.ArrayJob, m.ArrayTask = new("7100"), &number }
	}
	live := func(m *madeJob) { m.End, m.State, m.live = nil, "RUNNING", true }
	forgotten := func(m *madeJob) { m.forgotten = true }
	for user := range 50 {
		add(fmt.Sprint(6000+user), 0, user, int64(user), 5)
	}
	add("7000", 0, 1, 60, 9) // a number that passed on
	add("7000", 0, 2, 140, 8)
	add("7001", 0, 1, 60, 9) // a requeued number that passed on
	add("7001", 1, 2, 75, 8)
	add("7101", 0, 1, 60, 9, task(1)) // an array with a task of another user
	add("7102", 0, 1, 60, 9, task(2))
	add("7103", 0, 2, 60, 9, task(3))
	add("7200", 0, 3, 60, 9, func(m *madeJob) { m.User = "" })
	add("7300", 0, 4, 60, 9, forgotten)
	add("7400", 0, 2, 60, 9, forgotten) // nobody knows whose it was, and then it is another one's
	add("7400", 0, 1, 70, 9)
	add("7500", 0, 1, 60, 9) // it is another one's now
	add("7500", 0, 2, 230, 8, live)
	add("7600", 0, 2, 229, 4, live, forgotten) // another one's measurements are still in the topic
	add("7600", 0, 1, 233, 5, live)
	add("7700", 0, 2, 60, 50, forgotten) // the hour of two
	add("7700", 0, 1, 112, 5)
	add("7800", 0, 2, 60, 5, forgotten) // most of the total is of the second
	add("7800", 0, 1, 66, 30)
	for user := range 5 {
		add(fmt.Sprint(8000+user), 0, user, 230, 8, live)
	}
	for _, id := range []string{schemas.JobSystem, schemas.JobRest} {
		add(id, 0, 9, 230, 8, live, forgotten)
	}
	return all
}

// summaries are the measurements of a life. They depend on it alone.
func (m *madeJob) summaries() (all []*schemas.JobSummary) {
	hash := fnv.New64()
	fmt.Fprint(hash, m.JobID, m.Restart, m.Name)
	r := rand.New(rand.NewPCG(hash.Sum64(), 1))
	for i := range m.intervals {
		s := &schemas.JobSummary{
			Cluster: "c", JobID: m.JobID, Restart: m.Restart, IntervalStart: *m.Start + int64(i)*minute,
			IntervalMs: minute, Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 1, NodesReported: 1,
		}
		for _, name := range []string{"cpu_idle", "cpu_user", "mem_used", "of_" + m.Nodes[0][5:]} {
			values := []float64{r.Float64(), r.Float64(), r.Float64(), r.Float64()}
			d, summary := quantile.Certify(values, quantile.Large)
			certified := schemas.NewCertified(summary.Eps, summary.Order, summary.Knots, summary.Atoms)
			deciles, stddev := d.Deciles[:], d.Stddev()
			s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{
				Name: name, Unit: "1", Scope: schemas.ScopeCore, Count: 4, Nodes: 1, Mean: &d.Mean, Stddev: &stddev,
				NodeStddev: &stddev, LowNode: &m.Nodes[0], HighNode: &m.Nodes[0], Deciles: &deciles,
				RankError: new(float64), Certified: &certified,
			})
		}
		all = append(all, s)
	}
	return all
}

func (m *madeJob) finding() schemas.Finding {
	return schemas.Finding{
		Cluster: "c", JobID: m.JobID, Restart: m.Restart, Rule: "idle-cores", RuleHash: "0123456789abcdef", Title: m.Name,
		Hint: m.Name, State: schemas.FindingOpen, Final: !m.live, Certainty: schemas.Certain, Class: schemas.ClassMed,
		Severity: 0.5, Worst: 0.5, FirstInterval: *m.Start, LastInterval: *m.Start, IntervalMs: minute,
		AsOf: *m.Start + int64(m.intervals-1)*minute, Intervals: int64(m.intervals), Evaluated: 1, Matched: 1,
		JobStart: m.Start,
	}
}

// world is an archive and a broker.
type world struct {
	config config.Config
	answer console.Answer
}

// newWorld writes the jobs that keep chooses. It may change them.
func newWorld(t *testing.T, all []madeJob, keep func(*madeJob) bool) world {
	t.Helper()
	i := topicstest.New(t)
	i.Every(time.Minute)
	i.Config.Sink.Dir = t.TempDir()
	cfg := i.Config
	topic := cfg.Prefix + schemas.TopicJobSummary
	var known []schemas.Job
	var found []schemas.Finding
	next, last := int64(0), ""
	for k := range all {
		m := new(all[k])
		if !keep(m) {
			continue
		}
		var rows []schemas.Row
		for _, s := range m.summaries() {
			if rows = append(rows, s.Rows()...); m.live {
				i.Write(schemas.TopicJobSummary, s.IntervalStart+minute, s, string(m.Identity().Key()))
			}
		}
		f := m.finding()
		switch {
		case m.live && !m.forgotten:
			i.WriteNow(schemas.TopicJobs, string(m.Identity().Key()), &m.Job)
			i.WriteNow(schemas.TopicFindings, string(f.Key()), &f)
		case !m.live:
			date := time.UnixMilli(*m.Start).UTC().Format(time.DateOnly)
			end := sink.Footer{
				Topic: topic, TopicID: "an earlier one", Start: next, Next: next + 1, Rows: int64(len(rows)), PreviousDate: last,
				FirstInterval: *m.Start, LastInterval: *m.End - minute,
			}
			if err := sink.Append(cfg.Sink.Dir, topic, date, rows, end); err != nil {
				t.Fatal(err)
			}
			next, last, found = next+1, date, append(found, f)
			if !m.forgotten {
				known = append(known, m.Job)
			}
		}
	}
	if err := i.Client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(archived.Write(t.Context(), cfg.Sink.Dir, cfg.Prefix+"jobs", "c", known),
		findings.Write(t.Context(), cfg.Sink.Dir, cfg.Prefix+"findings", found),
		totals.Run(t.Context(), totals.Options{
			Dir: cfg.Sink.Dir, Topic: topic, Frontier: func(context.Context, totals.Archived) (totals.Frontier, error) {
				return totals.Frontier{ThroughMs: math.MaxInt64}, nil
			},
		}))
	if err != nil {
		t.Fatal(err)
	}
	return world{cfg, jobs.Ask(cfg)}
}

// began is the time of madeJobs. Its last interval ended two minutes ago, on a date with all others.
func began() int64 {
	return time.Now().Truncate(time.Minute).Add(-240 * time.Minute).UnixMilli()
}

var everybody = analysis.Viewer{All: true}

// ask returns the output for a viewer, and the error as text.
func (w world) ask(t *testing.T, v analysis.Viewer, q console.Question) (out string, err error) {
	t.Helper()
	var b strings.Builder
	err = w.answer(t.Context(), v, q, &b)
	if err != nil && b.Len() > 0 {
		t.Errorf("%+v: output before an error: %q, %v", q, &b, err)
	}
	return b.String(), err
}

// question reads a question as a person types it.
func question(line string) console.Question {
	words := strings.Fields(line)
	q := console.Question{Command: words[0], Flags: url.Values{}, Width: 200}
	for _, word := range words[1:] {
		name, is := strings.CutPrefix(word, "--")
		name, value, given := strings.Cut(name, "=")
		switch {
		case !is:
			q.Arguments = append(q.Arguments, word)
		case name == "json":
			q.JSON = true
		case !given:
			q.Flags.Add(name, "true")
		default:
			q.Flags.Add(name, value)
		}
	}
	return q
}

var madeUser = regexp.MustCompile(`\bu\d\d\b`)

// outcome is the users that an output names, or the kind of an error.
func outcome(out string, err error) string {
	switch {
	case errors.Is(err, console.ErrNotThere):
		if err.Error() != console.ErrNotThere.Error() {
			return "not there, in words of its own"
		}
		return "not there"
	case errors.Is(err, console.ErrBadQuestion), errors.Is(err, console.ErrNoAnswer):
		if named := madeUser.FindString(err.Error()); named != "" {
			return "bad: " + named
		}
		return "bad"
	case err != nil:
		return err.Error()
	}
	names := madeUser.FindAllString(out, -1)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// TestWhoMayLook: each role gets the answers that it may have, to each question.
func TestWhoMayLook(t *testing.T) {
	w := newWorld(t, madeJobs(began()), func(*madeJob) bool { return true })
	roles := []analysis.Viewer{
		{User: "u01"}, {User: "u02"}, {User: "boss", Accounts: []string{"a1"}}, everybody, {User: "stranger"}, {},
	}
	const none = "not there"
	many, first, led := []string{}, "u00 u01 u02 u03 u04", "u01 u11 u21 u31 u41"
	for user := range 50 {
		many = append(many, fmt.Sprintf("u%02d", user))
	}
	for line, want := range map[string][6]string{ // the owner, another user, a leader, support, a stranger, nobody
		"job 6001":                               {"u01", none, "u01", "u01", none, none},
		"job 6001 --totals --json":               {"u01", none, "u01", "u01", none, none},
		"job 6001 --rules":                       {"", none, "", "", none, none},
		"job 6001 --nodes":                       {"u01", none, "u01", "u01", none, none},
		"job 6001 --findings":                    {"u01", none, "u01", "u01", none, none},
		"job 6001 --metrics=all":                 {"u01", none, "u01", "u01", none, none},
		"job 6001 --metrics=of_u02":              {"bad", none, "bad", "bad", none, none},
		"job 6001 --correlate=cpu_idle,cpu_user": {"", none, "", "", none, none},
		"job 6001 6002":                          {none, none, none, "u01 u02", none, none},
		"job 6001,6011":                          {none, none, "u01 u11", "u01 u11", none, none},
		"job 6001.batch":                         {"u01", none, "u01", "u01", none, none},
		"job 6000+1":                             {"u01", none, "u01", "u01", none, none},
		"job 7000":                               {"u01", "u02", "u01", "bad: u01", none, none},
		"job 7001":                               {"u01", "u02", "u01", "u02", none, none},
		"job 7001 --restart=0":                   {"u01", none, "u01", "u01", none, none},
		"job 7001 --restart=1":                   {none, "u02", none, "u02", none, none},
		"job 7001 --restart=2":                   {none, none, none, none, none, none},
		"job 7100":                               {"u01", "u02", "u01", "u01 u02", none, none},
		"job 7100_[1-3]":                         {"u01", "u02", "u01", "u01 u02", none, none},
		"job 7100_[3]":                           {none, "u02", none, "u02", none, none},
		"job 7100_3":                             {none, "u02", none, "u02", none, none},
		"job 7100_4":                             {none, none, none, none, none, none},
		"job 7103":                               {none, "u02", none, "u02", none, none},
		"job 7200":                               {none, none, none, "u03", none, none},
		"job 7300":                               {none, none, none, "", none, none},
		"job 7400":                               {"u01", none, "u01", "u01 u02", none, none},
		"job 7500":                               {"u01", "u02", "u01", "bad: u01", none, none},
		"job 7500 --json --last=99":              {"bad", "u02", "bad", "bad: u01", none, none},
		"job 7600":                               {"u01", none, "u01", "u01 u02", none, none},
		"job 7600 --json --last=99":              {"u01", none, "u01", "u01 u02", none, none},
		"job 7700 --metrics=all":                 {"u01", none, "u01", "u01 u02", none, none},
		"job _system":                            {none, none, none, "", none, none},
		"job _rest --json":                       {none, none, none, "u09", none, none},
		"job 9999":                               {none, none, none, none, none, none},
		"job 60":                                 {none, none, none, none, none, none},
		"job 6001@2020-01-01":                    {none, none, none, none, none, none},
		"compare 6001 7101":                      {"u01", none, "u01", "u01", none, none},
		"compare 6001 6011 --anyway --json":      {none, none, "u01 u11", "u01 u11", none, none},
		"compare 6001 6002":                      {none, none, none, "u01 u02", none, none},
		"compare 7000 6001":                      {"u01", none, "u01", "bad: u01", none, none},
		"jobs":                                   {"u01", "u02", led, strings.Join(many, " "), "", ""},
		"jobs --json":                            {"u01", "u02", led, strings.Join(many, " "), "", ""},
		"jobs --user=u02":                        {"", "u02", "", "u02", "", ""},
		"jobs --account=a1 --json":               {"u01", "", led, led, "", ""},
		"jobs --sort=of_u02.d5":                  {"bad", "u02", "bad", strings.Join(many, " "), "", ""},
		"jobs --sort=wasted":                     {"u01", "u02", led, strings.Join(many, " "), "", ""},
		"jobs --finding=idle-cores":              {"u01", "u02", led, strings.Join(many, " "), "", ""},
		"top":                                    {"u01", "u02", "u01", first, "", ""},
		"top --user=u02":                         {"", "u02", "", "u02", "", ""},
		"top --metric=of_u02":                    {"bad", "u02", "bad", first, "", ""},
	} {
		for i, v := range roles {
			if rand.IntN(kafkatest.Cases(1, 4)) > 0 { // few of the cells
				continue
			}
			if got := outcome(w.ask(t, v, question(line))); got != want[i] {
				t.Errorf("%s, asked by %+v: %q, want %q", line, v, got, want[i])
			}
		}
	}
}

// ticking are the numbers of an output that grow while a job runs.
var ticking = regexp.MustCompile(`"time_s":[0-9.]+|\d+:\d\d:\d\d\b|, \d+ min ago|, [0-9.]+ s ago`)

// still returns an output without the numbers that grow. Outputs about ended jobs are returned as they are.
func still(out string) string {
	if strings.Contains(out, "RUNNING") || strings.HasPrefix(out, "weir top") {
		return ticking.ReplaceAllString(out, "-")
	}
	return out
}

// TestOthersMakeNoDifference: an answer is the same, byte for byte, if the jobs of others do not exist. So it contains
// nothing of them: no name, number, sum, rank, order or hint that depends on them.
func TestOthersMakeNoDifference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	all := madeJobs(began())
	whole := newWorld(t, all, func(*madeJob) bool { return true })
	questions := kafkatest.Cases(150, 20)
	for _, v := range []analysis.Viewer{
		{User: "u01"}, {User: "u02"}, {User: "u03"}, {User: "boss", Accounts: []string{"a1"}}, {User: "stranger"},
	} {
		alone := newWorld(t, all, func(m *madeJob) bool {
			if m.forgotten { // its measurements may have been mixed with others long ago, but do not matter
				m.Name, m.Nodes = "other", []string{"node-u49"}
			}
			return m.forgotten || v.May(&m.Job)
		})
		for range questions {
			q := anyQuestion(r)
			var got, want string
			var gotErr, wantErr error
			same := false
			for try := 0; !same && try < 3; try++ { // a time that is counted from now on may have passed an interval
				got, gotErr = whole.ask(t, v, q)
				want, wantErr = alone.ask(t, v, q)
				same = still(got) == still(want) &&
					strings.ReplaceAll(fmt.Sprint(gotErr), whole.config.Sink.Dir, "") ==
						strings.ReplaceAll(fmt.Sprint(wantErr), alone.config.Sink.Dir, "")
			}
			if !same {
				t.Fatalf("%+v asks %+v and gets\n%s%v\nwithout the jobs of others\n%s%v", v, q, got, gotErr, want, wantErr)
			}
		}
	}
}

// anyQuestion returns a random question, of which most have an answer for somebody.
func anyQuestion(r *rand.Rand) console.Question {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	job := func() string {
		id := pick("6001", "6002", "6011", "6003", "7000", "7001", "7100", "7101", "7103", "7200", "7300", "7400", "7500",
			"7600", "7700", "7800", "8001", "8002", "_system", "_rest", "9999", "60", "700", "u02", "name-u02-2", "node-u02", "")
		return id + pick("", "", "", "", "_3", "_[1-3]", "_[3]", ".batch", "+1", ",6001", "@running",
			"@"+time.Now().UTC().Format(time.DateOnly), "*", "%", "_*", "/0")
	}
	q := console.Question{Command: pick("job", "job", "job", "jobs", "top", "compare"), Flags: url.Values{}, JSON: r.IntN(3) == 0}
	q.Width = []int{0, 60, 100, 200}[r.IntN(4)]
	set := func(name string, values ...string) {
		if r.IntN(4) == 0 {
			q.Flags.Set(name, pick(values...))
		}
	}
	switch q.Command {
	case "compare":
		q.Arguments = []string{job(), job()}
		set("anyway", "true")
	case "job":
		for range 1 + r.IntN(2) {
			q.Arguments = append(q.Arguments, job())
		}
		set("restart", "0", "1", "-1", "2")
		set("metrics", "all", "of_u01", "of_u02", "cpu_idle,of_u02")
		set("from", "3h", "10m", "1h", "2020-01-01")
		set("to", "2h", "5m", "2099-01-01")
		for _, form := range []string{"totals", "findings", "nodes", "rules", "last", "correlate"} {
			if r.IntN(6) == 0 {
				q.Flags.Set(form, map[string]string{"last": "99", "correlate": "cpu_idle,cpu_user"}[form])
				if q.Flags.Get(form) == "" {
					q.Flags.Set(form, "true")
				}
				break
			}
		}
	case "jobs":
		set("sort", "wasted", "busy", "spread", "memory", "severity", "time", "of_u02.d5", "of_u01.mean", "cpu_idle.d1")
		set("user", "u01", "u02", "u", "")
		set("account", "a1", "a2")
		set("queue", "batch", "none")
		set("finding", "idle-cores", "swapping", "none")
		set("since", "1h", "7d", "30d")
		set("limit", "1", "3", "0")
	case "top":
		set("user", "u01", "u02")
		set("sort", "finding", "busy", "nodes", "user", "job")
		set("metric", "cpu_idle", "of_u02", "of_u01", "of_u0")
	}
	return q
}

// TestOwnersGetTheTextOfSupport: an owner and support get the same bytes for a job, and so does the command.
func TestOwnersGetTheTextOfSupport(t *testing.T) {
	w := newWorld(t, madeJobs(began()), func(*madeJob) bool { return true })
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("WEIR_KAFKA_BROKERS", strings.Join(w.config.Kafka.Brokers, ","))
	t.Setenv("WEIR_PREFIX", w.config.Prefix)
	t.Setenv("WEIR_SINK_DIR", w.config.Sink.Dir)
	t.Setenv("WEIR_INTERVAL", "1m")
	t.Setenv("WEIR_CLUSTER", "c")
	for _, line := range []string{
		"job 6001", "job 6001 --ascii", "job 6001 --totals", "job 6001 --totals --json", "job 6001 --findings --json",
		"job 6001 --rules", "job 6001 --metrics=all", "job 7101", "job 7100_[1-2]", "job 8001 --json",
		"job 8003", "jobs --user=u03 --since=7d --sort=wasted", "jobs --user=u03 --finding=idle-cores",
	} {
		v := analysis.Viewer{User: "u01"}
		if strings.Contains(line, "03") {
			v.User = "u03"
		}
		hers, err := w.ask(t, v, question(line))
		if err != nil {
			t.Fatal(line, err)
		}
		theirs, err := w.ask(t, everybody, question(line))
		if err != nil || still(hers) != still(theirs) {
			t.Errorf("%s: %v, the owner gets\n%s\nand support\n%s", line, err, hers, theirs)
		}
		args := append(strings.Fields(line), "--width", "200", "--color", "never")
		if _, typed, stderr := clitest.Weir(t.Context(), args...); still(typed) != still(hers) {
			t.Errorf("%s: the command prints\n%s%s\nand the owner gets\n%s", line, typed, stderr, hers)
		}
	}
}

// TestEveryFlagIsDecided: the console allows a flag, or refuses it on purpose. A flag that reads or writes a file, names
// brokers or an archive, or never ends must not be allowed by accident.
func TestEveryFlagIsDecided(t *testing.T) {
	refused := map[string]string{
		"config": "it reads a file of the service's host",
		"dir":    "it reads a directory of the service's host",
		"html":   "it writes a file on the service's host",
		"csv":    "answers are text or JSON",
		"raw":    "it is for --csv",
		"json":   "the question has a field for it",
		"width":  "the question has a field for it",
		"color":  "the question has a field for it",
		"help":   "the reader's own program has it",
	}
	w := world{answer: jobs.Ask(config.Default())}
	commands := map[string]*cobra.Command{
		"compare": jobs.NewCompare(), "job": jobs.NewJob(), "jobs": jobs.NewJobs(), "top": jobs.NewTop(),
	}
	if len(commands) != jobs.Answers {
		t.Errorf("the console answers %d commands, and here are %d", jobs.Answers, len(commands))
	}
	for command, c := range commands {
		allowed := jobs.Allowed(command)
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			is, why := slices.Contains(allowed, f.Name), refused[f.Name]
			if is == (why != "") {
				t.Errorf("weir %s --%s: decide whether the console allows it", command, f.Name)
			}
			if is {
				return
			}
			q := console.Question{Command: command, Flags: url.Values{f.Name: {"true"}}}
			_, err := w.ask(t, everybody, q)
			if !errors.Is(err, console.ErrBadQuestion) || !strings.Contains(err.Error(), "--"+f.Name+" ") {
				t.Errorf("weir %s --%s: %v", command, f.Name, err)
			}
		})
		for _, name := range allowed {
			if c.Flags().Lookup(name) == nil {
				t.Errorf("weir %s has no --%s", command, name)
			}
		}
	}
}

// TestBadQuestions: a question that no command answers reads nothing, and the error names the mistake.
func TestBadQuestions(t *testing.T) {
	cfg := config.Default()
	cfg.Sink.Dir = t.TempDir()
	w := world{answer: jobs.Ask(cfg)}
	for says, q := range map[string]console.Question{
		`"up" is none of [compare job jobs top]`: {Command: "up"},
		`"" is none of`:                          {},
		"--intervl is refused":                   {Command: "job", Arguments: []string{"1"}, Flags: url.Values{"intervl": {"1"}}},
		"--last is given 2 times":                {Command: "job", Arguments: []string{"1"}, Flags: url.Values{"last": {"1", "2"}}},
		`--limit "x": a whole number`:            {Command: "jobs", Flags: url.Values{"limit": {"x"}}},
		"--since is empty":                       {Command: "jobs", Flags: url.Values{"since": {""}}},
		"--sort":                                 {Command: "jobs", Flags: url.Values{"sort": {"x"}}},
		"101 jobs are named":                     {Command: "job", Arguments: make([]string, 101)},
		"must match":                             {Command: "job", Arguments: []string{"--html=/tmp/x"}},
		"argument ID is missing":                 {Command: "job"},
		"takes no argument":                      {Command: "jobs", Arguments: []string{"1"}},
		"weir top has no JSON":                   {Command: "top", JSON: true},
		"--width -1":                             {Command: "jobs", Width: -1},
	} {
		if _, err := w.ask(t, everybody, q); !errors.Is(err, console.ErrBadQuestion) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", q, err, says)
		}
	}
}

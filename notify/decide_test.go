package notify

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// aMonday is 08:00 UTC on a Monday, an hour after digests go.
var aMonday = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC).UnixMilli()

var plain = Machine{Threads: func([]string) int { return 1 }, Life: func(rule string) bool { return rule == "low-cpu" }}

// finding is about a job of ten hours, of which the cores idled nine tenths.
func finding(id, rule string) *schemas.Finding {
	return &schemas.Finding{
		Cluster: "c1", JobID: id, Rule: rule, RuleHash: "0", Title: "Cores without work", Hint: "Ask for 6 nodes.",
		Slurm: "#SBATCH --nodes=6", State: schemas.FindingOpen, Final: true, Certainty: schemas.Certain,
		Class: schemas.ClassHigh, Severity: 1, Worst: 1, IntervalMs: 10_000, Intervals: 3600, Evaluated: 3600,
		Matched: 3600, AsOf: aMonday - 20_000, FirstInterval: aMonday - 10*hourMs, LastInterval: aMonday - 20_000,
		Evidence: []schemas.FindingEvidence{{Name: "cpu_idle.mean", Low: 0.9, Mean: 0.9, High: 0.9}},
	}
}

func owned(user string) *job {
	return &job{user: user, name: "wrf", cores: 64, threads: 1, startMs: aMonday - 10*hourMs, endMs: aMonday}
}

func everybody(string) bool { return true }

func bookOf(change func(*config.Notify), channels ...string) *book {
	cfg := config.Default().Notify
	if change != nil {
		change(&cfg)
	}
	if len(channels) == 0 {
		channels = []string{schemas.ChannelMail}
	}
	return newBook("c1", cfg, plain, channels, everybody)
}

// deliver sends what is due at a time, and returns the ids of the messages.
func deliver(b *book, nowMs int64) (ids []string) {
	ready, _ := b.due(nowMs)
	for _, m := range ready {
		ids = append(ids, m.id)
		b.settle(m, outcome{}, nowMs)
	}
	return ids
}

// TestWhichFindingsAreWorthAMessage: all that is less than certain, HIGH, final and costly stays quiet.
func TestWhichFindingsAreWorthAMessage(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *schemas.Finding, j *job)
		want   int
	}{
		"all of it":         {func(*schemas.Finding, *job) {}, 1},
		"possible":          {func(f *schemas.Finding, _ *job) { f.Certainty = schemas.Possible }, 0},
		"MED":               {func(f *schemas.Finding, _ *job) { f.Class = schemas.ClassMed }, 0},
		"the job runs":      {func(f *schemas.Finding, _ *job) { f.Final = false }, 0},
		"no longer holds":   {func(f *schemas.Finding, _ *job) { f.State = schemas.FindingClosed }, 0},
		"ended 2 days ago":  {func(_ *schemas.Finding, j *job) { j.endMs -= 2 * dayMs }, 0},
		"nobody's job":      {func(_ *schemas.Finding, j *job) { j.user = "" }, 0},
		"too little":        {func(_ *schemas.Finding, j *job) { j.cores = 2 }, 0},
		"just enough":       {func(f *schemas.Finding, j *job) { j.cores, f.Evidence[0].Mean = 24, 0.101 }, 1},
		"other evidence":    {func(f *schemas.Finding, _ *job) { f.Evidence[0].Name = "mem_bw.mean" }, 0},
		"in the kernel":     {func(f *schemas.Finding, _ *job) { f.Evidence[0].Name = "cpu_system.mean" }, 1},
		"idle sisters":      {func(f *schemas.Finding, j *job) { j.threads, f.Evidence[0].Mean = 2, 0.5 }, 0},
		"no GPU was used":   {func(f *schemas.Finding, j *job) { dark(f, j, 0) }, 1},
		"a GPU was used":    {func(f *schemas.Finding, j *job) { dark(f, j, 0.2) }, 0},
		"few GPU-hours":     {func(f *schemas.Finding, j *job) { dark(f, j, 0); j.gpus = 2 }, 0},
		"few intervals":     {func(f *schemas.Finding, _ *job) { f.Matched = 36 }, 0},
		"marks of its life": {func(f *schemas.Finding, _ *job) { f.Matched, f.Rule = 9, "low-cpu" }, 1},
	} {
		b := bookOf(nil)
		f, j := finding("1", "idle-cores"), owned("alice")
		c.change(f, j)
		if got := b.decide(f, j, aMonday); len(got) != c.want {
			t.Errorf("%s: %d notices, want %d: %+v", name, len(got), c.want, got)
		}
	}
	if got := bookOf(nil).decide(finding("1", "idle-cores"), nil, aMonday); got != nil {
		t.Errorf("a job that nobody knows has %+v", got)
	}
}

func dark(f *schemas.Finding, j *job, high float64) {
	f.Rule, j.gpus = "unused-gpu", 8
	f.Evidence = []schemas.FindingEvidence{{Name: "acc_utilization.hi10", High: high}}
}

// TestOneMessageForAJob: of several findings the costliest speaks, however they arrive.
func TestOneMessageForAJob(t *testing.T) {
	small, large := finding("1", "serial"), finding("1", "idle-cores")
	small.Evidence[0].Mean = 0.3
	for _, order := range [][]*schemas.Finding{{small, large}, {large, small}} {
		b := bookOf(nil)
		for _, f := range order {
			b.decide(f, owned("alice"), aMonday)
		}
		if ids := deliver(b, aMonday+settleMs-1); ids != nil {
			t.Errorf("%v went before the job's findings settled", ids)
		}
		ids := deliver(b, aMonday+settleMs)
		n := b.of["1/0/MAIL"]
		if len(ids) != 1 || n.Rule != "idle-cores" || n.WastedCoreHours != 576 || n.State != schemas.NoticeSent {
			t.Errorf("%d messages, %+v", len(ids), n)
		}
		b.decide(large, owned("alice"), aMonday+settleMs+1)
		if ids := deliver(b, aMonday+3*settleMs); ids != nil {
			t.Errorf("a second message about the job: %v", ids)
		}
	}
}

// TestARuleOnceInSevenDays: a user hears of a rule once in a week, and another user, or of another rule, does at once.
func TestARuleOnceInSevenDays(t *testing.T) {
	b, day := bookOf(nil), int64(dayMs)
	sent := map[int64]int{}
	for d := range int64(15) {
		for i, user := range []string{"alice", "bob"} {
			now, id := aMonday+d*(day+2*settleMs), strconv.Itoa(int(d)*10+i)
			j := owned(user)
			j.endMs = now
			b.decide(finding(id, "idle-cores"), j, now)
			sent[d] += len(deliver(b, now+settleMs))
		}
	}
	want := map[int64]int{0: 2, 7: 2, 14: 2}
	for d := range int64(15) {
		if sent[d] != want[d] {
			t.Errorf("day %d: %d messages, want %d", d, sent[d], want[d])
		}
	}
}

// TestThreeMessagesADay: a user with ten problems has three messages. The others wait, and are dropped after a day.
func TestThreeMessagesADay(t *testing.T) {
	b := bookOf(nil)
	for i := range 10 {
		b.decide(finding(strconv.Itoa(i), "rule-"+strconv.Itoa(i)), owned("alice"), aMonday)
	}
	b.decide(finding("100", "rule-0"), owned("bob"), aMonday)
	sent := 0
	for now := aMonday; now < aMonday+3*dayMs; now += minuteMs {
		sent += len(deliver(b, now))
		if hours := (now - aMonday) / hourMs; hours >= 1 && hours < 24 && sent != 4 {
			t.Fatalf("%d messages after %d hours", sent, hours)
		}
	}
	if len(b.waiting) != 0 || sent > 7 {
		t.Errorf("%d messages in all, %d wait for ever", sent, len(b.waiting))
	}
}

// TestArrayIsOneJob: tasks that cost little add up, and the array has one message.
func TestArrayIsOneJob(t *testing.T) {
	b, messages := bookOf(nil), 0
	for i := range 100 {
		j := owned("alice")
		j.cores, j.array, j.task = 1, "500", "500_"+strconv.Itoa(i) // nine core-hours each
		f := finding(strconv.Itoa(501+i), "idle-cores")
		now := aMonday + int64(i)*minuteMs
		b.decide(f, j, now)
		f.Rule, f.Evidence[0].Mean = "serial", 0.8 // of the same task, and less
		b.decide(f, j, now)
		messages += len(deliver(b, now+settleMs))
		if i == 1 && messages != 0 {
			t.Fatal("18 core-hours had a message")
		}
	}
	n := b.of["500/0/MAIL"]
	if messages != 1 || len(b.of) != 1 || n.Tasks != 3 || n.WastedCoreHours != 27 || n.Task != "500_0" {
		t.Errorf("%d messages, %+v", messages, n)
	}
}

// TestDigest: one message for each user and week, on Monday at seven, with the costliest job of each rule.
func TestDigest(t *testing.T) {
	b := bookOf(func(n *config.Notify) { n.Digest = config.WeeklyDigest })
	day := int64(dayMs)
	for d := range int64(6) {
		for u := range 3 {
			j := owned("user" + strconv.Itoa(u))
			j.endMs = aMonday + d*day
			b.decide(finding(fmt.Sprint(d*10+int64(u)), "idle-cores"), j, j.endMs)
			if ids := deliver(b, j.endMs+hourMs); ids != nil {
				t.Fatalf("%v went on day %d", ids, d)
			}
		}
	}
	monday := aMonday + 7*day - hourMs
	if ids := deliver(b, monday-1); ids != nil {
		t.Errorf("%v went before seven", ids)
	}
	ready, _ := b.due(monday)
	if len(ready) != 3 || len(ready[0].notices) != 6 {
		t.Fatalf("%d messages on Monday", len(ready))
	}
	again := newBook("c1", b.cfg, plain, b.channels, everybody)
	for _, n := range b.of { // a successor, after a crash
		again.put(n)
	}
	again.recover(monday + 1)
	if ids := deliver(again, monday+hourMs); ids != nil {
		t.Errorf("%v went twice", ids)
	}
}

// TestTries: a message that is refused is tried five times, later and later. A mail whose fate is unknown is not.
func TestTries(t *testing.T) {
	for _, c := range []struct {
		channel string
		kind    int
		tries   int
		state   string
	}{
		{schemas.ChannelMail, again, 5, schemas.NoticeFailed},
		{schemas.ChannelWebhook, again, 5, schemas.NoticeFailed},
		{schemas.ChannelMail, unsure, 1, schemas.NoticeFailed},
		{schemas.ChannelWebhook, unsure, 5, schemas.NoticeFailed},
		{schemas.ChannelComment, unsure, 5, schemas.NoticeFailed},
		{schemas.ChannelMail, never, 1, schemas.NoticeFailed},
		{schemas.ChannelMail, delivered, 1, schemas.NoticeSent},
	} {
		b := bookOf(nil, c.channel)
		b.decide(finding("1", "idle-cores"), owned("alice"), aMonday)
		tries, ids := 0, map[string]bool{}
		var last, least int64
		for now := aMonday; now < aMonday+dayMs; now += 1000 {
			ready, _ := b.due(now)
			for _, m := range ready {
				if tries++; last > 0 && now-last < least {
					t.Errorf("%s: tried again after %d ms", c.channel, now-last)
				}
				last, least, ids[m.id] = now, max(15_000, 4*least), true
				b.settle(m, outcome{c.kind, "x"}, now)
			}
		}
		if n := b.of["1/0/"+c.channel]; tries != c.tries || n.State != c.state || len(ids) != 1 {
			t.Errorf("%s, outcome %d: %d tries with %d ids, then %s", c.channel, c.kind, tries, len(ids), n.State)
		}
	}
}

// TestOptOut: whoever wants no message gets none, also of what waits.
func TestOptOut(t *testing.T) {
	wants := true
	b := bookOf(nil)
	b.allowed = func(user string) bool { return user != "bob" && wants }
	if b.decide(finding("1", "idle-cores"), owned("bob"), aMonday) != nil {
		t.Error("bob has a notice")
	}
	b.decide(finding("2", "idle-cores"), owned("alice"), aMonday)
	wants = false
	if ids := deliver(b, aMonday+settleMs); ids != nil || b.of["2/0/MAIL"].State != schemas.NoticeSkipped {
		t.Errorf("%v went, %+v", ids, b.of["2/0/MAIL"])
	}
}

// TestCommentsKnowNoDigest: a comment disturbs nobody, so each job has one at once.
func TestCommentsKnowNoDigest(t *testing.T) {
	b := bookOf(func(n *config.Notify) { n.Digest = config.WeeklyDigest }, schemas.ChannelComment)
	for i := range 10 {
		b.decide(finding(strconv.Itoa(i), "idle-cores"), owned("alice"), aMonday)
	}
	if ids := deliver(b, aMonday+settleMs); len(ids) != 10 {
		t.Errorf("%d comments", len(ids))
	}
}

// TestNoticesAreForgotten: the topic does not grow without end.
func TestNoticesAreForgotten(t *testing.T) {
	b := bookOf(nil)
	b.decide(finding("1", "idle-cores"), owned("alice"), aMonday)
	deliver(b, aMonday+settleMs)
	if keys := b.forget(aMonday + 39*dayMs); keys != nil {
		t.Errorf("%s is forgotten early", keys)
	}
	keys := b.forget(aMonday + 41*dayMs)
	if len(keys) != 1 || len(b.of)+len(b.told)+len(b.users) != 0 {
		t.Errorf("%s is forgotten, and %d notices stay", keys, len(b.of))
	}
}

// A log is what a process committed. A crash loses all else.
type log struct{ notices map[string]*schemas.Notice }

func (l *log) commit(changed []*schemas.Notice) {
	for _, n := range changed {
		l.notices[string(n.Key())] = n
	}
}

// TestTenThousandEndsInAMinute: whatever happens, the limits hold, nothing goes twice, and equal runs are equal. The
// process crashes at any point: before and after each commit, and after a mail went.
func TestTenThousandEndsInAMinute(t *testing.T) {
	ends := kafkatest.Cases(10_000, 1000)
	run := func(seed uint64, crashes bool) (sent map[string]int, perUser map[string]int, times []int64) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test's
		sent, perUser = map[string]int{}, map[string]int{}
		kept := &log{map[string]*schemas.Notice{}}
		var b *book
		start := func(now int64) {
			b = bookOf(nil)
			b.nowMs = now
			for _, n := range kept.notices {
				b.put(n)
			}
			kept.commit(b.recover(now))
		}
		crash := func(now int64) bool {
			if crashes && random.IntN(40) == 0 {
				start(now)
				return true
			}
			return false
		}
		start(aMonday)
		next := 0
		for now := aMonday; now < aMonday+5*minuteMs; now += 1000 {
			for ; next < ends && int64(next)*60_000/int64(ends) <= now-aMonday; next++ {
				f := finding(strconv.Itoa(next), []string{"idle-cores", "serial", "unused-node", "low-cpu"}[random.IntN(4)])
				kept.commit(b.decide(f, owned("user"+strconv.Itoa(random.IntN(ends/4))), now))
			}
			ready, changed := b.due(now)
			if crash(now) {
				continue
			}
			kept.commit(changed)
			if crash(now) {
				continue
			}
			var settled []*schemas.Notice
			lost := false
			for _, m := range ready {
				o := outcome{}
				if !crashes && random.IntN(4) == 0 { // after a crash, a try before the last one is not known
					o.kind = again
				}
				if o.kind == delivered {
					sent[m.notices[0].JobID]++
					perUser[m.user]++
				}
				times = append(times, now)
				settled = append(settled, b.settle(m, o, now)...)
				if lost = crash(now); lost {
					break
				}
			}
			if !lost {
				kept.commit(settled)
			}
		}
		return sent, perUser, times
	}
	for seed := range uint64(2) {
		sent, perUser, times := run(seed, seed > 0)
		for id, n := range sent {
			if n != 1 {
				t.Errorf("seed %d: job %s has %d mails", seed, id, n)
			}
		}
		for user, n := range perUser {
			if n > 3 {
				t.Errorf("seed %d: %s has %d mails in a day", seed, user, n)
			}
		}
		for i := range times {
			if i >= 60 && times[i]-times[i-60] < minuteMs {
				t.Fatalf("seed %d: more than 60 mails within a minute", seed)
			}
		}
		if len(sent) < 60 {
			t.Errorf("seed %d: %d mails in five minutes", seed, len(sent))
		}
		if again, _, _ := run(seed, seed > 0); !cmp.Equal(sent, again) {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}

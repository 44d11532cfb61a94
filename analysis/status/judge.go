package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/config"
)

// judge lists the faults of the installation, and their remedies.
func (s *Status) judge(cfg config.Config) {
	s.judgeBalancer(cfg)
	s.judgePartitions(cfg)
	s.judgeRejects()
	s.judgeSink(cfg)
	s.judgeIntervals(cfg)
	s.judgeNodes(cfg)
	s.judgeClocks(cfg)
	slices.Sort(s.Wrong)
}

func (s *Status) wrong(format string, args ...any) {
	s.Wrong = append(s.Wrong, fmt.Sprintf(format, args...))
}

// few shows a list that may be long.
func few(of []string, between string) string {
	const most = 10
	text := "[" + strings.Join(of[:min(len(of), most)], between) + "]"
	if len(of) > most {
		text += fmt.Sprintf(" and %d more", len(of)-most)
	}
	return text
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// endTransaction is the remedy for a transaction that was left open.
const endTransaction = "it ends after its transaction.timeout.ms; " +
	"kafka-transactions.sh find-hanging and abort end it at once"

// judgeBalancer waits for three intervals, since one Tick may be late while a new balancer takes over. Times beyond the
// slack come from clocks that disagree.
func (s *Status) judgeBalancer(cfg config.Config) {
	const setClock = "set the clock of the balancer's host, or of this one, and start the balancer again"
	patience, slack := 3*cfg.Interval+cfg.Grace, config.Slack(cfg.Interval)
	switch {
	case s.TickMs == nil:
		s.wrong("no interval was ever closed: is a balancer running? `weir balance` starts one")
	case duration(*s.TickAgeMs) > patience:
		s.wrong("the last closed interval ended %v ago: is a balancer running? Its log says what it waits for",
			duration(*s.TickAgeMs).Round(time.Second))
	case duration(*s.TickAgeMs) < -slack:
		s.wrong("the last closed interval ends in %v: %s", duration(-*s.TickAgeMs).Round(time.Second), setClock)
	}
	if s.JobsUnread != "" {
		s.wrong("a list of jobs cannot be read, so jobs that are new there have no rows, and known ones go on: %s",
			s.JobsUnread)
	}
	if s.PlannedMs != nil && duration(*s.PlannedMs-s.TimeMs) > slack {
		s.wrong("a plan is valid only in %v: %s", duration(*s.PlannedMs-s.TimeMs).Round(time.Second), setClock)
	}
	if s.balancerDiffers(cfg) {
		s.wrong("the balancer's interval is %v, this configuration has %v: "+
			"set `interval` to one value in every part's configuration",
			duration(*s.TickLengthMs), cfg.Interval)
	}
}

func (s *Status) balancerDiffers(cfg config.Config) bool {
	return s.TickLengthMs != nil && *s.TickLengthMs != cfg.Interval.Milliseconds()
}

// judgePartitions also notes which partitions are behind, and which stopped. An owner that stops a partition commits
// the reason in Progress. An owner that catches up commits every ten seconds at least. If none commits for longer while
// records wait, the owner is stuck, or dead and still a member of the group.
func (s *Status) judgePartitions(cfg config.Config) {
	still := 3 * max(cfg.Interval, config.QuietCommit)
	for i := range s.Partitions {
		p := &s.Partitions[i]
		patience := 2 * cfg.Interval
		if p.Stage == "merge" {
			patience += config.QuietCommit // without split jobs it commits only this often
		}
		old := s.TickMs != nil && (p.ClosedMs == nil || *p.ClosedMs < *s.TickMs-patience.Milliseconds())
		if p.Stage == stageFind {
			old = p.waits
		}
		p.Behind = old && p.Lag+p.Held > 0
		silent := time.Duration(0)
		if since := cmp.Or(p.CommittedMs, p.FirstMs); since != nil {
			silent = duration(s.TimeMs - *since)
		}
		idle := p.CommittedMs == nil && p.RejectReason != "" || silent > still
		p.Stopped = p.StopReason != "" || p.Owner != "" && p.Behind && idle
		switch {
		case p.StopReason != "":
			s.wrong("%s: partition %d is stopped, %d offsets behind: %s", p.Stage, p.Partition, p.Lag, p.StopReason)
		case p.Replaced:
			s.wrong("%s: partition %d is stopped: its topic was deleted and made anew, position %d is of the "+
				"old one: stop every `%s`, delete its topic of Progress too, run `weir topics create` and "+
				"start them again", p.Stage, p.Partition, p.Position, commandOf(p.Stage))
		case p.Owner == "":
			s.wrong("%s: nobody owns partition %d: start `%s`", p.Stage, p.Partition, commandOf(p.Stage))
		case p.Behind && p.Lag == 0:
			s.wrong("%s: partition %d waits at offset %d for a transaction that somebody left open there, with %d "+
				"offsets behind it: %s",
				p.Stage, p.Partition, p.End, p.Held, endTransaction)
		case p.Stopped && p.RejectReason != "":
			s.wrong("%s: partition %d is stopped at offset %d, %d offsets behind; its last reject: %s: mend what "+
				"writes such records, or raise collect.max_rejects",
				p.Stage, p.Partition, p.Position, p.Lag, p.RejectReason)
		case p.Stopped:
			s.wrong("%s: partition %d is stopped at offset %d, %d offsets behind: the log of %s says why, "+
				"it has committed nothing for %v; "+
				"where it does not run, start another `%s`: the group then shares its partitions out anew",
				p.Stage, p.Partition, p.Position, p.Lag, p.Owner, silent.Round(time.Second),
				commandOf(p.Stage))
		case p.Behind:
			s.wrong("%s: partition %d is behind by %d offsets: wait where this number falls, "+
				"else add `%s` processes",
				p.Stage, p.Partition, p.Lag, commandOf(p.Stage))
		}
	}
	for stage, counts := range map[string]map[string]int64{"collect": s.Collect, "merge": s.Merge, stageFind: s.Find} {
		if n := counts["lost"]; n > 0 {
			s.wrong("%s: retention took %d records before they were used: raise the topic's retention (docs/deploy.md)",
				stage, n)
		}
	}
}

// judgeRejects names the last reason alone. Rejects come in series: a faulty producer writes many wrong records.
func (s *Status) judgeRejects() {
	if len(s.Rejects) == 0 {
		return
	}
	total, last := int64(0), s.Rejects[len(s.Rejects)-1]
	var from []string
	for _, r := range s.Rejects {
		total += r.Count
		from = append(from, fmt.Sprintf("%s-%d (%d)", r.Topic, r.Partition, r.Count))
	}
	s.wrong("%d records were rejected in the last %v, from %s; the last one of %s-%d: %s: mend what writes them, "+
		"`weir tail rejects` shows them",
		total, rejectsBack, few(from, ", "), last.Topic, last.Partition, last.Reason)
}

// judgeSink reports one line for a partition: the cause that a person must remove first.
func (s *Status) judgeSink(cfg config.Config) {
	if s.SinkError != "" {
		s.wrong("sink: archive %s cannot be read: %s: mend or move away what is named, or set sink.dir",
			cfg.Sink.Dir, s.SinkError)
	}
	for _, p := range s.Sink {
		switch {
		case p.Replaced:
			s.wrong("sink: partition %d: its topic was deleted and made again, and the archive holds the old one up "+
				"to %d: it stays as it is; "+
				"move it away, or choose another sink.dir, and start `weir sink`", p.Partition, p.Position)
		case p.Waits != nil:
			s.wrong("sink: partition %d waits at offset %d, written at %s, a summary of an unknown schema: upgrade "+
				"the sink; if no weir wrote it, `weir sink accept-gap %d`",
				p.Partition, p.Waits.Offset, time.UnixMilli(p.Waits.TimestampMs).UTC().Format(time.RFC3339),
				p.Partition)
		case p.Behind && p.Position == p.End:
			s.wrong("sink: partition %d waits at offset %d for a transaction that somebody left open there: %s",
				p.Partition, p.Position, endTransaction)
		case p.Behind:
			s.wrong("sink: partition %d is archived up to %d of %d: is `weir sink` running? "+
				"Its log says what it waits for",
				p.Partition, p.Position, p.End)
		}
	}
}

// judgeIntervals reports fates that occur in each of the last intervals. Jobs end all the time, so the fate ended
// counts only if it is the fate of more than half of an interval's records.
func (s *Status) judgeIntervals(cfg config.Config) {
	if len(s.Intervals) < statusTicks {
		return
	}
	keeps := func(count func(i Interval) int64) (sum int64) {
		for _, i := range s.Intervals {
			n := count(i)
			if n == 0 {
				return 0
			}
			sum += n
		}
		return sum
	}
	if n := keeps(func(i Interval) int64 { return i.Late }); n > 0 {
		s.wrong("%d records of the last %d intervals came after the Tick, from %s: set those clocks, or raise `grace`",
			n, len(s.Intervals), few(s.Late, " "))
	}
	if n := keeps(func(i Interval) int64 { return i.Misrouted }); n > 0 && !s.balancerDiffers(cfg) {
		s.wrong("%d records of the last %d intervals are of jobs that no Tick lists, from %s: do these agents read "+
			"topic routes? Their logs say",
			n, len(s.Intervals), few(s.Misrouted, " "))
	}
	ended := keeps(func(i Interval) int64 {
		if i.Ended <= i.Summarized {
			return 0
		}
		return i.Ended
	})
	if ended > 0 {
		s.wrong("%d records of the last %d intervals, more than half, are of jobs that ended within: set the clock "+
			"of the job source's host, or a shorter `interval`",
			ended, len(s.Intervals))
	}
}

// judgeNodes reports nodes from the general to the particular: another interval, none at all, then jobs, then single
// nodes. Lists are cut, for one fault may touch thousands.
func (s *Status) judgeNodes(cfg config.Config) {
	if len(s.OtherInterval) > 0 {
		var other []string
		for _, n := range slices.Sorted(maps.Keys(s.OtherInterval)) {
			other = append(other, fmt.Sprintf("%s %v", n, duration(s.OtherInterval[n])))
		}
		s.wrong("%d nodes have another interval than this configuration's %v: %s: set `interval` to one value in "+
			"every part's configuration",
			len(other), cfg.Interval, few(other, ", "))
	}
	switch {
	case s.NodesExpected > 0 && s.NodesReported == 0:
		s.wrong("no node reported in the last %d intervals, of %d expected: are agents running, with the same "+
			"`interval`, and clocks that agree?",
			silentRows, s.NodesExpected)
	case len(s.Incomplete) > 0:
		var jobs []string
		for _, j := range s.Incomplete {
			job := fmt.Sprintf("%s/%d %d/%d nodes", j.JobID, j.Restart, j.NodesReported, j.NodesExpected)
			if j.PartsReported < j.Parts {
				job += fmt.Sprintf(" %d/%d parts", j.PartsReported, j.Parts)
			}
			if len(j.Missing) > 0 {
				job += " without " + few(j.Missing, " ")
			}
			jobs = append(jobs, job)
		}
		s.wrong("%d jobs are incomplete in %d rows in a row: %s: look at the agents of these nodes",
			len(jobs), statusRows, few(jobs, ", "))
	}
	if len(s.Silent) > 0 {
		s.wrong("%d nodes are silent: %s: is `weir agent` running there? Its log says what it waits for",
			len(s.Silent), few(s.Silent, " "))
	}
	if len(s.Routeless) > 0 {
		s.wrong("%d nodes have no route: %s: is a balancer running, and are they in its topology?",
			len(s.Routeless), few(s.Routeless, " "))
	}
}

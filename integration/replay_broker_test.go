package integration

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/replay"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/derive"
)

// TestReplayOnABroker replays logs on a broker: the whole logs, a part of the time, the life of a job, and into an
// archive. Then their beginnings are deleted.
func TestReplayOnABroker(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	b := bookkeep(t, auditedLog(t, 60), nil)
	cfg, adm := b.onBroker()
	topic := b.collected()
	run := func(o replay.Options) (*replay.Report, []*schemas.JobSummary) {
		t.Helper()
		var all []*schemas.JobSummary
		r, err := replay.Run(t.Context(), cfg, o, func(s *schemas.JobSummary) error {
			all = append(all, s)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return r, all
	}
	instant := func(interval int64) time.Time { return time.UnixMilli(foldStart + interval*foldT) }
	jobs := func(ids ...string) (chosen []replay.Choice) {
		for _, id := range ids {
			chosen = append(chosen, replay.Choice{JobID: id, Restart: replay.EveryRestart})
		}
		return chosen
	}
	hasNote := func(r *replay.Report, text string) bool {
		return slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, text) })
	}

	whole, all := run(replay.Options{AsCollected: true, Sketch: auditedSketch})
	for _, s := range all {
		compareReplay(t, s, topic[keyOf(s)])
	}
	if len(all) != len(topic) || whole.Intervals != 60 || hasNote(whole, "begins at") {
		t.Errorf("%d of %d summaries, %+v", len(all), len(topic), whole)
	}
	part, _ := run(replay.Options{Since: instant(20), Until: instant(30)})
	if part.Intervals != 10 || *part.From != instant(20).UnixMilli() || *part.To != instant(29).UnixMilli() {
		t.Errorf("%+v", part)
	}
	latest, _ := run(replay.Options{})
	if latest.LateTaken == 0 || !hasNote(latest, "late records count here") {
		t.Errorf("%+v", latest)
	}

	writeJob(t, cfg, "own-1", instant(25), instant(35))
	life, all := run(replay.Options{Jobs: jobs("own-1", "nobody")})
	if len(life.Absent) != 1 || life.Absent[0].JobID != "nobody" || len(all) != 60 {
		t.Errorf("%d summaries, %+v", len(all), life)
	}
	// The slack of clocks and one interval are added on both sides: 21 intervals.
	life, all = run(replay.Options{Jobs: jobs("own-1")})
	if len(all) != 10+2*21 || *life.From != instant(25-21).UnixMilli() || life.Absent != nil {
		t.Errorf("the life of a job: %d summaries, %+v", len(all), life)
	}
	none, all := run(replay.Options{Jobs: jobs("own-5"), Metrics: []string{"sim_tail"}})
	if len(all) > 0 || none.Absent != nil || !hasNote(none, "job own-5 has none of the metrics sim_tail") {
		t.Errorf("%d summaries, %+v", len(all), none)
	}
	expectArchived(t, cfg, topic)
	expectRefused(t, cfg)

	m := b.history[len(b.history)/2]
	deleted := kadm.Offsets{}
	for p := range int32(foldCollectors) {
		deleted.AddOffset(cfg.Prefix+schemas.TopicCounters, p, m.read[p], -1)
	}
	if _, err := adm.DeleteRecords(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	writeJob(t, cfg, "whole", instant(2), time.Time{})
	rest, all := run(replay.Options{Jobs: jobs("whole"), AsCollected: true, Sketch: auditedSketch})
	for _, s := range all {
		compareReplay(t, s, topic[keyOf(s)])
	}
	if len(all) == 0 || len(all) > 30 || !hasNote(rest, "job whole began at") || !hasNote(rest, "counters begins at") {
		t.Errorf("without the beginning: %d summaries, %+v", len(all), rest)
	}
}

// writeJob writes the life of a job. A job without an end runs.
func writeJob(t *testing.T, cfg config.Config, id string, start, end time.Time) {
	t.Helper()
	j := &schemas.Job{JobID: id, State: schemas.StateRunning, Start: new(start.UnixMilli()), Nodes: []string{"n01"}}
	if !end.IsZero() {
		j.State, j.End = schemas.StateCompleted, new(end.UnixMilli())
	}
	value, err := schemas.MarshalChecked(j)
	if err != nil {
		t.Fatal(err)
	}
	cl := kafkatest.Client(t, cfg.Kafka.Brokers)
	r := &kgo.Record{Topic: cfg.Prefix + schemas.TopicJobs, Key: []byte(id + "/0"), Value: value}
	if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// expectArchived compares an archive of a replay with the topic.
func expectArchived(t *testing.T, cfg config.Config, topic map[summaryKey]*schemas.JobSummary) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "replay")
	a, err := replay.NewArchive(t.Context(), dir, cfg.Sink.Dir, cfg.Prefix+schemas.TopicJobSummary)
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.Run(t.Context(), cfg, replay.Options{AsCollected: true, Sketch: auditedSketch}, a.Add)
	if err == nil {
		_, err = a.Publish()
	}
	if err := errors.Join(err, a.Close()); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "summaries", "date=*", "*.parquet"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v", paths, err)
	}
	rows, compared := int64(0), 0
	for _, path := range paths {
		all, _, err := sink.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rows += int64(len(all))
		for i := range all {
			row := &all[i]
			s := topic[summaryKey{schemas.JobKey{JobID: row.JobID, Restart: row.Restart}, row.IntervalStart}]
			if s == nil || s.Parts > 1 || row.Metric == nil {
				continue
			}
			compared++
			m := slices.IndexFunc(s.Metrics, func(m schemas.JobSummaryMetric) bool { return m.Name == *row.Metric })
			if want := s.Rows()[m]; !bytes.Equal(jsonOf(t, row), jsonOf(t, &want)) {
				t.Fatalf("%s has\n%s\nthe topic\n%s", path, jsonOf(t, row), jsonOf(t, &want))
			}
		}
	}
	if rows != r.Rows || compared == 0 {
		t.Errorf("%d rows of %d, %d compared", rows, r.Rows, compared)
	}
}

// expectRefused: unknown metrics end a replay before it begins, and Ctrl-C while it runs.
func expectRefused(t *testing.T, cfg config.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	each := func(*schemas.JobSummary) error { cancel(); return nil }
	defined := func(name, scope, expression string) replay.Options {
		return replay.Options{Definitions: []derive.Definition{{Name: name, Scope: scope, Expr: expression}}}
	}
	for want, o := range map[string]replay.Options{
		`"sim_tial": did you mean sim_tail`:          {Metrics: []string{"sim_tial"}},
		`there is no metric "sim_tia": did you mean`: defined("x", "", "sim_tia"),
		"a metric of this name is recorded":          defined("sim_tail", "", "sim_gaps"),
		"its scope must be core":                     defined("x", schemas.ScopeNode, "sim_gaps"),
	} {
		_, err := replay.Run(ctx, cfg, o, each)
		if err == nil || !strings.Contains(err.Error(), want) ||
			!errors.Is(err, derive.ErrDefinition) && !errors.Is(err, replay.ErrUnknownMetric) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := replay.Run(ctx, cfg, replay.Options{}, each); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

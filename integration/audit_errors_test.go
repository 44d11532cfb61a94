package integration

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/schemas"
)

// The deliberate errors concern the job "whole" of one collector, and "split" of two, in this interval.
const wrongStart = foldStart + 5*foldT

// is reports whether a record of counters is the first one of a job and node in the interval of the errors.
func is(value []byte, job, node string) (*schemas.CounterBatch, bool) {
	v, err := schemas.Unmarshal(value)
	b, ok := v.(*schemas.CounterBatch)
	return b, err == nil && ok && b.JobID == job && b.Node == node && b.IntervalStart == wrongStart
}

// values are the values of a job's metric in the interval of the errors, sorted.
func (b *bookkept) values(job, metric string) (sorted []float64) {
	for s, log := range b.topics {
		if s.Topic != schemas.TopicCounters {
			continue
		}
		for _, e := range log {
			v, err := schemas.Unmarshal(e.Value)
			batch, ok := v.(*schemas.CounterBatch)
			if err != nil || !ok || batch.JobID != job || batch.IntervalStart != wrongStart {
				continue
			}
			for _, m := range batch.Metrics {
				if m.Name == metric {
					sorted = append(sorted, m.Values...)
				}
			}
		}
	}
	sorted = slices.DeleteFunc(sorted, math.IsNaN)
	slices.Sort(sorted)
	return sorted
}

// change changes the record of a topic that fits, and returns its offset.
func change[R schemas.Record](b *bookkept, topic string, fits func(r R) bool, to func(r R)) int64 {
	b.t.Helper()
	for i, e := range b.topics[audit.Source{Topic: topic}] {
		v, err := schemas.Unmarshal(e.Value)
		if err != nil {
			b.t.Fatal(err)
		}
		if r, ok := v.(R); ok && fits(r) {
			if to != nil {
				to(r)
				b.topics[audit.Source{Topic: topic}][i].Value = b.marshal(r)
			}
			return e.Offset
		}
	}
	b.t.Fatalf("nothing to change in %s", topic)
	return 0
}

func (b *bookkept) marshal(r schemas.Record) []byte {
	b.t.Helper()
	value, err := schemas.MarshalChecked(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

func summaryOf(job string) func(s *schemas.JobSummary) bool {
	return func(s *schemas.JobSummary) bool { return s.JobID == job && s.IntervalStart == wrongStart }
}

// metricOf is a metric of a summary with values.
func metricOf(t *testing.T, s *schemas.JobSummary, name string) *schemas.JobSummaryMetric {
	t.Helper()
	i := slices.IndexFunc(s.Metrics, func(m schemas.JobSummaryMetric) bool { return m.Name == name })
	if i < 0 || s.Metrics[i].Count == 0 {
		t.Fatalf("%s has no metric %s", s.JobID, name)
	}
	return &s.Metrics[i]
}

// drop removes the record of an offset from a topic, double repeats it at the topic's end.
func (b *bookkept) drop(topic string, offset int64) {
	at := audit.Source{Topic: topic}
	b.topics[at] = slices.DeleteFunc(b.topics[at], func(e audit.Entry) bool { return e.Offset == offset })
}

func (b *bookkept) double(topic string, offset int64) {
	at := audit.Source{Topic: topic}
	for _, e := range b.topics[at] {
		if e.Offset == offset {
			e.Offset = b.topics[at][len(b.topics[at])-1].Offset + 1
			b.topics[at] = append(b.topics[at], e)
		}
	}
}

// TestAuditFindsErrors: the pipeline makes one error, and the audit names partition, job and interval of it.
func TestAuditFindsErrors(t *testing.T) {
	t.Parallel()
	const at = ": interval 2023-11-14T22:13:25Z: "
	log := auditedLog(t, 10)
	right := bookkeep(t, log, nil)
	whole := "weir.job-summary-0 at %: job whole/0" + at
	split := "weir.job-summary-0 at %: job split/0" + at
	for name, c := range map[string]struct {
		see    func(partition int, value []byte) []byte // the pipeline's error
		change func(b *bookkept) (offset int64)         // the error in the installation's output
		want   []string                                 // lines of the report, in which % is the offset
		all    bool                                     // whether these are all lines
	}{
		"record lost": {
			see: func(_ int, value []byte) []byte {
				if _, ok := is(value, "whole", "n03"); ok {
					return nil
				}
				return value
			},
			want: []string{
				"job whole/0" + at + "nodes 9 of 12: recomputed 10 of 12",
				"job _system/0" + at,
				"weir.counters-1 at 242: summarized: Progress counts 221 from offset 0 on, recomputed 222",
			},
		},
		"record doubled": {
			see: func(_ int, value []byte) []byte {
				if b, ok := is(value, "whole", "n03"); ok {
					for i := range b.Metrics {
						m := &b.Metrics[i]
						if m.Scope != schemas.ScopeJob && m.Scope != schemas.ScopeNode { // these have a single value
							m.Values = append(m.Values, m.Values...)
						}
					}
					b.Cpus = append(b.Cpus, 100, 101, 102)
					value, _ = schemas.Marshal(b)
				}
				return value
			},
			want: []string{
				"job whole/0" + at + "metric not_simulated: count 0, invalid 33, nodes 0: recomputed 0, 30, 0",
			},
		},
		"record folded into another interval": {
			see: func(_ int, value []byte) []byte {
				if b, ok := is(value, "whole", "n03"); ok {
					b.IntervalStart += foldT
					value, _ = schemas.Marshal(b)
				}
				return value
			},
			want: []string{
				"job whole/0" + at + "nodes 9 of 12: recomputed 10 of 12",
				"job whole/0: interval 2023-11-14T22:13:26Z: metric sim_gaps: ",
				"duplicate: Progress counts ",
			},
		},
		"decile moved by one rank": {
			change: func(b *bookkept) int64 {
				sorted := b.values("whole", "sim_tail")
				return change(b, schemas.TopicJobSummary, summaryOf("whole"), func(s *schemas.JobSummary) {
					d := *metricOf(b.t, s, "sim_tail").Deciles
					d[5] = sorted[len(sorted)/2]
				})
			},
			want: []string{whole + "metric sim_tail: d5 "},
			all:  true,
		},
		"bracket too narrow": {
			change: func(b *bookkept) int64 {
				sorted := b.values("split", "sim_tail")
				return change(b, schemas.TopicJobSummary, summaryOf("split"), func(s *schemas.JobSummary) {
					m := metricOf(b.t, s, "sim_tail")
					lo := math.Nextafter(decile(sorted, 5), math.Inf(1))
					for k := 5; k < 11; k++ {
						(*m.Lo)[k], (*m.Deciles)[k] = max((*m.Lo)[k], lo), max((*m.Deciles)[k], lo)
					}
				})
			},
			want: []string{split + "metric sim_tail: d5: its bracket ["},
			all:  true,
		},
		"estimate further off than it says": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("split"), func(s *schemas.JobSummary) {
					*metricOf(b.t, s, "sim_tail").RankError = 1e-9
				})
			},
			want: []string{split + "metric sim_tail: d"},
			all:  true,
		},
		"mean": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("whole"), func(s *schemas.JobSummary) {
					*metricOf(b.t, s, "sim_tail").Mean *= 1 + 1e-6
				})
			},
			want: []string{whole + "metric sim_tail: mean "},
			all:  true,
		},
		"low_node": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("whole"), func(s *schemas.JobSummary) {
					m := metricOf(b.t, s, "sim_tail")
					m.LowNode = m.HighNode
				})
			},
			want: []string{whole + "metric sim_tail: low_node "},
			all:  true,
		},
		"low_node_mean": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("whole"), func(s *schemas.JobSummary) {
					*metricOf(b.t, s, "sim_tail").LowNodeMean *= 1 + 1e-6
				})
			},
			want: []string{whole + "metric sim_tail: low_node_mean "},
			all:  true,
		},
		"high_node_mean": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("split"), func(s *schemas.JobSummary) {
					m := metricOf(b.t, s, "sim_tail")
					m.HighNodeMean = m.LowNodeMean
				})
			},
			want: []string{split + "metric sim_tail: high_node_mean "},
			all:  true,
		},
		"mean of a node that reduced its values": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("own-2"), func(s *schemas.JobSummary) {
					m := metricOf(b.t, s, "sim_tail")
					m.HighNodeMean = new(*m.Mean + 1e-9)
				})
			},
			want: []string{
				"weir.job-summary-0 at %: job own-2/0" + at + "metric sim_tail: it is not as its node sent it",
			},
			all: true,
		},
		"metric missing": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("whole"), func(s *schemas.JobSummary) {
					s.Metrics = s.Metrics[1:]
				})
			},
			want: []string{whole + "metric not_simulated: it is missing"},
			all:  true,
		},
		"summary of one node": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("own-2"), func(s *schemas.JobSummary) {
					*metricOf(b.t, s, "sim_tail").Stddev += 1e-15
				})
			},
			want: []string{
				"weir.job-summary-0 at %: job own-2/0" + at + "metric sim_tail: it is not as its node sent it",
			},
			all: true,
		},
		"atom": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("whole"), func(s *schemas.JobSummary) {
					a := metricOf(b.t, s, "sim_tied").Certified.Atoms
					i := slices.IndexFunc(a, func(a schemas.Atom) bool { return a.Count > 1 })
					a[i].Count--
					a[(i+1)%len(a)].Count++
				})
			},
			want: []string{whole + "metric sim_tied: atom "},
			all:  true,
		},
		"order statistic of another rank": {
			change: func(b *bookkept) int64 {
				sorted := b.values("whole", "sim_tail")
				return change(b, schemas.TopicJobSummary, summaryOf("whole"), func(s *schemas.JobSummary) {
					c := metricOf(b.t, s, "sim_tail").Certified
					c.OrderStatistics[5] = sorted[len(sorted)/2]
				})
			},
			want: []string{whole + "metric sim_tail: "},
			all:  true,
		},
		"merged curve that promises too much": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("split"), func(s *schemas.JobSummary) {
					metricOf(b.t, s, "sim_tail").Certified.Eps = 0
				})
			},
			want: []string{split + "metric sim_tail: its certified summary misses a value by "},
			all:  true,
		},
		"curve without order statistics": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("whole"), func(s *schemas.JobSummary) {
					m := metricOf(b.t, s, "sim_tail")
					m.Certified = &schemas.Certified{Eps: float64(m.Count), Knots: []schemas.Knot{
						{Value: (*m.Deciles)[0], Rank: 1}, {Value: (*m.Deciles)[10], Rank: m.Count},
					}}
				})
			},
			want: []string{whole + "metric sim_tail: its certified summary has neither "},
			all:  true,
		},
		"certified summary missing": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("split"), func(s *schemas.JobSummary) {
					metricOf(b.t, s, "sim_tail").Certified = nil
				})
			},
			want: []string{split + "metric sim_tail: it has no certified summary, and collect.sketch is 210"},
			all:  true,
		},
		"certified summary of one node": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("own-2"), func(s *schemas.JobSummary) {
					a := metricOf(b.t, s, "sim_tail").Certified.Atoms
					a[0].Value = math.Nextafter(a[0].Value, math.Inf(-1))
				})
			},
			want: []string{"weir.job-summary-0 at %: job own-2/0" + at + "metric sim_tail: atom "},
			all:  true,
		},
		"summary missing": {
			change: func(b *bookkept) int64 {
				b.drop(schemas.TopicJobSummary, change(b, schemas.TopicJobSummary, summaryOf("whole"), nil))
				return 0
			},
			want: []string{"job whole/0" + at + "it was folded, and topic job-summary lacks its summary"},
			all:  true,
		},
		"summary missing of a split job": {
			change: func(b *bookkept) int64 {
				b.drop(schemas.TopicJobSummary, change(b, schemas.TopicJobSummary, summaryOf("split"), nil))
				return 0
			},
			want: []string{"job split/0" + at + "it was folded, and topic job-summary lacks its summary"},
			all:  true,
		},
		"summary doubled": {
			change: func(b *bookkept) int64 {
				b.double(schemas.TopicJobSummary, change(b, schemas.TopicJobSummary, summaryOf("whole"), nil))
				return int64(len(b.topics[audit.Source{Topic: schemas.TopicJobSummary}]) - 1)
			},
			want: []string{whole + "a second summary of this interval"},
			all:  true,
		},
		"summary that nothing explains": {
			change: func(b *bookkept) int64 {
				return change(b, schemas.TopicJobSummary, summaryOf("whole"), func(s *schemas.JobSummary) {
					s.JobID = "ghost"
				})
			},
			want: []string{
				"job whole/0" + at + "it was folded, and topic job-summary lacks its summary",
				"weir.job-summary-0 at %: job ghost/0" + at + "no Tick lists it",
			},
			all: true,
		},
		"share missing": {
			change: func(b *bookkept) int64 {
				o := change(b, schemas.TopicPartials, func(p *schemas.JobPartial) bool {
					return p.JobID == "split" && p.IntervalStart == wrongStart && p.Collector == 1
				}, nil)
				b.drop(schemas.TopicPartials, o)
				return o
			},
			want: []string{
				"weir.counters-1 at ",
				"job split/0" + at + "it was folded, and topic partials lacks its share",
			},
		},
		"share doubled": {
			change: func(b *bookkept) int64 {
				b.double(schemas.TopicPartials, change(b, schemas.TopicPartials, func(p *schemas.JobPartial) bool {
					return p.JobID == "split" && p.IntervalStart == wrongStart
				}, nil))
				return int64(len(b.topics[audit.Source{Topic: schemas.TopicPartials}]) - 1)
			},
			want: []string{"weir.partials-0 at %: job split/0" + at + "of collector 0: a second share"},
			all:  true,
		},
		"fate miscounted": {
			change: func(b *bookkept) int64 {
				s := b.terms.Counters[2]
				s.Closing.Late++
				b.terms.Counters[2] = s
				return s.Position
			},
			want: []string{"weir.counters-2 at %: late: Progress counts "},
			all:  true,
		},
		"fate of shares miscounted": {
			change: func(b *bookkept) int64 {
				s := b.terms.Merges[0]
				s.Closing.Summarized--
				b.terms.Merges[0] = s
				return s.Position
			},
			want: []string{"weir.partials-0 at %: summarized: Progress counts "},
			all:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := right.clone()
			if b.t = t; c.see != nil {
				b = bookkeep(t, log, c.see)
			}
			offset := int64(0)
			if c.change != nil {
				offset = c.change(b)
			}
			r, _ := b.audited()
			var lines []string
			for _, d := range r.Differences {
				lines = append(lines, d.String())
			}
			for _, want := range c.want {
				want = strings.ReplaceAll(want, "%", strconv.FormatInt(offset, 10))
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
					t.Errorf("the report lacks %q:\n%s", want, strings.Join(lines, "\n"))
				}
			}
			if r.Found == 0 || c.all && len(lines) != len(c.want) {
				t.Errorf("%d lines, want %d:\n%s", len(lines), len(c.want), strings.Join(lines, "\n"))
			}
		})
	}
}

package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/schemas"
)

// rejectOf returns the record that a loop writes about a rejected one.
func rejectOf(topic string, partition int, offset int64, value []byte) *schemas.Reject {
	hash := sha256.Sum256(value)
	return &schemas.Reject{
		Topic: "weir." + topic, Partition: int32(partition), Offset: offset, Reason: "some",
		Hash: hex.EncodeToString(hash[:]), Head: value[:min(len(value), 1024)],
	}
}

// rejectedLog returns a log with records for every reason of rejection, in all partitions. Some are rejected at once,
// some by the Tick that lists their job.
func rejectedLog(t *testing.T, intervals int64) *foldLog {
	t.Helper()
	l := auditedLog(t, intervals)
	r := rand.New(rand.NewPCG(5, 1))
	for p := range l.log {
		var log []*kgo.Record
		for i, rec := range l.log[p] {
			log = append(log, rec)
			v, err := schemas.Unmarshal(rec.Value)
			if err != nil {
				t.Fatal(err)
			}
			b, is := v.(*schemas.CounterBatch)
			if !is || i%7 != 3 {
				continue
			}
			foreign, ahead := *b, *b
			foreign.Cluster = "another"
			ahead.IntervalStart += 3_600_000
			// It comes first, so that the Tick finds it, and rejects it if the job has several nodes.
			local := &schemas.NodeSummary{NodeHeader: b.NodeHeader}
			for _, one := range []schemas.Record{local, &foreign, &ahead} {
				value, err := schemas.Marshal(one)
				if err != nil {
					t.Fatal(err)
				}
				further := *rec
				if further.Value = value; one == schemas.Record(local) {
					log = slices.Insert(log, len(log)-1, &further)
				} else {
					log = append(log, &further)
				}
			}
			broken := *rec
			broken.Value = slices.Concat(rec.Value[:r.IntN(len(rec.Value))], []byte("broken"))
			log = append(log, &broken)
		}
		for o, rec := range log {
			rec.Offset = int64(o)
		}
		l.log[p] = log
	}
	return l
}

// TestAuditOfRejects: each record that the folds reject is on topic rejects, even in a running system. A missing,
// repeated or wrong reject is a difference.
func TestAuditOfRejects(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	all := bookkeep(t, rejectedLog(t, 10), nil)
	report, _ := all.audited()
	for _, d := range report.Differences {
		t.Error(d)
	}
	rejected := int64(0)
	for _, a := range report.Partitions {
		rejected += a.Fates.Rejected
	}
	if report.Rejects != rejected || rejected < 100 {
		t.Errorf("%d of %d rejected records were compared", report.Rejects, rejected)
	}
	r := rand.New(rand.NewPCG(8, 1))
	for range 40 {
		b := all.clone()
		at := []int{r.IntN(len(b.history)), r.IntN(len(b.history)), r.IntN(len(b.history))}
		slices.Sort(at)
		b.end(b.history[at[0]], b.history[at[1]], b.history[at[2]])
		report, _ := b.audited()
		for _, d := range report.Differences {
			t.Error(at, d)
		}
	}
	rejects := audit.Source{Topic: schemas.TopicRejects}
	for name, c := range map[string]struct {
		change func(b *bookkept)
		want   string
	}{
		"missing": {
			func(b *bookkept) { b.topics[rejects] = slices.Delete(b.topics[rejects], 20, 21) },
			"it was rejected, and topic rejects lacks it",
		},
		"doubled": {
			func(b *bookkept) { b.double(schemas.TopicRejects, 20) },
			"no rule rejects this record, or it is a second Reject of it",
		},
		"not to be read": {
			func(b *bookkept) { b.topics[rejects][20].Value = []byte("x") }, "it cannot be read",
		},
		"another hash": {
			func(b *bookkept) {
				b.changeReject(20, func(x *schemas.Reject) { x.Hash = strings.Repeat("0", 64) })
			}, "hash or head is not that of the record",
		},
		"another offset": {
			func(b *bookkept) { b.changeReject(20, func(x *schemas.Reject) { x.Offset = 0 }) },
			"no rule rejects this record, or it is a second Reject of it",
		},
		"another partition": {
			func(b *bookkept) { b.changeReject(20, func(x *schemas.Reject) { x.Partition = 77 }) },
			"weir.counters-77 at ",
		},
	} {
		b := all.clone()
		c.change(b)
		report, _ := b.audited()
		found := slices.ContainsFunc(report.Differences, func(d audit.Difference) bool {
			return d.Kind == audit.KindReject && strings.Contains(d.String(), c.want)
		})
		if !found || report.Found > 2 {
			t.Errorf("%s: want %q, got %v", name, c.want, report.Differences)
		}
	}
	one := all.clone()
	one.terms.Only = 1
	if report, _ := one.audited(); report.Found > 0 || report.Rejects == 0 || report.Rejects >= rejected {
		t.Errorf("of one partition: %d rejects, %v", report.Rejects, report.Differences)
	}
}

// changeReject changes a record of topic rejects.
func (b *bookkept) changeReject(offset int, to func(x *schemas.Reject)) {
	b.t.Helper()
	e := &b.topics[audit.Source{Topic: schemas.TopicRejects}][offset]
	v, err := schemas.Unmarshal(e.Value)
	if err != nil {
		b.t.Fatal(err)
	}
	to(v.(*schemas.Reject))
	e.Value = b.marshal(v)
}

package audit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

func summaryOfJob(job string) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: "c", JobID: job, IntervalStart: 1000, IntervalMs: 1000, Method: schemas.MethodEstimated, Parts: 2,
	}
	for _, name := range []string{"cpu", "mem"} {
		d, lo, hi := make([]float64, 11), make([]float64, 11), make([]float64, 11)
		for k := range d {
			d[k], lo[k], hi[k] = float64(k), float64(k)-0.5, float64(k)+0.5
		}
		s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{
			Name: name, Unit: "1", Scope: schemas.ScopeCore, Count: 30, Nodes: 2, Mean: new(5.0), Stddev: new(1.0),
			NodeStddev: new(0.5), LowNode: new("n1"), HighNode: new("n2"),
			LowNodeMean: new(0.25), HighNodeMean: new(0.75), Deciles: &d, RankError: new(0.1),
			Lo: &lo, Hi: &hi, Certified: &schemas.Certified{
				Eps: 1.5, OrderStatistics: d, Knots: []schemas.Knot{{Value: 2.5, Rank: 7}, {Value: 3.5, Rank: 10}},
			},
		})
	}
	return s
}

// TestRowsOfAFile: a row that is missing, there twice or another one than the topic's is found.
func TestRowsOfAFile(t *testing.T) {
	summaries := []*schemas.JobSummary{summaryOfJob("1"), summaryOfJob("2"), {JobID: "3", IntervalStart: 1000}}
	for name, c := range map[string]struct {
		change func(rows []schemas.Row) []schemas.Row
		want   string
	}{
		"as the topic": {func(rows []schemas.Row) []schemas.Row { return rows }, ""},
		"row missing": {
			func(rows []schemas.Row) []schemas.Row { return rows[1:] },
			"job 1/0: metric cpu: the row is missing",
		},
		"row doubled": {
			func(rows []schemas.Row) []schemas.Row { return append(rows, rows[3]) },
			"job 2/0: metric mem: 1 rows more than the topic has",
		},
		"last row gone": {
			func(rows []schemas.Row) []schemas.Row { return rows[:4] },
			"job 3/0: without metric: the row is missing",
		},
		"decile": {
			func(rows []schemas.Row) []schemas.Row { rows[2].D7 = new(7.25); return rows },
			"job 2/0: metric cpu: column d7 is not as the topic has it",
		},
		"bound": {
			func(rows []schemas.Row) []schemas.Row { rows[2].Hi = rows[2].Lo; return rows },
			"job 2/0: metric cpu: column hi is not as the topic has it",
		},
		"eps": {
			func(rows []schemas.Row) []schemas.Row { rows[2].Eps = new(1.0); return rows },
			"job 2/0: metric cpu: column eps is not as the topic has it",
		},
		"order statistic": {
			func(rows []schemas.Row) []schemas.Row {
				rows[2].OrderStatistics = append(rows[2].OrderStatistics[:10:10], 11)
				return rows
			},
			"job 2/0: metric cpu: column order_statistics is not as the topic has it",
		},
		"knot": {
			func(rows []schemas.Row) []schemas.Row { rows[2].KnotValues[1]++; return rows },
			"job 2/0: metric cpu: column knot_values is not as the topic has it",
		},
		"rank": {
			func(rows []schemas.Row) []schemas.Row { rows[2].KnotRanks[0]++; return rows },
			"job 2/0: metric cpu: column knot_ranks is not as the topic has it",
		},
		"atoms": {
			func(rows []schemas.Row) []schemas.Row { rows[2].AtomValues = []float64{1}; return rows },
			"job 2/0: metric cpu: column atom_values is not as the topic has it",
		},
		"no atoms": {
			func(rows []schemas.Row) []schemas.Row { rows[2].AtomCounts = []int64{}; return rows },
			"job 2/0: metric cpu: column atom_counts is not as the topic has it",
		},
		"mean of a node": {
			func(rows []schemas.Row) []schemas.Row { rows[2].HighNodeMean = new(1.0); return rows },
			"job 2/0: metric cpu: column high_node_mean is not as the topic has it",
		},
		"null": {
			func(rows []schemas.Row) []schemas.Row { rows[2].Mean = nil; return rows },
			"job 2/0: metric cpu: column mean is not as the topic has it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []schemas.Row
			for _, s := range summaries {
				rows = append(rows, s.Rows()...)
			}
			var report Report
			left := newRows(c.change(rows))
			var lines []string
			for _, s := range summaries {
				if _, err := left.Take(s); err != nil {
					lines = append(lines, fmt.Sprintf("job %s/0: %v", s.JobID, err))
				}
			}
			left.Left(&report, &File{Path: "f.parquet"})
			for _, d := range report.Differences {
				lines = append(lines, strings.Replace(d.String(), "f.parquet: -0: ", "", 1))
			}
			got := strings.Join(lines, "\n")
			got = strings.ReplaceAll(got, ": interval 1970-01-01T00:00:01Z", "")
			if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestContiguous: a hole, an overlap and a file that cannot be read are found. Dates that users deleted are no hole.
func TestContiguous(t *testing.T) {
	file := func(date, previous string, start, next int64) File {
		return File{
			Path: date + "/f", Date: date,
			Footer: sink.Footer{
				Topic: "weir.job-summary", Partition: 2, Start: start, Next: next, PreviousDate: previous,
			},
		}
	}
	unreadable := file("2026-11-21", "", 100, 100)
	unreadable.fault = errors.New("no footer")
	for name, c := range map[string]struct {
		files []File
		want  string
	}{
		"contiguous": {
			[]File{file("2026-11-20", "", 0, 100), file("2026-11-21", "2026-11-20", 100, 200)}, "",
		},
		"hole": {
			[]File{file("2026-11-20", "", 0, 90), file("2026-11-21", "2026-11-20", 100, 200)},
			"2026-11-21/f: weir.job-summary-2 at 100: a hole in the chain: offsets 90 to 100 are in no file",
		},
		"overlap": {
			[]File{file("2026-11-20", "", 0, 110), file("2026-11-21", "2026-11-20", 100, 200)},
			"2026-11-21/f: weir.job-summary-2 at 100: it overlaps 2026-11-20/f, which reaches to 110",
		},
		"older date deleted": {
			[]File{file("2026-11-20", "2026-11-19", 0, 90), file("2026-11-21", "2026-11-19", 100, 200)}, "",
		},
		"unreadable": {
			[]File{file("2026-11-20", "", 0, 100), unreadable, file("2026-11-21", "2026-11-20", 150, 200)},
			"2026-11-21/f: weir.job-summary-2 at 100: it cannot be read: no footer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r Report
			r.contiguous(c.files, "2026-11-20")
			got := ""
			for _, d := range r.Differences {
				got += d.String()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

package integration

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/linkedin/goavro/v2"

	"github.com/weirhpc/weir/schemas"
)

// naive is a pipeline as one would write it in an afternoon, for comparison. goavro decodes each record into maps. A
// job's values are collected in slices by metric, slices.Sort sorts them, and goavro writes the result. It does less
// than weir: no certified summaries, no _system, no node means, no checks, no exactly-once.
type naive struct {
	codecs  map[uint64]*goavro.Codec // by fingerprint
	out     *goavro.Codec
	windows map[int64]map[string]map[string][]float64 // values by interval, job and metric
}

const naiveSummary = `{"type": "record", "name": "Summary", "fields": [
	{"name": "job_id", "type": "string"}, {"name": "interval_start", "type": "long"},
	{"name": "metrics", "type": {"type": "array", "items": {"type": "record", "name": "Metric", "fields": [
		{"name": "name", "type": "string"}, {"name": "count", "type": "long"},
		{"name": "mean", "type": "double"}, {"name": "stddev", "type": "double"},
		{"name": "deciles", "type": {"type": "array", "items": "double"}}]}}}]}`

func newNaive() (*naive, error) {
	n := &naive{codecs: map[uint64]*goavro.Codec{}, windows: map[int64]map[string]map[string][]float64{}}
	for _, s := range schemas.All() {
		if s.Name != "weir.v1.CounterBatch" && s.Name != "weir.v1.Tick" {
			continue
		}
		codec, err := goavro.NewCodec(s.Text)
		if err != nil {
			return nil, err
		}
		fingerprint, err := strconv.ParseUint(s.Fingerprint, 16, 64)
		if err != nil {
			return nil, err
		}
		n.codecs[fingerprint] = codec
	}
	var err error
	n.out, err = goavro.NewCodec(naiveSummary)
	return n, err
}

// add takes the next record of a partition, and returns the summaries of the jobs that a Tick closes.
func (n *naive) add(value []byte) (summaries [][]byte, err error) {
	if len(value) < 10 {
		return nil, fmt.Errorf("%d bytes", len(value))
	}
	codec := n.codecs[binary.LittleEndian.Uint64(value[2:])]
	if codec == nil {
		return nil, nil
	}
	native, _, err := codec.NativeFromBinary(value[10:])
	if err != nil {
		return nil, err
	}
	record := native.(map[string]any)
	start := record["interval_start"].(time.Time).UnixMilli()
	jobs, is := record["jobs"].([]any)
	if !is {
		n.gather(start, record)
		return nil, nil
	}
	for _, j := range jobs {
		job := j.(map[string]any)["job_id"].(string)
		summary, err := n.summary(start, job)
		if err != nil {
			return nil, err
		}
		summaries = append(summaries, summary)
	}
	delete(n.windows, start)
	return summaries, nil
}

func (n *naive) gather(start int64, record map[string]any) {
	job := record["job_id"].(string)
	if n.windows[start] == nil {
		n.windows[start] = map[string]map[string][]float64{}
	}
	if n.windows[start][job] == nil {
		n.windows[start][job] = map[string][]float64{}
	}
	columns := n.windows[start][job]
	for _, m := range record["metrics"].([]any) {
		metric := m.(map[string]any)
		name := metric["name"].(string)
		for _, v := range metric["values"].([]any) {
			if v := v.(float64); v-v == 0 {
				columns[name] = append(columns[name], v)
			}
		}
	}
}

func (n *naive) summary(start int64, job string) ([]byte, error) {
	columns := n.windows[start][job]
	metrics := []any{}
	for name, values := range columns {
		slices.Sort(values)
		mean := 0.0
		for _, v := range values {
			mean += v / float64(len(values))
		}
		square := 0.0
		for _, v := range values {
			square += (v - mean) * (v - mean)
		}
		deciles := make([]any, 11)
		for k := range deciles {
			at := float64(len(values)*k)/10 - 1
			i := min(max(int(at), 0), len(values)-1)
			next := values[min(i+1, len(values)-1)]
			deciles[k] = values[i] + max(0, at-float64(i))*(next-values[i])
		}
		metrics = append(metrics, map[string]any{
			"name": name, "count": int64(len(values)), "mean": mean,
			"stddev": math.Sqrt(square / float64(len(values))), "deciles": deciles,
		})
	}
	return n.out.BinaryFromNative(nil, map[string]any{"job_id": job, "interval_start": start, "metrics": metrics})
}

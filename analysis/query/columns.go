package query

// table is a directory of the archive with its columns, which DuckDB names and types so.
type table struct {
	name    string
	columns []column
}

type column struct{ name, kind string }

// columns joins lists of columns.
func columns(lists ...[]column) (all []column) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// of returns columns of one type.
func of(kind string, names ...string) (all []column) {
	for _, n := range names {
		all = append(all, column{n, kind})
	}
	return all
}

// Types of columns. Times are UTC in the files, and TIMESTAMPTZ is how DuckDB reads them.
const (
	text      = "VARCHAR"
	texts     = "VARCHAR[]"
	short     = "INTEGER"
	shorts    = "INTEGER[]"
	long      = "BIGINT"
	longs     = "BIGINT[]"
	double    = "DOUBLE"
	doubles   = "DOUBLE[]"
	timestamp = "TIMESTAMPTZ"
	yesNo     = "BOOLEAN"
)

// tables returns the tables of the archive. New columns come last. TestColumns compares them with the writers' structs.
func tables() []table {
	job := columns(of(text, "cluster", "job_id"), of(short, "restart"))
	metric := of(text, "metric", "unit", "scope")
	deciles := columns(of(double, "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10", "rank_error"),
		of(doubles, "lo", "hi"))
	certified := columns(of(double, "eps"), of(doubles, "order_statistics", "knot_values"), of(longs, "knot_ranks"),
		of(doubles, "atom_values"), of(longs, "atom_counts"))
	nodes := columns(of(text, "low_node"), of(double, "low_node_share"), of(text, "high_node"),
		of(double, "high_node_share"))
	return []table{
		{"summaries", columns(job, of(timestamp, "interval_start"), of(long, "interval_ms"), metric, of(text, "method"),
			of(short, "parts", "parts_reported", "nodes_expected", "nodes_reported", "nodes"),
			of(long, "count", "invalid"), of(double, "mean", "stddev", "node_stddev"),
			of(text, "low_node", "high_node"),
			deciles, certified, of(double, "low_node_mean", "high_node_mean"))},
		{"rollups", columns(job, of(timestamp, "hour"), metric,
			of(long, "intervals", "intervals_measured", "measured_ms", "nodes_expected_sum", "nodes_reported_sum",
				"count", "invalid"),
			of(double, "mean", "stddev", "node_stddev_rms"), nodes, deciles, of(long, "certified_count"), certified,
			of(timestamp, "start", "end"),
			of(texts, "low_nodes"), of(longs, "low_counts"), of(texts, "high_nodes"), of(longs, "high_counts"))},
		{"jobs", columns(job, of(text, "name", "user", "account", "queue"), of(texts, "nodes"), of(short, "node_count"),
			of(shorts, "cpus"), of(long, "cores"), of(short, "gpus"), of(long, "time_limit_s", "mem_requested_bytes"),
			of(yesNo, "exclusive"), of(timestamp, "submit", "start", "end"), of(text, "state", "reason"),
			of(long, "position"), of(text, "array_job"), of(short, "array_task"))},
		{"job_totals", columns(job, metric, of(timestamp, "start", "end"), of(long, "intervals", "intervals_measured"),
			of(double, "measured_s"), of(long, "nodes_expected_sum", "nodes_reported_sum"), of(double, "completeness"),
			of(long, "count", "invalid"), of(double, "mean", "min", "max", "stddev", "node_stddev_rms"), nodes,
			deciles, of(long, "certified_count"), of(yesNo, "final"))},
		{"findings", columns(job, of(text, "rule", "rule_hash", "title", "state", "certainty", "class"),
			of(double, "severity", "worst"), of(timestamp, "first_interval", "last_interval", "as_of"),
			of(long, "interval_ms", "intervals", "evaluated", "matched"), of(text, "node"), of(long, "node_intervals"),
			of(texts, "evidence_names"), of(doubles, "evidence_means", "evidence_lows", "evidence_highs"),
			of(text, "hint", "slurm"), of(long, "position"), of(timestamp, "job_start"))},
		{"nodes", columns(job, of(timestamp, "hour"), metric, of(texts, "nodes"), of(shorts, "intervals"),
			of(longs, "counts"), of(doubles, "means", "mins", "maxs"))},
		{"samples", columns(of(text, "cluster", "node", "job_id"), of(short, "restart"),
			of(timestamp, "interval_start"), of(long, "interval_ms"), metric,
			of(shorts, "cpus"), of(doubles, "values"), of(timestamp, "sampled_at"),
			of(short, "partition"), of(long, "position"))},
	}
}

// Columns returns the columns of a table, each as "name TYPE".
func Columns(name string) (all []string) {
	for _, t := range tables() {
		for _, c := range t.columns {
			if t.name == name {
				all = append(all, c.name+" "+c.kind)
			}
		}
	}
	return all
}

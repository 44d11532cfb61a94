#!/usr/bin/env python3
"""An outside reader: recomputes weir's summaries with other people's libraries and none of weir's code.

    pip install -r integration/outside/requirements.txt
    python3 integration/outside/reader.py weir-data/weir.yaml schemas

Reads counters and job-summary (read committed) and the archive of a running instance, and checks

  - that every interval that was closed for a job has one summary, and every summary is of such an interval;
  - counts, means, deviations and nodes against the values in counters; _system against the nodes and values of all jobs,
    ended ones too;
  - every decile of a metric whose rank_error is 0 against its definition and against numpy's, and that it has no bounds;
    where others have bounds that the true decile lies within;
  - that each file of the archive holds just the rows of its stretch of the topic, once as DuckDB reads it and once as
    pyarrow does, and says of itself what is so; and that the files of a partition leave nothing out.

Give weir a moment to archive what it has summarized: of the last --settle seconds nothing needs to be there. Brokers, TLS
and SASL are as the configuration says, except that the brokers' certificates must bear the names by which they are
reached. Exit status: 0 all is equal, 1 there are differences, or nothing to compare, 2 it could not compare.
"""
import argparse
import collections
import datetime
import glob
import io
import itertools
import json
import os
import re
import sys
import time

import confluent_kafka as ck
import duckdb
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

SHOWN, LONGEST = 20, 1000  # differences, and letters of what tells more

HEAD = ["cluster", "job_id", "restart", "interval_start", "interval_ms", "method", "parts", "parts_reported", "nodes_expected",
        "nodes_reported"]
METRIC = ["name", "unit", "scope", "count", "invalid", "nodes", "mean", "stddev", "node_stddev", "low_node", "high_node", "rank_error"]
CERTIFIED = ["eps", "order_statistics", "knot_values", "knot_ranks", "atom_values", "atom_counts"]  # files of before have none
NODE_MEANS = ["low_node_mean", "high_node_mean"]  # likewise
COLUMNS = HEAD + ["metric"] + METRIC[1:] + ["lo", "hi"] + [f"d{k}" for k in range(11)] + CERTIFIED + NODE_MEANS  # of a row, as it is compared here


class CannotCompare(Exception):
    """The brokers, the configuration or the archive are not there."""


class Differences:
    """What is not as it should be. The run goes on, so that one look shows what differences have in common."""

    def __init__(self):
        self.found = 0

    def expect(self, holds, what, *details):
        if not holds:
            self.found += 1
            if self.found <= SHOWN:
                print("DIFFERENCE:", what, *(str(d)[:LONGEST] for d in details))
        return holds


def configuration(path):
    """What a reader needs of weir's configuration: the client's settings, cluster, prefix and the archive's directory."""
    try:
        with open(path) as f:
            config = yaml.safe_load(f) or {}
        kafka = config["kafka"]
        client = {"bootstrap.servers": ",".join(kafka["brokers"]), "enable.metrics.push": False, "reconnect.backoff.ms": 1000}
        tls, sasl = kafka.get("tls") or {}, kafka.get("sasl") or {}
        if sasl.get("mechanism"):
            with open(sasl["password_file"]) as f:
                client |= {"sasl.mechanism": sasl["mechanism"], "sasl.username": sasl["user"], "sasl.password": f.read().rstrip("\r\n")}
    except (OSError, KeyError, TypeError, yaml.YAMLError) as e:
        raise CannotCompare(f"reading {path}: {type(e).__name__}: {e}") from e
    client["security.protocol"] = ("SASL_" if sasl.get("mechanism") else "") + ("SSL" if tls.get("enabled") else "PLAINTEXT")
    if tls.get("enabled"):
        files = {"ssl.ca.location": "ca_file", "ssl.certificate.location": "cert_file", "ssl.key.location": "key_file"}
        client |= {key: tls[name] for key, name in files.items() if tls.get(name)}
    archive = (config.get("sink") or {}).get("dir", "archive")
    return client, config.get("cluster", "cluster"), config.get("prefix", "weir."), archive + "/summaries"


def schemas(directory):
    table = {}
    for path in sorted(glob.glob(directory + "/*.avsc")):
        with open(path) as f:
            raw = json.load(f)
        key = bytes.fromhex(fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO"))
        table[key] = (raw["name"], parse_schema(raw))
    if not table:
        raise CannotCompare(f"there is no schema in {directory}")
    return table


def decode(table, message):
    """Single-object encoding: two marker bytes, the fingerprint in little-endian order, the body. In the Confluent form the
    fingerprint is in a header, and five bytes are before the body. Anybody may have written it, so it may be anything."""
    value, fingerprints = message.value(), [v for k, v in message.headers() or [] if k == "weir-schema"]
    if value[:1] == b"\0" and len(value) >= 5 and fingerprints:
        value = b"\xc3\x01" + fingerprints[0] + value[5:]
    if value[:2] != b"\xc3\x01" or value[2:10] not in table:
        return None, None
    name, schema = table[value[2:10]]
    body = io.BytesIO(value[10:])
    try:
        record = fastavro.schemaless_reader(body, schema)
    except (EOFError, IndexError, ValueError, OverflowError):
        return None, None
    return (name, record) if not body.read(1) else (None, None)


def read(client, topic):
    """All committed records of a topic, by partition in the order of offsets, and where each partition begins."""
    consumer = ck.Consumer(client | {"group.id": "outside-reader", "isolation.level": "read_committed", "enable.auto.commit": False,
                                     "enable.partition.eof": True})
    try:
        found = consumer.list_topics(topic, timeout=10).topics[topic]
        if found.error:
            raise CannotCompare(f"{topic}: {found.error}")
        begins = {p: consumer.get_watermark_offsets(ck.TopicPartition(topic, p), timeout=10)[0] for p in found.partitions}
        consumer.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in begins])
        ended, records = set(), []
        while len(ended) < len(begins):
            message = consumer.poll(10)
            if message is None:
                raise CannotCompare(f"{topic}: no answer in ten seconds")
            if message.error():
                if message.error().code() != ck.KafkaError._PARTITION_EOF:
                    raise CannotCompare(f"{topic}: {message.error()}")
                ended.add(message.partition())
            else:
                records.append(message)
    except ck.KafkaException as e:
        raise CannotCompare(f"{topic}: {e}") from e
    finally:
        consumer.close()
    return records, begins


def milliseconds(t):
    return round(t.timestamp() * 1000)


def folded(records, begins, table, cluster, met):
    """For each listed (job, restart, interval): the records that its Ticks take, first come first served in each partition.
    By interval: each node that a Tick lists, and whether a record of it was taken. Also the interval from which on the log
    is complete, where its beginning was deleted."""
    windows, machine, complete = {}, collections.defaultdict(dict), 0
    closed, held = collections.defaultdict(lambda: -1), collections.defaultdict(dict)
    for m in records:
        name, r = decode(table, m)
        p = m.partition()
        if name in ("CounterBatch", "NodeSummary") and r["cluster"] == cluster:
            start = milliseconds(r["interval_start"])
            if start > closed[p]:
                r["partition"] = p
                held[p].setdefault((r["node"], start, r["job_id"], r["restart"]), (name, r))
        elif name == "Tick" and milliseconds(r["interval_start"]) > closed[p]:
            start = milliseconds(r["interval_start"])
            if closed[p] < 0 < begins[p]:
                complete = max(complete, start + r["interval_ms"])
            whole, nodes = windows.setdefault(("_system", 0, start), []), machine[start]
            listed = collections.Counter(n for j in r["jobs"] for n in j["nodes"])
            met["nodes with several jobs"] += sum(times > 1 for times in listed.values())
            met["nodes of several collectors"] += len(listed.keys() & nodes.keys())
            nodes.update((n, False) for n in listed if n not in nodes)
            for j in r["jobs"]:
                found = (held[p].pop((n, start, j["job_id"], j["restart"]), None) for n in j["nodes"])
                here = [f for f in found if f and f[1]["interval_ms"] == r["interval_ms"] and
                        (f[0] == "CounterBatch" or j["job_nodes"] == 1)]
                whole.extend(here)
                nodes.update((f[1]["node"], True) for f in here)
                if j["parts"]:
                    windows.setdefault((j["job_id"], j["restart"], start), []).extend(here)
                else:
                    met["records of ended jobs"] += len(here)
            if r["more"]:
                met["Ticks in parts"] += 1
                continue
            closed[p] = start
            held[p] = {k: v for k, v in held[p].items() if k[1] > start}
    return windows, machine, complete


def decile(x, k):
    """Hyndman and Fan's type 4, with the rank in integers."""
    j, tenths = divmod(len(x) * k, 10)
    if j < 1 or j >= len(x):
        return x[0] if j < 1 else x[-1]
    return x[j - 1] + tenths / 10 * (x[j] - x[j - 1])


def finite(record, metric):
    """A record's valid values of a metric, and how many are not valid. A NodeSummary says its values where they are few;
    else it is None in their place."""
    values, invalid = [], 0
    for m in record["metrics"]:
        if m["name"] != metric:
            continue
        if "values" in m:
            values += m["values"]
            continue
        invalid += m["invalid"]
        atoms = m["certified"]["atoms"]
        if m["count"] and not atoms:
            return None, invalid
        values += [a["value"] for a in atoms for _ in range(a["count"])]
    values = np.array(values, float)
    return values[np.isfinite(values)], invalid + int(np.sum(~np.isfinite(values)))


def check_certified(differences, c, x, where, met):
    """A certified summary of the sorted values x, by what its fields promise."""
    if c is None:
        return  # collect.sketch is 0
    if c["atoms"]:
        values, counts = np.unique(x, return_counts=True)
        said = [(a["value"], a["count"]) for a in c["atoms"]]
        differences.expect(said == list(zip(values.tolist(), counts.tolist())), "atoms", where, c)
        met["certified summaries that are all values"] += 1
        return
    n, order = len(x), c["order_statistics"]
    points = {min(max(n * k // 10, 1), n): v for k, v in enumerate(order)} | {k["rank"]: k["value"] for k in c["knots"]}
    ranks = np.array(sorted(points))
    curve = np.array([points[r] for r in ranks])
    if not differences.expect(ranks[0] == 1 and ranks[-1] == n and np.all(np.diff(curve) >= 0), "knots", where, c):
        return
    exact = x[ranks - 1] == curve
    differences.expect(exact.all() if order else exact[0] and exact[-1], "values at their ranks", where, c)
    values = np.unique(x)
    first, last = np.searchsorted(x, values) + 1, np.searchsorted(x, values, side="right")
    left, right = np.searchsorted(curve, values), np.searchsorted(curve, values, side="right")  # the points around a value
    on = left < right
    a, b = np.maximum(left - 1, 0), np.minimum(left, len(curve) - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        between = ranks[a] + (values - curve[a]) / (curve[b] - curve[a]) * (ranks[b] - ranks[a])
    below, above = np.where(on, ranks[b], between), np.where(on, ranks[np.maximum(right - 1, 0)], between)
    off = max(np.abs(below - first).max(), np.abs(last - above).max())
    differences.expect(off <= c["eps"] + 1e-3, "eps", where, c, off)
    met["certified summaries by 11 ranks" if order else "certified summaries of merges"] += 1


def check_metric(differences, method, m, taken, reported, where, met):
    """One metric of a summary. Counts how many deciles were compared with the true ones."""
    exact = m["rank_error"] == 0
    if m["count"]:
        differences.expect(exact == (m["lo"] is None) == (m["hi"] is None) and (exact or m["lo"] != m["hi"]), "rank_error, lo, hi", where, m)
        differences.expect(exact or method == "ESTIMATED", "rank_error", where, m)
        met["exact metrics of estimates"] += exact and method == "ESTIMATED"
    by_node = {(r["node"], r["job_id"], r["restart"], r["partition"]): finite(r, m["name"]) for r in taken}
    if any(v is None for v, _ in by_node.values()):
        return  # only their node knows the values
    x = np.sort(np.concatenate([v for v, _ in by_node.values()]))
    differences.expect((m["count"], m["invalid"]) == (len(x), sum(n for _, n in by_node.values())), "count, invalid", where, m)
    if not len(x):
        nothing = ("mean", "stddev", "node_stddev", "deciles", "low_node", "high_node", *NODE_MEANS, "rank_error", "lo", "hi", "certified")
        differences.expect(all(m[k] is None for k in nothing) and m["nodes"] == 0, "values of nothing", where, m)
        met["metrics without a value"] += 1
        return
    if not differences.expect(m["deciles"] is not None and len(m["deciles"]) == 11 and m["mean"] is not None, "no deciles", where, m):
        return
    check_certified(differences, m["certified"], x, where, met)
    size = np.abs(x).max()  # what rounding is measured by
    same = lambda a, b: np.isclose(a, b, rtol=1e-9, atol=1e-12 * size)
    differences.expect(same(m["mean"], x.mean()) and same(m["stddev"], x.std()), "mean, stddev", where, m, x.mean(), x.std())
    means = {node: v.mean() for node, (v, _) in by_node.items() if len(v)}
    nodes = min(len({(at[0], at[3]) for at in means}), reported)  # collectors count the nodes that they share each for itself
    differences.expect(m["nodes"] == nodes and same(m["node_stddev"], np.std(list(means.values()))), "nodes, node_stddev", where, m)
    for key, extreme in (("low_node", min), ("high_node", max)):
        differences.expect(any(same(mean, extreme(means.values())) for at, mean in means.items() if at[0] == m[key]), key, where, m, means)
        differences.expect(same(m[f"{key}_mean"], extreme(means.values())), f"{key}_mean", where, m, means)
    true = [float(decile(x, k)) for k in range(11)]
    numpys = np.quantile(x, np.arange(11) / 10, method="interpolated_inverted_cdf")  # finds ranks in floating point
    differences.expect(np.allclose(true, numpys, rtol=1e-13, atol=1e-13 * np.ptp(x)), "the definition and numpy disagree", true, numpys)
    if exact:
        differences.expect(m["deciles"] == true, "deciles", where, m, true)
        met["exact deciles"] += 11
        return
    d = m["deciles"]
    differences.expect(d[0] == true[0] and d[10] == true[10] and d == sorted(d), "minimum, maximum, order", where, d, true)
    if not differences.expect(m["lo"] and m["hi"] and m["rank_error"] is not None, "an estimate without bounds", where, m):
        return
    differences.expect(all(a <= t <= b for a, t, b in zip(m["lo"], true, m["hi"], strict=True)), "bounds", where, m, true)
    met["bounds"] += 11


def check_summaries(differences, summaries, windows, machine, met):
    """Compares summaries with the log. Returns how many there are by method."""
    methods, seen = collections.Counter(), set()
    for s in summaries:
        window = s["job_id"], s["restart"], milliseconds(s["interval_start"])
        where = f"{s['method']} {window}:"
        differences.expect(window not in seen, where, "is there twice")
        seen.add(window)
        methods[s["method"]] += 1
        if not differences.expect(window in windows, where, "no Tick lists it"):
            continue
        names, taken = [name for name, _ in windows[window]], [r for _, r in windows[window]]
        reported = len(taken)
        if s["job_id"] == "_system":
            nodes = machine[window[2]]
            reported = sum(nodes.values())
            differences.expect(s["nodes_expected"] == len(nodes), where, "nodes of the machine", s, len(nodes))
        differences.expect(s["nodes_reported"] == reported and s["parts_reported"] == s["parts"], where, "nodes or parts", s, reported)
        merged = s["parts"] > 1 or s["job_id"] == "_system"
        reduced = names == ["NodeSummary"] and not merged
        # A merge is EXACT where the shares' values were few enough to be said one by one.
        method = "NODE" if reduced else "ESTIMATED" if not s["metrics"] else s["method"] if merged else "EXACT"
        met["summaries without metrics"] += not s["metrics"]
        differences.expect(s["method"] == method and not (merged and method == "NODE"), where, f"is {method}")
        if reduced:  # the node's own values are in no topic
            # Its certified summaries are left out, or cut, where collect.sketch says so.
            shown = lambda metrics: [{k: v for k, v in m.items() if k not in ("certified", *NODE_MEANS)} for m in metrics]
            said = taken[0]["metrics"]
            # It is the only node, and so the lowest and the highest.
            means = all(m[mean] == (None if m[node] is None else m["mean"])
                        for m in s["metrics"] for node, mean in zip(("low_node", "high_node"), NODE_MEANS))
            differences.expect(means, where, "the means of its node", s["metrics"])
            differences.expect(shown(s["metrics"]) == shown(said), where, "not what the node says", s["metrics"], said)
            same = [a["certified"] in (None, b["certified"]) for a, b in zip(s["metrics"], said) if b["count"]]
            met["certified summaries of nodes"] += sum(same)
            continue
        metrics = {m["name"] for r in taken for m in r["metrics"]}
        differences.expect(sorted(m["name"] for m in s["metrics"]) == sorted(metrics), where, "metrics are not", metrics)
        for m in s["metrics"]:
            if m["name"] in metrics:
                check_metric(differences, method, m, taken, reported, where, met)
    for window in windows.keys() - seen:
        differences.expect(False, "no summary", window)
    return methods


def rows_of(s):
    """The rows of one summary, in the order of COLUMNS."""
    head = [milliseconds(s[c]) if c == "interval_start" else s[c] for c in HEAD]
    if not s["metrics"]:
        return [tuple(head + [None] * (len(COLUMNS) - len(HEAD)))]
    listed = lambda v: None if v is None else tuple(v)

    def certified(c):
        if c is None:
            return [None] * len(CERTIFIED)
        lists = [c["order_statistics"], *([p[k] for p in c[of]] for of, k in (("knots", "value"), ("knots", "rank"), ("atoms", "value"), ("atoms", "count")))]
        return [c["eps"], *(tuple(v) or None for v in lists)]

    return [(*head, *(m[c] for c in METRIC), listed(m["lo"]), listed(m["hi"]), *(m["deciles"] or [None] * 11), *certified(m["certified"]),
             *(m[c] for c in NODE_MEANS))
            for m in s["metrics"]]


class File:
    """One file of the archive as pyarrow sees it."""

    def __init__(self, path):
        self.path = path
        date, partition, start = re.search(r"date=([0-9-]+)/.*-(\d+)-(\d{20})\.parquet$", path).groups()
        self.date, self.partition, self.start = date, int(partition), int(start)
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            self.metadata = parquet.metadata
            self.table = parquet.read()
        said = {k.decode(): v.decode() for k, v in (self.metadata.metadata or {}).items() if k.startswith(b"weir.")}
        self.said, self.next, self.gap = said, int(said["weir.next"]), said.get("weir.gap") == "true"

    def rows(self):
        table = self.table.set_column(self.table.schema.get_field_index("interval_start"), "interval_start",
                                      self.table["interval_start"].cast(pa.int64()))
        there = set(table.column_names)
        columns = [[tuple(v) if isinstance(v, list) else v for v in table[c].to_pylist()] if c in there else [None] * len(table) for c in COLUMNS]
        return list(zip(*columns, strict=True))


def check_file(differences, f):
    """What a file says of itself, in its name, its footer and its statistics, against what is in it."""
    starts = f.table["interval_start"]
    differences.expect(starts.type == pa.timestamp("ms", tz="UTC"), f.path, "interval_start is of type", starts.type)
    values = starts.cast(pa.int64()).to_pylist()
    dates = {datetime.datetime.fromtimestamp(v / 1000, datetime.UTC).date().isoformat() for v in values}
    differences.expect(dates <= {f.date}, f.path, "has rows of", dates)
    said = f.said | {"rows": f.metadata.num_rows}
    ends = [str(min(values)), str(max(values))] if values else [None, None]
    differences.expect([f.said.get("weir.start"), f.said.get("weir.partition"), f.said.get("weir.rows"), f.said.get("weir.first_interval"),
                        f.said.get("weir.last_interval")] == [str(f.start), str(f.partition), str(len(values)), *ends], f.path, "says", said)
    row = 0
    for g in range(f.metadata.num_row_groups):
        group = f.metadata.row_group(g)
        for c in range(group.num_columns):
            column = group.column(c)
            if column.path_in_schema != "interval_start" or not group.num_rows:
                continue
            differences.expect(column.statistics is not None and column.statistics.has_min_max, f.path, "has no statistics in row group", g)
            part, s = values[row:row + group.num_rows], column.statistics
            if s is not None:
                differences.expect([milliseconds(s.min), milliseconds(s.max)] == [min(part), max(part)], f.path, "statistics of row group", g, s)
        row += group.num_rows


def open_archive(archive):
    files = []
    for path in sorted(glob.glob(archive + "/date=*/*.parquet")):
        try:
            files.append(File(path))
        except (pa.ArrowException, OSError, KeyError, ValueError, AttributeError) as e:
            raise CannotCompare(f"reading {path}: {type(e).__name__}: {e}") from e
    return files


def duckdb_rows(paths):
    files = "read_parquet($paths, hive_partitioning = false, union_by_name = true)"
    there = {name for name, *_ in duckdb.execute(f"describe from {files}", {"paths": paths}).fetchall()}
    columns = ", ".join("epoch_ms(interval_start)" if c == "interval_start" else c if c in there else "null" for c in COLUMNS)
    found = duckdb.execute(f"select {columns} from {files}", {"paths": paths}).fetchall()
    return [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in found]


def check_archive(differences, files, summaries, begins, before):
    """Compares each file with its stretch of the topic. summaries are pairs of message and record, None where it is none of
    ours. Returns how many rows and files were compared, and how many rows are older than the topic."""
    by_partition = collections.defaultdict(list)
    for f in files:
        by_partition[f.partition].append(f)
        check_file(differences, f)
    for chain in by_partition.values():
        chain.sort(key=lambda f: f.start)
        for a, b in itertools.pairwise(chain):
            differences.expect(a.next == b.start, a.path, f"ends at {a.next}, and the next begins at {b.start}")
    expected = collections.defaultdict(list)  # by path
    for m, s in summaries:
        home = next((f for f in by_partition[m.partition()] if f.start <= m.offset() < f.next), None)
        if home is not None:
            expected[home.path] += [] if s is None else rows_of(s)
        else:
            differences.expect(s is None or milliseconds(s["interval_start"]) >= before, "no file has", m.partition(), m.offset())
    compared = [f for f in files if not f.gap and f.start >= begins[f.partition]]
    for f in compared:
        compare_rows(differences, expected[f.path], f.rows(), f"pyarrow, {f.path}")
    want = [row for f in compared for row in expected[f.path]]
    if compared:
        compare_rows(differences, want, duckdb_rows([f.path for f in compared]), "DuckDB")
    return len(want), len(compared), sum(f.metadata.num_rows for f in files) - sum(f.metadata.num_rows for f in compared)


def compare_rows(differences, want, got, by):
    want, got = collections.Counter(want), collections.Counter(got)
    for row, n in ((want - got) + (got - want)).items():
        differences.expect(False, f"{by}: {want[row]} times in the topic, {got[row]} in the archive:", dict(zip(COLUMNS, row)), f"({n})")


def compare(args, differences):
    client, cluster, prefix, archive = configuration(args.config)
    table = schemas(args.schemas)
    before = int((time.time() - args.settle) * 1000)
    files = open_archive(archive)  # first: what comes now is in the topic for sure
    counters, begins = read(client, prefix + "counters")
    met = collections.Counter()  # how often each rule was checked
    windows, machine, complete = folded(counters, begins, table, cluster, met)
    messages, begins = read(client, prefix + "job-summary")
    summaries = []
    for m in messages:
        name, s = decode(table, m)
        summaries.append((m, s if name == "JobSummary" and s["cluster"] == cluster else None))
    settled = lambda start: complete <= start < before
    kept = {w: taken for w, taken in windows.items() if settled(w[2])}
    chosen = [s for _, s in summaries if s and settled(milliseconds(s["interval_start"]))]
    methods = check_summaries(differences, chosen, kept, machine, met)
    rows, compared, older = check_archive(differences, files, summaries, begins, before)
    print(f"compared {methods.total()} summaries ({', '.join(f'{n} {m}' for m, n in sorted(methods.items()))}) with {len(counters)} records of "
          f"counters, {met.pop('exact deciles', 0)} exact deciles and {met.pop('bounds', 0)} bounds, and {rows} rows of {compared} files with the topic, "
          f"by DuckDB and by pyarrow; {older} rows are older than the topic; {differences.found} differences")
    print("met: " + ", ".join(f"{n} {rule}" for rule, n in sorted(met.items()) if n))
    differences.expect(methods.total() and rows, "nothing was compared")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("config", help="weir's configuration")
    args.add_argument("schemas", help="directory of the .avsc files")
    args.add_argument("--settle", type=float, default=20, help="seconds that an interval may take to be archived (default 20)")
    differences = Differences()
    try:
        compare(args.parse_args(), differences)
    except CannotCompare as e:
        print(f"cannot compare: {e}", file=sys.stderr)
        sys.exit(2)
    sys.exit(1 if differences.found else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs the queries and programs of docs/queries.md, and recomputes their answers from values, without weir's code.

    queries.py empty VIEWS                   every view answers where the archive has no jobs, totals and rollups
    queries.py tables ARCHIVE TRUTH          writes the tables that the archive lacks
    queries.py page PAGE VIEWS TRUTH         runs the page's queries and programs
    queries.py report PAGE VIEWS ROWS TRUTH  compares the rows of `weir report system` with the page's queries
    queries.py files VIEWS TRUTH             a job's macro and a month's query open the files of their dates alone

Exit status: 0 all is equal, 1 there are differences.
"""
import collections
import datetime
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOUR, DAY, MONTH = 3_600_000, 86_400_000, datetime.date(2026, 1, 1)
UTC = datetime.timezone.utc
INTERVAL = 60_000
differences = 0


def differ(*what):
    global differences
    differences += 1
    print("DIFFERENCE:", *what)


def date_of(ms):
    return datetime.datetime.fromtimestamp(ms / 1000, UTC).date()


class Total:
    """A metric of some intervals, from its values. An interval is (start, {node: values}, nodes expected)."""

    def __init__(self, intervals):
        self.intervals = len(intervals)
        intervals = [i for i in intervals if any(i[1].values())]
        self.values = np.sort(np.concatenate([np.zeros(0)] + [np.array(v) for i in intervals for v in i[1].values()]))
        self.measured = len(intervals)
        self.count = len(self.values)
        if not self.count:
            return
        self.mean, self.stddev = math.fsum(self.values) / self.count, float(np.std(self.values))
        means = [{node: np.mean(v) for node, v in i[1].items()} for i in intervals]
        self.rms = math.sqrt(np.mean([np.var(list(m.values())) for m in means]))
        self.low = collections.Counter(min(m, key=lambda n: (m[n], n)) for m in means)
        self.high = collections.Counter(min(m, key=lambda n: (-m[n], n)) for m in means)
        self.deciles = [float(np.quantile(self.values, k / 10, method="interpolated_inverted_cdf")) for k in range(11)]


def most(counter):
    """The node that occurs most often, the least name of several, and its share."""
    node = min(counter, key=lambda n: (-counter[n], n))
    return node, counter[node] / sum(counter.values())


class Within(float):
    """A true value. The answer is a value, and two bounds that hold both."""


class Truth:
    def __init__(self, path):
        self.jobs = json.load(open(path))
        for j in self.jobs:
            j["core_hours"] = j["cores"] * (j["end"] - j["start"]) / HOUR
            j["duration_s"] = (j["end"] - j["start"]) / 1000
            j["size_class"] = 1 << (j["cores"] - 1).bit_length()
            j["key"] = (j["job_id"], j["restart"])

    def intervals(self, job, metric):
        return [(job["start"] + k * INTERVAL, i[metric], len(job["nodes"]))
                for k, i in enumerate(job["values"] or [])]

    def total(self, job, metric):
        return Total(self.intervals(job, metric))

    def measured(self):
        return [j for j in self.jobs if j["values"]]

    def of(self, job_id):
        return [j for j in self.jobs if j["job_id"] == job_id]


def write(archive, table, name, rows, schema):
    """Writes rows by their key date, unless weir has written the table."""
    if os.path.exists(f"{archive}/{table}"):
        return
    by_date = collections.defaultdict(list)
    for r in rows:
        by_date[r.pop("date")].append(r)
    for date, of in by_date.items():
        os.makedirs(f"{archive}/{table}/date={date}", exist_ok=True)
        pq.write_table(pa.Table.from_pylist(of, schema=schema), f"{archive}/{table}/date={date}/{name}.parquet")


def fields(**kinds):
    types = {"text": pa.string(), "short": pa.int32(), "long": pa.int64(), "double": pa.float64(), "yes": pa.bool_(),
             "time": pa.timestamp("ms", "UTC"), "texts": pa.list_(pa.string()), "shorts": pa.list_(pa.int32()),
             "doubles": pa.list_(pa.float64()), "longs": pa.list_(pa.int64()), "instant": pa.timestamp("us", "UTC")}
    return pa.schema([(name, types[kind]) for names, kind in kinds.items() for name in [names]])


JOBS = dict(cluster="text", job_id="text", restart="short", name="text", user="text", account="text", queue="text",
            nodes="texts", node_count="short", cpus="shorts", cores="long", gpus="short", time_limit_s="long",
            mem_requested_bytes="long", exclusive="yes", submit="time", start="time", end="time", state="text",
            reason="text", position="long")
DECILES = [f"d{k}" for k in range(11)]
TOTALS = dict(cluster="text", job_id="text", restart="short", metric="text", unit="text", scope="text", start="time",
              end="time", intervals="long", intervals_measured="long", measured_s="double", nodes_expected_sum="long",
              nodes_reported_sum="long", completeness="double", count="long", invalid="long", mean="double",
              min="double", max="double", stddev="double", node_stddev_rms="double", low_node="text",
              low_node_share="double", high_node="text", high_node_share="double", **{d: "double" for d in DECILES},
              rank_error="double", lo="doubles", hi="doubles", certified_count="long", final="yes")


SAMPLES = dict(cluster="text", node="text", job_id="text", restart="short", interval_start="time", interval_ms="long",
               metric="text", unit="text", scope="text", cpus="shorts", values="doubles", sampled_at="instant",
               partition="short", position="long")


NODES = dict(cluster="text", job_id="text", restart="short", hour="time", metric="text", unit="text", scope="text",
             nodes="texts", intervals="shorts", counts="longs", means="doubles", mins="doubles", maxs="doubles")


FINDINGS = dict(cluster="text", job_id="text", restart="short", rule="text", rule_hash="text", title="text", state="text",
                certainty="text", **{"class": "text"}, severity="double", worst="double", first_interval="time",
                last_interval="time", as_of="time", interval_ms="long", intervals="long", evaluated="long",
                matched="long", node="text", node_intervals="long", evidence_names="texts", evidence_means="doubles",
                evidence_lows="doubles", evidence_highs="doubles", hint="text", slurm="text", position="long")

UNITS = {"mem_used": ("B", "node"), "peak_share_flops": ("1", "node"), "bytes_per_cycle": ("B", "socket"),
         "disk_bytes": ("B/s", "node")}


def class_of(severity):
    return "LOW" if severity < 1 / 3 else "MED" if severity < 2 / 3 else "HIGH"


def finding_row(job, rule, severity):
    first, last, n = job["start"] + INTERVAL, job["end"] - INTERVAL, len(job["values"])
    return dict(
        date=date_of(job["end"]), cluster="c", job_id=job["job_id"], restart=job["restart"], rule=rule, rule_hash="0" * 16,
        title=rule, state="OPEN", certainty="CERTAIN", **{"class": class_of(severity)}, severity=severity, worst=severity,
        first_interval=first, last_interval=last, as_of=last, interval_ms=INTERVAL, intervals=n, evaluated=n - 2,
        matched=n - 2, node=None, node_intervals=0, evidence_names=["cpu_idle.mean"], evidence_means=[0.5],
        evidence_lows=[0.4], evidence_highs=[0.6], hint="", slurm="", position=0)


def total_row(truth, job, metric):
    t = truth.total(job, metric)
    low, high = most(t.low), most(t.high)
    expected = t.intervals * len(job["nodes"])
    reported = sum(len(i[1]) for i in truth.intervals(job, metric))
    unit, scope = UNITS.get(metric, ("1", "core"))
    return dict(
        date=date_of(job["end"]), cluster="c", job_id=job["job_id"], restart=job["restart"], metric=metric, unit=unit,
        scope=scope, start=job["start"], end=job["end"], intervals=t.intervals, intervals_measured=t.measured,
        measured_s=t.measured * INTERVAL / 1000, nodes_expected_sum=expected, nodes_reported_sum=reported,
        completeness=reported / expected, count=t.count, invalid=0, mean=t.mean, min=t.values[0], max=t.values[-1],
        stddev=t.stddev, node_stddev_rms=t.rms, low_node=low[0], low_node_share=low[1], high_node=high[0],
        high_node_share=high[1], **dict(zip(DECILES, t.deciles)), rank_error=0.0, lo=None, hi=None,
        certified_count=t.count, final=True)


def node_hours(truth, job):
    """The intervals of cpu_user of each node in each hour."""
    hours = collections.defaultdict(lambda: collections.defaultdict(list))
    for start, nodes, _ in truth.intervals(job, "cpu_user"):
        for node, values in nodes.items():
            hours[start // HOUR * HOUR][node].append(values)
    return hours


def node_row(job, hour, of):
    names = sorted(of)
    flat = [[v for values in of[n] for v in values] for n in names]
    return dict(
        date=date_of(hour), cluster="c", job_id=job["job_id"], restart=job["restart"], hour=hour, metric="cpu_user",
        unit="1", scope="core", nodes=names, intervals=[len(of[n]) for n in names], counts=[len(v) for v in flat],
        means=[sum(v) / len(v) for v in flat], mins=[min(v) for v in flat], maxs=[max(v) for v in flat])


def tables(archive, truth):
    write(archive, "jobs", "jobs", [dict(
        date=date_of(j["end"]), cluster="c", name="job " + j["job_id"], node_count=len(j["nodes"]), cpus=None, gpus=0,
        exclusive=None, state="COMPLETED", reason="", position=0,
        **{k: j[k] for k in ("job_id", "restart", "user", "account", "queue", "nodes", "cores", "time_limit_s",
                             "mem_requested_bytes", "submit", "start", "end")}) for j in truth.jobs], fields(**JOBS))
    write(archive, "job_totals", "totals", [total_row(truth, j, m) for j in truth.measured() for m in j["values"][0]],
          fields(**TOTALS))
    write(archive, "findings", "findings", [finding_row(j, *f) for j in truth.jobs for f in sorted((j["findings"] or {}).items())],
          fields(**FINDINGS))
    write(archive, "samples", "samples", [dict(
        date=date_of(start), cluster="c", node=node, job_id=j["job_id"], restart=j["restart"], interval_start=start,
        interval_ms=INTERVAL, metric="cpu_user", unit="1", scope="core", cpus=list(range(len(v))), values=v,
        sampled_at=1000 * (start + INTERVAL), partition=0, position=0) for j in truth.measured()
        for start, nodes, _ in truth.intervals(j, "cpu_user") for node, v in nodes.items()], fields(**SAMPLES))
    write(archive, "nodes", "nodes", [node_row(j, hour, of) for j in truth.measured()
                                      for hour, of in sorted(node_hours(truth, j).items())], fields(**NODES))
    for date in os.listdir(f"{archive}/rollups"):
        path = f"{archive}/rollups/{date}/rollups.parquet"
        file = pq.ParquetFile(path)
        rollups = file.read()
        if "low_nodes" in rollups.column_names:
            continue
        lists = {"low_nodes": [], "low_counts": []}
        for r in rollups.select(["job_id", "restart", "metric", "hour"]).to_pylist():
            hour, job = int(r["hour"].timestamp() * 1000), [j for j in truth.jobs if j["key"] == (r["job_id"], r["restart"])]
            low = Total([i for i in truth.intervals(job[0], r["metric"]) if i[0] // HOUR == hour // HOUR]).low if job else {}
            lists["low_nodes"].append(list(low))
            lists["low_counts"].append([low[n] for n in low])
        for name, of in lists.items():
            rollups = rollups.append_column(name, [of])
        pq.write_table(rollups, path)


def connect(views):
    con = duckdb.connect()
    con.execute(open(views).read())
    return con


def ask(con, query):
    return con.sql(query).to_arrow_table().to_pylist()


def equal(got, want):
    if isinstance(want, float) and got is not None:
        return math.isclose(float(got), want, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(want, datetime.timedelta):
        return (got.days * 86400 + got.nanoseconds / 1e9) == want.total_seconds()
    return got == want


def compare(name, got, want):
    if len(got) != len(want):
        return differ(name, len(got), "rows, recomputed", len(want))
    for g, w in zip(got, want):
        if isinstance(w[-1], Within):
            value, least, most = list(g.values())[-3:]
            if not least - 1e-9 <= min(value, w[-1]) <= max(value, w[-1]) <= most + 1e-9 or most - least > 0.1:
                differ(name, list(g.values()), "recomputed", w)
            continue
        if len(g) != len(w) or not all(equal(a, b) for a, b in zip(g.values(), w)):
            return differ(name, list(g.values()), "recomputed", w)


# What each query of the page answers, in the page's order. A row is a list of its columns.
def whole_life(t):
    return [[j["job_id"], j["restart"], j["user"], m, UNITS.get(m, "1")[0], s.count, s.mean,
             float(s.values[0]), float(s.values[-1]), s.stddev, most(s.low)[0], most(s.high)[0]]
            for j in sorted(t.of("4711"), key=lambda j: j["restart"]) for m in sorted(j["values"][0])
            for s in [t.total(j, m)]]


def distribution(t):
    first = [j for j in t.of("4711") if j["restart"] == 0][0]
    return [[k, Within(d)] for k, d in enumerate(t.total(first, "cpu_user").deciles)]


def over_time(t):
    rows = []
    for j in t.of("4711"):
        for i in t.intervals(j, "cpu_user"):
            s = Total([i])
            rows.append([i[0] / 1000, s.mean, s.deciles[5], s.deciles[9] - s.deciles[1], most(s.low)[0]])
    return sorted(rows)


def side_by_side(t):
    return sorted([i[0] / 1000, Total([i]).mean, Total([m]).mean] for j in t.of("4711")
                  for i, m in zip(t.intervals(j, "cpu_idle"), t.intervals(j, "mem_used")))


def kernel_and_disk(t):
    return sorted([i[0] / 1000, Total([i]).mean, Total([m]).mean] for j in t.of("4711")
                  for i, m in zip(t.intervals(j, "cpu_system"), t.intervals(j, "disk_bytes")))


def hour_by_hour(t):
    hours = collections.defaultdict(list)
    for j in t.of("4711"):
        for i in t.intervals(j, "cpu_user"):
            hours[i[0] // HOUR, j["restart"]].append(i)
    rows = [[float(h[0] * 3600), Total(hours[h]).count, Total(hours[h]).mean] for h in sorted(hours)]
    return [r + [min(r[2] for r in rows)] for r in rows]


def core_by_core(t):
    at = 1000 * datetime.datetime(2026, 1, 4, 23, 10, tzinfo=UTC).timestamp()
    return [[node, cpu, v] for j in t.of("4711") for i in t.intervals(j, "cpu_user") if i[0] == at
            for node in sorted(i[1]) for cpu, v in enumerate(i[1][node])]


def by_node(t):
    of = collections.defaultdict(list)
    for j in t.of("4711"):
        for _, nodes, _ in t.intervals(j, "cpu_user"):
            for node, values in nodes.items():
                of[node] += values
    rows = [[node, sum(v) / len(v), max(v)] for node, v in of.items()]
    return sorted(rows, key=lambda r: (r[1], r[0]))


def weighted(t, jobs):
    totals = [t.total(j, "cpu_user") for j in jobs]
    return math.fsum(s.count * s.mean for s in totals) / sum(s.count for s in totals)


def groups(jobs, key):
    by = collections.defaultdict(list)
    for j in jobs:
        by[key(j)].append(j)
    return by


def by_user(t):
    rows = [[user, len(js), sum(j["cores"] * j["duration_s"] for j in js) / 3600, weighted(t, js)]
            for user, js in groups(t.measured(), lambda j: j["user"]).items()]
    return sorted(rows, key=lambda r: r[3])


def by_account(t):
    return [[a, MONTH, len(js), weighted(t, js)] for a, js in sorted(groups(t.measured(), lambda j: j["account"]).items())]


def means(t, jobs, metric="cpu_user"):
    return [t.total(j, metric).mean for j in jobs]


def selected(t):
    return [j for j in t.measured() if j["cores"] >= 8 and j["duration_s"] > 600
            and j["queue"] not in ("test", "devel", "debug")]


def quartiles(values):
    return [float(np.quantile(values, q)) for q in (0.25, 0.5, 0.75)] + [float(np.mean(values))]


def peak_by_size(t):
    return [[size, len(js), math.fsum(j["core_hours"] for j in js), *quartiles(means(t, js, "peak_share_flops"))]
            for size, js in sorted(groups(selected(t), lambda j: j["size_class"]).items())]


def bytes_per_cycle(t):
    rows = [[j["size_class"], *j["key"], j["user"], t.total(j, "bytes_per_cycle").mean] for j in selected(t)]
    return sorted(rows, key=lambda r: (r[0], r[4]))


def month_of(j):
    return date_of(j["start"]).strftime("%Y-%m")


def peak_by_month(t):
    return [[m, len(js), float(np.mean(v)), statistics.median(v), float(np.mean([j["cores"] for j in js]))]
            for m, js in sorted(groups(selected(t), month_of).items()) for v in [means(t, js, "peak_share_flops")]]


def job_sizes(t):
    return [[m, len(js), *quartiles([j["cores"] for j in js]),
             sum(j["cores"] * j["core_hours"] for j in js) / sum(j["core_hours"] for j in js)]
            for m, js in sorted(groups(selected(t), month_of).items())]


def far_off(t):
    """The jobs of users that are far off their class: class, user, jobs, share above, share below."""
    rows = []
    for size, js in sorted(groups(selected(t), lambda j: j["size_class"]).items()):
        of = sorted(means(t, js, "peak_share_flops"))
        for user, mine in sorted(groups(js, lambda j: j["user"]).items()):
            ranks = [of.index(v) / (len(of) - 1) for v in means(t, mine, "peak_share_flops")]
            above, below = (sum(r > 0.75 for r in ranks) / len(ranks), sum(r < 0.25 for r in ranks) / len(ranks))
            if len(js) >= 20 and len(mine) >= 5 and max(above, below) > 0.75:
                rows.append([size, user, len(mine), above, below])
    return rows


def without_them(t):
    above = groups([r for r in far_off(t) if r[3] > 0.75], lambda r: r[0])
    classes = groups(selected(t), lambda j: j["size_class"])
    return [[size, float(np.mean(means(t, classes[size], "peak_share_flops"))),
             float(np.mean(means(t, [j for j in classes[size] if j["user"] not in [r[1] for r in rows]], "peak_share_flops")))]
            for size, rows in sorted(above.items())]


def found(t):
    return [(j, rule, severity) for j in t.jobs for rule, severity in (j["findings"] or {}).items()]


def by_property(t):
    rows = [[account, rule, len(fs), float(np.mean([f[2] for f in fs])), math.fsum(f[0]["core_hours"] * f[2] for f in fs)]
            for (account, rule), fs in groups(found(t), lambda f: (f[0]["account"], f[1])).items()]
    return sorted(rows, key=lambda r: -r[4])


def properties(t):
    rows = [[*j["key"], j["user"], j["core_hours"], *(j["findings"].get(r) for r in ("idle-cores", "slow-node"))]
            for j in t.jobs if j["findings"]]
    return sorted(rows, key=lambda r: (-r[3], r[0]))


def by_size(t):
    chosen = [j for j in t.measured() if j["cores"] >= 8 and j["duration_s"] > 600 and j["queue"] == "normal"]
    return [[size, len(m), float(np.quantile(m, 0.25)), statistics.median(m), float(np.quantile(m, 0.75)), float(np.mean(m))]
            for size, js in sorted(groups(chosen, lambda j: j["size_class"]).items()) for m in [means(t, js)]]


def by_month(t):
    by = groups([j for j in t.measured() if j["cores"] >= 8], lambda j: date_of(j["start"]).replace(day=1))
    return [[m, float(np.mean(means(t, js))), statistics.median(means(t, js)), float(np.mean([j["cores"] for j in js]))]
            for m, js in sorted(by.items())]


def user_and_kernel(t):
    rows = [[j["size_class"], j["job_id"], j["restart"], sum(means(t, [j]) + means(t, [j], "cpu_system"))]
            for j in t.measured()]
    return sorted(rows, key=lambda r: (r[0], r[3]))


def off_their_class(t):
    ranks = collections.defaultdict(list)
    for js in groups(t.measured(), lambda j: j["size_class"]).values():
        of = sorted(means(t, js))
        for j in js:
            ranks[j["user"]].append(of.index(t.total(j, "cpu_user").mean) / (len(js) - 1) if len(js) > 1 else 0)
    rows = [[u, len(r), sum(x < 0.25 for x in r) / len(r), sum(x > 0.75 for x in r) / len(r)] for u, r in ranks.items()]
    return sorted(rows, key=lambda r: (-r[2], r[0]))


def worst(t):
    idle = lambda j: math.fsum(t.total(j, "cpu_idle").values) * INTERVAL / HOUR
    rows = [[*j["key"], j["user"], idle(j)] for j in t.measured()]
    return sorted(rows, key=lambda r: -r[3])[:10]


def both_hours(t):
    """Core-hours and GPU-hours of each user, and the idle part of both."""
    rows = []
    for user, js in sorted(groups(t.measured(), lambda j: j["user"]).items()):
        cores, gpus = ([v for j in js for v in t.total(j, m).values] for m in ("cpu_idle", "acc_utilization"))
        rows.append([user, len(cores) * INTERVAL / HOUR, math.fsum(cores) * INTERVAL / HOUR, len(gpus) * INTERVAL / HOUR,
                     math.fsum(1 - v for v in gpus) * INTERVAL / HOUR])
    return rows


def unused(t):
    rows = []
    for j in sorted(t.measured(), key=lambda j: (*j["key"], j["user"])):
        most_memory = float(t.total(j, "mem_used").values[-1])
        time = j["duration_s"] / j["time_limit_s"] if j["time_limit_s"] else None
        memory = most_memory / j["mem_requested_bytes"] if j["mem_requested_bytes"] else None
        if time is not None and time < 0.5 or memory is not None and memory < 0.5:
            rows.append([*j["key"], j["user"], time, memory])
    return rows


def no_limit(t):
    return [[q, len(js), sum(not j["time_limit_s"] for j in js), sum(not j["mem_requested_bytes"] for j in js)]
            for q, js in sorted(groups(t.jobs, lambda j: j["queue"]).items())]


def imbalance(t):
    rows = [[*j["key"], j["user"], s.rms / s.mean, *most(s.low)] for j in t.measured() for s in [t.total(j, "cpu_user")]]
    return sorted(rows, key=lambda r: -r[3])[:10]


def lowest(t):
    times, jobs = collections.Counter(), collections.defaultdict(set)
    for j in t.measured():
        low = t.total(j, "cpu_user").low
        times.update(low)
        for node in low:
            jobs[node].add(j["job_id"])
    return [[n, times[n], len(jobs[n])] for n in sorted(times, key=lambda n: (-times[n], n))]


def completeness(t):
    seen, expected = collections.Counter(), collections.Counter()
    for j in t.measured():
        for start, nodes, of in t.intervals(j, "cpu_user"):
            seen[date_of(start)] += len(nodes)
            expected[date_of(start)] += of
    return [[d, seen[d] / expected[d]] for d in sorted(expected)]


def gaps(t):
    rows = [[*j["key"], r["intervals"], r["intervals_measured"], r["completeness"]]
            for j in t.measured() for r in [total_row(t, j, "cpu_user")] if r["completeness"] < 1]
    return sorted(rows, key=lambda r: (r[4], r[0]))


def never_measured(t):
    return [[*j["key"], j["user"]] for j in sorted(t.jobs, key=lambda j: j["key"]) if not j["values"]]


def busy(t):
    machine, free, wasted = collections.Counter(), collections.Counter(), collections.Counter()
    for at in range(min(j["start"] for j in t.measured()), max(j["end"] for j in t.jobs), INTERVAL):
        free[date_of(at)] += 2
    machine.update(free)
    for j in t.measured():
        for start, nodes, _ in t.intervals(j, "cpu_idle"):
            machine[date_of(start)] += sum(len(v) for v in nodes.values())
            wasted[date_of(start)] += sum(sum(v) for v in nodes.values())
    hours = INTERVAL / HOUR
    return [[d, machine[d] * hours, free[d] * hours, wasted[d] * hours] for d in sorted(machine)]


def shares(t):
    days = busy(t)
    seen, free, wasted = (math.fsum(d[k] for d in days) for k in (1, 2, 3))
    machine = 30 * 48.0
    return [[(seen - free - wasted) / machine, wasted / machine, free / machine, (machine - seen) / machine]]


def waits(t):
    return [[q, statistics.median(w), max(w)] for q, js in sorted(groups(t.jobs, lambda j: j["queue"]).items())
            for w in [[(j["start"] - j["submit"]) / 1000 for j in js]]]


def had_node(t):
    at = 1000 * datetime.datetime(2026, 1, 5, 0, 5, tzinfo=UTC).timestamp()
    return sorted([*j["key"], j["user"]] for j in t.jobs if "n2" in j["nodes"] and j["start"] <= at < j["end"])


def lives(t):
    return [["c", i, len(js), datetime.timedelta(milliseconds=max(j["end"] for j in js) - min(j["start"] for j in js))]
            for i, js in sorted(groups(t.jobs, lambda j: j["job_id"]).items()) if len(js) > 1]


ANSWERS = [whole_life, distribution, over_time, side_by_side, kernel_and_disk, hour_by_hour, core_by_core, by_node, by_user,
           by_account, peak_by_size, by_size, user_and_kernel, bytes_per_cycle, peak_by_month, by_month, job_sizes,
           off_their_class, far_off, without_them, worst, both_hours, unused, no_limit, imbalance, lowest, by_property, properties,
           completeness, gaps, never_measured, busy, shares, waits, had_node, lives]


def questions(path):
    return re.findall("(?s)```sql\n(.*?)```", open(path).read())


def page(path, views, truth):
    con, queries = connect(views), questions(path)
    if len(queries) != len(ANSWERS):
        differ(len(queries), "queries on the page, recomputed", len(ANSWERS))
    for query, answer in zip(queries, ANSWERS):
        want = answer(truth)
        compare(answer.__name__, ask(con, query), want)
        print(f"{answer.__name__}: {len(want)} rows")
        if not want:
            differ(answer.__name__, "has no rows: the run proves nothing about it")
    programs(open(path).read(), views, truth)


def programs(text, views, truth):
    """Runs the page's programs, in a directory without characters that Spark takes for a pattern."""
    with tempfile.TemporaryDirectory() as at:
        os.symlink(os.path.join(os.path.dirname(views), "archive"), os.path.join(at, "archive"))
        os.chdir(at)
        run_programs(text, open(views).read(), truth)


def rows_of(table):
    """The rows of a table of pandas, Polars or Spark."""
    if hasattr(table, "to_numpy"):
        return [list(r) for r in (table.itertuples(index=False) if hasattr(table, "itertuples") else table.rows())]
    return [list(r) for r in table.collect()]


def run_programs(text, views, truth):
    weir = subprocess.run
    answers = {"by_user": by_user, "by_size": user_and_kernel, "wasted": worst}
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false pyspark-shell"
    for program in re.findall("(?s)```python\n(.*?)```", text):
        subprocess.run = lambda *_, **__: collections.namedtuple("Done", "stdout")(views)
        try:
            scope = {}
            exec(program, scope)
            for name in answers if "by_user" in scope else ["table"]:
                got = rows_of(scope[name])
                print("program:", name, len(got), "rows")
                if not got:
                    differ("program", program, "has no rows in", name)
                if name in answers:
                    compare("program: " + name, [dict(enumerate(r)) for r in got], answers[name](truth))
        except Exception as e:
            # pyspark has an error of its own where Java is missing.
            if not (isinstance(e, ModuleNotFoundError) and e.name.startswith("pyspark")
                    or "JAVA" in str(e).upper() and not shutil.which("java")):
                raise
            print("PROGRAM NOT TRIED:", str(e).split("\n")[0])
        finally:
            subprocess.run = weir


def report(path, views, rows, truth):
    """The numbers of `weir report system` are those of the page's queries."""
    con = connect(views)
    page = {answer.__name__: [list(r.values()) for r in ask(con, query)] for query, answer in zip(questions(path), ANSWERS)}
    rows = [json.loads(line) for line in open(rows)]

    def of(view, *columns, name="peak_flops"):
        return [[r[c] for c in columns] for r in rows if r["view"] == view and (not name or r["name"] == name)]

    def same(what, got, want):
        compare("report: " + what, [dict(enumerate(r)) for r in got], want)
        print("report:", what, len(got), "rows")
        if not got:
            differ("report:", what, "has no rows")

    same("sizes", of("sizes", "size_class", "jobs", "core_hours", "p25", "median", "p75", "mean"), page["peak_by_size"])
    same("months", of("months", "month", "jobs", "mean", "median", "mean_cores"), page["peak_by_month"])
    same("bytes per cycle", sorted(of("points", "job_id", "value", name="bytes_per_cycle")),
         sorted([r[1], r[4]] for r in page["bytes_per_cycle"]))
    same("user and system time", sorted(of("points", "job_id", "value", name="user_system")),
         sorted([r[1], r[3]] for r in page["user_and_kernel"] if r[1] in [j["job_id"] for j in selected(truth)]))
    same("sizes of jobs", of("job_size", "month", "jobs", "p25", "median", "p75", "mean", "weighted_mean", name="cores"),
         page["job_sizes"])
    same("users above", of("users_above_p75", "size_class", "user", "jobs", "share"),
         [r[:4] for r in page["far_off"] if r[3] > 0.75])
    same("users below", of("users_below_p25", "size_class", "user", "jobs", "share"),
         [r[:3] + r[4:] for r in page["far_off"] if r[4] > 0.75])
    same("means without them", [r for r in of("sizes", "size_class", "mean", "mean_without") if r[2] is not None],
         page["without_them"])
    same("cores", [[of("cores", "share", name=n)[0][0] for n in ("busy", "wasted", "free", "not seen")]], page["shares"])
    if abs(sum(s[0] for n in ("busy", "wasted", "free", "not seen") for s in of("cores", "share", name=n)) - 1) > 1e-12:
        differ("report: the shares do not add up to 1")
    same("dates", [[datetime.date.fromisoformat(r[0]), r[1]] for r in of("cores_by_date", "date", "core_hours", name="seen")],
         [r[:2] for r in page["busy"]])
    same("accounts", sorted((of("accounts", "account", "name", "jobs", "severity", "severity_core_hours", name="idle-cores")
                             + of("accounts", "account", "name", "jobs", "severity", "severity_core_hours", name="slow-node")),
                            key=lambda r: -(r[4] or 0))[:len(page["by_property"])], page["by_property"])


def files(views, truth):
    """DuckDB opens the files of the job's dates alone, and those of the dates that a query names."""
    con = connect(views)

    def scans(node):
        if isinstance(node, dict):
            if "Total Files Read" in node:
                yield node
            node = list(node.values())
        if isinstance(node, list):
            for child in node:
                yield from scans(child)

    def opened(query, column):
        """How many files are opened to read a column."""
        plan = json.loads(con.execute("explain (analyze, format json) " + query).fetchall()[0][1])
        return [int(s["Total Files Read"]) for s in scans(plan) if column in s["Projections"]][0]

    for job in ("4700", "4711"):
        want = sum(len(j["values"]) for j in truth.of(job))
        got = ask(con, f"select count(*) as n from job_summaries('{job}') where metric = 'cpu_user'")[0]["n"]
        if got != want:
            differ("job_summaries", job, got, "rows, recomputed", want)
    one_date = [j for j in truth.measured() if date_of(j["start"] - HOUR) == date_of(j["end"] + HOUR)
                and len(truth.of(j["job_id"])) == 1][0]
    for column, source, want in (
            ("mean", f"job_summaries('{one_date['job_id']}')", 1),
            ("mean", "job_summaries('4711')", 2),
            ("mean", "job_summaries('no such job')", 3),
            ("mean", "summaries where date = '2026-01-04'", 1),
            ("hour", "rollups where date < '2026-01-05'", 1),
            ("mean", "job_totals where date_trunc('week', date) = '2026-01-05'", 1)):
        read = opened(f"select sum(hash({column})) from {source}", column)
        print(f"{source} opens {read}")
        if read != want:
            differ(source, "opens", read, "files, should be", want)


def empty(views):
    """Tables without files have views with all columns and no rows."""
    con = connect(views)
    for view, columns in (("jobs", JOBS), ("job_totals", TOTALS), ("jobs_performance", JOBS), ("samples", SAMPLES),
                          ("findings", FINDINGS), ("findings_jobs", JOBS), ("selected", TOTALS)):
        got = {c[0]: str(c[1]) for c in con.execute(f"select * from {view}").description}
        if missing := set(columns) - set(got):
            differ(view, "lacks", missing)
        if con.execute(f"select count(*) from {view}").fetchall() != [(0,)]:
            differ(view, "has rows")
    if ask(con, "select count(*) as n from job_summaries('4711')")[0]["n"] == 0:
        differ("job_summaries does not find a job that is not in jobs")


def dashboard(path, archive):
    """The panels of a dashboard of Grafana have rows. Variables become SQL strings, and the macros of the plugin do too."""
    plain = tempfile.mkdtemp() + "/archive's"  # no name of the test that a glob would take for a pattern
    os.symlink(archive, plain)
    filled = {"archive": plain, "job": "4711", "metric": "cpu_user"}
    filled = {f"${{{name}:sqlstring}}": "'" + value.replace("'", "''") + "'" for name, value in filled.items()}
    filled |= {"$__timeFrom()": "'2026-01-04T00:00:00Z'", "$__timeTo()": "'2026-01-06T00:00:00Z'"}
    with open(path) as file:
        panels = [p for p in json.load(file)["panels"] if p["type"] != "row"]
    for panel in panels:
        for target in panel["targets"]:
            query = target["rawSql"]
            for name, value in filled.items():
                query = query.replace(name, value)
            if "$" in query:
                differ(path, panel["title"], "has a variable that is not quoted:", query)
                continue
            rows = duckdb.sql(query)
            if not rows.fetchall() or (panel["type"] == "timeseries") != (rows.columns[0] == "time"):
                differ(path, panel["title"], "has no rows, or no time:", rows.columns)


def main():
    command, args = sys.argv[1], sys.argv[2:]
    if command == "empty":
        empty(*args)
    elif command == "dashboard":
        dashboard(*args)
    else:
        truth = Truth(args.pop())
        {"tables": tables, "page": page, "report": report, "files": files}[command](*args, truth)
    sys.exit(differences > 0)


main()

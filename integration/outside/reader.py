#!/usr/bin/env python3
"""An outside reader: recomputes weir's summaries with other people's libraries and none of weir's code.

    pip install confluent-kafka fastavro numpy duckdb
    python3 integration/outside/reader.py weir-data/weir.yaml schemas

Reads all of counters and job-summary (read committed) from the running instance and its archive, and checks that every
EXACT decile equals numpy's of the values in counters, and that the archive holds exactly the topic's rows. Give weir a
moment to archive what it has summarized: intervals of the last --settle seconds are left out.
"""
import argparse
import collections
import glob
import io
import json
import sys
import time

import confluent_kafka as ck
import duckdb
import fastavro
import numpy as np
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form


def configuration(path):
    """The few keys that a reader needs, without a YAML library."""
    text = open(path).read().splitlines()
    value = lambda key: next(line.split(":", 1)[1].strip() for line in text if line.strip().startswith(key + ":"))
    at = next(i for i, line in enumerate(text) if line.strip() == "brokers:")
    sink = next(i for i, line in enumerate(text) if line == "sink:")
    archive = next(line.split(":", 1)[1].strip() for line in text[sink:] if line.strip().startswith("dir:"))
    return text[at + 1].strip().lstrip("- ").strip("'\""), value("prefix"), archive


def schemas(directory):
    table = {}
    for path in sorted(glob.glob(directory + "/*.avsc")):
        raw = json.load(open(path))
        key = bytes.fromhex(fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO"))
        table[key] = (raw["name"], parse_schema(raw))
    return table


def decode(table, value):
    """Single-object encoding: two marker bytes, the fingerprint in little-endian order, the body."""
    if value[:2] != b"\xc3\x01" or value[2:10] not in table:
        return None, None
    name, schema = table[value[2:10]]
    return name, fastavro.schemaless_reader(io.BytesIO(value[10:]), schema)


def read(brokers, topic):
    consumer = ck.Consumer({"bootstrap.servers": brokers, "group.id": "outside-reader", "isolation.level": "read_committed",
                            "enable.auto.commit": False, "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in partitions])
    ended, records = set(), []
    while len(ended) < len(partitions):
        message = consumer.poll(10)
        if message is None:
            raise SystemExit(f"{topic}: no answer in ten seconds")
        if message.error():
            if message.error().code() != ck.KafkaError._PARTITION_EOF:
                raise SystemExit(f"{topic}: {message.error()}")
            ended.add(message.partition())
        elif message.value() is not None:
            records.append(message)
    consumer.close()
    return records


def milliseconds(t):
    return round(t.timestamp() * 1000)


def folded(records, table):
    """For each listed (job, restart, interval) of one part: the CounterBatches that its Tick takes, first come first served."""
    windows, closed, held = {}, collections.defaultdict(lambda: -1), collections.defaultdict(dict)
    for m in records:
        name, r = decode(table, m.value())
        p = m.partition()
        if name in ("CounterBatch", "NodeSummary"):
            start = milliseconds(r["interval_start"])
            if start > closed[p]:
                held[p].setdefault((r["node"], start, r["job_id"], r["restart"]), (name, r))
        elif name == "Tick" and milliseconds(r["interval_start"]) > closed[p]:
            start = milliseconds(r["interval_start"])
            for j in r["jobs"]:
                if j["parts"] == 1:
                    found = (held[p].get((n, start, j["job_id"], j["restart"])) for n in j["nodes"])
                    windows[j["job_id"], j["restart"], start] = [f for f in found if f and f[1]["interval_ms"] == r["interval_ms"]]
            closed[p] = start
            held[p] = {k: v for k, v in held[p].items() if k[1] > start}
    return windows


def decile(x, k):
    """Hyndman and Fan's type 4, with the rank in integers."""
    j, tenths = divmod(len(x) * k, 10)
    if j < 1 or j >= len(x):
        return x[0] if j < 1 else x[-1]
    return x[j - 1] + tenths / 10 * (x[j] - x[j - 1])


def check_exact(summaries, windows):
    deciles = 0
    for s in summaries:
        if s["method"] != "EXACT":
            continue
        taken = windows[s["job_id"], s["restart"], milliseconds(s["interval_start"])]
        assert s["nodes_reported"] == len(taken), s
        for m in s["metrics"]:
            values = np.array([v for _, r in taken for x in r["metrics"] if x["name"] == m["name"] for v in x["values"]], float)
            valid = np.sort(values[np.isfinite(values)])
            assert m["count"] == len(valid) and m["invalid"] == len(values) - len(valid), (s, m)
            if not len(valid):
                assert m["deciles"] is None and m["mean"] is None
                continue
            assert m["deciles"] == [decile(valid, k) for k in range(11)], (m["deciles"], valid)
            numpys = np.quantile(valid, np.arange(11) / 10, method="interpolated_inverted_cdf")  # finds ranks in floating point
            assert np.allclose(m["deciles"], numpys, rtol=1e-13, atol=1e-13 * np.ptp(valid)), (m["deciles"], numpys)
            assert np.isclose(m["mean"], valid.mean(), rtol=1e-12) and np.isclose(m["stddev"], valid.std(), rtol=1e-9, atol=1e-12)
            deciles += 11
    return deciles


def check_archive(summaries, archive, before):
    want = set()
    for s in summaries:
        for m in s["metrics"] or [{}]:
            d = m.get("deciles") or [None] * 11
            want.add((s["job_id"], s["restart"], milliseconds(s["interval_start"]), s["method"], s["parts_reported"], s["nodes_reported"],
                      m.get("name"), m.get("count"), m.get("mean"), m.get("stddev"), m.get("low_node"), *d))
    columns = "job_id, restart, epoch_ms(interval_start), method, parts_reported, nodes_reported, metric, count, mean, stddev, low_node, " \
        + ", ".join(f"d{k}" for k in range(11))
    rows = duckdb.sql(f"select {columns} from '{archive}/summaries/*/*.parquet' where epoch_ms(interval_start) < {before}").fetchall()
    assert len(rows) == len(set(rows)), "a row is there twice"
    assert set(rows) == want, (len(rows), len(want), sorted(map(str, set(rows) ^ want))[:4])
    return len(rows)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("config")
    args.add_argument("schemas")
    args.add_argument("--settle", type=float, default=20, help="seconds that an interval may take to be archived")
    args = args.parse_args()
    brokers, prefix, archive = configuration(args.config)
    table = schemas(args.schemas)
    before = int((time.time() - args.settle) * 1000)
    counters = read(brokers, prefix + "counters")
    summaries = [decode(table, m.value())[1] for m in read(brokers, prefix + "job-summary")]
    summaries = [s for s in summaries if milliseconds(s["interval_start"]) < before]
    keys = collections.Counter((s["job_id"], s["restart"], s["interval_start"]) for s in summaries)
    assert max(keys.values()) == 1, "a summary is there twice"
    deciles = check_exact(summaries, folded(counters, table))
    rows = check_archive(summaries, archive, before)
    methods = collections.Counter(s["method"] for s in summaries)
    print(f"{len(summaries)} summaries {dict(methods)}, {deciles} exact deciles recomputed, {rows} rows of the archive equal the topic's")
    if not deciles or not rows:
        sys.exit("nothing was compared")


if __name__ == "__main__":
    main()

"""Prints the deciles of every job as they are committed: python3 examples/consume.py 127.0.0.1:9092"""
import io, json, sys, confluent_kafka, fastavro
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

raw = json.load(open("schemas/JobSummary.avsc"))
mark = b"\xc3\x01" + bytes.fromhex(fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO"))
c = confluent_kafka.Consumer(
    {"bootstrap.servers": sys.argv[1], "group.id": "me", "isolation.level": "read_committed"})
c.subscribe(["weir.job-summary"])
while m := c.poll(60):
    if not m.error() and m.value()[:10] == mark:
        s = fastavro.schemaless_reader(io.BytesIO(m.value()[10:]), parse_schema(raw))
        print(s["job_id"], s["interval_start"], {x["name"]: x["deciles"] for x in s["metrics"]}, flush=True)

"""Prints the deciles of every job as they are committed: python3 examples/consume.py 127.0.0.1:9092"""
import io, json, sys, confluent_kafka as ck, fastavro

def messages(start, **more):
    c = ck.Consumer({"bootstrap.servers": sys.argv[1], "group.id": "weir.reader-me",
                     "isolation.level": "read_committed", **more})
    start(c)
    while True:
        if not (m := c.poll(1)):
            continue
        if m.error():  # such as a right that is missing on the topic or the group
            if m.error().code() == ck.KafkaError._PARTITION_EOF:
                return
            sys.exit(f"reading: {m.error()}")
        yield m

all_schemas = [ck.TopicPartition("weir.schemas", 0, ck.OFFSET_BEGINNING)]
known = {bytes.fromhex(m.key().decode()): fastavro.parse_schema(json.loads(m.value()))
         for m in messages(lambda c: c.assign(all_schemas), **{"enable.partition.eof": True})}
for m in messages(lambda c: c.subscribe(["weir.job-summary"])):
    confluent = dict(m.headers() or {}).get("weir-schema")  # where topics.wire is confluent
    schema, body = (confluent, m.value()[5:]) if confluent else (m.value()[2:10], m.value()[10:])
    if schema not in known:
        sys.exit(f"offset {m.offset()}: unknown schema {schema.hex()}: weir topics create, and start this again")
    s = fastavro.schemaless_reader(io.BytesIO(body), known[schema])
    print(s["job_id"], s["interval_start"], {x["name"]: x["deciles"] for x in s["metrics"]}, flush=True)

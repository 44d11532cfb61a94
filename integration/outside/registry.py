#!/usr/bin/env python3
"""Reads topics as a site's tools do: values by confluent_kafka's AvroDeserializer and the schema registry alone.

    python3 integration/outside/registry.py BROKERS REGISTRY TOPIC...

Prints one JSON object for each committed record in the Confluent form, and one for each topic with the number of records
in another form. Tombstones count as neither. A record that it cannot read ends it with an error."""
import datetime
import json
import sys

import confluent_kafka as ck
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext


def plain(value):
    """Times in milliseconds, as weir has them."""
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    return value


def read(brokers, topic, deserialize):
    c = ck.Consumer({"bootstrap.servers": brokers, "group.id": "registry-reader", "isolation.level": "read_committed",
                     "enable.auto.commit": False, "enable.partition.eof": True, "enable.metrics.push": False})
    partitions = list(c.list_topics(topic, timeout=20).topics[topic].partitions)
    c.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in partitions])
    ended, other = set(), 0
    while len(ended) < len(partitions):
        m = c.poll(20)
        if m is None:
            sys.exit(f"{topic}: no answer in 20 seconds")
        if m.error():
            if m.error().code() != ck.KafkaError._PARTITION_EOF:
                sys.exit(f"{topic}: {m.error()}")
            ended.add(m.partition())
        elif m.value() is not None and m.value()[:1] != b"\0":
            other += 1
        elif m.value() is not None:
            record = deserialize(m.value(), SerializationContext(topic, MessageField.VALUE))
            fields = {name: plain(value) for name, value in record.items() if not isinstance(value, (list, dict))}
            fields["metrics"] = [x["name"] for x in record.get("metrics", [])]
            fields["deciles"] = [x["deciles"] for x in record.get("metrics", [])]
            print(json.dumps({"topic": topic, "partition": m.partition(), "offset": m.offset(), "value": fields}))
    c.close()
    print(json.dumps({"topic": topic, "other": other}))


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    brokers, registry, *topics = sys.argv[1:]
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry}))
    for topic in topics:
        read(brokers, topic, deserialize)


if __name__ == "__main__":
    main()

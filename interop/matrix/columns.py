"""The columns: what a real application does with its client.

Rule: a column says in one sentence what is checked, and every client's program checks that and nothing less.
"""

from typing import NamedTuple

Release = tuple[int, ...]


class Column(NamedTuple):
    """`since`: the first release of Kafka that has it, for brokers that pass for an older one."""

    name: str
    title: str
    says: str
    partitions: int = 1
    since: Release = (0, 8)


COLUMNS = [
    Column("connect", "connect", "connects, and finds the topic with its four partitions", partitions=4),
    Column("produce", "produce, read", "100 records with acks=all come back in their order"),
    Column("records", "keys, nulls", "keys and values of any bytes, empty ones, and none, come back as they were"),
    Column("headers", "headers", "headers, two of one name and an empty one, come back as they were", since=(0, 11)),
    Column("timestamps", "timestamps", "timestamps that the client gives come back as they were", since=(0, 10)),
    Column("codecs", "codecs", "gzip, snappy, lz4 and zstd, each that the client has"),
    Column("idempotent", "idempotent", "an idempotent producer writes 100 records", since=(0, 11)),
    Column("transactions", "transactions", "commits and aborts, read with both isolation levels", since=(0, 11)),
    Column("group", "group", "two members share four partitions; one leaves, and the other has all", 4, (0, 9)),
    Column("next_group", "KIP-848", "the same with group.protocol=consumer", 4, (4, 0)),
    Column("commit", "commit, resume", "commits an offset; the next member of the group goes on there"),
    Column("seek", "seek by time", "finds offsets by time, first and last, and reads from there", since=(0, 10, 1)),
    Column("admin", "admin", "creates a topic, adds partitions, changes and reads a config, deletes it", since=(1, 0)),
    Column("large", "large", "records of 900 kB come back as they were"),
    Column("security", "TLS, SCRAM", "logs in with SCRAM-SHA-512 over TLS, produces and reads", since=(0, 10, 2)),
    Column("restart", "restart", "producer and consumer go on when the broker is stopped and started", since=(0, 9)),
]  # fmt: skip


def release(name: str) -> Release:
    return tuple(int(part) for part in name.split("."))

"""Kafka's command line tools: `pykafka-broker topics --bootstrap-server localhost:9092 --list`.

Rule: flags, standard output and exit codes are those of the scripts of Apache Kafka 4.4 (`kafka-topics.sh` and its
siblings), also where they surprise; texts on standard error are shorter. A tool is a module with

    def options(parser: ToolParser) -> None     its flags
    async def run(tool: Tool) -> int | None     its exit code, None for 0

and talks to any Kafka through `pykafka_broker.client`. `TOOLS` lists the tools, with a line each for
`pykafka-broker help`; no part of them is imported by a broker.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

TOOLS = {
    "acls": "add, list and remove ACLs",
    "broker-api-versions": "print the API versions of each broker",
    "client-metrics": "list, describe, alter and delete subscriptions to the metrics of clients",
    "cluster": "print the id, nodes and API versions of a cluster, and unregister nodes",
    "configs": "describe and alter configs, quotas and credentials of topics, brokers, users and others",
    "console-consumer": "print records of topics",
    "console-producer": "send lines of standard input as records",
    "console-share-consumer": "print records of a topic as a member of a share group",
    "consumer-groups": "list, describe and delete groups of consumers, and reset their offsets",
    "consumer-perf-test": "measure how fast records are read",
    "delegation-tokens": "create, renew, expire and describe delegation tokens",
    "delete-records": "delete records of partitions up to an offset",
    "end-to-end-latency": "measure how long a record takes from a producer to a consumer",
    "features": "describe, upgrade, downgrade and disable features of a cluster",
    "get-offsets": "print offsets of partitions: the first, the last, or by time",
    "groups": "list groups of all types",
    "leader-election": "elect preferred or unclean leaders of partitions",
    "log-dirs": "describe the log directories of brokers, with sizes",
    "metadata-quorum": "describe the controllers of a cluster, add and remove one",
    "mirror": "mirror topics and groups from one cluster to another, as MirrorMaker 2 does",
    "producer-perf-test": "measure how fast records are sent",
    "reassign-partitions": "move replicas of partitions between brokers and between their log directories",
    "share-consumer-perf-test": "measure how fast records are read by members of a share group",
    "share-groups": "list, describe and delete share groups, and reset where they begin",
    "streams-groups": "list, describe and delete groups of Kafka Streams, and reset their offsets",
    "topics": "create, describe, alter, delete and list topics",
    "transactions": "list and describe transactions, and end those that hang",
    "verifiable-consumer": "read records as a member of a group, and print every event",
    "verifiable-producer": "send numbers, and print the outcome of each",
    "verifiable-share-consumer": "read records as a member of a share group, and print every event",
}


class OptionParser(argparse.ArgumentParser):
    """A parser with options in the form of the help."""

    def option(self, spelt: str, help: str | None = None, **more: Any) -> None:
        """Add an option: `--list`, `--topic NAME`, or `--config KEY=VALUE ...` for repeated values."""
        *flags, last = spelt.removesuffix(" ...").split(" ")
        if last.startswith("-"):
            more = {"action": "store_true"} | more
            flags.append(last)
        else:
            more["metavar"] = last
        if spelt.endswith(" ..."):
            more["action"] = "append"
        self.add_argument(*flags, help=help, **more)


def drop_output() -> None:
    """Discard the rest of standard output, which takes no more.

    Python's own attempt at exit would end the process with exit code 120.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""Each tool once, with a call of it that needs a broker and changes little.

Rule: the calls are in an order in which one finds what it needs of those before it: topic `a` has one partition
with three records.
"""

from __future__ import annotations

import shlex
from pathlib import Path

FROM_START = "share.auto.offset.reset=earliest"
CALLS = {
    "topics": "--create --topic a --partitions 1",
    "configs": f"--alter --entity-type groups --entity-name s --add-config {FROM_START}",
    "producer-perf-test": "--topic a --num-records 1 --record-size 10 --throughput -1",
    "verifiable-producer": "--topic a --max-messages 2",
    "console-consumer": "--topic a --from-beginning --max-messages 3 --timeout-ms 9000",
    "consumer-perf-test": "--topic a --num-records 3 --timeout 9000",
    "verifiable-consumer": "--topic a --group-id v --max-messages 3 --reset-policy earliest",
    "console-share-consumer": "--topic a --group s --max-messages 1 --timeout-ms 9000",
    "share-consumer-perf-test": "--topic a --group s --num-records 1 --timeout 9000",
    "verifiable-share-consumer": "--topic a --group-id s3 --max-messages 1 --offset-reset-strategy earliest",
    "end-to-end-latency": "--topic a --num-records 1 --producer-acks all --record-size 5",
    "console-producer": "--topic a",
    "acls": "--list",
    "broker-api-versions": "",
    "client-metrics": "--list",
    "cluster": "cluster-id",
    "consumer-groups": "--list",
    "delegation-tokens": "--describe",
    "delete-records": "--offset-json-file {offsets}",
    "features": "describe",
    "get-offsets": "--topic a",
    "groups": "--list",
    "leader-election": "--election-type preferred --topic a --partition 0",
    "log-dirs": "--describe --topic-list a",
    "metadata-quorum": "describe --status",
    "reassign-partitions": "--list",
    "share-groups": "--list",
    "streams-groups": "--list",
    "transactions": "list",
}
# Tools that exit with 0 although the broker refuses them, as Kafka's scripts do.
ALL_THE_SAME = {
    *("console-producer", "console-consumer", "console-share-consumer", "consumer-groups", "delete-records"),
    *("producer-perf-test", "share-groups", "verifiable-consumer", "verifiable-producer"),
    "verifiable-share-consumer",
}


def arguments(tool: str, bootstrap: str, folder: Path, config: Path | None = None) -> list[str]:
    """Return the arguments of one call of the tool. config: a file with the properties of its client."""
    offsets = folder / "offsets.json"
    offsets.write_text('{"version": 1, "partitions": [{"topic": "a", "partition": 0, "offset": 1}]}')
    found = ["--bootstrap-server", bootstrap]
    if config is not None:
        found += ["--command-config", str(config)]
    words = [word.format(offsets=offsets) for word in shlex.split(CALLS[tool])]
    return [*words, *found] if tool == "cluster" else [*found, *words]

"""Nodes of old brokers in a ZooKeeper: `python -m interop.zookeeper_record [RELEASE ...]` records them.

Rule: the file is what the releases did; ids, ports and times stand there as words, since they differ each time.
"""

import json
import sys
from pathlib import Path
from typing import Any

from interop.waiting import eventually
from interop.zookeeper import Tree, old_kafka, old_tool, real_zookeeper

RECORDED = Path(__file__).parents[1] / "tests" / "zookeeper" / "recorded.json"
RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.4.1", "2.7.2", "2.8.2", "3.9.2")
_TOPIC = ("--topic", "made", "--partitions", "2", "--replication-factor", "1")
_CONFIGS = "kafka.admin.ConfigCommand"


def number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def recorded(release: str, tree: Tree) -> dict[str, list[Any]]:
    """Return the nodes of a broker with a topic, and with quotas as far as the release has them."""
    with old_kafka(release, tree) as address:
        where = ("--bootstrap-server", address) if number(release) >= (3,) else ("--zookeeper", tree.connect)
        topics = "org.apache.kafka.tools.TopicCommand" if number(release) >= (3, 5) else "kafka.admin.TopicCommand"
        old_tool(release, topics, *where, "--create", *_TOPIC, "--config", "retention.ms=1000")
        if number(release) >= (0, 9):
            quota = ("--alter", "--add-config", "producer_byte_rate=1024", "--entity-type", "clients")
            name = "an app" if number(release) >= (1, 0) else "app"  # before, names were not written as in addresses
            old_tool(release, _CONFIGS, *where, *quota, "--entity-name", name)
        if number(release) >= (0, 10, 1):
            quota = ("--alter", "--add-config", "consumer_byte_rate=2048", "--entity-type", "users")
            whose = ("--entity-name", "ann", "--entity-type", "clients", "--entity-default")
            old_tool(release, _CONFIGS, *where, *quota, *whose)
        eventually(lambda: tree.has("/brokers/topics/made/partitions/1/state"), True)
        return named(tree.all(), address.partition(":")[2])


def named(nodes: dict[str, list[Any]], port: str) -> dict[str, list[Any]]:
    """Return the nodes with words for what differs each time."""
    text = json.dumps(nodes).replace(f":{port}", ":PORT").replace(f'"port": {port}', '"port": "PORT"')
    nodes = json.loads(text)
    for path, (content, _) in nodes.items():
        if isinstance(content, dict):
            for key in ("timestamp", "topic_id"):
                if key in content:
                    content[key] = key.upper()
            if path == "/cluster/id":
                content["id"] = "ID"
    return nodes


def main(releases: list[str]) -> None:
    found = json.loads(RECORDED.read_bytes()) if RECORDED.exists() else {}
    with real_zookeeper() as zookeeper:
        for release in releases or RELEASES:
            with Tree(zookeeper, f"/{release}") as tree:
                found[release] = recorded(release, tree)
    RECORDED.parent.mkdir(exist_ok=True)
    lines = [
        f"{json.dumps(release)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(path)}: {json.dumps(node, sort_keys=True)}" for path, node in found[release].items()
        )
        + "}"
        for release in sorted(found, key=number)
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

"""The data directories of nodes of a cluster, as `pykafka-broker format` makes them."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from pykafka_broker.cluster.formatting import FormatRequest, StorageFormatter, StorageNode
from pykafka_broker.log.checkpoints import META_PROPERTIES, id_text, read_properties
from pykafka_broker.log.filesystem import OsFileSystem


def new_cluster_id() -> str:
    """A random one, in Kafka's form."""
    return id_text(_new_uuid())


def cluster_id_in(directory: Path) -> str | None:
    """That of the nodes which have their directories there, if there are any."""
    for path in sorted(directory.glob(f"*/{META_PROPERTIES}")):
        return read_properties(OsFileSystem(), str(path)).get("cluster.id")
    return None


def _new_uuid() -> bytes:
    return uuid.uuid4().bytes


def format_directories(config: Mapping[str, str], cluster_id: str) -> None:
    """Make the directories of the node that those configs are of, which has `controller.quorum.voters`. Those that are
    formatted stay as they are.
    """
    directories = config["log.dirs"].split(",")
    node = StorageNode(
        int(config["node.id"]),
        directories,
        config.get("metadata.log.dir", directories[0]),
        "controller" in config["process.roles"],
        True,
        None,
    )
    request = FormatRequest(cluster_id, [], True, None, {}, False, False, None)
    now = int(time.time() * 1000)
    formatter = StorageFormatter(
        OsFileSystem(), node, request, now=now, new_uuid=_new_uuid, new_salt=lambda: secrets.token_bytes(16)
    )
    for _ in formatter.run():
        pass  # what it says is for people

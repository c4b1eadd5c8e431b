"""Modules with a single reader, each with the reason why it is not a part of its reader.

Rule: a module that only one other module imports belongs into that module, unless a reason stands here. A module that
a table names (`TABLES`) is a command, a tool, a handler or a mechanism of SASL, and needs no reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import Source, import_graph, sources

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pykafka_broker"
TABLES = {  # a module with names of others, and what the names stand below
    f"{PACKAGE}.broker.requests.routes": f"{PACKAGE}.broker.api",
    f"{PACKAGE}.broker.requests.controller_routes": f"{PACKAGE}.broker.api",
    f"{PACKAGE}.cli.commands": PACKAGE,
    f"{PACKAGE}.control.operations": f"{PACKAGE}.control.api",
    f"{PACKAGE}.registry.kinds": "",
    f"{PACKAGE}.security.sasl.mechanism": f"{PACKAGE}.security.sasl",
    f"{PACKAGE}.testing": f"{PACKAGE}.testing",
    f"{PACKAGE}.tools": f"{PACKAGE}.tools",
}
REASONS = {
    "imported late: only brokers with this feature, role or system wait for the import": """
        broker.coordinators.group_host broker.coordinators.transaction_host broker.membership.lone_broker
        broker.requests.metering cli.replay_page control.history.noting security.acls server.epoll_loop
        server.lazy_tls server.tls_listener testing.in_process
    """,
    "of a lower layer than the reader": """
        cluster.acls cluster.feature_updates cluster.raft.observer coordinators.groups.coordinator
        coordinators.streams.protocol log.image registry.api zookeeper.extension
    """,
    "a concept of its own; with it and its like the reader would be longer than 600 lines": """
        broker.api.replica_fetch broker.coordinators.dead_letters broker.replication.fetcher
        control.history.groups control.traffic.answers coordinators.groups.consumer_classic
        coordinators.streams.sticky_assignor log.compaction.clean log.directory_map log.maintenance log.moving
        log.tool.repair log.tool.verify log.unsynced server.accepting server.dial testing.fixtures
        testing.simulation.faults testing.simulation.layout testing.simulation.serving tools.mirror_flow
    """,
    "runs in a thread of its own, its reader on the loop": "zookeeper.controller",
    "read by users, whose policies derive from its classes": "security.hooks.policies",
}


def readers(root: Path) -> dict[str, set[str]]:
    """Return the readers of each module that no table names. Packages do not count."""
    found = sources(root, PACKAGE)
    read: dict[str, set[str]] = {name: set() for name, source in found.items() if source.path.stem[:2] != "__"}
    for reader, imported in import_graph(found).items():
        for name in imported & read.keys():
            read[name].add(reader)
    for table, below in TABLES.items():
        for name in named(found[table], below):
            read.pop(name, None)
    return read


def named(source: Source, below: str) -> Iterator[str]:
    """Yield the modules that strings name, alone or with a function behind a dot."""
    for node in source.nodes(ast.Constant):
        if isinstance(node.value, str):
            for name in (node.value, node.value.rpartition(".")[0]):
                yield f"{below}.{name}".lstrip(".").replace("-", "_")


def test_every_module_with_one_reader_has_a_reason() -> None:
    alone = {name.removeprefix(f"{PACKAGE}.") for name, by in readers(ROOT).items() if len(by) == 1}
    told = {name for names in REASONS.values() for name in names.split()}
    assert alone - told == set(), "merge it into its reader, or give the reason"
    assert told - alone == set(), "it has other readers by now, or is gone"

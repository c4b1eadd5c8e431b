"""Topologies of very many subtopologies or names.

Rule: what follows from the request alone, the form in which it is stored, its bytes and its names, is found in steps
before the group is asked, so that the group's part of it, which can't be cut, is short.
"""

from __future__ import annotations

from collections.abc import Generator

from pykafka_broker.coordinators.groups.stored import value_bytes
from pykafka_broker.coordinators.streams.topology import mentioned_by, stored_in_steps
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import Topology
from pykafka_broker.protocol.runtime import uvarint
from pykafka_broker.protocol.stored.streams_group_topology_value import StreamsGroupTopologyValue, Subtopology
from pykafka_broker.steps import Pace

_MANY = 2000
_ITEMS_A_SUBTOPOLOGY = 10  # of the pace
_WRITTEN_AT_ONCE = 400
_HEAD_BYTES = 6  # the version of the record and the topology's epoch


class KnownTopology(Topology):
    """One of a request, with all that has been found out: as it is stored, the bytes of that, and every name in it."""

    __slots__ = ("encoded", "names", "stored")
    stored: StreamsGroupTopologyValue
    encoded: bytes
    names: list[str]


def has_many_parts(topology: Topology | None) -> bool:
    """Whether it is worth steps of its own."""
    if topology is None:
        return False
    parts = topology.subtopologies
    return len(parts) > _MANY or sum(len(one.source_topics) for one in parts) > _MANY


def known(topology: Topology) -> Generator[None, None, KnownTopology]:
    """Raises what `stored_in_steps` raises."""
    pace, found = Pace(), KnownTopology(topology.epoch, topology.subtopologies)
    names: dict[str, None] = {}
    for one in topology.subtopologies:
        mentioned_by(one, names)
        if pace.due(_ITEMS_A_SUBTOPOLOGY):
            yield
    found.names = list(names)
    found.stored = yield from stored_in_steps(topology)
    found.encoded = yield from encoded(found.stored)
    return found


def encoded(value: StreamsGroupTopologyValue) -> Generator[None, None, bytes]:
    """As `value_bytes` gives it."""
    parts = value.subtopologies
    written = [value_bytes(StreamsGroupTopologyValue(value.epoch, []), 0)[:_HEAD_BYTES], uvarint(len(parts) + 1)]
    for start in range(0, len(parts), _WRITTEN_AT_ONCE):
        written.append(_bytes_of(parts[start : start + _WRITTEN_AT_ONCE]))
        yield
    written.append(b"\0")  # no tags
    return b"".join(written)


def _bytes_of(parts: list[Subtopology]) -> bytes:
    """Without what stands before and behind them in a record."""
    before = _HEAD_BYTES + len(uvarint(len(parts) + 1))
    return value_bytes(StreamsGroupTopologyValue(0, parts), 0)[before:-1]


__all__ = ["KnownTopology", "encoded", "has_many_parts", "known"]

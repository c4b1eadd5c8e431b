"""Topologies of very many subtopologies or names.

Rule: what follows from the request alone, the form in which it is stored, its bytes and its names, is found in steps
before the group is asked, and so is how a topology fits the topics that there are: the group's part of it, which can't
be cut, is short.
"""

from __future__ import annotations

from collections.abc import Generator

from pykafka_broker.coordinators.groups.stored import value_bytes_with
from pykafka_broker.coordinators.streams.configured import ConfiguredTopology
from pykafka_broker.coordinators.streams.topology import required_in_steps, stored_in_steps
from pykafka_broker.protocol.encoded_list import elements_in_steps
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import Topology
from pykafka_broker.protocol.stored.streams_group_topology_value import StreamsGroupTopologyValue

_MANY = 2000
_VERSION = 0
_PARTS = "subtopologies"


class KnownParts(StreamsGroupTopologyValue):
    """A topology as it is stored. required: every topic that must be there. configured: how it fitted those that were
    there, if that has been asked.
    """

    __slots__ = ("configured", "required")
    configured: ConfiguredTopology | None
    required: set[str]


class KnownTopology(Topology):
    """One of a request, with all that has been found out: as it is stored, the bytes of that, and whether it is
    another one than a group has, by the group's.
    """

    __slots__ = ("encoded", "is_other", "stored")
    stored: KnownParts
    encoded: bytes
    is_other: tuple[StreamsGroupTopologyValue, bool] | None


def has_many_parts(topology: Topology | StreamsGroupTopologyValue | None) -> bool:
    """Whether it is worth steps of its own."""
    if topology is None:
        return False
    parts = topology.subtopologies
    return len(parts) > _MANY or sum(len(one.source_topics) for one in parts) > _MANY


def known(topology: Topology) -> Generator[None, None, KnownTopology]:
    """Raises what `stored_in_steps` raises."""
    found = KnownTopology(topology.epoch, topology.subtopologies)
    plain = yield from stored_in_steps(topology)
    found.stored = KnownParts(plain.epoch, plain.subtopologies)
    found.stored.configured, found.is_other = None, None
    found.stored.required = yield from required_in_steps(plain)
    encoded = yield from elements_in_steps(StreamsGroupTopologyValue(), _VERSION, _PARTS, plain.subtopologies)
    found.encoded = value_bytes_with(plain, _VERSION, _PARTS, encoded)
    return found


__all__ = ["KnownParts", "KnownTopology", "has_many_parts", "known"]

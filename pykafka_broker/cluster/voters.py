"""The voters of a quorum as they stand in its log (KIP-853).

Rule: a voter is known by its id and by that of its directory, and reached on its listeners for controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pykafka_broker.cluster.features import SUPPORTED
from pykafka_broker.peers import Address
from pykafka_broker.protocol.stored.voters_record import Endpoint, KRaftVersionFeature, Voter, VotersRecord


def voter(node_id: int, directory_id: bytes, endpoints: Iterable[Address]) -> Voter:
    """One that can do what this release can."""
    reached = [Endpoint(each.listener, each.host, each.port) for each in endpoints]
    return Voter(node_id, directory_id, reached, KRaftVersionFeature(*SUPPORTED["kraft.version"]))


def voters_record(voters: Sequence[Voter]) -> bytes:
    return VotersRecord(0, list(voters)).encode(0)

"""What a broker is told at its start that no config key of Kafka says.

Rule: nothing here is needed; where it is left out the broker does what Kafka does.
"""

from __future__ import annotations

from typing import NamedTuple


class Setup(NamedTuple):
    """`cluster_id`: what the data directories have to be of; new ones are told. `absent_member_ms`: how long a member
    of a group may stay away whose connection has closed; None: as long as its session timeout. The
    rest is of a broker whose place this one takes while clients stay connected: the highest leader epoch that they were
    told, and the first producer id that nobody has had. There is none if `leader_epoch` is below zero.
    """

    cluster_id: str = ""
    absent_member_ms: int | None = None
    leader_epoch: int = -1
    producer_id: int = 0


NO_SETUP = Setup()

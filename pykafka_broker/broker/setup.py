"""Settings of a broker's start that are no config key of Kafka.

Rule: each setting may be left out; the broker then does what Kafka does.
"""

from __future__ import annotations

from typing import NamedTuple


class Setup(NamedTuple):
    """The setup of a start.

    cluster_id: the cluster of the data directories; new ones get this id.
    absent_member_ms: how long a member of a group may stay away whose connection has closed; None: as long as its
        session timeout.
    leader_epoch: the highest leader epoch that clients know from the broker that this broker replaces while they stay
        connected; below zero if this broker replaces none.
    producer_id: the first producer id that the replaced broker has not handed out.
    """

    cluster_id: str = ""
    absent_member_ms: int | None = None
    leader_epoch: int = -1
    producer_id: int = 0


NO_SETUP = Setup()

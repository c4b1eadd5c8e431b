"""What a broker is told at its start that no config key of Kafka says.

Rule: nothing here is needed; where it is left out the broker does what Kafka does.
"""

from __future__ import annotations

from typing import NamedTuple


class Setup(NamedTuple):
    """`cluster_id`: what the data directories have to be of; new ones are told. `absent_member_ms`: how long a member
    of a group may stay away whose connection has closed (`AbsentMembers`); None: as long as its session timeout.
    """

    cluster_id: str = ""
    absent_member_ms: int | None = None


NO_SETUP = Setup()

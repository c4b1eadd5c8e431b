"""Which partitions this node follows, and from whom.

Rule: it follows the metadata: a partition whose leader or leader's epoch has changed is begun anew with that one, and
one that this node leads or has lost is let go of. A leader's partitions are shared out to `num.replica.fetchers`.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.replication.fetcher import Fetcher, Follower
from pykafka_broker.broker.replication.followed import FollowedPartition

if TYPE_CHECKING:
    from pykafka_broker.broker.channels import BrokerChannels

_NOBODY = -1
_Place = tuple[int, int]  # leader, number of the fetcher


class _Following(NamedTuple):
    """By whom a partition is fetched now."""

    fetcher: Fetcher
    followed: FollowedPartition


class Fetchers:
    """All fetchers of one node."""

    def __init__(self, follower: Follower, neighbours: BrokerChannels) -> None:
        self._follower = follower
        self._neighbours = neighbours
        self._fetchers: dict[_Place, Fetcher] = {}
        self._following: dict[tuple[str, int], _Following] = {}

    def __len__(self) -> int:
        return len(self._following)

    @property
    def max_lag(self) -> int:
        """In records, of the partition that is farthest behind its leader."""
        return max((each.followed.lag for each in self._following.values()), default=0)

    def follow(self, partition: Partition) -> None:
        """Fetch it from its leader of the moment, if that is another node."""
        key, leader = (partition.topic, partition.number), partition.state.leader
        known = self._following.get(key)
        if known is not None:
            if known.followed.partition is partition and known.followed.is_current:
                return
            self.let_go(key)
        if leader in (_NOBODY, self._follower.id):
            return
        followed = FollowedPartition(partition)
        fetcher = self._fetcher_for(leader, key)
        self._following[key] = _Following(fetcher, followed)
        fetcher.add(followed)

    def let_go(self, key: tuple[str, int]) -> None:
        """Fetch it no more."""
        known = self._following.pop(key, None)
        if known is not None:
            known.fetcher.remove(known.followed.key)

    def synced(self, key: tuple[str, int]) -> None:
        """What was fetched of that partition is there for good now."""
        known = self._following.get(key)
        if known is not None:
            known.fetcher.synced(known.followed.key)

    def broker_changed(self, broker_id: int) -> None:
        """It has registered, or is served again."""
        for (leader, _), fetcher in self._fetchers.items():
            if leader == broker_id:
                fetcher.hurry()

    def _fetcher_for(self, leader: int, key: tuple[str, int]) -> Fetcher:
        number = zlib.crc32(f"{key[0]}-{key[1]}".encode()) % self._follower.config.num_replica_fetchers
        place = leader, number
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            client_id = f"broker-{self._follower.id}-fetcher-{number}"
            fetcher = Fetcher(self._follower, leader, partial(self._neighbours.peer, leader, client_id))
            self._fetchers[place] = fetcher
        return fetcher

    # -- time

    def next_deadline(self) -> int | None:
        """When one of them has something to ask."""
        return min((each.due for each in self._fetchers.values() if each.due is not None), default=None)

    def on_deadline(self, now: int) -> None:
        """Go on with those that are due."""
        for fetcher in list(self._fetchers.values()):
            if fetcher.due is not None and fetcher.due <= now:
                fetcher.go_on(now)

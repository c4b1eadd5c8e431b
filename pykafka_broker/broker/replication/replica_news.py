"""News for the fetch session of a follower.

Rule: whoever follows a thousand partitions is not asked about each of them with every fetch. Of a partition in the
session the leader says when there may be something new (`Partition.moved`); a fetch looks at those, and at what it
names itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import cast

from pykafka_broker.broker.partitions.fetch_session import FetchSession, Key
from pykafka_broker.broker.partitions.partition import NO_EPOCH


class ReplicaNews:
    """The news of a follower's session.

    touch: wakes the fetch that waits for news.
    """

    __slots__ = ("_keys", "_session", "_touch", "broker_epoch")

    def __init__(self, session: FetchSession, touch: Callable[[Hashable], None]) -> None:
        self._session = session
        self._touch = touch
        self.broker_epoch = NO_EPOCH  # of the follower, as its last request names it
        self._keys: dict[Key, None] = {}  # in their order

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def asked_ms(self) -> int:
        """The time of the follower's last request, for any partition."""
        return self._session.last_used

    def asks(self, key: Hashable) -> bool:
        """Return whether a partition is still in the session."""
        return key in self._session.partitions

    def note(self, key: Hashable) -> None:
        """Note a partition with possible news."""
        self._keys[cast(Key, key)] = None
        self._touch(self)

    def put_back(self, keys: list[Key]) -> None:
        """Put partitions back for want of room in an answer; they come first the next time."""
        self._keys = dict.fromkeys(keys) | self._keys

    def take(self) -> list[Key]:
        """Return all partitions with news, and forget the news."""
        keys, self._keys = self._keys, {}
        return list(keys)

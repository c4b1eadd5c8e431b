"""The watch of a follower's fetch session: the partitions that may have something new for the follower.

Rule: a follower of a thousand partitions does not cost a look at each of them with every fetch. The leader notes a
partition of the session when there may be something new (`Partition.moved`); a fetch looks at the noted partitions, and
at the partitions that the request names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import cast

from pykafka_broker.broker.partitions.fetch_session import FetchSession, Key
from pykafka_broker.broker.partitions.partition import NO_EPOCH


class SessionWatch:
    """The partitions of a follower's session with possible news.

    touch: wakes the fetch that waits for a note.
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
        """Return all noted partitions, and forget the notes."""
        keys, self._keys = self._keys, {}
        return list(keys)

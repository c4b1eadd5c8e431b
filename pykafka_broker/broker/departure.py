"""The leave of a node that is a broker and the controller of others at once (KIP-500).

Rule: it goes as any other broker goes. Others lead before it stops, and know of that; only there is nobody whom it
would have to ask. It does not wait for others longer than their controller would, and not at all where there are none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykafka_broker.broker.metadata_source import LocalMetadata
from pykafka_broker.cluster.heartbeats import Sessions, controlled_shutdown_records
from pykafka_broker.errors import ApiError

logger = logging.getLogger(__name__)

_GOODBYE_MS = 10_000  # how long others are waited for
_LOOK_MS = 50


class Departure:
    """Begun when it is made; a `Timed` of its broker. `left` is called once, when the node may stop."""

    def __init__(self, metadata: LocalMetadata, sessions: Sessions, now: int, left: Callable[[], None]) -> None:
        self._metadata = metadata
        self._sessions = sessions
        self._left: Callable[[], None] | None = left
        self._until = now + _GOODBYE_MS
        self._due = now
        controller = metadata.controller
        try:
            if sessions.next_deadline() is not None:  # somebody else serves
                metadata.commit(
                    list(controlled_shutdown_records(controller, controller.image.brokers[controller.node_id]))
                )
        except ApiError as error:
            logger.error("the metadata can't be written: %s", error)
        self._offset = metadata.applied_offset

    def next_deadline(self) -> int | None:
        return None if self._left is None else self._due

    def on_deadline(self, now: int) -> None:
        if self._left is None:
            return
        told = self._sessions.all_have_seen(self._metadata.image, self._offset)
        if not told and now < self._until:
            self._due = now + _LOOK_MS
            return
        if not told:
            logger.warning("Not all brokers have followed within %d ms: this one goes", _GOODBYE_MS)
        left, self._left = self._left, None
        left()

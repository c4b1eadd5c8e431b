"""What a controller does without being asked: it fences brokers that are silent, balances leaders, elects the unclean.

Rule: by deadline, and only in a cluster of several nodes: a node alone writes nothing by itself. Observers can tell how
far they are behind since something is written at least every `metadata.max.idle.interval.ms`. What many partitions lose
with a broker is written in portions, with others served in between; the broker is fenced with the last one, unless it
was heard of meanwhile. So is what follows from a heartbeat for many partitions.
"""

from __future__ import annotations

import logging
from itertools import islice

from pykafka_broker.broker.metadata_source import MetadataLeader
from pykafka_broker.clock import Clock
from pykafka_broker.cluster import heartbeats
from pykafka_broker.cluster.elections import MAX_ELECTIONS, balancing, unclean_candidates
from pykafka_broker.cluster.heartbeats import Following, Sessions
from pykafka_broker.cluster.raft.leader import RaftLeader
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.stored.no_op_record import NoOpRecord

logger = logging.getLogger(__name__)

_AGAIN_MS = 1_000  # between two balances of which the first has not done all
_AWAY = 2  # a deadline that is missed by this part of a session
_SIGN = 4  # a part of a session: so often it is looked whether this controller runs


class ControllerDuties:
    """Of one controller. A `Timed` of its broker."""

    def __init__(self, metadata: MetadataLeader, sessions: Sessions, quorum: RaftLeader, clock: Clock) -> None:
        self._metadata = metadata
        self._sessions = sessions
        self._quorum = quorum
        self._clock = clock
        self._idle_ms: int = metadata.controller.config.metadata_max_idle_interval_ms
        self._next_note = clock.now + self._idle_ms if self._idle_ms > 0 else None
        self._balance_ms: int = metadata.controller.config.leader_imbalance_check_interval_seconds * 1000
        self._next_balance = clock.now + self._balance_ms
        self._seen_offset = -1
        self._look_for_leaders = False
        self._sign_ms = max(1, sessions.timeout_ms // _SIGN)
        self._next_sign = clock.now + self._sign_ms
        self._fencing: dict[int, int] = {}  # brokers of which portions are left, with when they were last heard of

    def configs_changed(self) -> None:
        """An unclean leader may be allowed where none was."""
        self._look_for_leaders = True

    def next_deadline(self) -> int | None:
        busy = self._look_for_leaders or self._fencing or self._sessions.unfinished
        return 0 if busy else self._next_look()

    def _next_look(self) -> int:
        due, silent, note = self._next_balance, self._sessions.next_deadline(), self._next_note
        if silent is not None:
            due = min(due, silent, self._next_sign)
        return note if note is not None and note < due else due

    def on_deadline(self, now: int) -> None:
        if now - self._next_look() > self._sessions.timeout_ms // _AWAY:
            logger.warning("this controller was not running for a while: brokers have time to be heard of")
            self._sessions.begin_anew(now)
        self._next_sign = now + self._sign_ms
        if self._look_for_leaders:
            found = list(islice(unclean_candidates(self._metadata.controller), heartbeats.PORTION))
            self._look_for_leaders = self._commit(found) and len(found) == heartbeats.PORTION
        for broker_id in self._sessions.run_out(now):
            self._begin_to_fence(broker_id, now)
        for broker_id in list(self._fencing):
            self._fence(broker_id)
        for broker_id, following in list(self._sessions.unfinished):
            self._go_on(broker_id, following)
        if now >= self._next_balance:
            self._next_balance = now + self._balance_ms
            if self._metadata.controller.config.auto_leader_rebalance_enable:
                self._balance()
        if self._next_note is not None and now >= self._next_note:
            self._next_note = now + self._idle_ms
            self._note()

    def _begin_to_fence(self, broker_id: int, now: int) -> None:
        logger.info("broker %d is fenced: nothing was heard of it for %d ms", broker_id, self._sessions.timeout_ms)
        self._sessions.put_off(broker_id, now)  # if it can't be written
        self._fencing[broker_id] = self._sessions.last_contact(broker_id)

    def _fence(self, broker_id: int) -> None:
        """The next portion."""
        controller, heard_at = self._metadata.controller, self._fencing.pop(broker_id)
        broker = controller.image.brokers.get(broker_id)
        if broker is None or broker.fenced or self._sessions.last_contact(broker_id) != heard_at:
            return
        records = list(islice(heartbeats.fencing(controller, broker), heartbeats.PORTION))
        if self._commit(records) and len(records) == heartbeats.PORTION:
            self._fencing[broker_id] = heard_at

    def _go_on(self, broker_id: int, following: Following) -> None:
        """The next portion of what a heartbeat has begun."""
        controller, epoch = self._metadata.controller, self._sessions.unfinished.pop((broker_id, following))
        broker = controller.image.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            return
        records = list(islice(following(controller, broker), heartbeats.PORTION))
        if self._commit(records) and len(records) == heartbeats.PORTION:
            self._sessions.unfinished[broker_id, following] = epoch

    def _balance(self) -> None:
        records = balancing(self._metadata.controller)
        if len(records) == MAX_ELECTIONS:
            self._next_balance = min(self._next_balance, self._clock.now + _AGAIN_MS)
        self._commit(records)

    def _note(self) -> None:
        """Whoever follows is given something to measure by."""
        offset, self._seen_offset = self._seen_offset, self._metadata.applied_offset
        if offset == self._seen_offset and self._quorum.observers(self._clock.wall):
            self._commit([ApiMessageAndVersion(NoOpRecord(), 0)])
            self._seen_offset = self._metadata.applied_offset

    def _commit(self, records: list[ApiMessageAndVersion]) -> bool:
        """Whether it is written."""
        try:
            self._metadata.commit(records)
        except ApiError as error:
            logger.error("the metadata can't be written: %s", error)
            return False
        return True

"""The life of one broker of several under its controller (KIP-631, KIP-919).

Rule: the broker registers as soon as a controller is known. It is fenced until it has the metadata up to its
registration and serves; only then it asks to be unfenced. Heartbeats tell the controller where the broker stands, and
ask whether it may be shut down. What the controller refuses for good ends the broker, with one sentence; all else is
tried again. A broker that has lost a directory and can't tell the controller ends too: others would wait for what it
leads there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol

from pykafka_broker.peers import LinkError, OnReply
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from pykafka_broker.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from pykafka_broker.protocol.runtime import Message

logger = logging.getLogger(__name__)

NO_EPOCH = -1
_RETRY_MS = 500  # of a registration that was refused
_WHILE_FENCED_MS = 20  # between heartbeats, so that it serves as soon as it may
_GOODBYE_MS = 10_000  # how long the controller is asked for its leave


class Stage(Enum):
    """How far the broker has come."""

    NEW = "not registered yet"
    FENCED = "registered, and reading the metadata"
    SERVING = "asking to be unfenced"
    UNFENCED = "serving"
    LEAVING = "asking to be shut down"
    ENDED = "done"


class Directories(NamedTuple):
    """The log directories of the broker, by their ids."""

    online: Sequence[bytes]
    offline: Sequence[bytes]
    cordoned: Sequence[bytes]


class Ask(Protocol):
    """The way to the active controller (`MetadataSource.ask`)."""

    def __call__(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None: ...


class Situation(Protocol):
    """The broker, as its lifecycle sees it."""

    @property
    def applied_offset(self) -> int:
        """The offset of the newest record of the metadata that the broker has acted on."""

    def directories(self) -> Directories: ...

    def caught_up(self) -> None:
        """Begin to serve: the broker has the metadata up to its own registration."""

    def unfenced(self) -> None:
        """Note that clients are sent here from now on."""

    def refused(self, why: str) -> None:
        """End the broker: the controller will never take it."""


class Timing(NamedTuple):
    """The intervals and limits, from Kafka's configs of these names."""

    heartbeat_interval_ms: int
    session_timeout_ms: int
    registration_timeout_ms: int
    directory_failure_timeout_ms: int


# Answers to a registration after which there is no use in asking again.
_FATAL = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "its data is of another cluster",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has features on that this broker does not know",
    ErrorCode.INVALID_REGISTRATION: "the controller does not accept its log directories or listeners",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "the controller does not know its id",
}


class BrokerLifecycle:
    """The state of one broker, from its start to its end (Kafka: BrokerLifecycleManager).

    Args:
        registration: tells the controller of the broker; its log directories are filled in when it is sent.
        ask: brings a request to the active controller.
        situation: the broker.
        timing: the intervals and limits.
        now: the start, in milliseconds of `Clock.now`.
    """

    def __init__(
        self, registration: BrokerRegistrationRequest, ask: Ask, situation: Situation, timing: Timing, now: int
    ) -> None:
        self.stage = Stage.NEW
        self.epoch = NO_EPOCH
        self._registration = registration
        self._ask = ask
        self._situation = situation
        self._timing = timing
        self._give_up_at = now + timing.registration_timeout_ms
        self._due: int | None = now
        self._asking = False
        self._again = False  # something is to be told that came up while a request was under way
        self._trouble = ""
        self._now = now
        self._left: Callable[[], None] | None = None
        self._goodbye_until = 0
        self._told: frozenset[bytes] = frozenset()  # directories that the controller knows to be offline
        self._tell_by: dict[bytes, int] = {}  # when it has to know of others
        self._look = False  # for more of them

    @property
    def is_fenced(self) -> bool:
        """Whether nobody but the controller may count on the broker."""
        return self.stage in (Stage.NEW, Stage.FENCED, Stage.SERVING)

    # -- what comes up

    def serves(self) -> None:
        """Note that the broker serves now, as `Situation.caught_up` has asked: listeners accept."""
        assert self.stage is Stage.FENCED
        self.stage = Stage.SERVING
        self.tell()

    def tell(self) -> None:
        """Send a heartbeat at once: directories have changed, or the controller waits for what has been applied."""
        if self.stage is Stage.ENDED:
            return
        self._look = True
        self._again = self._asking
        if not self._asking:
            self._due = self._now

    def leave(self, now: int, left: Callable[[], None]) -> None:
        """Ask to be shut down, so that others lead before the broker goes.

        `left` is called when it may go; also when the controller does not let it go within `_GOODBYE_MS`.
        """
        self._now = now
        if self.stage in (Stage.NEW, Stage.ENDED):
            self.stage = Stage.ENDED
            left()
            return
        self.stage, self._left = Stage.LEAVING, left
        self._tell_by.clear()
        self._goodbye_until = now + _GOODBYE_MS
        self.tell()

    # -- time

    def next_deadline(self) -> int | None:
        if self.stage is Stage.UNFENCED and not self._tell_by and not self._look:  # asked after every request
            return self._due
        if self.stage is Stage.ENDED:
            return None
        if self._look:
            return self._now
        limits = [*self._tell_by.values()] if self._due is None else [*self._tell_by.values(), self._due]
        if self.stage is Stage.NEW:
            limits.append(self._give_up_at)
        elif self.stage is Stage.LEAVING:
            limits.append(self._goodbye_until)
        return min(limits, default=None)

    def on_deadline(self, now: int) -> None:
        self._now = now
        if self._look:
            self._note_failures()
        if self.stage is Stage.NEW and now >= self._give_up_at:
            self._refuse(f"no controller has registered it within {self._timing.registration_timeout_ms} ms")
        elif self.stage is Stage.LEAVING and now >= self._goodbye_until:
            logger.warning("No controller has said within %d ms that this broker may go: it goes", _GOODBYE_MS)
            self._end()
        elif self._is_late(now):
            limit_ms = self._timing.directory_failure_timeout_ms
            self._refuse(f"no controller could be told within {limit_ms} ms that a log directory has failed")
        elif self._due is not None and now >= self._due and not self._asking:
            self._send()

    def _is_late(self, now: int) -> bool:
        return any(by <= now for by in self._tell_by.values())

    # -- requests

    def _send(self) -> None:
        self._due, self._asking, self._again = None, True, False
        if self.stage is Stage.NEW:
            self._registration.log_dirs = list(self._situation.directories().online)
            left_ms = max(1, self._give_up_at - self._now)
            self._ask(self._registration, self._registered, min(left_ms, self._timing.session_timeout_ms))
            return
        self._note_failures()
        directories = self._situation.directories()
        heartbeat = BrokerHeartbeatRequest(
            self._registration.broker_id,
            self.epoch,
            self._situation.applied_offset,
            want_fence=self.stage is Stage.FENCED,
            want_shut_down=self.stage is Stage.LEAVING,
            offline_log_dirs=list(directories.offline),
            cordoned_log_dirs=None if self.stage is Stage.FENCED else list(directories.cordoned),
        )
        self._ask(heartbeat, partial(self._heard, frozenset(directories.offline)), self._timing.session_timeout_ms)

    def _note_failures(self) -> None:
        """Set a limit for each failed directory that the controller has yet to hear of, once it knows the broker."""
        self._look = False
        if self.stage in (Stage.NEW, Stage.LEAVING, Stage.ENDED):
            return
        by = self._now + self._timing.directory_failure_timeout_ms
        for failed in self._situation.directories().offline:
            if failed not in self._told:
                self._tell_by.setdefault(failed, by)

    def _after(self, delay_ms: int) -> None:
        self._due = self._now if self._again else self._now + delay_ms

    def _registered(self, reply: Message | LinkError) -> None:
        self._asking = False
        if self.stage is not Stage.NEW:
            return
        if isinstance(reply, LinkError):
            self._say(f"no controller can be reached: {reply}")
            self._after(_WHILE_FENCED_MS)
            return
        assert isinstance(reply, BrokerRegistrationResponse)
        code = ErrorCode(reply.error_code)
        if code is ErrorCode.NONE:
            self.epoch, self.stage, self._trouble = reply.broker_epoch, Stage.FENCED, ""
            logger.info("registered with broker epoch %d", self.epoch)
            self._after(0)
        elif code in _FATAL:
            self._refuse(f"the controller refuses this broker: {_FATAL[code]} ({code.name})")
        else:
            usual = code is ErrorCode.DUPLICATE_BROKER_REGISTRATION  # it was here a moment ago, and its session runs on
            level = logging.INFO if usual else logging.WARNING
            self._say(f"the controller does not register this broker yet: {code.name}", level)
            self._after(_RETRY_MS)

    def _heard(self, offline: frozenset[bytes], reply: Message | LinkError) -> None:
        self._asking = False
        if self.stage is Stage.ENDED:
            return
        if isinstance(reply, LinkError):
            self._say(f"no controller answers heartbeats: {reply}")
        else:
            assert isinstance(reply, BrokerHeartbeatResponse)
            code = ErrorCode(reply.error_code)
            if code is ErrorCode.NONE:
                self._trouble = ""
                self._told = offline
                self._tell_by = {failed: by for failed, by in self._tell_by.items() if failed not in offline}
                self._follow(reply)
            else:
                self._say(f"the controller refuses the heartbeats of this broker: {code.name}")
        steady = self.stage is Stage.UNFENCED or bool(self._trouble)
        self._after(self._timing.heartbeat_interval_ms if steady else _WHILE_FENCED_MS)

    def _follow(self, reply: BrokerHeartbeatResponse) -> None:
        if self.stage is Stage.LEAVING:
            if reply.should_shut_down:
                self._end()
        elif self.stage is Stage.FENCED and reply.is_caught_up:
            self._situation.caught_up()
        elif self.stage is Stage.SERVING and not reply.is_fenced:
            self.stage = Stage.UNFENCED
            self._situation.unfenced()

    def _say(self, trouble: str, level: int = logging.WARNING) -> None:
        """Log a trouble once, until there is another."""
        if trouble != self._trouble:
            self._trouble = trouble
            logger.log(level, "%s", trouble)

    def _refuse(self, why: str) -> None:
        self.stage = Stage.ENDED
        self._situation.refused(why)

    def _end(self) -> None:
        self.stage = Stage.ENDED
        left, self._left = self._left, None
        if left is not None:
            left()

"""A broker registers, catches up, serves and leaves, as its controller answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka_broker.broker.membership.lifecycle import BrokerLifecycle, Directories, Stage
from pykafka_broker.config import BrokerConfig
from pykafka_broker.peers import LinkError, OnReply
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse as Heard
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from pykafka_broker.protocol.messages.broker_registration_response import BrokerRegistrationResponse as Registered
from pykafka_broker.protocol.runtime import Message

CONFIG = BrokerConfig(
    {
        "log.dirs": "unused",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
        "initial.broker.registration.timeout.ms": "60000",
        "log.dir.failure.timeout.ms": "7000",
    }
)
ONLINE, BROKEN = b"a" * 16, b"b" * 16


class World:
    """A broker and its controller, which answers when the test says so. Time begins at 1000."""

    def __init__(self) -> None:
        self.now = 1_000
        self.asked: list[tuple[Any, OnReply]] = []
        self.heard: list[str] = []
        self.applied_offset = 5
        self.offline: list[bytes] = []
        self.opens_at_once = True
        self.ready: Callable[[], None] | None = None
        self.life = BrokerLifecycle(BrokerRegistrationRequest(broker_id=3), self.ask, self, CONFIG, self.now)

    def ask(self, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        self.asked.append((request, on_reply))

    def directories(self) -> Directories:
        return Directories([ONLINE], self.offline, [])

    def caught_up(self, ready: Callable[[], None]) -> None:
        self.heard.append("caught up")
        if self.opens_at_once:
            ready()
        self.ready = ready

    def unfenced(self) -> None:
        self.heard.append("unfenced")

    def refused(self, why: str) -> None:
        self.heard.append(why)

    def run(self, ms: int = 0) -> None:
        """Let time pass, and do what is due."""
        until = self.now + ms
        while (due := self.life.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.life.on_deadline(self.now)
        self.now = until

    def request(self) -> Any:
        """Return the one request that waits for its answer."""
        assert len(self.asked) == 1, "one request at a time"
        return self.asked[0][0]

    def answer(self, reply: Message | LinkError) -> None:
        _, on_reply = self.asked.pop()
        on_reply(reply)

    def register(self, epoch: int = 13) -> None:
        self.run()
        self.answer(Registered(broker_epoch=epoch))
        self.run()

    def unfence(self) -> None:
        self.register()
        self.answer(Heard(is_caught_up=True, is_fenced=True))
        self.run()
        self.answer(Heard(is_caught_up=True, is_fenced=False))


@pytest.fixture
def world() -> World:
    return World()


def test_it_registers_at_once_and_then_says_where_it_stands(world: World) -> None:
    world.run()
    assert isinstance(world.request(), BrokerRegistrationRequest)
    assert world.request().log_dirs == [ONLINE]
    world.answer(Registered(broker_epoch=13))
    world.run()
    heartbeat = world.request()
    assert (heartbeat.broker_epoch, heartbeat.current_metadata_offset, heartbeat.want_fence) == (13, 5, True)
    assert world.life.is_fenced


def test_heartbeats_are_quick_until_it_has_caught_up_and_serves(world: World) -> None:
    world.register()
    for _ in range(3):
        world.answer(Heard(is_caught_up=False, is_fenced=True))
        world.run(20)
        assert world.request().want_fence
    world.answer(Heard(is_caught_up=True, is_fenced=True))
    assert world.heard == ["caught up"]
    world.run()  # at once, and not with the next of the quick ones
    assert not world.request().want_fence
    world.answer(Heard(is_caught_up=True, is_fenced=True))
    world.run(20)
    world.answer(Heard(is_caught_up=True, is_fenced=False))
    assert world.heard == ["caught up", "unfenced"]
    world.run(499)
    assert not world.asked
    world.run(1)
    assert world.request().cordoned_log_dirs == []


def test_it_asks_for_clients_once_its_partitions_are_open(world: World) -> None:
    world.opens_at_once = False
    world.register()
    for _ in range(3):  # the session goes on meanwhile
        world.answer(Heard(is_caught_up=True, is_fenced=True))
        world.run(20)
        assert world.request().want_fence
        assert world.request().cordoned_log_dirs is None
    assert world.heard == ["caught up"]
    assert world.ready is not None
    world.ready()
    world.answer(Heard(is_caught_up=True, is_fenced=True))
    world.run()
    assert not world.request().want_fence
    world.answer(Heard(is_caught_up=True, is_fenced=False))
    assert world.heard == ["caught up", "unfenced"]


def test_a_broker_may_leave_while_it_opens_its_partitions(world: World) -> None:
    world.opens_at_once = False
    world.register()
    world.answer(Heard(is_caught_up=True, is_fenced=True))
    left: list[bool] = []
    world.life.leave(world.now, lambda: left.append(True))
    assert world.ready is not None
    world.ready()
    world.run()
    assert world.request().want_shut_down
    world.answer(Heard(is_caught_up=True, is_fenced=True, should_shut_down=True))
    assert left == [True]


def test_a_registration_is_amended_between_heartbeats(world: World) -> None:
    world.unfence()
    world.life.amend()
    world.run()
    assert world.request().log_dirs == [ONLINE]
    world.answer(LinkError("nobody there"))
    world.run(20)
    assert isinstance(world.request(), BrokerRegistrationRequest), "it was not heard"
    world.answer(Registered(broker_epoch=13))
    world.run()
    assert (world.request().broker_epoch, world.request().want_fence) == (13, False)
    world.answer(Heard(is_caught_up=True))
    world.life.amend()
    world.run()
    world.answer(Registered(error_code=ErrorCode.INVALID_REGISTRATION))
    world.run()
    assert world.request().broker_epoch == 13
    world.answer(Heard(is_caught_up=True))
    world.run(500)
    assert world.request().broker_epoch == 13
    assert world.life.stage is Stage.UNFENCED


def test_a_session_that_is_not_over_is_waited_for(world: World) -> None:
    world.run()
    for _ in range(3):
        world.answer(Registered(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION))
        world.run(499)
        assert not world.asked
        world.run(1)
    world.answer(Registered(broker_epoch=20))
    assert world.life.stage is Stage.FENCED


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "another cluster"),
        (ErrorCode.UNSUPPORTED_VERSION, "features"),
        (ErrorCode.INVALID_REGISTRATION, "log directories"),
    ],
)
def test_what_is_refused_for_good_ends_it(world: World, code: ErrorCode, says: str) -> None:
    world.run()
    world.answer(Registered(error_code=code))
    assert says in world.heard[0]
    assert world.life.next_deadline() is None


def test_without_a_controller_it_gives_up_in_time(world: World) -> None:
    for _ in range(3):
        world.run(20)
        world.answer(LinkError("refused"))
    world.run(60_000)
    assert world.heard == ["no controller has registered it within 60000 ms"]


def test_a_lost_controller_is_asked_again(world: World) -> None:
    world.unfence()
    world.run(500)
    world.answer(LinkError("gone"))
    world.run(500)
    world.answer(Heard(is_caught_up=True))
    assert world.life.stage is Stage.UNFENCED


def test_a_failed_directory_is_told_at_once(world: World) -> None:
    world.unfence()
    world.offline = [BROKEN]
    world.life.heartbeat_now()
    world.run()
    assert world.request().offline_log_dirs == [BROKEN]


def fails(world: World, directory: bytes = BROKEN) -> None:
    world.offline.append(directory)
    world.life.heartbeat_now()


@pytest.mark.parametrize("answered", [False, True])
def test_one_that_can_not_tell_of_a_failed_directory_ends(world: World, answered: bool) -> None:
    """A broker ends if no controller takes its report of a failed directory in time, by silence or by refusal."""
    world.unfence()
    world.run(600)
    fails(world)
    failed_at = world.now
    while world.now < failed_at + 6_900:
        world.run(100)
        if world.asked and answered:
            world.answer(Heard(error_code=ErrorCode.NOT_CONTROLLER))
    assert world.heard == ["caught up", "unfenced"]
    world.run(100)
    assert world.heard[2:] == ["no controller could be told within 7000 ms that a log directory has failed"]
    assert world.life.next_deadline() is None


def test_who_has_told_of_a_failed_directory_goes_on(world: World) -> None:
    world.unfence()
    fails(world)
    world.run(500)
    world.answer(Heard(is_caught_up=True))
    world.run(1_000)
    fails(world, ONLINE)
    while world.now < 1_000 + 60_000:
        world.run(400)
        if world.asked:
            world.answer(Heard(is_caught_up=True))
    assert world.heard == ["caught up", "unfenced"]


def test_who_leaves_does_not_end_for_a_failed_directory(world: World) -> None:
    world.unfence()
    fails(world)
    world.run(0)
    world.life.leave(world.now, lambda: world.heard.append("left"))
    world.run(9_999)
    assert world.heard == ["caught up", "unfenced"]


def test_what_comes_up_during_a_heartbeat_is_told_right_after_it(world: World) -> None:
    world.unfence()
    world.run(500)
    world.offline = [BROKEN]
    world.life.heartbeat_now()
    assert world.request().offline_log_dirs == []
    world.answer(Heard(is_caught_up=True))
    world.run()
    assert world.request().offline_log_dirs == [BROKEN]


def test_it_leaves_when_the_controller_says_so(world: World) -> None:
    world.unfence()
    world.life.leave(world.now, lambda: world.heard.append("left"))
    world.run()
    assert world.request().want_shut_down
    world.answer(Heard(is_caught_up=True))
    world.run(20)
    world.answer(Heard(is_caught_up=True, is_fenced=True, should_shut_down=True))
    assert world.heard[-1] == "left"
    assert world.life.next_deadline() is None


def test_it_leaves_without_leave_if_nobody_answers(world: World) -> None:
    world.unfence()
    world.life.leave(world.now, lambda: world.heard.append("left"))
    world.run(9_999)
    assert world.heard[-1] == "unfenced"
    world.run(1)
    assert world.heard[-1] == "left"


def test_one_that_was_never_registered_leaves_at_once(world: World) -> None:
    world.life.leave(world.now, lambda: world.heard.append("left"))
    assert world.heard == ["left"]

"""Producer ids from blocks that the controller gives."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.broker.metadata.metadata_source import ProducerIdManager
from pykafka_broker.errors import ApiError
from pykafka_broker.peers import LinkBroken, OnReply
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse


class Given:
    def __init__(self) -> None:
        self.asked: list[tuple[Any, OnReply]] = []
        self.ids = ProducerIdManager(
            2, lambda: 19, lambda request, on_reply, ms: self.asked.append((request, on_reply))
        )

    def answer(self, start: int, count: int = 1000, code: int = 0) -> None:
        self.asked.pop()[1](AllocateProducerIdsResponse(0, code, start, count))

    def refused(self) -> bool:
        with pytest.raises(ApiError) as raised:
            self.ids.next_id()
        return raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_the_first_one_has_to_be_asked_for() -> None:
    given = Given()
    assert given.refused()
    assert given.refused()
    ((request, _),) = given.asked
    assert (request.broker_id, request.broker_epoch) == (2, 19)
    given.answer(5000)
    assert [given.ids.next_id() for _ in range(3)] == [5000, 5001, 5002]


def test_the_next_block_is_there_before_this_one_ends() -> None:
    given = Given()
    assert given.refused()
    given.answer(0, 10)
    assert [given.ids.next_id() for _ in range(9)] == list(range(9))
    assert given.asked == []
    assert given.ids.next_id() == 9
    given.answer(2000, 10)
    assert given.ids.next_id() == 2000


@pytest.mark.parametrize("trouble", [LinkBroken("gone"), AllocateProducerIdsResponse(0, ErrorCode.STALE_BROKER_EPOCH)])
def test_trouble_is_asked_again(trouble: Any) -> None:
    given = Given()
    assert given.refused()
    given.asked.pop()[1](trouble)
    assert given.refused()
    assert len(given.asked) == 1


def test_a_trouble_is_logged_once_however_often_clients_come(caplog: pytest.LogCaptureFixture) -> None:
    given, told = Given(), "no producer ids: KAFKA_STORAGE_ERROR"
    for _ in range(3):
        assert given.refused()
        given.answer(-1, 0, ErrorCode.KAFKA_STORAGE_ERROR)
    assert caplog.messages == [told]
    assert given.refused()
    given.asked.pop()[1](LinkBroken("gone"))
    assert given.refused()
    given.answer(0, 1)
    assert given.ids.next_id() == 0
    assert given.refused()
    given.answer(-1, 0, ErrorCode.KAFKA_STORAGE_ERROR)
    assert caplog.messages == [told, "no producer ids: gone", told]


def test_the_first_one_may_be_asked_for_beforehand() -> None:
    given = Given()
    given.ids.prepare()
    given.ids.prepare()
    given.answer(7000)
    given.ids.prepare()
    assert (given.ids.next_id(), given.asked) == (7000, [])


def test_a_controller_in_the_same_process_gives_a_block_at_once() -> None:
    blocks = iter(range(0, 9000, 1000))
    asked: list[int] = []

    def ask(request: Any, on_reply: OnReply, timeout_ms: int) -> None:
        asked.append(next(blocks))
        on_reply(AllocateProducerIdsResponse(0, 0, asked[-1], 1000))

    ids = ProducerIdManager(1, lambda: 5, ask)
    assert [ids.next_id() for _ in range(2001)] == list(range(2001))
    assert asked == [0, 1000, 2000]

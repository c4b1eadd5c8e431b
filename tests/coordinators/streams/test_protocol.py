"""A member that has missed an answer, and comes with the epoch before."""

from __future__ import annotations

import pytest

from pykafka_broker.protocol.errors import ErrorCode
from tests.coordinators.streams.support import Tasks
from tests.coordinators.streams.test_restart import running


@pytest.mark.parametrize(
    ("owned", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"0": [0]}, ErrorCode.NONE),
        ({"0": [0], "1": []}, ErrorCode.NONE),
        ({"0": [0, 1]}, ErrorCode.FENCED_MEMBER_EPOCH),
        # Kafka 4.4.0 counts a subtopology of which the member has nothing as more than it has
        ({"0": [0], "9": []}, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_only_who_claims_nothing_of_others_may_have_missed_an_answer(owned: Tasks, code: ErrorCode) -> None:
    machine = running()
    assert machine.group().members["one"].epoch == 4
    assert machine.beat("one", 3, owned).error_code == code

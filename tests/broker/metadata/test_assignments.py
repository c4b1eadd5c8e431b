"""Reports of directories to a controller on another node."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pykafka_broker.broker.metadata.assignments import AssignmentsManager
from pykafka_broker.broker.waiting.future import Future, completed
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

TOPIC_ID, OLD, NEW = b"t" * 16, b"o" * 16, b"n" * 16


class ControllerElsewhere:
    """A controller that keeps requests until the test answers them; metadata are committed at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[AssignReplicasToDirsRequest, Callable[[Any], None]]] = []
        self.node: Any = SimpleNamespace(
            metadata_leader=None,
            id=1,
            broker_epoch=7,
            clock=SimpleNamespace(now=0),
            replicas=SimpleNamespace(),
            image=SimpleNamespace(topics={"t": SimpleNamespace(id=TOPIC_ID)}, features={"metadata.version": 30}),
            metadata=SimpleNamespace(ask=self.ask, committed=self.committed),
        )

    def ask(self, request: Any, answered: Callable[[Any], None], _timeout_ms: int) -> None:
        self.asked.append((request, answered))

    def committed(self) -> Future[None]:
        return completed(None)

    def answer(self) -> bytes:
        """Grant the oldest request; return the directory that it named."""
        request, answered = self.asked.pop(0)
        [directory] = request.directories
        topics = [TopicData(TOPIC_ID, [PartitionData(0)])]
        answered(AssignReplicasToDirsResponse(directories=[DirectoryData(directory.id, topics)]))
        return bytes(directory.id)


def directory(id: bytes) -> Any:
    """Return all of a log directory that a report needs."""
    return SimpleNamespace(id=id)


def test_an_answer_for_the_directory_before_confirms_nothing() -> None:
    """A move is taken back while its report is under way: the metadata name the new directory when that is answered."""
    controller, told = ControllerElsewhere(), []
    manager = AssignmentsManager(controller.node)
    manager._started = True
    new, old = directory(NEW), directory(OLD)
    manager.prepare_move(("t", 0), new, lambda error: told.append(("new", error)))
    manager.on_deadline(0)
    manager.prepare_move(("t", 0), old, lambda error: told.append(("old", error)))
    assert controller.answer() == NEW
    assert told == []
    manager.on_deadline(500)
    assert controller.answer() == OLD
    assert told == [("new", None), ("old", None)], "nobody waits for ever: a move that was given up removes its copy"
    assert manager.next_deadline() is None

"""What share coordinators at other nodes are asked (KIP-932): to begin, tell, take, sum up and forget states.

Rule: of one share partition things are asked in their order, one after the other. A coordinator that moves or is being
loaded is looked up anew and asked again for some seconds; any other answer is final. A question is the future of its
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pykafka_broker.broker.channels import RequestBatcher, told
from pykafka_broker.broker.coordinators.coordinator_log import ANOTHER_TIME
from pykafka_broker.broker.node import Node
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.errors import ApiError
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import (
    delete_share_group_state_request,
    initialize_share_group_state_request,
    read_share_group_state_request,
    read_share_group_state_summary_request,
    write_share_group_state_request,
)
from pykafka_broker.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from pykafka_broker.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from pykafka_broker.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from pykafka_broker.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from pykafka_broker.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from pykafka_broker.protocol.runtime import Message

_TRIES = 8  # which is 13 seconds, about as long as Kafka tries: a busy cluster makes its topic of states in that time
_RETRY_MS = 100  # doubled each time


class Kind(NamedTuple):
    """What is asked: the request, its part for a topic, and its part for a partition."""

    request: Callable[[str, list[Any]], Message]
    topic: Callable[[bytes, list[Any]], Any]
    partition: Callable[..., Any]


INITIALIZE = Kind(
    InitializeShareGroupStateRequest,
    initialize_share_group_state_request.InitializeStateData,
    initialize_share_group_state_request.PartitionData,
)
READ = Kind(
    ReadShareGroupStateRequest,
    read_share_group_state_request.ReadStateData,
    read_share_group_state_request.PartitionData,
)
WRITE = Kind(
    WriteShareGroupStateRequest,
    write_share_group_state_request.WriteStateData,
    write_share_group_state_request.PartitionData,
)
DELETE = Kind(
    DeleteShareGroupStateRequest,
    delete_share_group_state_request.DeleteStateData,
    delete_share_group_state_request.PartitionData,
)
SUMMARY = Kind(
    ReadShareGroupStateSummaryRequest,
    read_share_group_state_summary_request.ReadStateSummaryData,
    read_share_group_state_summary_request.PartitionData,
)
StateBatch = write_share_group_state_request.StateBatch


class Question(Future[Any]):
    """The future of the share coordinator's answer about one share partition, or of the ApiError that refuses it."""

    __slots__ = ("asked", "key", "kind", "tries")

    def __init__(self, kind: Kind, key: ShareKey, asked: Any) -> None:
        super().__init__()
        self.kind = kind
        self.key = key
        self.asked = asked
        self.tries = 0


class _Try:
    """A question on its way to one broker, which may turn out to be the wrong one."""

    __slots__ = ("given_up", "question")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.given_up = False


class StateRequests(RequestBatcher[_Try]):
    """All of one node. `find` tells the other node that keeps a state; None if this one does, or none."""

    client_id = "Persister-client-%d"

    def __init__(self, node: Node, find: Callable[[ShareKey], int | None]) -> None:
        super().__init__(node)
        self._find = find
        self._again: list[tuple[int, Question]] = []

    def ask(self, kind: Kind, key: ShareKey, *fields: Any) -> Question:
        """`fields` are those of the partition's part behind its number."""
        question = Question(kind, key, kind.partition(key.partition, *fields))
        self._dispatch(question)
        return question

    def _dispatch(self, question: Question) -> None:
        broker_id = self._find(question.key)
        if broker_id is None:  # this node, maybe, whose host is asked when it is tried the next time
            question.fail(ApiError(ErrorCode.NOT_COORDINATOR))
        else:
            self.send(broker_id, _Try(question))

    def forget_moved(self) -> None:
        """Nobody waits for a node that does not keep the state any more."""
        for broker_id, one in self._wanted():
            if not one.given_up and self._find(one.question.key) != broker_id:
                one.given_up = True
                self._failed(one.question, ApiError(ErrorCode.NOT_COORDINATOR), is_known=False)

    def _choose(self, waiting: list[_Try]) -> tuple[list[_Try], list[_Try]]:
        """Those of one kind and group, in the order of each share partition."""
        now: list[_Try] = []
        later: list[_Try] = []
        seen: set[ShareKey] = set()
        for one in waiting:
            if one.given_up:
                continue
            question = one.question
            first = now[0].question if now else question
            together = question.kind is first.kind and question.key.group_id == first.key.group_id
            (now if together and question.key not in seen else later).append(one)
            seen.add(question.key)
        return now, later

    def _request(self, wanted: list[_Try]) -> Message:
        first = wanted[0].question
        topics: dict[bytes, list[Any]] = {}
        for one in wanted:
            topics.setdefault(one.question.key.topic_id, []).append(one.question.asked)
        return first.kind.request(first.key.group_id, [first.kind.topic(*each) for each in topics.items()])

    def _tell(self, wanted: list[_Try], answer: Message | LinkError) -> None:
        results = {} if isinstance(answer, LinkError) else dict(_results(answer))
        for question in [one.question for one in wanted if not one.given_up]:
            found = results.get((question.key.topic_id, question.key.partition))
            if found is None:
                self._failed(question, ApiError(ErrorCode.NETWORK_EXCEPTION), is_known=False)
            elif found.error_code:
                self._failed(question, ApiError(told(found.error_code), found.error_message))
            else:
                question.complete(found)

    def _failed(self, question: Question, error: ApiError, *, is_known: bool = True) -> None:
        """Ask again later, or tell the error. A request to initialize a state whose outcome is not known is not sent
        again: the first copy may arrive after the second one, and reset what members have accepted in between. The next
        attempt has an epoch that fences it.
        """
        question.tries += 1
        may_ask_again = is_known or question.kind is not INITIALIZE
        if may_ask_again and error.code in ANOTHER_TIME and question.tries < _TRIES:
            self._again.append((self._node.clock.now + (_RETRY_MS << question.tries - 1), question))
        elif error.code is ErrorCode.NETWORK_EXCEPTION:
            question.fail(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            question.fail(error)

    # -- time

    def next_deadline(self) -> int | None:
        return min((due for due, _ in self._again), default=None)

    def on_deadline(self, now: int) -> None:
        due = [question for at, question in self._again if at <= now]
        self._again = [each for each in self._again if each[0] > now]
        for question in due:
            self._dispatch(question)


def _results(answer: Any) -> Iterable[tuple[tuple[bytes, int], Any]]:
    for topic in answer.results:
        for one in topic.partitions:
            yield (bytes(topic.topic_id), one.partition), one

"""The playing of sequences. Rule: both brokers get a step before either gets the next one. Once one broker has
answered, the other's answer is waited for. A request that neither answers is parked, and its connection is not used
until the answer comes.

A step's outcome is a dict: connection -> answer, since one request (a SyncGroup) can release the answers to others.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from typing import Any

from interop.answers import script
from interop.differential.granted import Granted
from interop.differential.making.acls import PREPARER
from interop.differential.steps import BY_NAME, PREFIX, Step, prefix_of, to_message
from interop.differential.world import World
from interop.raw import Closed, RawClient, framed
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from pykafka_broker.protocol.runtime import EncodeError

PARKED_AFTER_S = 0.3  # the time in which neither broker answers a request that is parked
UNANSWERED_S = 0.1  # the time for a broker to close a connection instead of an answer
PATIENCE_S = 3.0  # for the second broker, once the first has answered
ANSWERED_WITHIN_S = 60.0  # where an answer is certain to come
RETRIED = {14, 15, 16, 51}  # coordinator loading, not there yet, moved; markers of a transaction on their way
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE = 3, 5
MISSING_INTERNAL_TOPICS = 3
RETRY_EVERY_S, RETRY_FOR_S = 0.03, 1.5
MADE_WITHIN_S = 5.0  # a topic that Metadata creates, beside other work
PROBES = "abc"  # ends of group names: one for each partition of __consumer_offsets, whatever the prefix
CHANGES_METADATA = script.CHANGES_METADATA | {
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
}
GRANTS = {ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
COMMITS = {ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT}
ALTERS, SET, GROUP = {ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}, 0, 32
CLOSED = "closed"
PARKED = "parked"
Outcome = dict[str, Any]


class Side:
    """One broker in one run of one sequence."""

    def __init__(
        self,
        bootstrap_servers: str,
        prefix: str,
        settle_s: float = 0.0,
        asks_coordinators: bool = False,
        stranger: str = "",
        lane: int = 0,
    ) -> None:
        """Create a side that is not connected yet.

        Args:
            stranger: the address that all requests come from but the preparer's.
            lane: the number of this player, of several on the same broker.
        """
        self.world = World(prefix, stranger)
        self._granted = Granted()
        self._probes = [prefix_of(lane) + letter for letter in PROBES]  # groups with names as another sequence's
        self._asks_coordinators = asks_coordinators  # whether a change of topics waits for coordinators
        self._bootstrap, self._prefix, self._settle_s = bootstrap_servers, prefix, settle_s
        self._stranger = stranger
        self._clients: dict[str, RawClient] = {}
        self._committing: set[str] = set()  # groups
        self.waiting: dict[str, Step] = {}

    def encoded(self, step: Step) -> bytes | None:
        """Return the whole request; None if the version can't carry the fields.

        An unknown version is sent with the body of the nearest known one.
        """
        kind = BY_NAME[step.api].request_class()
        version = max(kind.MIN_VERSION, min(step.version, kind.MAX_VERSION))
        try:
            body: bytes = to_message(step, self._prefix, self.world.resolve).encode(version)
        except (EncodeError, struct.error):
            return None
        flexible = BY_NAME[step.api].request_header_version(version)
        return RequestHeader(step.key, step.version, 1, "differential").encode(flexible) + body

    def send(self, step: Step, request: bytes) -> None:
        self._client(step.on).send_bytes(framed(request))
        if step.key != ApiKey.PRODUCE or step.fields.get("acks") != 0:
            self.waiting[step.on] = step

    def _client(self, on: str) -> RawClient:
        if on not in self._clients:
            self._clients[on] = RawClient(self._bootstrap, source="" if on == PREPARER else self._stranger)
        return self._clients[on]

    def hung_up(self, on: str) -> bool:
        """Return whether the broker closes the connection of a request without an answer, as it does after an error."""
        closed = bool(wait([self._clients[on].socket], UNANSWERED_S))
        if closed:
            self._clients.pop(on).close()
        return closed

    def has_answer(self, on: str, within_s: float = 0.0) -> bool:
        return bool(wait([self._clients[on].socket], within_s))

    def take(self, on: str) -> Any:
        """Return the answer as plain data. The request is sent again while its answer says that it came too early."""
        step, client = self.waiting.pop(on), self._clients[on]
        request = self.encoded(step)
        assert request is not None
        start = time.monotonic()
        while True:
            try:
                answer = decoded(step, client.receive_frame())
            except (Closed, ConnectionError):
                self._clients.pop(on).close()
                return CLOSED
            waited_s = time.monotonic() - start
            if not (
                (waited_s < MADE_WITHIN_S and _is_being_made(step, answer))
                or (waited_s < RETRY_FOR_S and (_too_early(answer) or self._is_being_assigned(step, answer)))
            ):
                break
            time.sleep(RETRY_EVERY_S)
            client.send_bytes(framed(request))
        self.world.learn(step, answer)
        self._settle(step, answer, self._client(PREPARER) if self._stranger else client)
        return self.world.plain(answer)

    def _is_being_assigned(self, step: Step, answer: Any) -> bool:
        """Return whether the broker still prepares a share group's partitions or a streams group's internal topics."""
        if step.key == ApiKey.SHARE_GROUP_HEARTBEAT and not answer.error_code and answer.member_epoch > 0:
            return self._is_missing_partitions(step)
        if step.key == ApiKey.STREAMS_GROUP_HEARTBEAT:
            return any(status.status_code == MISSING_INTERNAL_TOPICS for status in answer.status or ())
        return False

    def _is_missing_partitions(self, step: Step) -> bool:
        """Return whether the members of a share group have fewer partitions together than their topics have."""
        group: str = (step.fields.get("group_id") or "").replace(PREFIX, self._prefix)
        [described] = self._client(step.on).call(ShareGroupDescribeRequest([group]), 1).groups
        read = {
            (topic.topic_name, number)
            for member in described.members
            for topic in member.assignment.topic_partitions
            for number in topic.partitions
        }
        names = {name for member in described.members for name in member.subscribed_topic_names}
        return len(read) < sum(self.world.topics.get(name, 0) for name in names)

    def _settle(self, step: Step, answer: Any, client: RawClient) -> None:
        if step.key in COMMITS:
            self._committing.add((step.fields.get("group_id") or "").replace(PREFIX, self._prefix))
        if step.key in CHANGES_METADATA and self._settle_s:
            self._wait_for_topics(client)
            if step.key in ALTERS:
                self._wait_for_configs(step, answer, client)
            elif step.key == ApiKey.DELETE_TOPICS:
                self._wait_for_offsets(client)
            elif step.key in GRANTS:
                self._wait_for_acls(step, answer, client)
            time.sleep(self._settle_s)
        elif step.key in (ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID):
            name = (step.fields.get("transactional_id") or "").replace(PREFIX, self._prefix)
            until = time.monotonic() + RETRY_FOR_S
            while name and time.monotonic() < until:
                state = client.call(DescribeTransactionsRequest([name]), 0).transaction_states[0].transaction_state
                if not state.startswith("Prepare"):
                    break
                time.sleep(RETRY_EVERY_S)

    def _wait_for_topics(self, client: RawClient) -> None:
        """Wait until the broker, and coordinators if asked for, know the topics that its controller has."""
        until = time.monotonic() + RETRY_FOR_S
        while time.monotonic() < until:
            told = {topic.name: len(topic.partitions) for topic in client.call(MetadataRequest(None), 9).topics}
            if all(told.get(name, 0) == count for name, count in self.world.topics.items()):
                break
            time.sleep(RETRY_EVERY_S)
        for group in self._probes if self._asks_coordinators else ():
            while time.monotonic() < until and not self._is_known_to(group, client):
                time.sleep(RETRY_EVERY_S)

    def _wait_for_configs(self, step: Step, answer: Any, client: RawClient) -> None:
        """Wait until the broker describes the configs set for groups: a share group begins where its config says."""
        until = time.monotonic() + RETRY_FOR_S
        refused = any(response.error_code for response in answer.responses) or step.fields.get("validate_only")
        groups = [resource for resource in step.fields["resources"] or () if resource["resource_type"] == GROUP]
        for resource in () if refused else groups:
            name = resource["resource_name"].replace(PREFIX, self._prefix)
            wanted = {
                config["name"]: config["value"]
                for config in resource["configs"]
                if config.get("config_operation", SET) == SET and config["value"] is not None
            }
            asked = DescribeConfigsResource(resource["resource_type"], name, [*wanted])
            while wanted and time.monotonic() < until:
                [described] = client.call(DescribeConfigsRequest([asked]), 4).results
                told = {config.name: config.value for config in described.configs}
                if described.error_code or all(told.get(key) in (value, None) for key, value in wanted.items()):
                    break
                time.sleep(RETRY_EVERY_S)

    def _wait_for_offsets(self, client: RawClient) -> None:
        """Wait until the groups have forgotten the offsets committed for deleted topics."""
        until = time.monotonic() + RETRY_FOR_S
        for group in self._committing:
            while time.monotonic() < until:
                fetched = client.call(OffsetFetchRequest(group, topics=None), 7)
                if all(self.world.topics.get(topic.name) != 0 for topic in fetched.topics):
                    break
                time.sleep(RETRY_EVERY_S)

    def _wait_for_acls(self, step: Step, answer: Any, client: RawClient) -> None:
        if step.key == ApiKey.CREATE_ACLS:
            self._granted.learn_created(to_message(step, self._prefix, self.world.resolve), answer)
        else:
            self._granted.learn_deleted(answer)
        until = time.monotonic() + MADE_WITHIN_S
        while not self._granted.is_known(client) and time.monotonic() < until:
            time.sleep(RETRY_EVERY_S)

    def _is_known_to(self, group: str, client: RawClient) -> bool:
        """Return whether the group's coordinator knows all topics, too: coordinators learn of topics last."""
        join = ConsumerGroupHeartbeatRequest(
            group,
            "p" * 22,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[*self.world.topics],
            topic_partitions=[],
        )
        answer = client.call(join, 1)
        client.call(ConsumerGroupHeartbeatRequest(group, "p" * 22, -1), 1)
        assigned = answer.assignment.topic_partitions if answer.assignment else ()
        return sum(len(topic.partitions) for topic in assigned) == sum(self.world.topics.values())

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def _too_early(answer: Any) -> bool:
    codes = [getattr(answer, "error_code", 0)]
    for name in ("groups", "coordinators", "topics", "results_by_transaction", "transaction_states", "responses"):
        for item in getattr(answer, name, None) or ():
            codes.append(getattr(item, "error_code", 0))
            for partition in getattr(item, "partitions", None) or ():
                codes.append(getattr(partition, "error_code", 0))
    for topic in getattr(answer, "results_by_topic_v3_and_below", None) or ():
        codes += [result.partition_error_code for result in topic.results_by_partition]
    return any(code in RETRIED for code in codes)


def _is_being_made(step: Step, answer: Any) -> bool:
    """Return whether a topic that Metadata creates is not there yet. Kafka takes a moment, and clients ask again."""
    if step.key != ApiKey.METADATA or not step.fields.get("allow_auto_topic_creation", True):
        return False
    return any(topic.error_code in (UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE) and topic.name for topic in answer.topics)


def decoded(step: Step, frame: bytes) -> Any:
    """Return the decoded answer. The broker answers an unknown version of ApiVersions in version 0."""
    spec = BY_NAME[step.api]
    kind = spec.response_class()
    version = max(kind.MIN_VERSION, min(step.version, kind.MAX_VERSION))
    if version != step.version and step.key == ApiKey.API_VERSIONS:
        version = 0
    _, at = ResponseHeader.read(frame, 0, spec.response_header_version(version))
    return kind.decode(memoryview(frame)[at:], version)


def lockstep(sides: Sequence[Side], step: Step) -> list[Outcome]:
    """Send a step to all sides and return the outcome of each."""
    outcomes: list[Outcome] = [{} for _ in sides]
    requests = [side.encoded(step) for side in sides]
    if any(step.on in side.waiting for side in sides) or None in requests:
        return outcomes
    for side, request in zip(sides, requests, strict=True):
        side.send(step, request or b"")
    if step.on not in sides[0].waiting:
        return [{step.on: CLOSED} if side.hung_up(step.on) else {} for side in sides]
    _gather(sides, step.on, outcomes, PARKED_AFTER_S)
    for on in sorted({name for side in sides for name in side.waiting}):
        if on != step.on:
            _gather(sides, on, outcomes, 0.0)
    return outcomes


def _gather(sides: Sequence[Side], on: str, outcomes: list[Outcome], wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while not any(side.has_answer(on, 0.001) for side in sides):
        if time.monotonic() >= until:
            return
    for side, outcome in zip(sides, outcomes, strict=True):
        outcome[on] = side.take(on) if side.has_answer(on, PATIENCE_S) else PARKED


def replay(side: Side, step: Step, expected: Outcome) -> Outcome:
    """Play a step on one broker; return its outcome on the connections that the recorded outcome has answers on."""
    request = side.encoded(step)
    if step.on in side.waiting or request is None:
        return {}
    side.send(step, request)
    if step.on not in side.waiting:
        return {step.on: CLOSED} if side.hung_up(step.on) else {}
    found = {}
    for on in sorted(expected):
        found[on] = side.take(on) if on in side.waiting and side.has_answer(on, ANSWERED_WITHIN_S) else PARKED
    return found

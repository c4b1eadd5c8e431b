"""A broker that passes for another release of Kafka.

Rule: clients see the versions, the errors, the features and the config keys of the release, and nothing that came
later. A request is answered by its version, as always: so the offered versions make most of a release. Features of a
newer release that this broker lacks are not offered. Imported where a release is emulated, and never
imports the router or services, which know an emulation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.broker.waiting.future import then
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult
from pykafka_broker.protocol.runtime import Message, leaves
from pykafka_broker.releases.release import Release, Versions

Handler = Callable[[Any, Any, Any], Any]

# The code that was answered before a code existed. Where the older code is too new as well, its own entry follows.
_BEFORE: dict[ErrorCode, ErrorCode] = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.INVALID_TIMESTAMP: ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_LEADER_OR_FOLLOWER,  # KIP-112
    ErrorCode.UNKNOWN_PRODUCER_ID: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.INVALID_GROUP_ID,
    ErrorCode.TOPIC_DELETION_DISABLED: ErrorCode.INVALID_REQUEST,  # KIP-322
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OFFSET_NOT_AVAILABLE: ErrorCode.LEADER_NOT_AVAILABLE,  # KIP-207
    ErrorCode.MEMBER_ID_REQUIRED: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID: ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.INVALID_RECORD: ErrorCode.CORRUPT_MESSAGE,  # KIP-467
    ErrorCode.UNSTABLE_OFFSET_COMMIT: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorCode.NONE,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,  # KIP-588
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.FENCED_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE,  # KIP-890
}
# Changes that a release with ZooKeeper made though the client gave them no time, and the field of the results that it
# told as not waited for.
_RESULTS = {
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "responses",
    ApiKey.CREATE_PARTITIONS: "results",
    ApiKey.ELECT_LEADERS: None,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: None,
}
_ENOUGH_MS = 30_000
_FEATURES_FROM = (2, 7)
# librdkafka takes a broker that does not offer Produce 0 for one without compression. So 4.0 and newer releases offer
# all versions, and close the connection at a request of a dropped version.
_PRODUCE_OFFERED_WHOLE_FROM = (4, 0)
_OWN_RANGE_FROM = (2, 4)  # of ApiVersions, in the answer to a version of it that is not known (KIP-511)


class Emulation:
    """The versions and error codes of a release of Kafka: `versions` are served, `offered` told."""

    def __init__(self, release: Release) -> None:
        self.release = release
        # An API without a schema is not offered; no release has one so far.
        self.versions: dict[int, Versions] = {key: release.apis[key] for key in sorted(release.apis) if key in SPECS}
        self.offered = self.versions
        if release.number >= _PRODUCE_OFFERED_WHOLE_FROM:
            self.offered = self.versions | {ApiKey.PRODUCE: (0, self.versions[ApiKey.PRODUCE][1])}
        self._last_error = release.last_error
        self._older_codes = {int(code): self._older(code) for code in ErrorCode if code > release.last_error}

    @property
    def tells_own_range(self) -> bool:
        """Return whether too new a version of ApiVersions is answered with the range of the release."""
        return self.release.number >= _OWN_RANGE_FROM

    @property
    def has_zookeeper(self) -> bool:
        """Return whether the release kept its metadata in ZooKeeper."""
        return not self.release.features

    def handler(self, api_key: ApiKey, handler: Handler) -> Handler:
        if self.has_zookeeper and api_key in _RESULTS:
            return partial(_without_a_deadline, handler, _RESULTS[api_key])
        return handler

    def features_epoch(self, applied_offset: int) -> int:
        """Return the epoch of the features: -1 before 2.7 (KIP-584); with ZooKeeper they never changed."""
        if not self.has_zookeeper:
            return applied_offset
        return 0 if self.release.number >= _FEATURES_FROM else -1

    def _older(self, code: ErrorCode) -> ErrorCode:
        """Return the code that the release sent in the place of a newer code."""
        while code > self._last_error:
            code = _BEFORE.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
        return code

    def translated(self, reply: Any, response_type: type[Message], version: int) -> Any:
        """Return the answer as the release gave it, without newer error codes."""
        if isinstance(reply, EncodedReply):
            response = response_type.decode(reply.body, version)
            return EncodedReply(response.encode(version)) if self._replace_codes(response) else reply
        if isinstance(reply, Message):
            self._replace_codes(reply)
        return reply

    def _replace_codes(self, response: Message) -> bool:
        """Replace newer error codes in a response; return whether there were any."""
        changed = False
        for struct, name, value in leaves(response):
            if name.endswith("error_code") and value > self._last_error:
                setattr(struct, name, self._older_codes[value])
                changed = True
        return changed


def _without_a_deadline(handler: Handler, results: str | None, services: Any, context: Any, request: Any) -> Any:
    """Serve a request, with enough time if the client gives none: no controller refused such a change."""
    if request.timeout_ms > 0:
        return handler(services, context, request)
    request.timeout_ms = _ENOUGH_MS
    answer = handler(services, context, request)
    if results is None or getattr(request, "validate_only", False):
        return answer
    return then(answer, partial(_not_waited_for, results))


def _not_waited_for(results: str, response: Any) -> Any:
    for result in getattr(response, results):
        if not result.error_code:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            if isinstance(result, CreatableTopicResult):
                result.num_partitions = result.replication_factor = -1
                result.configs = []
    return response

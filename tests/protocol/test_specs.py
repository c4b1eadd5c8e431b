"""API keys, error codes, stored records: against the facts, and loaded only when asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from protocol.generator.importer import load_ahead
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored_keys import (
    GROUP_RECORDS,
    METADATA_RECORDS,
    REMOTE_LOG_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
)
from pykafka_broker.releases.release import OWN_VERSION, release
from tests.protocol.values import SCHEMAS, messages

UNION = {
    "Produce": (0, 13), "Fetch": (0, 18), "ListOffsets": (0, 11), "Metadata": (0, 13), "LeaderAndIsr": (0, 7),
    "StopReplica": (0, 4), "UpdateMetadata": (0, 8), "ControlledShutdown": (0, 3), "OffsetCommit": (0, 10),
    "OffsetFetch": (0, 10), "ApiVersions": (0, 5), "CreateTopics": (0, 7), "InitProducerId": (0, 6), "Vote": (0, 2),
    "ShareFetch": (1, 2), "ShareGroupHeartbeat": (1, 1), "ListConfigResources": (0, 1), "StreamsGroupHeartbeat": (0, 1),
}  # fmt: skip


def test_every_api_has_a_spec() -> None:
    assert set(SPECS) == set(ApiKey)
    assert {spec.api_key for spec in SPECS.values()} == set(ApiKey)
    assert [key for key in range(95) if key not in SPECS] == []


@pytest.mark.parametrize(("name", "versions"), UNION.items())
def test_versions_are_the_union_of_the_releases(name: str, versions: tuple[int, int]) -> None:
    spec = next(spec for spec in SPECS.values() if spec.name == name)
    assert (spec.min_version, spec.max_version) == versions


def test_versions_above_the_stable_maximum_are_marked_by_kafka_or_of_a_release_imported_ahead() -> None:
    above = {
        spec.name: spec.stable_max_version for spec in SPECS.values() if spec.stable_max_version < spec.max_version
    }
    assert above["InitProducerId"] == 5
    marked = {message.name.removesuffix("Request") for message in messages().values() if message.latest_unstable}
    ahead = load_ahead(SCHEMAS)
    assert set(above) == marked | ahead.keys()
    assert {name: above[name] for name in ahead} == ahead


def test_what_is_spoken_ends_where_the_own_release_ends() -> None:
    served = release(OWN_VERSION).apis
    for key in map(ApiKey, release("4.4").apis):
        assert SPECS[key].stable_max_version == served.get(key, (0, -1))[1], key


@pytest.mark.parametrize("key", list(ApiKey))
def test_classes_belong_to_their_spec(key: ApiKey) -> None:
    spec = SPECS[key]
    for message in (spec.request_class(), spec.response_class()):
        assert key == message.API_KEY
        assert (spec.min_version, spec.max_version) == (message.MIN_VERSION, message.MAX_VERSION)
        assert spec.flexible_from == message.FLEXIBLE_FROM
    assert spec.name in repr(spec)


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.FETCH, 11, 1, 0),
        (ApiKey.FETCH, 12, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),  # KIP-511
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 1, 1, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, 2, 1),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),  # never flexible
        (ApiKey.DESCRIBE_CLUSTER, 0, 2, 1),  # always flexible
    ],
)
def test_header_versions(key: ApiKey, version: int, request_header: int, response_header: int) -> None:
    assert SPECS[key].request_header_version(version) == request_header
    assert SPECS[key].response_header_version(version) == response_header


def test_error_codes_are_the_facts() -> None:
    facts = json.loads((SCHEMAS / "errors.json").read_text())
    assert {(error.value, error.name, error.retriable) for error in ErrorCode} == {
        (fact["code"], fact["name"], fact["retriable"]) for fact in facts
    }
    assert ErrorCode(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.NONE.retriable
    assert ErrorCode(30_000) is ErrorCode.UNKNOWN_SERVER_ERROR, "a code of a newer broker is an error all the same"


@pytest.mark.parametrize("records", [GROUP_RECORDS, TRANSACTION_RECORDS, SHARE_RECORDS])
def test_coordinator_records_know_their_key_and_value(records: dict[int, object]) -> None:
    for number, spec in records.items():
        assert number == spec.key_class().API_KEY  # type: ignore[attr-defined]
        assert number == spec.value_class().API_KEY  # type: ignore[attr-defined]


def test_coordinator_record_types() -> None:
    assert GROUP_RECORDS[0].key_class().__name__ == "LegacyOffsetCommitKey"
    assert GROUP_RECORDS[1].key_class().__name__ == "OffsetCommitKey"
    assert GROUP_RECORDS[2].value_class().__name__ == "GroupMetadataValue"
    assert GROUP_RECORDS[3].key_class().__name__ == "ConsumerGroupMetadataKey"
    assert TRANSACTION_RECORDS[0].value_class().__name__ == "TransactionLogValue"
    assert SHARE_RECORDS[1].value_class().__name__ == "ShareUpdateValue"


def test_metadata_record_types() -> None:
    names = {number: spec.value_class().__name__ for number, spec in METADATA_RECORDS.items()}
    assert (names[2], names[3], names[4], names[12]) == (
        "TopicRecord",
        "PartitionRecord",
        "ConfigRecord",
        "FeatureLevelRecord",
    )
    assert REMOTE_LOG_RECORDS[0].value_class().__name__ == "RemoteLogSegmentMetadataRecord"
    for records in (METADATA_RECORDS, REMOTE_LOG_RECORDS):
        assert all(number == spec.value_class().API_KEY for number, spec in records.items())


def test_the_registries_import_no_message() -> None:
    program = (
        "import sys\nfrom pykafka_broker.protocol import api_keys, errors, stored_keys\n"
        "print([name for name in sys.modules if '.messages' in name or '.stored.' in name or 'runtime' in name])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"

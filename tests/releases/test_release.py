"""The tables of each release, checked against well-known facts of some releases."""

from __future__ import annotations

import pytest

from pykafka_broker.cli.serve import parser as serving
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.releases.release import OWN_VERSION, is_ahead, release, release_names


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ("0.8", "0.8.2.2"),
        ("0.8.2.1", "0.8.2.2"),
        ("0.9", "0.9.0.1"),
        ("0.10", "0.10.2.2"),
        ("0.10.0", "0.10.0.1"),
        ("0.10.1.0", "0.10.1.1"),
        ("2.8", "2.8.2"),
        (" 2.8.1 ", "2.8.2"),
        ("4.3", "4.3.1"),
        ("3", "3.9.2"),
    ],
)
def test_a_release_by_its_number(asked: str, version: str) -> None:
    assert release(asked).version == version


@pytest.mark.parametrize("asked", ["", "2.99", "0.7", "5.0", "two", "2.8.x", "."])
def test_what_is_no_release(asked: str) -> None:
    with pytest.raises(ValueError, match=r"must be one of 0\.8, 0\.9, 0\.10\.0"):
        release(asked)


def test_from_the_oldest_to_the_newest() -> None:
    numbers = [release(name).number for name in release_names()]
    assert numbers == sorted(numbers)
    first, last = release_names()[0], release_names()[-1]
    assert (first, last) == ("0.8", "4.4")
    assert f" {first} to {last}" in " ".join(serving().format_help().split())


@pytest.mark.parametrize(
    ("name", "api_key", "versions"),
    [
        ("0.9", ApiKey.FETCH, (0, 1)),
        ("0.10.0", ApiKey.METADATA, (0, 1)),
        ("1.1", ApiKey.FETCH, (0, 7)),  # the first with sessions (KIP-227)
        ("2.2", ApiKey.JOIN_GROUP, (0, 4)),  # the first that asks members to come again (KIP-394)
        ("2.8", ApiKey.PRODUCE, (0, 9)),
        ("4.0", ApiKey.PRODUCE, (3, 12)),
    ],
)
def test_ranges_of_versions(name: str, api_key: ApiKey, versions: tuple[int, int]) -> None:
    assert release(name).apis[api_key] == versions


@pytest.mark.parametrize("name", ["3.7", "4.3", "4.4"])
def test_telemetry_is_there_whether_or_not_a_fresh_broker_offers_it(name: str) -> None:
    assert {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY} <= release(name).apis.keys()


def test_what_came_after_our_own_release_is_ahead() -> None:
    own = release(OWN_VERSION).name
    assert [is_ahead(name) for name in ("0.8", "4.2", own, OWN_VERSION, "99.0")] == [False] * 4 + [True]


def test_what_a_release_dropped_is_gone() -> None:
    assert ApiKey.LEADER_AND_ISR in release("3.9").apis
    assert ApiKey.LEADER_AND_ISR not in release("4.0").apis
    assert "zookeeper.connect" not in release("4.0").broker


@pytest.mark.parametrize("name", release_names())
def test_every_version_has_a_schema_here(name: str) -> None:
    for api_key, (lowest, highest) in release(name).apis.items():
        spec = SPECS[api_key]
        assert spec.min_version <= lowest <= highest <= spec.max_version, spec


def test_error_codes() -> None:
    assert release("0.10.0").last_error == ErrorCode.UNSUPPORTED_VERSION
    assert release("2.2").last_error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert release("4.3").last_error == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert release("4.4").last_error == max(ErrorCode)


def test_config_keys_and_their_defaults() -> None:
    assert release("0.11").broker["delete.topic.enable"] == ("boolean", "false")
    assert release("1.0").broker["delete.topic.enable"] == ("boolean", "true")
    assert release("2.8").broker["log.message.format.version"] == ("string", "2.8-IV1")
    assert release("2.8").topic["message.format.version"] == ("string", "2.8-IV1")
    assert release("2.4").broker["log.dirs"] == ("string", None)
    assert release("3.9").broker["zookeeper.connect"] == ("string", None)
    assert "group.share.session.timeout.ms" not in release("3.3").broker


def test_features() -> None:
    assert release("2.8").features == {}
    assert release("3.5").features == {"metadata.version": (1, 11, 11)}
    assert release("4.0").features["transaction.version"] == (0, 2, 2)


def test_0_8_and_0_9_do_not_know_api_versions() -> None:
    assert [name for name in release_names() if ApiKey.API_VERSIONS not in release(name).apis] == ["0.8", "0.9"]

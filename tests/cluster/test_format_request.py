"""What the options of `format` mean; interop/test_format.py compares all sentences with kafka-storage's."""

from __future__ import annotations

import pytest

from pykafka_broker.cluster.features import BOOTSTRAP_LEVELS, METADATA_VERSIONS
from pykafka_broker.cluster.format_request import (
    FormatError,
    FormatRequest,
    bootstrap_levels,
    check_kraft_version,
    feature_levels,
    initial_voters,
    metadata_version,
    name_of_metadata_version,
)


def test_a_release_is_its_last_metadata_version() -> None:
    assert [metadata_version(text) for text in ("3.7-IV1", "3.7", "3.7.2", "4.3.1")] == [16, 19, 19, 30]
    for text in ("3.2", "4.4", "4", "3.7-IV9", ""):
        with pytest.raises(FormatError, match=r"Unknown metadata\.version"):
            metadata_version(text)
    assert metadata_version("4.4", unstable=True) == 31
    assert (name_of_metadata_version(31), name_of_metadata_version(32)) == ("4.4-IV0", None)


def test_each_release_has_its_own_features() -> None:
    assert bootstrap_levels(FormatRequest("c")) == BOOTSTRAP_LEVELS
    assert bootstrap_levels(FormatRequest("c", release_version=7)) == {"metadata.version": 7}
    assert bootstrap_levels(FormatRequest("c", release_version=24)) == {
        "metadata.version": 24,
        "group.version": 1,
        "transaction.version": 2,
    }
    for level in METADATA_VERSIONS:
        assert bootstrap_levels(FormatRequest("c", features={"metadata.version": level}))["metadata.version"] == level


def test_a_feature_may_have_another_level() -> None:
    levels = bootstrap_levels(FormatRequest("c", features=feature_levels(["group.version=0", "transaction.version=1"])))
    assert levels == {**{name: level for name, level in BOOTSTRAP_LEVELS.items() if name != "group.version"}} | {
        "transaction.version": 1
    }


@pytest.mark.parametrize("text", ["group.version", "group.version=", "group.version=one", "group.version=1.0"])
def test_what_is_no_feature_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="Can't parse feature=level string"):
        feature_levels([text])


def test_dynamic_voters_need_kraft_version_1() -> None:
    zero, one = FormatRequest("c", features={"kraft.version": 0}), FormatRequest("c", features={"kraft.version": 1})
    check_kraft_version(zero, False)
    check_kraft_version(one, True)
    check_kraft_version(FormatRequest("c"), True)
    for request, dynamic in ((zero, True), (one, False)):
        with pytest.raises(FormatError, match=r"Cannot set kraft\.version"):
            check_kraft_version(request, dynamic)


def test_initial_controllers_have_ids_addresses_and_directories() -> None:
    text = "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg, 2@[::1]:9094:MvDxzVmcRsaTz33bUuRU6A,"
    assert [voter[:3] for voter in initial_voters(text)] == [(1, "127.0.0.1", 9093), (2, "::1", 9094)]


@pytest.mark.parametrize("text", ["", "1", "1@h", "-1@h:1:x", "1@[::1]9:1:x", "1@h:65536:MvDxzVmcRsaTz33bUuRU6A"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        initial_voters(text)

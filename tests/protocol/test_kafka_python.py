"""A second opinion: kafka-python's codec reads our bytes, finds the same values by name, and writes the same bytes.

Its decoder accepts truncated input, so it only ever gets whole messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.api_message import ApiMessage

from pykafka_broker.protocol.runtime import ZERO_UUID, Fields
from tests.protocol.golden import golden
from tests.protocol.values import from_json, messages

for _package in ("admin", "consumer", "metadata", "producer", "sasl"):
    import_module(f"kafka.protocol.{_package}")


def _subclasses(base: Any) -> Iterator[Any]:
    for child in base.__subclasses__():
        yield child
        yield from _subclasses(child)


THEIRS: dict[str, Any] = {child.name: child for child in _subclasses(ApiMessage) if child._json is not None}
# Names that a release has given to fields after kafka-python took over its schemas, without underscores.
RENAMED = {"TxnOffsetCommitRequest.generation_id": "generationidormemberepoch"}  # KIP-1319


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_reads_the_same_values_and_writes_the_same_bytes(name: str) -> None:
    low, high = THEIRS[name].valid_versions
    compared = 0
    for case in golden()[name]:
        if not low <= case.version <= high or (name == "ApiVersionsResponse" and case.values["errorCode"] != 0):
            continue  # an ApiVersions answer with an error is read as version 0 there
        ours = from_json(messages()[name], case.values)
        theirs = THEIRS[name].decode(ours.encode(case.version), version=case.version)
        assert differences(theirs.to_dict(json=False), ours, name) == []
        theirs._header = None  # its encode() looks for one, its decode() doesn't set it
        assert theirs.encode(version=case.version) == ours.encode(case.version)
        compared += 1
    assert compared > 0


def _known_name(path: str, name: str) -> str:
    return RENAMED.get(f"{path}.{name}", name.replace("_", ""))


def differences(theirs: Any, ours: Any, path: str) -> list[str]:
    """List the differences between kafka-python's value and ours.

    Names are compared without underscores, because the two libraries don't agree on where words begin.
    """
    if isinstance(theirs, dict):
        by_name = {name.replace("_", ""): getattr(ours, name) for name in ours.__match_args__}
        return [
            difference
            for name, value in theirs.items()
            if not name.endswith("authorized_operations")  # theirs is a set of names; the bytes tell all the same
            for difference in differences(value, by_name[_known_name(path, name)], f"{path}.{name}")
        ]
    if theirs is None and ours is not None:  # a tagged field that wasn't sent; here it has its default, there none
        return [] if ours == ZERO_UUID or isinstance(ours, Fields) else [f"{path}: null, and here {ours!r}"]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [
            difference
            for index, pair in enumerate(zip(theirs, ours, strict=True))
            for difference in differences(*pair, f"{path}[{index}]")
        ]
    theirs = theirs.bytes if isinstance(theirs, UUID) else theirs
    return [] if theirs == ours else [f"{path}: {theirs!r}, and here {ours!r}"]

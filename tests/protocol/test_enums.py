"""The named numbers, against those of another implementation of the protocol."""

from __future__ import annotations

from enum import IntEnum

import pytest
from kafka import admin

from pykafka_broker.protocol.enums import (
    ACL_OPERATIONS,
    ACL_RESOURCE_TYPES,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    AlterConfigOp,
    ConfigResourceType,
    PatternType,
    TopicPartition,
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (AclOperation, admin.ACLOperation),
        (AclPermissionType, admin.ACLPermissionType),
        (PatternType, admin.ACLResourcePatternType),
        (AclResourceType, admin.ResourceType),
        (ConfigResourceType, admin.ConfigResourceType),
        (AlterConfigOp, admin.AlterConfigOp),
    ],
)
def test_names_have_the_numbers_of_kafka_python(ours: type[IntEnum], theirs: type[IntEnum]) -> None:
    known = {member.name: int(member) for member in theirs}
    assert {member.name: int(member) for member in ours if member.name in known} == {
        name: number for name, number in known.items() if name in ours.__members__
    }
    assert len(known.keys() & ours.__members__.keys()) >= 3


def test_rights_are_about_no_wildcards() -> None:
    assert not {"UNKNOWN", "ANY", "ALL"} & {member.name for member in (*ACL_OPERATIONS, *ACL_RESOURCE_TYPES)}


def test_a_partition_reads_as_in_the_tools_of_kafka() -> None:
    assert str(TopicPartition("a-b", 3)) == "a-b-3"

"""The index of ACLs finds what a comparison with every ACL finds, through any changes."""

from __future__ import annotations

import random
from itertools import count

from pykafka_broker.cluster.acl_index import DENIED_SHIFT, AclIndex, index_of
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.protocol.enums import AclPermissionType, PatternType
from pykafka_broker.protocol.stored.access_control_entry_record import AccessControlEntryRecord
from pykafka_broker.protocol.stored.remove_access_control_entry_record import RemoveAccessControlEntryRecord

NAMES = ["a", "ab", "abc", "b", "ba", "*", "c"]
CLIENTS = [("User:a", "*"), ("User:a", "h"), ("User:*", "*")]
_ids = count(1)


def drawn(source: random.Random) -> AccessControlEntryRecord:
    principal, host = source.choice(CLIENTS)
    pattern, permission = (
        source.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        source.choice([AclPermissionType.ALLOW, AclPermissionType.DENY]),
    )
    operation = source.choice([2, 3, 4])
    id_ = next(_ids).to_bytes(16, "big")
    return AccessControlEntryRecord(id_, 2, source.choice(NAMES), pattern, principal, host, operation, permission)


def fits(acl: AccessControlEntryRecord, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in ("*", name)


def test_it_says_what_all_acls_say_together() -> None:
    source = random.Random(14)
    index = AclIndex([])
    there: list[AccessControlEntryRecord] = []
    for _ in range(3000):
        if there and source.random() < 0.48:
            gone = there.pop(source.randrange(len(there)))
            index.remove(gone)
            assert not index.holds(gone)
        else:
            record = drawn(source)
            if not index.holds(record):
                index.add(record)
                there.append(record)
                assert index.holds(record)
        name = source.choice([*NAMES, "abcd"])
        for principal, host in CLIENTS:
            wanted = 0
            for acl in there:
                if (acl.principal, acl.host) == (principal, host) and fits(acl, name):
                    wanted |= 1 << (acl.operation + DENIED_SHIFT * (acl.permission_type == AclPermissionType.DENY))
            patterns = index.of_client(2, principal, host)
            assert (patterns.applying(name) if patterns else 0) == wanted
        assert index.has_any(2, name) == any(fits(acl, name) for acl in there)
    for acl in there:
        index.remove(acl)
    assert not index._clients


def test_an_operation_that_nobody_knows_matches_nothing() -> None:
    index = AclIndex(
        [AccessControlEntryRecord(bytes(16), 2, "t", PatternType.LITERAL, "User:a", "*", 16, AclPermissionType.DENY)]
    )
    assert index.of_client(2, "User:a", "*") is None or index.of_client(2, "User:a", "*").applying("t") == 0  # type: ignore[union-attr]
    assert index.has_any(2, "t")


def test_it_follows_the_image() -> None:
    image = MetadataImage()
    records = [
        AccessControlEntryRecord(
            bytes([n] * 16), 2, f"t{n}", PatternType.LITERAL, "User:a", "*", 3, AclPermissionType.ALLOW
        )
        for n in (1, 2)
    ]
    image.apply(records[0], MetadataDelta())
    index = index_of(image)
    image.apply(records[1], MetadataDelta())
    assert [index.holds(record) for record in records] == [True, True]
    image.apply(RemoveAccessControlEntryRecord(records[0].id), MetadataDelta())
    assert [index.holds(record) for record in records] == [False, True]
    assert index_of(image) is index

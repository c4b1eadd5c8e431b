"""Which rights to a topic become rights to its copy."""

from pykafka_broker.client.acls import Acl, Entry, Pattern
from pykafka_broker.protocol.enums import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykafka_broker.tools.mirror_acls import mirrored
from pykafka_broker.tools.mirror_settings import Flow

FLOW = Flow("A", "B", {"topics": "orders"})
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def acl(operation: AclOperation, permission: AclPermissionType, name: str = "orders", **pattern: PatternType) -> Acl:
    kind = pattern.get("kind", PatternType.LITERAL)
    return Acl(Pattern(AclResourceType.TOPIC, name, kind), Entry("User:alice", "*", operation, permission))


def test_nobody_may_write_to_a_copy_and_all_is_to_read() -> None:
    given = [
        acl(AclOperation.READ, ALLOW),
        acl(AclOperation.WRITE, ALLOW),
        acl(AclOperation.ALL, ALLOW),
        acl(AclOperation.WRITE, DENY),
        acl(AclOperation.ALL, DENY),
        acl(AclOperation.READ, ALLOW, "others"),
        acl(AclOperation.READ, ALLOW, "ord", kind=PatternType.PREFIXED),
        Acl(
            Pattern(AclResourceType.GROUP, "orders", PatternType.LITERAL),
            Entry("User:bob", "*", AclOperation.READ, ALLOW),
        ),
    ]
    assert mirrored(FLOW, given) == [
        acl(AclOperation.READ, ALLOW, "A.orders"),
        acl(AclOperation.READ, ALLOW, "A.orders"),
        acl(AclOperation.WRITE, DENY, "A.orders"),
        acl(AclOperation.ALL, DENY, "A.orders"),
    ]

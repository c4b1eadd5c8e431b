"""ACLs of a mirror's topics.

Rule: who may read a topic may read its copy, and what is denied is denied there, too. Nobody but the mirror writes to
the copy: WRITE is not allowed there, and ALL becomes READ. Only ACLs of single topics go over, and none is taken away.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.client.acls import Acl, Pattern, create_acls, describe_acls
from pykafka_broker.client.errors import Refused
from pykafka_broker.protocol.enums import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.tools.mirror_flow import Mirror
from pykafka_broker.tools.mirror_settings import Flow

_OF_TOPICS = Acl(Pattern(AclResourceType.TOPIC))


async def sync_acls(mirror: Mirror) -> None:
    """Nothing where one of the clusters has no authorizer. Raises ClientError."""
    try:
        wanted = mirrored(mirror.flow, await describe_acls(mirror.source, _OF_TOPICS))
        if wanted:
            await create_acls(mirror.target, wanted)
    except Refused as error:
        if error.code != ErrorCode.SECURITY_DISABLED:
            raise


def mirrored(flow: Flow, acls: Iterable[Acl]) -> list[Acl]:
    """What these are in the target."""
    found = []
    for pattern, entry in acls:
        allows = entry.permission_type == AclPermissionType.ALLOW
        if pattern.type != AclResourceType.TOPIC or pattern.pattern_type != PatternType.LITERAL:
            continue
        if allows and entry.operation == AclOperation.WRITE:
            continue
        name = pattern.name or ""
        if not flow.mirrors(name):
            continue
        if allows and entry.operation == AclOperation.ALL:
            entry = entry._replace(operation=AclOperation.READ)
        found.append(Acl(pattern._replace(name=flow.remote(name)), entry))
    return found

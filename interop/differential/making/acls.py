"""Sequences whose client has rights that change. Rule: the preparer, which grants and revokes rights, has a connection
and an address of its own, so the client's ACLs never apply to it. A sequence's own requests change no rights.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from interop.differential.steps import Step, of
from pykafka_broker.cluster.authorizer import CLUSTER_NAME, OPERATIONS
from pykafka_broker.protocol.enums import AclOperation, AclResourceType

PREPARER = "preparer"  # the connection of a client that may do everything
_LITERAL, _PREFIXED, _ANY, _ALL, _DENY, _ALLOW = 3, 4, 1, 2, 2, 3
_NAMES = {
    AclResourceType.TOPIC: ("§a", "§a", "§b", "§c", "§d", "§none"),
    AclResourceType.GROUP: ("§g", "§g", "§h", "§i", "§o"),
    AclResourceType.TRANSACTIONAL_ID: ("§x", "§y"),
    AclResourceType.CLUSTER: (CLUSTER_NAME,),
}
_OPERATIONS = OPERATIONS | {AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE)}
_EVERY_STEPS = 5
STRANGER = of("host stranger")  # each lane's client has an address of its own


def with_changing_rights(rng: random.Random, steps: Sequence[Step]) -> list[Step]:
    """Return the sequence with steps that set the client's rights first and change them from time to time."""
    found = [_created([acl for kind in _NAMES for acl in _at_first(rng, kind)])]
    prepared = rng.choice((0.0, 0.0, 0.3))  # share of steps that the preparer takes over for the client
    for step in steps:
        if rng.random() < 1 / _EVERY_STEPS:
            found.append(_changed(rng))
        is_prepared = prepared and (step.api == "CreateTopics" or rng.random() < prepared)
        may_be = step.on == "main" and "Acls" not in step.api
        found.append(by_the_preparer(step) if is_prepared and may_be else _harmless(step))
    return found


def _at_first(rng: random.Random, kind: AclResourceType) -> list[dict[str, Any]]:
    if rng.random() < 0.6:
        return [_acl(kind, "*" if kind != AclResourceType.CLUSTER else CLUSTER_NAME, _LITERAL, _ALL, _ALLOW)]
    return [_drawn(rng, kind) for _ in range(rng.randint(1, 4))]


def _changed(rng: random.Random) -> Step:
    kind = rng.choice([*_NAMES])
    if rng.random() < 0.65:
        return _created([_drawn(rng, kind) for _ in range(rng.choice((1, 1, 2)))])
    taken = {
        "resource_type_filter": rng.choice([_ANY, *_NAMES]),
        "resource_name_filter": rng.choice((None, None, rng.choice(_NAMES[kind]), "*")),
        "pattern_type_filter": rng.choice((_ANY, 2, _LITERAL, _PREFIXED)),
        "principal_filter": rng.choice((None, "User:*", "User:ANONYMOUS")),
        "host_filter": STRANGER,
        "operation": rng.choice((_ANY, _ANY, _ALL, *_OPERATIONS[kind])),
        "permission_type": rng.choice((_ANY, _DENY, _DENY, _ALLOW)),
    }
    return Step("DeleteAcls", 3, {"filters": [taken]}, PREPARER)


def _drawn(rng: random.Random, kind: AclResourceType) -> dict[str, Any]:
    operation = rng.choice((_ALL, *_OPERATIONS[kind]))
    permission = rng.choice((_ALLOW, _ALLOW, _DENY))
    if kind is AclResourceType.CLUSTER:
        return _acl(kind, CLUSTER_NAME, _LITERAL, operation, permission)
    name, pattern = rng.choice(((rng.choice(_NAMES[kind]), _LITERAL), ("*", _LITERAL), ("§", _PREFIXED)))
    return _acl(kind, name, pattern, operation, permission) | {
        "principal": rng.choice(("User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:x"))
    }


def _acl(kind: int, name: str, pattern: int, operation: int, permission: int) -> dict[str, Any]:
    return {
        "resource_type": int(kind),
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": "User:ANONYMOUS",
        "host": STRANGER,
        "operation": int(operation),
        "permission_type": permission,
    }


def _created(acls: list[dict[str, Any]]) -> Step:
    return Step("CreateAcls", 3, {"creations": acls}, PREPARER)


def allowed(kind: AclResourceType, name: str, operation: int) -> Step:
    """Return a step that allows the client the operation."""
    return _created([_acl(kind, name, _LITERAL, operation, _ALLOW)])


def by_the_preparer(step: Step) -> Step:
    """Return the step as one that the preparer does for the client."""
    return replace(step, on=PREPARER)


def _harmless(step: Step) -> Step:
    """Return the step; a DeleteAcls is limited to ACLs of host `*`, so that ACLs of single addresses stay."""
    if step.api != "DeleteAcls":
        return step
    filters = [one | {"host_filter": "*"} for one in step.fields["filters"]]
    return Step(step.api, step.version, {**step.fields, "filters": filters}, step.on, step.keep)

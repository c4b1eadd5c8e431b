"""ACLs in words: "alice may read topic orders".

Rule: WHO may [not] OPERATION [and OPERATION ...] KIND NAME [from HOST]. A name that ends with `*` stands for all that
begin so, `*` alone for any; the words for operations and kinds are Kafka's. "alice may do anything" makes a super user.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from pykafka_broker.cluster.authorizer import CLUSTER_NAME, OPERATIONS, Operation, Resource
from pykafka_broker.protocol.enums import (
    ACL_OPERATIONS,
    ACL_RESOURCE_TYPES,
    AclOperation,
    AclPermissionType,
    PatternType,
)
from pykafka_broker.protocol.stored.access_control_entry_record import AccessControlEntryRecord

ANYONE = "anyone"
ANONYMOUS = "ANONYMOUS"
_GRAMMAR = "it must be like 'alice may read topic orders' or 'alice may not write topic orders from 10.0.0.1'"
_WORDS = re.compile(r"(?P<who>\S+) may (?P<no>not )?(?P<rest>.+?)(?: from (?P<host>\S+))?")
_ANYTHING = "do anything"
_ALL = "all"


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


_KINDS = {_word(kind.name): kind for kind in ACL_RESOURCE_TYPES}
_POSSIBLE = OPERATIONS | {
    Resource.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
_NAMES = {_word(operation.name): int(operation) for operation in ACL_OPERATIONS} | {_ALL: AclOperation.ALL}


class Rights(NamedTuple):
    """What a list of such sentences means."""

    super_users: list[str]
    entries: list[AccessControlEntryRecord]


def parse_acls(sentences: Iterable[str], users: Collection[str]) -> Rights:
    """Raises ValueError with what is wrong with the first bad one. `users` are those that there are."""
    rights = Rights([], [])
    for sentence in sentences:
        match = _WORDS.fullmatch(" ".join(sentence.split()))
        if match is None:
            raise _wrong(sentence, _GRAMMAR)
        who, rest = match["who"], match["rest"]
        if who not in (ANYONE, ANONYMOUS) and who not in users:
            raise _wrong(sentence, f"there is no user {who}; there are {', '.join(sorted(users)) or 'none'}")
        principal = "User:*" if who == ANYONE else f"User:{who}"
        if rest == _ANYTHING and not match["no"] and who != ANYONE:
            rights.super_users.append(principal)
            continue
        rights.entries.extend(
            _entries(
                sentence,
                principal,
                rest,
                AclPermissionType.DENY if match["no"] else AclPermissionType.ALLOW,
                match["host"] or "*",
            )
        )
    return rights


def _entries(
    sentence: str, principal: str, text: str, permission: int, host: str
) -> Iterator[AccessControlEntryRecord]:
    words = text.replace(",", " , ").split(" ")
    place = next((number for number, word in enumerate(words) if word in _KINDS), None)
    if place is None:
        raise _wrong(sentence, f"it names none of {', '.join(_KINDS)}")
    kind, name = _KINDS[words[place]], " ".join(words[place + 1 :]).replace(" , ", ",")
    if kind is Resource.CLUSTER:
        if name:
            raise _wrong(sentence, "there is one cluster, which has no name here")
        name = CLUSTER_NAME
    elif not name:
        raise _wrong(sentence, f"it names no {words[place]}")
    prefixed = name.endswith("*") and name != "*"
    for operation in _operations(sentence, words[:place], kind):
        yield AccessControlEntryRecord(
            os.urandom(16),
            kind,
            name.removesuffix("*") if prefixed else name,
            PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            principal,
            host,
            operation,
            permission,
        )


def _operations(sentence: str, words: list[str], kind: Resource) -> list[int]:
    named = [word for word in words if word not in ("", ",", "and")]
    possible = [*map(_word, (operation.name for operation in _POSSIBLE[kind])), _ALL]
    for word in named:
        if word not in possible:
            raise _wrong(sentence, f"{word} is no operation of a {_word(kind.name)}; there are {', '.join(possible)}")
    if not named:
        raise _wrong(sentence, _GRAMMAR)
    return [_NAMES[word] for word in named]


def _wrong(sentence: str, reason: str) -> ValueError:
    return ValueError(f"{sentence!r} is no ACL: {reason}")

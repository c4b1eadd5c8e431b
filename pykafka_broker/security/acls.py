"""Authorization: Kafka's authorizer by ACLs (`StandardAuthorizer`, KIP-801), or a class of Python.

Rule: a super user may do everything; else any ACL that denies counts, then any that allows; for a resource without ACLs
`allow.everyone.if.no.acl.found` decides. A decision is remembered until an ACL changes, so that asking again costs one
look-up.

A class of Python has the methods of `Authorizer`, one for each handler's question. If it has a method `use_acls`, the
method gets the standard authorizer, which goes by the ACLs in the metadata, and the class may ask it. Operations of the
control API are allowed without asking. A hook that fails has said no, and the log says why. Java's classes other than
Kafka's own are refused: to go on without them would let everybody in.

A module of its own for a start without an authorizer, which does not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import reduce
from operator import or_
from typing import Any

from pykafka_broker.cluster.acl_index import DENIED_SHIFT, WILDCARD, AclIndex, Patterns, index_of
from pykafka_broker.cluster.authorizer import INSIDE, Authorizer
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.effects import STANDARD_AUTHORIZERS
from pykafka_broker.config.values import invalid
from pykafka_broker.protocol.enums import ACL_OPERATIONS, AclOperation, AclResourceType, PatternType
from pykafka_broker.security.hooks.loading import HookFailed, call_hook, close_hook, load_hook, name_of

ANY_USER = "User:*"
_MOST_REMEMBERED = 10_000
_LONGEST_REMEMBERED = 512  # names are a client's to choose
_ALL = 1 << AclOperation.ALL
_DENY_ALL = _ALL << DENIED_SHIFT
# Rights implied by other rights.
_IMPLIED_BY = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
_ALLOWING = {
    operation: reduce(or_, (1 << each for each in (operation, *_IMPLIED_BY.get(operation, ()))), _ALL)
    for operation in ACL_OPERATIONS
}
_DENYING = {operation: (1 << (operation + DENIED_SHIFT)) | _DENY_ALL for operation in ACL_OPERATIONS}
_SOME_NAME = "hardcode"  # Kafka's probe for "any name"
_Key = tuple[str, str, AclOperation, AclResourceType, str | None]


def super_users_of(text: str) -> frozenset[str]:
    """Return the principals of `super.users`, separated by semicolons, as names may hold commas. Raises ConfigError."""
    users = frozenset(user.strip() for user in text.split(";") if user.strip())
    for user in users:
        if ":" not in user:
            expected = f"expected a string in format principalType:principalName but got {user}"
            raise invalid("super.users", text, expected)
    return users


class StandardAuthorizer:
    """An authorizer by the ACLs of an index. Rule: the index is only read."""

    def __init__(self, index: AclIndex, super_users: Collection[str] = (), allow_if_no_acl: bool = False) -> None:
        self._index = index
        self._super_users = frozenset((*super_users, INSIDE))
        self._allow_if_no_acl = allow_if_no_acl
        self._changes = index.changes  # the changes behind the remembered decisions
        self._decisions: dict[_Key, bool] = {}

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        if self._changes != self._index.changes:
            self._forget()
        decided = self._decisions.get((principal, host, operation, resource, name))
        if decided is None:
            decided = self._decide(principal, host, operation, resource, name)
            if len(name) <= _LONGEST_REMEMBERED:
                self._remember((principal, host, operation, resource, name), decided)
        return decided

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        if self._changes != self._index.changes:
            self._forget()
        decided = self._decisions.get((principal, host, operation, resource, None))
        if decided is None:
            decided = self._decide_for_some(principal, host, operation, resource)
            self._remember((principal, host, operation, resource, None), decided)
        return decided

    def _forget(self) -> None:
        self._decisions.clear()
        self._changes = self._index.changes

    def _remember(self, key: _Key, decided: bool) -> None:
        if len(self._decisions) >= _MOST_REMEMBERED:
            self._decisions.clear()
        self._decisions[key] = decided

    def _decide(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        if principal in self._super_users:
            return True
        said = 0
        for _, _, patterns in self._of_client(principal, host, resource):
            said |= patterns.applying(name)
        if said & _DENYING[operation]:
            return False
        if said & _ALLOWING[operation]:
            return True
        return self._allow_if_no_acl and not self._index.has_any(resource, name)

    def _of_client(self, principal: str, host: str, resource: AclResourceType) -> Iterator[tuple[str, str, Patterns]]:
        """Yield the patterns of ACLs for the client, with principal and host as in the ACLs."""
        for one in (principal, ANY_USER):
            for where in (host, WILDCARD):
                if (patterns := self._index.of_client(resource, one, where)) is not None:
                    yield one, where, patterns

    def _decide_for_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        """Return whether an ACL allows the operation for some name, and no ACL denies all of the name's pattern.

        As in Kafka, rights implied by other operations do not count here.
        """
        if self._decide(principal, host, operation, resource, _SOME_NAME):
            return True
        denying, allowing = _DENYING[operation], _ALL | 1 << operation
        of_client = [patterns for _, _, patterns in self._of_client(principal, host, resource)]
        if any(patterns.literal.get(WILDCARD, 0) & denying for patterns in of_client):
            return False
        for patterns in of_client:
            for pattern_type, names in (
                (PatternType.LITERAL, patterns.literal),
                (PatternType.PREFIXED, patterns.prefixed or {}),
            ):
                for name, number in names.items():
                    if number & allowing and not _is_under_a_denial(of_client, denying, pattern_type, name):
                        return True
        return False

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        """Return the rule behind a decision, in the words of Kafka's log."""
        if principal in self._super_users:
            return "SuperUser"
        for permission, wanted, shift in (("DENY", _DENYING, DENIED_SHIFT), ("ALLOW", _ALLOWING, 0)):
            for one, where, patterns in self._of_client(principal, host, resource):
                for pattern_type, pattern, number in patterns.of(name):
                    if bits := number & wanted[operation]:
                        lowest = (bits & -bits).bit_length() - 1 - shift
                        return (
                            f"MatchingAcl(acl=StandardAcl[resourceType={resource.name}, resourceName={pattern}, "
                            f"patternType={PatternType(pattern_type).name}, principal={one}, host={where}, "
                            f"operation={AclOperation(lowest).name}, permissionType={permission}])"
                        )
        has_rule = self._allow_if_no_acl and not self._index.has_any(resource, name)
        return "DefaultAllow" if has_rule else "DefaultDeny"


def _is_under_a_denial(of_client: list[Patterns], denying: int, pattern_type: int, name: str) -> bool:
    for patterns in of_client:
        if patterns.prefixes(name) & denying:
            return True
        if pattern_type == PatternType.LITERAL and patterns.literal.get(name, 0) & denying:
            return True
    return False


KEY = "authorizer.class.name"


class HookedAuthorizer:
    """An authorizer by a class of Python."""

    def __init__(self, config: BrokerConfig, standard: Authorizer) -> None:
        """Make the hook. Raises ConfigError."""
        self.hook: Authorizer = load_hook(KEY, config.authorizer_class_name, Authorizer, config.static)
        use_acls = getattr(self.hook, "use_acls", None)
        if callable(use_acls):
            use_acls(standard)

    def allows(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        return principal == INSIDE or self._says(self.hook.allows, principal, host, operation, resource, name)

    def allows_some(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType) -> bool:
        return principal == INSIDE or self._says(self.hook.allows_some, principal, host, operation, resource)

    def _says(self, method: Callable[..., bool], *question: Any) -> bool:
        try:
            return bool(call_hook(self.hook, method, *question))
        except HookFailed:
            return False

    def rule(self, principal: str, host: str, operation: AclOperation, resource: AclResourceType, name: str) -> str:
        try:
            return str(call_hook(self.hook, self.hook.rule, principal, host, operation, resource, name))
        except HookFailed:
            return name_of(self.hook)

    def close(self) -> None:
        close_hook(self.hook)


def authorizer_of(config: BrokerConfig, image: MetadataImage) -> Authorizer:
    """Return the authorizer named by `authorizer.class.name`, which follows the ACLs of `image`. Raises ConfigError."""
    standard = StandardAuthorizer(
        index_of(image),
        super_users_of(config.static.get("super.users", "")),
        config.static.get("allow.everyone.if.no.acl.found", "").lower() == "true",
    )
    if config.authorizer_class_name in STANDARD_AUTHORIZERS:
        return standard
    return HookedAuthorizer(config, standard)

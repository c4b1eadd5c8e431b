"""The ACLs of the cluster, indexed for questions.

Rule: a client's rights are found by look-ups, however many ACLs there are: by kind of resource, principal and host, and
among these by name. All ACLs of one client on one pattern are one number, with a bit for each allowed operation and one
for each denied operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from pykafka_broker.protocol.enums import AclPermissionType, PatternType

if TYPE_CHECKING:
    from pykafka_broker.cluster.image import MetadataImage

WILDCARD = "*"  # as a literal name: every resource of the kind; as a host: every host
DENIED_SHIFT = 16  # bits from here on are denied operations; the numbers of AclOperation are below
_OPERATIONS = range(DENIED_SHIFT)
K = TypeVar("K", str, int)


class AccessControlEntry(Protocol):
    """The fields of an AccessControlEntryRecord, stored or about to be."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class Patterns:
    """A number for each pattern of names."""

    __slots__ = ("_lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, int] = {}
        self.prefixed: dict[str, int] | None = None  # by prefix; most clients have none
        self._lengths: dict[int, int] = {}  # number of prefixes of each length

    def get(self, pattern_type: int, name: str) -> int:
        """Return the number of exactly the given pattern, or 0."""
        return (self.literal if pattern_type == PatternType.LITERAL else self.prefixed or {}).get(name, 0)

    def put(self, pattern_type: int, name: str, number: int) -> None:
        if pattern_type == PatternType.LITERAL:
            _put(self.literal, name, number)
            return
        if self.prefixed is None:
            self.prefixed = {}
        before = len(self.prefixed)
        _put(self.prefixed, name, number)
        _put(self._lengths, len(name), self._lengths.get(len(name), 0) + len(self.prefixed) - before)

    def applying(self, name: str) -> int:
        """Return the numbers of all patterns matching the name, or-ed."""
        found = self.literal.get(name, 0) | self.literal.get(WILDCARD, 0)
        return found | self.prefixes(name)

    def prefixes(self, name: str) -> int:
        """Return the numbers of all prefixes of the name, or-ed."""
        found = 0
        if self.prefixed:
            for length in self._lengths:
                if length <= len(name):
                    found |= self.prefixed.get(name[:length], 0)
        return found

    def of(self, name: str) -> Iterator[tuple[int, str, int]]:
        """Yield every pattern matching the name: type, name, number."""
        for literal in (name, WILDCARD):
            if literal in self.literal:
                yield PatternType.LITERAL, literal, self.literal[literal]
        for length in self._lengths:
            prefix = name[:length]
            if length <= len(name) and self.prefixed and prefix in self.prefixed:
                yield PatternType.PREFIXED, prefix, self.prefixed[prefix]

    @property
    def is_empty(self) -> bool:
        return not (self.literal or self.prefixed)


class AclIndex:
    """The ACLs of an image by resource, principal and host. `changes` grows with each ACL added or removed."""

    __slots__ = ("_clients", "_resources", "changes")

    def __init__(self, acls: Iterable[AccessControlEntry]) -> None:
        self.changes = 0
        self._clients: dict[tuple[int, str, str], Patterns] = {}  # by kind, principal, host
        self._resources: dict[int, Patterns] = {}  # by kind: the number of ACLs for each pattern
        for acl in acls:
            self.add(acl)

    def add(self, acl: AccessControlEntry) -> None:
        self.changes += 1
        bit = _bit(acl)
        client = (acl.resource_type, acl.principal, acl.host)
        of_client = self._clients.get(client)
        if of_client is None:
            of_client = self._clients[client] = Patterns()
        of_client.put(acl.pattern_type, acl.resource_name, of_client.get(acl.pattern_type, acl.resource_name) | bit)
        self._count(acl, 1)

    def remove(self, acl: AccessControlEntry) -> None:
        self.changes += 1
        client = (acl.resource_type, acl.principal, acl.host)
        of_client = self._clients.get(client)
        if of_client is not None:
            number = of_client.get(acl.pattern_type, acl.resource_name)
            of_client.put(acl.pattern_type, acl.resource_name, number & ~_bit(acl))
            if of_client.is_empty:
                del self._clients[client]
        self._count(acl, -1)

    def _count(self, acl: AccessControlEntry, more: int) -> None:
        counts = self._resources.get(acl.resource_type)
        if counts is None:
            counts = self._resources[acl.resource_type] = Patterns()
        count = counts.get(acl.pattern_type, acl.resource_name)
        counts.put(acl.pattern_type, acl.resource_name, count + more)

    def holds(self, acl: AccessControlEntry) -> bool:
        """Return whether exactly the given ACL is present."""
        of_client = self._clients.get((acl.resource_type, acl.principal, acl.host))
        return of_client is not None and bool(of_client.get(acl.pattern_type, acl.resource_name) & _bit(acl))

    def of_client(self, kind: int, principal: str, host: str) -> Patterns | None:
        """Return the numbers of ACLs with exactly the given principal and host, for resources of a kind."""
        return self._clients.get((kind, principal, host))

    def has_any(self, kind: int, name: str) -> bool:
        """Return whether any principal has an ACL for the resource."""
        counts = self._resources.get(kind)
        return counts is not None and counts.applying(name) != 0


def _put(numbers: dict[K, int], key: K, number: int) -> None:
    if number:
        numbers[key] = number
    else:
        numbers.pop(key, None)


def _bit(acl: AccessControlEntry) -> int:
    """Return the bit of the ACL's operation; 0 for an unknown operation of a newer release, which matches nothing."""
    if acl.operation not in _OPERATIONS:
        return 0
    return 1 << (acl.operation + (DENIED_SHIFT if acl.permission_type == AclPermissionType.DENY else 0))


def index_of(image: MetadataImage) -> AclIndex:
    """Return the index of an image, kept up to date by the image from now on."""
    if image.acl_index is None:
        image.acl_index = AclIndex(image.acls.values())
    return image.acl_index

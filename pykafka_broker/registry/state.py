"""The state of the schema registry: the result of all records of its topic.

Rule: only `replay` changes the state, and never fails: a senseless record changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

from pykafka_broker.registry import records
from pykafka_broker.registry.contracts import Json
from pykafka_broker.registry.records import Schema, Version, guid_of
from pykafka_broker.registry.subjects import beside, context_of, scopes_of

SubjectVersion = tuple[str, int]
K = TypeVar("K")
V = TypeVar("V")
_Index: TypeAlias = defaultdict[K, dict[V, None]]


class RegistryState:
    """Every registered schema, and the settings. In `configs` and `modes` the key None stands for all subjects."""

    def __init__(self) -> None:
        self.configs: dict[str | None, Json] = {}
        self.modes: dict[str | None, str] = {}
        self.primary: tuple[int, int] | None = None  # the topic's leader, and the port of the registry there
        self._subjects: dict[str, dict[int, Version]] = {}
        self._schemas: dict[tuple[str, int], Schema] = {}  # by context and id
        # Values of these are sets in order of insertion.
        self._ids: _Index[tuple[str, Schema], int] = defaultdict(dict)  # by context; an import may bring two
        self._guids: _Index[str, tuple[str, int]] = defaultdict(dict)
        self._uses: _Index[tuple[str, int], SubjectVersion] = defaultdict(dict)
        self._referrers: _Index[SubjectVersion, SubjectVersion] = defaultdict(dict)
        self._highest: defaultdict[str, int] = defaultdict(int)

    # -- subjects, versions and ids

    def subjects(self) -> list[str]:
        """Return the sorted names, also of softly deleted subjects."""
        return sorted(self._subjects)

    def versions(self, subject: str, deleted: bool = False) -> list[Version]:
        found = self._subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def version(self, subject: str, number: int) -> Version | None:
        """Return a version, also a softly deleted version."""
        return self._subjects.get(subject, {}).get(number)

    def next_version(self, subject: str) -> int:
        return max(self._subjects.get(subject, {}), default=0) + 1

    def schema(self, context: str, schema_id: int) -> Schema | None:
        return self._schemas.get((context, schema_id))

    def id_of(self, context: str, schema: Schema) -> int | None:
        return min(self._ids.get((context, schema), ()), default=None)

    def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """Return context and id of each schema with the GUID, the default context first."""
        return sorted(self._guids.get(guid, ()))

    def highest_id(self, context: str) -> int:
        return self._highest[context]

    def contexts(self) -> list[str]:
        return sorted({".", *map(context_of, self._subjects)})

    def uses(self, context: str, schema_id: int) -> Iterator[Version]:
        for subject, number in sorted(self._uses.get((context, schema_id), ())):
            yield self._subjects[subject][number]

    def referrers(self, subject: str, number: int, deleted: bool = False) -> list[Version]:
        found = (self._subjects[name][version] for name, version in self._referrers.get((subject, number), ()))
        return [each for each in found if deleted or not each.deleted]

    # -- records

    def replay(self, key: bytes | None, value: bytes | None, written_ms: int = 0) -> None:
        """Apply a record of the topic."""
        names = None if key is None else records.read_object(key)
        if names is None:
            return
        kind, subject = names.get("keytype"), names.get("subject")
        told = None if value is None else records.read_object(value)
        if kind == records.SCHEMA and isinstance(subject, str) and type(names.get("version")) is int:
            self._replay_schema((subject, names["version"]), told, written_ms)
        elif kind == records.CONFIG and isinstance(subject, str | None):
            if told is None:
                self.configs.pop(subject, None)
            else:
                self.configs[subject] = told
        elif kind == records.MODE and isinstance(subject, str | None):
            if told is not None and isinstance(told.get("mode"), str):
                self.modes[subject] = told["mode"]
            else:
                self.modes.pop(subject, None)
        elif kind == records.NOOP and told is not None and {type(told.get(name)) for name in ("node", "port")} == {int}:
            self.primary = told["node"], told["port"]
        elif kind == records.DELETE_SUBJECT and isinstance(subject, str) and told is not None:
            self._delete_up_to(subject, told.get("version"))
        elif kind == records.CLEAR_SUBJECT and isinstance(subject, str | None) and told is not None:
            self._forget_deleted(subject)

    def _replay_schema(self, key: SubjectVersion, told: Json | None, written_ms: int) -> None:
        version = None if told is None else records.read_version(told, written_ms)
        if told is None:
            self._forget(key)
        elif version is not None and (version.subject, version.version) == key:
            self._forget(key)
            self._keep(version)

    def _keep(self, version: Version) -> None:
        key = version.subject, version.version
        context = context_of(version.subject)
        self._subjects.setdefault(version.subject, {})[version.version] = version
        self._schemas[context, version.id] = version.schema
        self._ids[context, version.schema][version.id] = None
        self._guids[guid_of(version.schema)][context, version.id] = None
        self._uses[context, version.id][key] = None
        self._highest[context] = max(self._highest[context], version.id)
        for target in _targets(version):
            self._referrers[target][key] = None

    def _forget(self, key: SubjectVersion) -> None:
        subject, number = key
        version = self._subjects.get(subject, {}).pop(number, None)
        if version is None:
            return
        if not self._subjects[subject]:
            del self._subjects[subject]
        context = context_of(subject)
        _discard(self._uses, (context, version.id), key)
        if (context, version.id) not in self._uses:
            del self._schemas[context, version.id]
            _discard(self._ids, (context, version.schema), version.id)
            _discard(self._guids, guid_of(version.schema), (context, version.id))
        for target in _targets(version):
            _discard(self._referrers, target, key)

    def _forget_deleted(self, scope: str | None) -> None:
        """Forget the softly deleted versions of a subject, a context, or all subjects."""
        for subject in self.subjects():
            if scope in scopes_of(subject):
                for version in self.versions(subject, deleted=True):
                    if version.deleted:
                        self._forget((subject, version.version))

    def _delete_up_to(self, subject: str, last: object) -> None:
        for number, version in list(self._subjects.get(subject, {}).items()):
            if isinstance(last, int) and number <= last:
                self._subjects[subject][number] = version._replace(deleted=True)


def _discard(index: _Index[K, V], key: K, value: V) -> None:
    """Remove a value under a key, and the key with its last value."""
    index[key].pop(value, None)
    if not index[key]:
        del index[key]


def _targets(version: Version) -> Iterable[SubjectVersion]:
    return {(beside(each.subject, version.subject), each.version) for each in version.schema.references}

"""The state of the schema registry: the result of all records of its topic.

Rule: only `replay` changes the state, and never fails: a senseless record changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pykafka_broker.registry import records
from pykafka_broker.registry.records import Json, Schema, Version, guid_of
from pykafka_broker.registry.subjects import beside, context_of

Place = tuple[str, int]  # a subject and a version


class RegistryState:
    """Every registered schema, and the settings. In `configs` and `modes` the key None stands for all subjects."""

    def __init__(self) -> None:
        self.configs: dict[str | None, Json] = {}
        self.modes: dict[str | None, str] = {}
        self.primary: tuple[int, int] | None = None  # the topic's leader, and the port of the registry there
        self._subjects: dict[str, dict[int, Version]] = {}
        self._schemas: dict[tuple[str, int], Schema] = {}  # by context and id
        self._ids: defaultdict[tuple[str, Schema], set[int]] = defaultdict(set)  # by context; an import may bring two
        self._guids: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        self._uses: defaultdict[tuple[str, int], dict[Place, None]] = defaultdict(dict)
        self._referrers: defaultdict[Place, dict[Place, None]] = defaultdict(dict)
        self._highest: defaultdict[str, int] = defaultdict(int)

    # -- subjects, versions and ids

    def subjects(self) -> list[str]:
        """Return the sorted names, also of softly deleted subjects."""
        return sorted(self._subjects)

    def versions(self, subject: str, deleted: bool = False) -> list[Version]:
        """Return the versions of a subject in order."""
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
        """Yield the versions of an id."""
        for subject, number in sorted(self._uses.get((context, schema_id), ())):
            yield self._subjects[subject][number]

    def referrers(self, subject: str, number: int, deleted: bool = False) -> list[Version]:
        """Return the versions with a reference to the version."""
        found = (self._subjects[place[0]][place[1]] for place in self._referrers.get((subject, number), ()))
        return [each for each in found if deleted or not each.deleted]

    # -- records

    def replay(self, key: bytes | None, value: bytes | None, written_ms: int = 0) -> None:
        """Apply a record of the topic."""
        fields = None if key is None else records.read_object(key)
        if fields is None:
            return
        kind, subject = fields.get("keytype"), fields.get("subject")
        told = None if value is None else records.read_object(value)
        if kind == records.SCHEMA and isinstance(subject, str) and type(fields.get("version")) is int:
            self._replay_schema((subject, fields["version"]), told, written_ms)
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
        elif kind == records.CLEAR_SUBJECT and isinstance(subject, str) and told is not None:
            for number in list(self._subjects.get(subject, ())):
                self._forget((subject, number))

    def _replay_schema(self, place: Place, told: Json | None, written_ms: int) -> None:
        if told is None:
            self._forget(place)
            return
        version = records.read_version(told, written_ms)
        if version is not None and (version.subject, version.version) == place:
            self._forget(place)
            self._keep(version)

    def _keep(self, version: Version) -> None:
        place = version.subject, version.version
        context = context_of(version.subject)
        self._subjects.setdefault(version.subject, {})[version.version] = version
        self._schemas[context, version.id] = version.schema
        self._ids[context, version.schema].add(version.id)
        self._guids[guid_of(version.schema)].add((context, version.id))
        self._uses[context, version.id][place] = None
        self._highest[context] = max(self._highest[context], version.id)
        for target in _targets(version):
            self._referrers[target][place] = None

    def _forget(self, place: Place) -> None:
        subject, number = place
        version = self._subjects.get(subject, {}).pop(number, None)
        if version is None:
            return
        if not self._subjects[subject]:
            del self._subjects[subject]
        used = context_of(subject), version.id
        self._uses[used].pop(place, None)
        if not self._uses[used]:
            del self._uses[used], self._schemas[used]
            ids = self._ids[used[0], version.schema]
            ids.discard(version.id)
            if not ids:
                del self._ids[used[0], version.schema]
            guid = guid_of(version.schema)
            self._guids[guid].discard(used)
            if not self._guids[guid]:
                del self._guids[guid]
        for target in _targets(version):
            self._referrers[target].pop(place, None)
            if not self._referrers[target]:
                del self._referrers[target]

    def _delete_up_to(self, subject: str, last: object) -> None:
        for number, version in list(self._subjects.get(subject, {}).items()):
            if isinstance(last, int) and number <= last:
                self._subjects[subject][number] = version._replace(deleted=True)


def _targets(version: Version) -> Iterable[Place]:
    return {(beside(each.subject, version.subject), each.version) for each in version.schema.references}

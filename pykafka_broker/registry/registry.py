"""Schemas, subjects and versions: registered, found, compared and deleted.

Rule: a change has the registry for itself until it is in the topic, so that a schema gets one id, however many clients
register it at once. Settings are in `settings.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping

from pykafka_broker.registry import kinds, problems, records
from pykafka_broker.registry.contracts import merged_metadata, merged_rule_sets, properties, reserved_fields
from pykafka_broker.registry.kinds import Parsed
from pykafka_broker.registry.parsing import LARGE, Parsing, off_the_loop
from pykafka_broker.registry.records import Reference, Schema, Version
from pykafka_broker.registry.settings import RegistrySettings
from pykafka_broker.registry.state import RegistryState
from pykafka_broker.registry.subjects import beside, context_of
from pykafka_broker.registry.topic import SchemasTopic

LATEST = -1
LAST_VERSION = 2**31 - 1


class Registry:
    """The schemas of the topic."""

    def __init__(self, topic: SchemasTopic) -> None:
        self._parsing = Parsing()
        self.topic = topic
        self.settings = RegistrySettings(topic)

    @property
    def state(self) -> RegistryState:
        """Return the current state. Raises RegistryError."""
        return self.topic.state()

    # -- looking

    def versions(self, subject: str, deleted: bool = False) -> list[Version]:
        """Return the versions of a subject. Raises RegistryError without any."""
        found = self.state.versions(subject, deleted)
        if not found:
            raise problems.NO_SUBJECT(subject)
        return found

    def version(self, subject: str, number: int, deleted: bool = False) -> Version:
        """Return a version. Raises RegistryError."""
        versions = self.versions(subject, deleted)
        if number == LATEST:
            return versions[-1]
        found = self.state.version(subject, number)
        if found is None or (found.deleted and not deleted):
            raise problems.NO_VERSION(number)
        return found

    def schema(self, schema_id: int, context: str) -> Schema:
        """Return the schema of an id. Raises RegistryError."""
        found = self.state.schema(context, schema_id)
        if found is None:
            raise problems.NO_SCHEMA(schema_id)
        return found

    def uses(self, schema_id: int, context: str, deleted: bool = False) -> list[Version]:
        """Return the versions of an id. Raises RegistryError without any."""
        self.schema(schema_id, context)
        return [each for each in self.state.uses(context, schema_id) if deleted or not each.deleted]

    def referred_by(self, subject: str, number: int, deleted: bool = False) -> list[int]:
        """Return the ids of schemas with a reference to the version."""
        version = self.version(subject, number, deleted=True)
        return sorted({each.id for each in self.state.referrers(subject, version.version, deleted)})

    async def text(self, subject: str, schema: Schema, form: str) -> str:
        """Return the schema's text, or the named form of the text."""
        return schema.text if not form else (await self._parsing.parse(self.state, subject, schema)).formatted(form)

    async def find(self, subject: str, schema: Schema, normalize: bool, deleted: bool) -> Version:
        """Return the version equal to the schema. Raises RegistryError."""
        self.versions(subject, deleted)
        canonical, parsed = await self._canonical(subject, schema, normalize)
        alike = self._alike(subject, deleted)
        for asked in self._as_kept(subject, canonical, deleted):
            async for version in self._same(alike, asked, parsed):
                return version
        raise problems.NO_SUCH_SCHEMA()

    async def why_not(self, subject: str, schema: Schema, number: int | None, normalize: bool) -> list[str]:
        """Return why the schema is not compatible; empty if compatible.

        Args:
            number: the version to compare with; None for the versions that the subject's level compares with.
        """
        versions = self.state.versions(subject)
        if number is not None:
            versions = [each for each in versions if number in (LATEST, each.version)][-1:]
            if not versions and number != LATEST:
                raise problems.NO_VERSION(number)
        canonical, parsed = await self._canonical(subject, schema, normalize)
        return await self._why_not(subject, self._with_contract(subject, canonical), parsed, versions)

    # -- changing

    async def register(
        self, subject: str, schema: Schema, normalize: bool = False, schema_id: int = -1, number: int = 0
    ) -> Version:
        """Register a schema and return the version. Raises RegistryError.

        Args:
            schema_id: the id for mode IMPORT, else a negative number.
            number: the version for mode IMPORT, else 0 or a negative number.
        """
        async with self.topic.changing():
            importing = self.settings.imports(subject)
            canonical, parsed = await self._canonical(subject, schema, normalize)
            if not importing:
                canonical = self._with_contract(subject, canonical)
            async for version in self._same(self._alike(subject, False), canonical, parsed):
                if (schema_id < 0 or schema_id == version.id) and (number <= 0 or number == version.version):
                    return version  # in every mode: nothing is written
            self.settings.must_take(subject, schema_id)
            before = self.state.versions(subject)
            if not importing and (reasons := await self._why_not(subject, canonical, parsed, before)):
                raise problems.INCOMPATIBLE(subject, ", ".join(reasons))
            number = self._number_for(subject, number, importing)
            made = Version(subject, number, self._id_for(subject, canonical, schema_id), canonical)
            replaced = [(key, None) for key in self._replaced_by(made)]
            await self.topic.write([*replaced, (records.schema_key(subject, number), records.schema_value(made))])
            return self.state.version(subject, number) or made

    async def delete_version(self, subject: str, number: int, permanent: bool) -> int:
        """Delete a version and return the number. Raises RegistryError."""
        async with self.topic.changing():
            self.settings.must_be_writable(subject)
            self.versions(subject, True)
            version = self.version(subject, number, deleted=number != LATEST)
            if permanent and not version.deleted:
                raise problems.VERSION_NOT_DELETED(subject, version.version)
            if not permanent and version.deleted:
                raise problems.VERSION_DELETED(subject, version.version)
            self._nobody_needs([version])
            gone = version._replace(deleted=True)
            value = None if permanent else records.schema_value(gone)
            is_last = permanent and len(self.versions(subject, True)) == 1
            rest = [(key, None) for key in self._keys_beside(subject)] if is_last else []
            await self.topic.write([(records.schema_key(subject, version.version), value), *rest])
            return version.version

    async def delete_subject(self, subject: str, permanent: bool) -> list[int]:
        """Delete a subject and return the numbers of the deleted versions. Raises RegistryError."""
        async with self.topic.changing():
            self.settings.must_be_writable(subject)
            versions = self.versions(subject, True)
            there = [each for each in versions if not each.deleted]
            if permanent and there:
                raise problems.SUBJECT_NOT_DELETED(subject)
            if not permanent and not there:
                raise problems.SUBJECT_DELETED(subject)
            self._nobody_needs(versions if permanent else there)
            if permanent:
                keys = [records.schema_key(subject, each.version) for each in versions]
                await self.topic.write([(key, None) for key in (*keys, *self._keys_beside(subject))])
                return [each.version for each in versions]
            value = records.delete_subject_value(subject, versions[-1].version)
            await self.topic.write([(records.subject_key(records.DELETE_SUBJECT, subject), value)])
            return [each.version for each in there]

    # -- parts

    async def _canonical(self, subject: str, schema: Schema, normalize: bool) -> tuple[Schema, Parsed]:
        """Return a schema as stored. Raises RegistryError."""
        state = self.state
        schema = schema._replace(references=tuple(self._latest(state, subject, each) for each in schema.references))
        if len(schema.text) > self.topic.max_bytes:
            raise problems.TOO_LARGE()
        parsed = await self._parsing.parse(state, subject, schema)
        if not normalize and not self.settings.normalizes(subject):
            return schema._replace(text=parsed.canonical), parsed
        try:
            return schema._replace(text=await off_the_loop(len(schema.text), lambda: parsed.normalized)), parsed
        except RecursionError:
            raise problems.INVALID_SCHEMA("it is nested too deeply") from None

    def _with_contract(self, subject: str, schema: Schema) -> Schema:
        """Return a schema with the metadata and the rules for a new version.

        A schema without its own gets those of the version before, with the subject's defaults and overrides.
        """
        before = self.state.versions(subject)
        metadata, rule_set = schema.metadata, schema.rule_set
        if before:
            metadata, rule_set = metadata or before[-1].schema.metadata, rule_set or before[-1].schema.rule_set
        default, override = self.settings.contract(subject, "default"), self.settings.contract(subject, "override")
        return schema._replace(
            metadata=merged_metadata(default.metadata, metadata, override.metadata),
            rule_set=merged_rule_sets(default.rule_set, rule_set, override.rule_set),
        )

    def _as_kept(self, subject: str, schema: Schema, deleted: bool) -> Iterator[Schema]:
        """Yield the schema, and without metadata or rules every stored schema equal in the other parts."""
        said = {(each.schema.metadata, each.schema.rule_set) for each in self.state.versions(subject, deleted)}
        yield schema
        for metadata, rule_set in sorted(said):
            asked = schema._replace(metadata=schema.metadata or metadata, rule_set=schema.rule_set or rule_set)
            if asked != schema:
                yield asked

    def _of_one_group(self, subject: str, schema: Schema, versions: list[Version]) -> list[Version]:
        """Return the versions to compare a new version with.

        Where a metadata property makes groups, only versions with the same value are compared.
        """
        group = self.settings.group(subject)
        if not group:
            return versions
        mine = properties(schema.metadata).get(group)
        return [each for each in versions if properties(each.schema.metadata).get(group) == mine]

    def _latest(self, state: RegistryState, subject: str, reference: Reference) -> Reference:
        """Return a reference with the number in the place of the newest version."""
        versions = state.versions(beside(reference.subject, subject))
        if reference.version != LATEST or not versions:
            return reference
        return reference._replace(version=versions[-1].version)

    def _alike(self, subject: str, deleted: bool) -> Mapping[Schema, list[Version]]:
        """Return the versions of a subject, newest first, by their schemas without the texts."""
        found: dict[Schema, list[Version]] = {}
        for each in reversed(self.state.versions(subject, deleted)):
            found.setdefault(each.schema._replace(text=""), []).append(each)
        return found

    async def _same(
        self, alike: Mapping[Schema, list[Version]], schema: Schema, parsed: Parsed
    ) -> AsyncIterator[Version]:
        """Yield the versions equal to the schema, newest first: equal texts, then equal meanings."""
        versions = alike.get(schema._replace(text=""), [])
        for each in versions:
            if each.schema == schema:
                yield each
        for each in versions:
            if each.schema != schema:
                other = await self._parsed_of(each)
                if other is not None and parsed.identity == other.identity:
                    yield each

    async def _parsed_of(self, version: Version) -> Parsed | None:
        """Return a version's parsed schema, None if another writer of the topic wrote nonsense."""
        try:
            return await self._parsing.parse(self.state, version.subject, version.schema)
        except problems.RegistryError:
            return None

    async def _why_not(self, subject: str, schema: Schema, parsed: Parsed, before: list[Version]) -> list[str]:
        reserved = _why_reserved(schema, parsed, before) if self.settings.validates_fields(subject) else []
        level = self.settings.level(subject)
        if level == kinds.NONE:
            return reserved
        versions = self._of_one_group(subject, schema, before)
        for version in reversed(versions if kinds.is_transitive(level) else versions[-1:]):
            old = await self._parsed_of(version)
            alone = not schema.references and not version.schema.references
            found = [] if old is None else await _differences(level, parsed, old, alone)
            if found:
                return [
                    *reserved,
                    *found,
                    f"{{oldSchemaVersion: {version.version}}}",
                    f"{{oldSchema: '{version.schema.text}'}}",
                    f"{{compatibility: '{level}'}}",
                ]
        return reserved

    def _number_for(self, subject: str, number: int, importing: bool) -> int:
        following = self.state.next_version(subject)
        if number <= 0:
            number = following
        if number > LAST_VERSION or (number != following and not importing):
            raise problems.INVALID_SCHEMA("Version is not one more than previous version")
        return number

    def _id_for(self, subject: str, schema: Schema, schema_id: int) -> int:
        state, context = self.state, context_of(subject)
        if schema_id < 0:
            known = state.id_of(context, schema)
            return state.highest_id(context) + 1 if known is None else known
        if state.schema(context, schema_id) not in (None, schema):
            raise problems.NOT_PERMITTED(f"Overwrite new schema with id {schema_id} is not permitted.")
        return schema_id

    def _replaced_by(self, made: Version) -> list[bytes]:
        """Return the keys of softly deleted versions with the id of a new version, which takes their place."""
        return [
            records.schema_key(each.subject, each.version)
            for each in self.state.versions(made.subject, True)
            if each.deleted and each.id == made.id and each.version < made.version
            if not self.state.referrers(each.subject, each.version, deleted=True)
        ]

    def _keys_beside(self, subject: str) -> list[bytes]:
        """Return the keys that go with the last version of a subject."""
        return [records.subject_key(records.DELETE_SUBJECT, subject), *self.settings.keys_of(subject)]

    def _nobody_needs(self, versions: list[Version]) -> None:
        """Check for references to any of the versions. Raises RegistryError."""
        for each in versions:
            if self.state.referrers(each.subject, each.version):
                raise problems.REFERRED_TO(each.subject, each.version)


def _why_reserved(schema: Schema, parsed: Parsed, before: list[Version]) -> list[str]:
    """Return why fields and reserved names do not go together, with each other and with the version before."""
    reserved = reserved_fields(schema.metadata)
    removed = reserved_fields(before[-1].schema.metadata) - reserved if before else set()
    return [
        *(
            f"The new schema has reserved field {name} removed from its metadata which is present in the old schema's "
            "metadata."
            for name in sorted(removed)
        ),
        *(
            f"The new schema has field that conflicts with the reserved field {name}."
            for name in sorted(reserved & parsed.fields)
        ),
    ]


async def _differences(level: str, new: Parsed, old: Parsed, alone: bool) -> list[str]:
    """Return the differences of two schemas. Raises RegistryError for a too long comparison.

    Args:
        alone: neither schema has references, which would be compared as well.
    """
    size = len(new.canonical) + len(old.canonical) if alone else LARGE
    try:
        return await off_the_loop(size, lambda: kinds.differences(level, new, old))
    except problems.InvalidSchema as error:
        raise problems.INVALID_SCHEMA(str(error)) from None
    except RecursionError:
        raise problems.INVALID_SCHEMA("it is nested too deeply") from None

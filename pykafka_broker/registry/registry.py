"""What may be asked of the registry: schemas, subjects and versions.

Rule: who changes something has the registry for himself until that is in the topic, so that one schema gets one id
however many register it at once. Settings are `settings.py`'s.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from pykafka_broker.registry import levels, problems, records
from pykafka_broker.registry.contracts import merged_metadata, merged_rule_sets, properties
from pykafka_broker.registry.kinds import Parsed
from pykafka_broker.registry.parsing import Parsing, off_the_loop
from pykafka_broker.registry.settings import Settings
from pykafka_broker.registry.state import State
from pykafka_broker.registry.stored import Reference, Schema, Version
from pykafka_broker.registry.subjects import beside, context_of
from pykafka_broker.registry.topic import SchemasTopic

LATEST = -1
_LAST_VERSION = 2**31 - 1


class Registry:
    """Over the topic."""

    def __init__(self, topic: SchemasTopic) -> None:
        self._parsing = Parsing()
        self.topic = topic
        self.settings = Settings(topic)

    @property
    def state(self) -> State:
        """As of now. Raises Refused."""
        return self.topic.state()

    @property
    def cluster_id(self) -> str:
        return self.topic.cluster_id

    # -- looking

    def versions(self, subject: str, deleted: bool = False) -> list[Version]:
        """Raises Refused where there are none."""
        found = self.state.versions(subject, deleted)
        if not found:
            raise problems.no_subject(subject)
        return found

    def version(self, subject: str, number: int, deleted: bool = False) -> Version:
        """Raises Refused."""
        versions = self.versions(subject, deleted)
        if number == LATEST:
            return versions[-1]
        found = self.state.version(subject, number)
        if found is None or (found.deleted and not deleted):
            raise problems.no_version(number)
        return found

    def schema(self, schema_id: int, context: str) -> Schema:
        """Raises Refused."""
        found = self.state.schema(context, schema_id)
        if found is None:
            raise problems.no_schema(schema_id)
        return found

    def uses(self, schema_id: int, context: str, deleted: bool = False) -> list[Version]:
        """The versions that have that id. Raises Refused where there is none."""
        self.schema(schema_id, context)
        return [each for each in self.state.uses(context, schema_id) if deleted or not each.deleted]

    def referred_by(self, subject: str, number: int, deleted: bool = False) -> list[int]:
        """The ids of schemas that need this version."""
        version = self.version(subject, number)
        return sorted({each.id for each in self.state.referrers(subject, version.version, deleted)})

    async def text(self, subject: str, schema: Schema, form: str) -> str:
        """The schema's text, or the other form of it that is asked for."""
        return schema.text if not form else (await self._parsing.parse(self.state, subject, schema)).formatted(form)

    async def find(self, subject: str, schema: Schema, normalize: bool, deleted: bool) -> Version:
        """The version that is this schema. Raises Refused."""
        self.versions(subject, deleted)
        canonical, parsed = await self._canonical(subject, schema, normalize)
        for asked in self._as_kept(subject, canonical, deleted):
            async for version in self._same(subject, asked, parsed, deleted):
                return version
        raise problems.no_schema()

    async def why_not(self, subject: str, schema: Schema, number: int | None, normalize: bool) -> list[str]:
        """Why it is not compatible with that version, or with those that its subject's level asks about; empty where it
        is."""
        if number is not None and number != LATEST:
            self.version(subject, number)
        elif not self.state.versions(subject):
            return []
        canonical, parsed = await self._canonical(subject, schema, normalize)
        only = None if number is None else [self.version(subject, number)]
        return await self._why_not(subject, self._with_contract(subject, canonical), parsed, only)

    # -- changing

    async def register(
        self, subject: str, schema: Schema, normalize: bool = False, schema_id: int = -1, number: int = 0
    ) -> Version:
        """The version that the schema has now. Id and number are given where the mode is IMPORT. Raises Refused."""
        async with self.topic.changing():
            importing = self.settings.must_be_writable(subject, schema_id)
            canonical, parsed = await self._canonical(subject, schema, normalize)
            if not importing:
                canonical = self._with_contract(subject, canonical)
            async for version in self._same(subject, canonical, parsed, False):
                if schema_id in (-1, version.id) and number in (0, LATEST, version.version):
                    return version
            if not importing and (reasons := await self._why_not(subject, canonical, parsed, None)):
                raise problems.incompatible(subject, reasons)
            number = self._number_for(subject, number, importing)
            made = Version(subject, number, self._id_for(subject, canonical, schema_id), canonical)
            await self.topic.write([(records.schema_key(subject, number), records.schema_value(made))])
            return self.state.version(subject, number) or made

    async def delete_version(self, subject: str, number: int, permanent: bool) -> int:
        """The number of the version that is gone. Raises Refused."""
        async with self.topic.changing():
            self.settings.must_be_writable(subject, None)
            self.versions(subject, True)
            version = self.version(subject, number, deleted=number != LATEST)
            if permanent and not version.deleted:
                raise problems.version_not_deleted(subject, version.version)
            if not permanent and version.deleted:
                raise problems.version_deleted(subject, version.version)
            self._nobody_needs([version])
            gone = version._replace(deleted=True)
            value = None if permanent else records.schema_value(gone)
            await self.topic.write([(records.schema_key(subject, version.version), value)])
            return version.version

    async def delete_subject(self, subject: str, permanent: bool) -> list[int]:
        """The numbers of the versions that are gone. Raises Refused."""
        async with self.topic.changing():
            self.settings.must_be_writable(subject, None)
            versions = self.versions(subject, True)
            there = [each for each in versions if not each.deleted]
            if permanent and there:
                raise problems.subject_not_deleted(subject)
            if not permanent and not there:
                raise problems.subject_deleted(subject)
            self._nobody_needs(versions)
            if permanent:
                keys = [records.schema_key(subject, each.version) for each in versions]
                keys += [records.delete_subject_key(subject), *self.settings.keys_of(subject)]
                await self.topic.write([(key, None) for key in keys])
                return [each.version for each in versions]
            value = records.delete_subject_value(subject, versions[-1].version)
            await self.topic.write([(records.delete_subject_key(subject), value)])
            return [each.version for each in there]

    # -- parts

    async def _canonical(self, subject: str, schema: Schema, normalize: bool) -> tuple[Schema, Parsed]:
        """As it is kept. Raises Refused."""
        state = self.state
        schema = schema._replace(references=tuple(self._latest(state, subject, each) for each in schema.references))
        if len(schema.text) > self.topic.max_bytes:
            raise problems.too_large()
        parsed = await self._parsing.parse(state, subject, schema)
        if not normalize and not self.settings.normalizes(subject):
            return schema._replace(text=parsed.canonical), parsed
        try:
            return schema._replace(text=await off_the_loop(len(schema.text), lambda: parsed.normalized)), parsed
        except RecursionError:
            raise problems.invalid_schema("it is nested too deeply") from None

    def _with_contract(self, subject: str, schema: Schema) -> Schema:
        """With the metadata and the rules that it gets: those of the version before, where it brings none itself, and
        what is set for the subject."""
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
        """Itself; one that says nothing of metadata or rules is any that is the same in the rest."""
        said = {(each.schema.metadata, each.schema.rule_set) for each in self.state.versions(subject, deleted)}
        yield schema
        for metadata, rule_set in sorted(said):
            asked = schema._replace(metadata=schema.metadata or metadata, rule_set=schema.rule_set or rule_set)
            if asked != schema:
                yield asked

    def _of_one_group(self, subject: str, schema: Schema) -> list[Version]:
        """The versions that a new one must be compatible with: those that have what it has in the property of the
        metadata that makes groups, where one does."""
        versions, group = self.state.versions(subject), self.settings.group(subject)
        if not group:
            return versions
        mine = properties(schema.metadata).get(group)
        return [each for each in versions if properties(each.schema.metadata).get(group) == mine]

    def _latest(self, state: State, subject: str, reference: Reference) -> Reference:
        """The version itself where the newest one is meant."""
        versions = state.versions(beside(reference.subject, subject))
        if reference.version != LATEST or not versions:
            return reference
        return reference._replace(version=versions[-1].version)

    async def _same(self, subject: str, schema: Schema, parsed: Parsed, deleted: bool) -> AsyncIterator[Version]:
        """The versions that are this schema, the newest first: those with its text, then those written otherwise."""
        versions = list(reversed(self.state.versions(subject, deleted)))
        for each in versions:
            if each.schema == schema:
                yield each
        for each in versions:
            if each.schema != schema and each.schema._replace(text="") == schema._replace(text=""):
                other = await self._parsed_of(each)
                if other is not None and parsed.identity == other.identity:
                    yield each

    async def _parsed_of(self, version: Version) -> Parsed | None:
        """None where what somebody has written to the topic is no schema."""
        try:
            return await self._parsing.parse(self.state, version.subject, version.schema)
        except problems.Refused:
            return None

    async def _why_not(self, subject: str, schema: Schema, parsed: Parsed, only: list[Version] | None) -> list[str]:
        level = self.settings.level(subject)
        if level == levels.NONE:
            return []
        versions = self._of_one_group(subject, schema)
        asked = only or (versions if levels.is_transitive(level) else versions[-1:])
        for version in reversed(asked):
            old = await self._parsed_of(version)
            found = [] if old is None else await _differences(level, parsed, old)
            if found:
                return [
                    *found,
                    f"{{oldSchemaVersion: {version.version}}}",
                    f"{{oldSchema: '{version.schema.text}'}}",
                    f"{{compatibility: '{level}'}}",
                ]
        return []

    def _number_for(self, subject: str, number: int, importing: bool) -> int:
        following = self.state.next_version(subject)
        if number in (0, LATEST):
            number = following
        if number > _LAST_VERSION or (number != following and not importing):
            raise problems.invalid_schema("Version is not one more than previous version")
        return number

    def _id_for(self, subject: str, schema: Schema, schema_id: int) -> int:
        state, context = self.state, context_of(subject)
        if schema_id < 0:
            known = state.id_of(context, schema)
            return state.highest_id(context) + 1 if known is None else known
        if state.schema(context, schema_id) not in (None, schema):
            raise problems.not_permitted(f"Overwrite new schema with id {schema_id} is not permitted.")
        return schema_id

    def _nobody_needs(self, versions: list[Version]) -> None:
        """Raises Refused where another schema refers to one of them."""
        for each in versions:
            if self.state.referrers(each.subject, each.version):
                raise problems.referred_to(each.subject, each.version)


async def _differences(level: str, new: Parsed, old: Parsed) -> list[str]:
    """Raises Refused where it would take too long."""
    size = len(new.canonical) + len(old.canonical)
    try:
        return await off_the_loop(size, lambda: levels.differences(level, new, old))
    except problems.InvalidSchema as error:
        raise problems.invalid_schema(str(error)) from None
    except RecursionError:
        raise problems.invalid_schema("it is nested too deeply") from None

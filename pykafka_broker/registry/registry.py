"""What may be asked of the registry: schemas, subjects and versions.

Rule: who changes something has the registry for himself until that is in the topic, so that one schema gets one id
however many register it at once. Settings are `settings.py`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pykafka_broker.registry import levels, problems, records
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
        self._topic = topic
        self._one_at_a_time = asyncio.Lock()
        self._parsing = Parsing()
        self.settings = Settings(topic, self._one_at_a_time)

    @property
    def state(self) -> State:
        """As of now. Raises Refused."""
        return self._topic.state()

    @property
    def cluster_id(self) -> str:
        return self._topic.cluster_id

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

    def referred_by(self, subject: str, number: int) -> list[int]:
        """The ids of schemas that need this version."""
        version = self.version(subject, number)
        return sorted({each.id for each in self.state.referrers(subject, version.version)})

    async def text(self, subject: str, schema: Schema, form: str) -> str:
        """The schema's text, or the other form of it that is asked for."""
        return schema.text if not form else (await self._parsing.parse(self.state, subject, schema)).formatted(form)

    async def find(self, subject: str, schema: Schema, normalize: bool, deleted: bool) -> Version:
        """The version that is this schema. Raises Refused."""
        self.versions(subject, deleted)
        canonical, parsed = await self._canonical(subject, schema, normalize)
        async for version in self._same(subject, canonical, parsed, deleted):
            return version
        raise problems.no_schema()

    async def why_not(self, subject: str, schema: Schema, number: int | None, normalize: bool) -> list[str]:
        """Why it is not compatible with that version, or with those that its subject's level asks about; empty where it
        is."""
        if number is not None and number != LATEST:
            self.version(subject, number)
        elif not self.state.versions(subject):
            return []
        _, parsed = await self._canonical(subject, schema, normalize)
        only = None if number is None else [self.version(subject, number)]
        return await self._why_not(subject, parsed, only)

    # -- changing

    async def register(
        self, subject: str, schema: Schema, normalize: bool = False, schema_id: int = -1, number: int = 0
    ) -> Version:
        """The version that the schema has now. Id and number are given where the mode is IMPORT. Raises Refused."""
        async with self._one_at_a_time:
            importing = self.settings.must_be_writable(subject, schema_id)
            canonical, parsed = await self._canonical(subject, schema, normalize)
            async for version in self._same(subject, canonical, parsed, False):
                if schema_id in (-1, version.id) and number in (0, LATEST, version.version):
                    return version
            if not importing and (reasons := await self._why_not(subject, parsed, None)):
                raise problems.incompatible(subject, reasons)
            number = self._number_for(subject, number, importing)
            made = Version(subject, number, self._id_for(subject, canonical, schema_id), canonical)
            await self._topic.write([(records.schema_key(subject, number), records.schema_value(made))])
            return made

    async def delete_version(self, subject: str, number: int, permanent: bool) -> int:
        """The number of the version that is gone. Raises Refused."""
        async with self._one_at_a_time:
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
            await self._topic.write([(records.schema_key(subject, version.version), value)])
            return version.version

    async def delete_subject(self, subject: str, permanent: bool) -> list[int]:
        """The numbers of the versions that are gone. Raises Refused."""
        async with self._one_at_a_time:
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
                await self._topic.write([(key, None) for key in keys])
                return [each.version for each in versions]
            value = records.delete_subject_value(subject, versions[-1].version)
            await self._topic.write([(records.delete_subject_key(subject), value)])
            return [each.version for each in there]

    # -- parts

    async def _canonical(self, subject: str, schema: Schema, normalize: bool) -> tuple[Schema, Parsed]:
        """As it is kept. Raises Refused."""
        state = self.state
        schema = schema._replace(references=tuple(self._latest(state, subject, each) for each in schema.references))
        if len(schema.text) > self._topic.max_bytes:
            raise problems.too_large()
        parsed = await self._parsing.parse(state, subject, schema)
        if not normalize and not self.settings.normalizes(subject):
            return schema._replace(text=parsed.canonical), parsed
        try:
            return schema._replace(text=await off_the_loop(len(schema.text), lambda: parsed.normalized)), parsed
        except RecursionError:
            raise problems.invalid_schema("it is nested too deeply") from None

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

    async def _why_not(self, subject: str, parsed: Parsed, only: list[Version] | None) -> list[str]:
        level = self.settings.level(subject)
        if level == levels.NONE:
            return []
        versions = self.state.versions(subject)
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

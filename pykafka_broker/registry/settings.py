"""Compatibility levels and modes, of all subjects, of a context, and of one.

Rule: what is not set for a subject is what is set for its context, else what is set for all.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pykafka_broker.registry import levels, problems, records
from pykafka_broker.registry.subjects import DEFAULT_CONTEXT, context_of
from pykafka_broker.registry.topic import SchemasTopic

READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"
MODES = frozenset({READWRITE, READONLY, READONLY_OVERRIDE, IMPORT})
_LEVEL = "compatibilityLevel"
_NORMALIZE = "normalize"
Config = dict[str, Any]


class Settings:
    """Over the topic; `one_at_a_time` is the lock of whoever changes something. The subject None is all of them."""

    def __init__(self, topic: SchemasTopic, one_at_a_time: asyncio.Lock) -> None:
        self._topic = topic
        self._one_at_a_time = one_at_a_time

    def level(self, subject: str) -> str:
        found = str(self.config(subject, or_default=True).get(_LEVEL, levels.DEFAULT_LEVEL)).upper()
        return found if found in levels.LEVELS else levels.DEFAULT_LEVEL

    def normalizes(self, subject: str) -> bool:
        return self.config(subject, or_default=True).get(_NORMALIZE) is True

    def config(self, subject: str | None, or_default: bool) -> Config:
        """What is set for it; `or_default` what holds for it. Raises Refused where there is nothing."""
        configs = self._topic.state().configs
        for each in _wider(subject) if or_default else (subject,):
            if each in configs:
                return configs[each]
        if subject is None or or_default:
            return {_LEVEL: levels.DEFAULT_LEVEL}
        raise problems.no_config(subject)

    def mode(self, subject: str | None, or_default: bool) -> str:
        """The same of modes."""
        modes = self._topic.state().modes
        for each in _wider(subject) if or_default else (subject,):
            if each in modes:
                return modes[each]
        if subject is None or or_default:
            return READWRITE
        raise problems.no_mode(subject)

    async def set_config(self, subject: str | None, level: str | None, normalize: bool | None) -> None:
        """Raises Refused."""
        async with self._one_at_a_time:
            config = dict(self._topic.state().configs.get(subject, {}))
            if level is not None:
                if level.upper() not in levels.LEVELS:
                    raise problems.invalid_level()
                config[_LEVEL] = level.upper()
            if normalize is not None:
                config[_NORMALIZE] = normalize
            await self._topic.write([(records.config_key(subject), records.value(config))])

    async def delete_config(self, subject: str | None) -> Config:
        """What was set. Raises Refused where nothing was."""
        async with self._one_at_a_time:
            if subject is not None and subject not in self._topic.state().configs:
                raise problems.no_subject(subject)
            was = self.config(subject, or_default=False)
            await self._topic.write([(records.config_key(subject), None)])
            return was

    async def set_mode(self, subject: str | None, mode: str, force: bool) -> None:
        """Raises Refused."""
        if mode.upper() not in MODES:
            raise problems.invalid_mode()
        async with self._one_at_a_time:
            state = self._topic.state()
            known = [each for each in state.subjects() if subject in _wider(each)]
            if mode.upper() == IMPORT and not force and known and self.mode(subject, or_default=True) != IMPORT:
                raise problems.not_permitted("Cannot import since found existing subjects")
            await self._topic.write([(records.mode_key(subject), records.value({"mode": mode.upper()}))])

    async def delete_mode(self, subject: str | None) -> str:
        """The mode that was set. Raises Refused where none was."""
        async with self._one_at_a_time:
            if subject is not None and subject not in self._topic.state().modes:
                raise problems.no_subject(subject)
            was = self.mode(subject, or_default=False)
            await self._topic.write([(records.mode_key(subject), None)])
            return was

    def must_be_writable(self, subject: str, schema_id: int | None) -> bool:
        """Whether its mode is IMPORT. Who registers gives the id that he wants, or -1; who deletes gives None. Raises
        Refused."""
        of_all, mode = self.mode(None, or_default=False), self.mode(subject, or_default=True)
        where = f"Subject {subject} in context {context_of(subject)}"
        if of_all == READONLY_OVERRIDE or mode in (READONLY, READONLY_OVERRIDE):
            raise problems.not_permitted(f"{where} is in read-only mode")
        if schema_id is not None and mode == IMPORT and schema_id < 0:
            raise problems.not_permitted(f"{where} is in import mode")
        if schema_id is not None and mode != IMPORT and schema_id >= 0:
            raise problems.not_permitted(f"{where} is not in import mode")
        return mode == IMPORT

    def keys_of(self, subject: str) -> list[bytes]:
        """What of a subject is set, as keys of the topic."""
        state = self._topic.state()
        keys = [records.config_key(subject)] if subject in state.configs else []
        return keys + ([records.mode_key(subject)] if subject in state.modes else [])


def _wider(subject: str | None) -> list[str | None]:
    """Itself, its context, all."""
    if subject is None:
        return [None]
    context = context_of(subject)
    return [subject, None] if context == DEFAULT_CONTEXT else [subject, f":{context}:", None]

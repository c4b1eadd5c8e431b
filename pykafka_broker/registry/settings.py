"""Compatibility levels, modes and other settings: of all subjects, of a context, and of one subject.

Rule: a setting that a subject lacks is that of its context, else that of all subjects.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from pykafka_broker.registry import kinds, problems, records
from pykafka_broker.registry.contracts import metadata_text, rule_set_text, why_no_rule_set
from pykafka_broker.registry.subjects import beside, context_of, scopes_of
from pykafka_broker.registry.topic import SchemasTopic

READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"
MODES = frozenset({READWRITE, READONLY, READONLY_OVERRIDE, IMPORT})
_LEVEL = "compatibilityLevel"
_NORMALIZE = "normalize"
Config = dict[str, Any]


class Contract(NamedTuple):
    """Metadata and rules, as texts."""

    metadata: str
    rule_set: str


class RegistrySettings:
    """The settings in the topic. The subject None stands for all subjects."""

    def __init__(self, topic: SchemasTopic) -> None:
        self._topic = topic

    def level(self, subject: str) -> str:
        found = str(self._effective(subject, _LEVEL) or kinds.DEFAULT_LEVEL).upper()
        return found if found in kinds.LEVELS else kinds.DEFAULT_LEVEL

    def normalizes(self, subject: str) -> bool:
        return self._effective(subject, _NORMALIZE) is True

    def validates_fields(self, subject: str) -> bool:
        return self._effective(subject, "validateFields") is True

    def group(self, subject: str) -> str:
        """Return the metadata property for groups of a subject's versions; empty without groups."""
        found = self._effective(subject, "compatibilityGroup")
        return found if isinstance(found, str) else ""

    def contract(self, subject: str, which: str) -> Contract:
        """Return metadata and rules for every new schema. which: `default` or `override`."""
        try:
            metadata, rule_set = (self._effective(subject, f"{which}{what}") for what in ("Metadata", "RuleSet"))
            return Contract(metadata_text(metadata), rule_set_text(rule_set))
        except (TypeError, AttributeError):
            return Contract("", "")

    def resolve_alias(self, subject: str) -> str:
        """Return the subject behind an alias, or the subject."""
        found = self._topic.state().configs.get(subject, {}).get("alias")
        return beside(found, subject) if isinstance(found, str) and found else subject

    def _effective(self, subject: str, name: str) -> Any:
        """Return a setting for a subject, from the narrowest scope with a value."""
        configs = self._topic.state().configs
        return next((configs[each][name] for each in scopes_of(subject) if name in configs.get(each, ())), None)

    def config(self, subject: str | None, or_default: bool) -> Config:
        """Return the config of a scope. Raises RegistryError without any.

        Args:
            or_default: return the effective config instead, which has a level.
        """
        configs = self._topic.state().configs
        if subject is not None and not or_default:
            if subject not in configs:
                raise problems.NO_CONFIG(subject)
            return configs[subject]
        found = {_LEVEL: kinds.DEFAULT_LEVEL}
        for each in reversed(scopes_of(subject)):
            found |= {name: value for name, value in configs.get(each, {}).items() if value is not None}
        return found

    def mode(self, subject: str | None, or_default: bool) -> str:
        """Return the mode of a scope. Raises RegistryError without any.

        Args:
            or_default: return the effective mode instead.
        """
        modes = self._topic.state().modes
        for each in scopes_of(subject) if or_default else (subject,):
            if each in modes:
                return modes[each]
        if subject is None or or_default:
            return READWRITE
        raise problems.NO_MODE(subject)

    async def set_config(self, subject: str | None, fields: Config) -> None:
        """Change fields of a config; None removes a field. Raises RegistryError."""
        async with self._topic.changing():
            self.must_be_writable(subject)
            config = self._topic.state().configs.get(subject, {}) | fields
            kept = {name: value for name, value in config.items() if value is not None}
            await self._topic.write([(records.subject_key(records.CONFIG, subject), records.json_bytes(kept))])

    async def delete_config(self, subject: str | None) -> Config:
        """Delete a config and return the old fields. Raises RegistryError without any."""
        async with self._topic.changing():
            self.must_be_writable(subject)
            if subject is not None and subject not in self._topic.state().configs:
                raise problems.NO_SUBJECT(subject)
            was = self.config(subject, or_default=False)
            await self._topic.write([(records.subject_key(records.CONFIG, subject), None)])
            return was

    async def set_mode(self, subject: str | None, mode: str, force: bool) -> None:
        """Set a mode. Raises RegistryError."""
        if mode.upper() not in MODES:
            raise problems.INVALID_MODE()
        async with self._topic.changing():
            state, cleared = self._topic.state(), []
            known = [each for each in state.subjects() if subject in scopes_of(each)]
            if mode.upper() == IMPORT and not force and known and self.mode(subject, or_default=True) != IMPORT:
                if any(state.versions(each) for each in known):
                    raise problems.NOT_PERMITTED("Cannot import since found existing subjects")
                cleared = [(records.subject_key(records.CLEAR_SUBJECT, subject), records.clear_subject_value(subject))]
            value = records.json_bytes({"mode": mode.upper()})
            await self._topic.write([*cleared, (records.subject_key(records.MODE, subject), value)])

    async def delete_mode(self, subject: str | None, recursive: bool) -> str | None:
        """Delete a mode and return the old mode.

        Args:
            recursive: delete the modes of subjects within the scope as well.

        Raises:
            RegistryError: there was no mode, and the deletion is not recursive.
        """
        async with self._topic.changing():
            modes = self._topic.state().modes
            if not recursive and subject is not None and subject not in modes:
                raise problems.NO_SUBJECT(subject)
            was = modes.get(subject) if recursive else self.mode(subject, or_default=False)
            below = [each for each in modes if each != subject and subject in scopes_of(each)] if recursive else []
            await self._topic.write([(records.subject_key(records.MODE, each), None) for each in [subject, *below]])
            return was

    def imports(self, subject: str) -> bool:
        return self.mode(subject, or_default=True) == IMPORT

    def must_be_writable(self, subject: str | None) -> None:
        """Check the mode of a scope before a change. Raises RegistryError."""
        of_all, mode = self.mode(None, or_default=False), self.mode(subject, or_default=True)
        if of_all == READONLY_OVERRIDE or mode in (READONLY, READONLY_OVERRIDE):
            raise problems.NOT_PERMITTED(f"{_where(subject)} is in read-only mode")

    def must_take(self, subject: str, schema_id: int) -> None:
        """Check the mode of a subject before a registration; schema_id: the wanted id, or -1. Raises RegistryError."""
        self.must_be_writable(subject)
        if self.imports(subject) and schema_id < 0:
            raise problems.NOT_PERMITTED(f"{_where(subject)} is not in read-write mode")
        if not self.imports(subject) and schema_id >= 0:
            raise problems.NOT_PERMITTED(f"{_where(subject)} is not in import mode")

    def keys_of(self, subject: str) -> list[bytes]:
        """Return the topic's keys with settings of a subject."""
        state = self._topic.state()
        keys = [records.subject_key(records.CONFIG, subject)] if subject in state.configs else []
        return keys + ([records.subject_key(records.MODE, subject)] if subject in state.modes else [])


def read_config(body: Any) -> Config:
    """Return the fields of a request as stored. Raises RegistryError."""
    if not isinstance(body, dict):
        raise problems.RegistryError(400, "the body must be a JSON object")
    told = {_LEVEL if name == "compatibility" else name: value for name, value in body.items()}
    fields = {}
    for name, value in told.items():
        if name not in _FIELDS:
            raise problems.RegistryError(422, f"Unrecognized field: {name}")
        try:
            fields[name] = None if value is None else _FIELDS[name](value)
        except (TypeError, AttributeError, RecursionError):
            raise problems.RegistryError(422, f"{name} makes no sense") from None
    if not fields:
        raise problems.INVALID_LEVEL()
    return fields


def _typed(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value


def _level(value: Any) -> str:
    if not isinstance(value, str) or value.upper() not in kinds.LEVELS:
        raise problems.INVALID_LEVEL()
    return value.upper()


def _rule_set(value: Any) -> Any:
    text = rule_set_text(value)
    if (why := why_no_rule_set(text)) is not None:
        raise problems.INVALID_RULE_SET(why)
    return json.loads(text)


_FIELDS: dict[str, Callable[[Any], Any]] = {
    _LEVEL: _level,
    **dict.fromkeys((_NORMALIZE, "validateFields", "validateNewSchemas", "validateRules"), partial(_typed, bool)),
    **dict.fromkeys(("alias", "aliasForDeks", "compatibilityGroup", "compatibilityPolicy"), partial(_typed, str)),
    **dict.fromkeys(("defaultMetadata", "overrideMetadata"), lambda value: json.loads(metadata_text(value))),
    **dict.fromkeys(("defaultRuleSet", "overrideRuleSet"), _rule_set),
}


def _where(subject: str | None) -> str:
    return f"Subject {'null' if subject is None else subject} in context {context_of(subject or '')}"

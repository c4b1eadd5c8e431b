"""Metadata and rule sets, which make a schema a data contract: stored and returned here, carried out by serializers.

Rule: fields that Confluent's API does not name are left out, and the others have one order, so that equal contracts
have equal texts. A number or a truth value among properties is text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pykafka_broker.registry.kinds import write_json

Json = dict[str, Any]
RULES = ("migrationRules", "domainRules", "encodingRules")
_TEXTS = ("name", "doc", "kind", "mode", "type")
_LATER_TEXTS = ("expr", "onSuccess", "onFailure")
_KINDS = ("TRANSFORM", "CONDITION")
_MIGRATION, _DOMAIN = ("UPGRADE", "DOWNGRADE", "UPDOWN"), ("WRITE", "READ", "WRITEREAD")
_PLACES = ("ALL", "CLIENT", "GATEWAY", "SERVER", "NONE")


def metadata_text(found: Any) -> str:
    """Return metadata as stored; empty for none. Raises TypeError."""
    if found is None:
        return ""
    kept: Json = {}
    if tags := _object(found.get("tags")):
        kept["tags"] = {name: _set(tags[name]) for name in sorted(tags)}
    if properties := _texts(found.get("properties")):
        kept["properties"] = properties
    if sensitive := _set(found.get("sensitive")):
        kept["sensitive"] = sensitive
    return write_json(kept)


def rule_set_text(found: Any) -> str:
    """Return a rule set as stored; empty for none. Raises TypeError."""
    if found is None:
        return ""
    kept: Json = {}
    for kind in RULES:
        rules = found.get(kind)
        if not isinstance(rules, list | None):
            raise TypeError
        if rules:
            kept[kind] = [_rule(each) for each in rules]
    if (place := found.get("enableAt")) is not None:
        kept["enableAt"] = _one_of(_PLACES, place)
    return write_json(kept)


def _rule(found: Any) -> Json:
    kept: Json = {}
    defaults = {"kind": "TRANSFORM", "mode": "WRITEREAD"}
    for name in _TEXTS:
        if (value := found.get(name, defaults.get(name))) is not None:
            kept[name] = _text(value)
    _one_of(_KINDS, kept.get("kind", "TRANSFORM"))
    _one_of(_MIGRATION + _DOMAIN, kept.get("mode", "WRITEREAD"))
    if tags := _set(found.get("tags")):
        kept["tags"] = tags
    if params := _texts(found.get("params")):
        kept["params"] = params
    for name in _LATER_TEXTS:
        if (value := found.get(name)) is not None:
            kept[name] = _text(value)
    disabled = found.get("disabled") or False
    if not isinstance(disabled, bool):
        raise TypeError
    return kept | {"disabled": disabled}


def why_no_rule_set(text: str) -> str | None:
    """Return the mistake in a rule set, None for a valid rule set."""
    told = json.loads(text) if text else {}
    names: set[str] = set()
    for kind in RULES:
        modes = _MIGRATION if kind == "migrationRules" else _DOMAIN
        if kind == "domainRules":  # migration rules have names of their own
            names = set()
        for rule in told.get(kind, ()):
            name = rule.get("name", "")
            if not name or not (name[0].isalpha() or name[0] == "_") or not name.replace("_", "a").isalnum():
                return f"Illegal rule name '{name}'"
            if name in names:
                return f"Found rule with duplicate name '{name}'"
            names.add(name)
            if "type" not in rule:
                return f"Rule '{name}' has no type"
            if rule.get("mode", "WRITEREAD") not in modes:
                return f"{kind} can only be {', '.join(modes)}"
    return None


def properties(metadata: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(metadata).get("properties", {}) if metadata else {}
    return found


def reserved_fields(metadata: str) -> set[str]:
    """Return the names that no field of the schema may have."""
    listed = properties(metadata).get("confluent:reserved", "")
    return {each.strip() for each in listed.split(",")} - {""}


def has_rule_type(rule_set: str, wanted: str) -> bool:
    told = json.loads(rule_set) if rule_set else {}
    return any(rule.get("type") == wanted for kind in RULES for rule in told.get(kind, ()))


def merged_metadata(*texts: str) -> str:
    """Merge metadata; later texts win."""
    said = [json.loads(text) for text in texts if text]
    if not said:
        return ""
    kept: Json = {"tags": {}, "properties": {}, "sensitive": []}
    for each in said:
        kept["tags"] |= each.get("tags", {})
        kept["properties"] |= each.get("properties", {})
        kept["sensitive"] += each.get("sensitive", [])
    return metadata_text(kept)


def merged_rule_sets(*texts: str) -> str:
    """Merge rule sets; a later rule replaces an earlier rule of the same name."""
    said = [json.loads(text) for text in texts if text]
    if not said:
        return ""
    kept: Json = {}
    for each in said:
        for kind in RULES:
            new = each.get(kind, [])
            names = {rule.get("name") for rule in new}
            kept[kind] = [rule for rule in kept.get(kind, []) if rule.get("name") not in names] + new
        kept["enableAt"] = each.get("enableAt", kept.get("enableAt"))
    return rule_set_text(kept)


def words_of_metadata(text: str) -> Iterator[str]:
    """Yield all texts of metadata in order: a part of the GUID."""
    told = json.loads(text)
    for name, tags in told.get("tags", {}).items():
        yield name
        yield from tags
    for name, value in told.get("properties", {}).items():
        yield name
        yield value
    yield from told.get("sensitive", ())


def words_of_rule_set(text: str) -> Iterator[str]:
    """Yield all texts of a rule set in order: a part of the GUID."""
    told = json.loads(text)
    for kind in RULES:
        for rule in told.get(kind, ()):
            yield from (rule[name] for name in _TEXTS if name in rule)
            yield from rule.get("tags", ())
            for name, value in rule.get("params", {}).items():
                yield name
                yield value
            yield from (rule[name] for name in _LATER_TEXTS if name in rule)
            if rule["disabled"]:
                yield "\x01"
    if "enableAt" in told:
        yield told["enableAt"]


def _object(found: Any) -> Json:
    if not isinstance(found, dict | None):
        raise TypeError
    return found or {}


def _texts(found: Any) -> dict[str, str]:
    return {name: _text(value) for name, value in sorted(_object(found).items())}


def _set(found: Any) -> list[str]:
    if not isinstance(found, list | None) or not all(isinstance(each, str) for each in found or ()):
        raise TypeError
    return sorted(set(found or ()))


def _text(found: Any) -> str:
    if not isinstance(found, str | int | float):
        raise TypeError
    return found if isinstance(found, str) else json.dumps(found)


def _one_of(known: tuple[str, ...], found: Any) -> str:
    if found not in known:
        raise TypeError
    return str(found)

"""Parsed schemas with their references.

Rule: a schema is parsed when it is first needed, never at a start. Of the parsed schemas, the most recently used are
kept. All but short schemas are parsed and compared in a thread, and after each short one others have their turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from pykafka_broker.registry.kinds import Parsed, parse
from pykafka_broker.registry.problems import INVALID_SCHEMA, InvalidSchema
from pykafka_broker.registry.records import Reference, Schema
from pykafka_broker.registry.state import RegistryState
from pykafka_broker.registry.subjects import beside

R = TypeVar("R")
Key: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]  # kind, text, names and texts of references
LARGE = 2 << 10  # characters
_MOST_KEPT = 1_000
_MOST_CHARACTERS_KEPT = 16 << 20
_MOST_REFERENCES = 1_000
_MOST_CHARACTERS = 16 << 20  # of all references of a schema


class Parsing:
    """A cache of parsed schemas, by the text and the texts of references."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Parsed] = OrderedDict()
        self._characters = 0

    async def parse(self, state: RegistryState, subject: str, schema: Schema) -> Parsed:
        """Parse a schema under a present or future subject. Raises RegistryError."""
        try:
            library = library_of(state, subject, schema)
            key = schema.kind, schema.text, tuple(library.items())
            if (found := self._kept.get(key)) is None:
                found = await off_the_loop(_size(key), lambda: parse(schema.kind, schema.text, library))
            self._keep(key, found)
            return found
        except InvalidSchema as error:
            raise INVALID_SCHEMA(
                f"Invalid schema of type {schema.kind} with refs {[list(each) for each in schema.references]}, "
                f"details: {error}"
            ) from None

    def _keep(self, key: Key, parsed: Parsed) -> None:
        if key not in self._kept:
            self._characters += _size(key)
        self._kept[key] = parsed
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and (len(self._kept) > _MOST_KEPT or self._characters > _MOST_CHARACTERS_KEPT):
            self._characters -= _size(self._kept.popitem(last=False)[0])


def _size(key: Key) -> int:
    """Return the characters that were parsed: a parsed schema has its references in it."""
    return len(key[1]) + sum(len(text) for _, text in key[2])


async def off_the_loop(size: int, work: Callable[[], R]) -> R:
    """Run work on `size` characters; long work runs in a thread."""
    if size >= LARGE:
        return await asyncio.to_thread(work)
    done = work()
    await asyncio.sleep(0)  # a subject may have very many schemas
    return done


class Needed(NamedTuple):
    """A schema with its references, under a subject."""

    text: str
    subject: str
    references: Sequence[Reference]


def texts_of(schema: Needed, find: Callable[[str, Reference], Needed]) -> dict[str, str]:
    """Return the texts of referenced schemas by name, each after the texts it refers to. Raises InvalidSchema.

    The walk has a stack of its own: Python's is too short for long chains of references.

    Args:
        find: returns the target of a reference from a schema of a subject.
    """
    texts: dict[str, str] = {}
    characters = 0
    seen: set[str] = set()
    stack: list[tuple[str, Reference, bool]] = [(schema.subject, each, False) for each in reversed(schema.references)]
    while stack:
        subject, reference, is_complete = stack.pop()
        found = find(subject, reference)
        if is_complete:
            texts.setdefault(reference.name, found.text)
        elif reference.name not in seen:
            seen.add(reference.name)
            if len(seen) > _MOST_REFERENCES:
                raise InvalidSchema(f"it needs more than {_MOST_REFERENCES} others")
            characters += len(found.text)
            if characters > _MOST_CHARACTERS:
                raise InvalidSchema(f"its references have more than {_MOST_CHARACTERS} characters")
            stack.append((subject, reference, True))
            stack += [(found.subject, each, False) for each in reversed(found.references)]
    return texts


def library_of(state: RegistryState, subject: str, schema: Schema) -> dict[str, str]:
    """Return the texts of referenced schemas, as `texts_of` does."""

    def find(subject: str, reference: Reference) -> Needed:
        target, number = beside(reference.subject, subject), reference.version
        if number == -1 and (versions := state.versions(target)):
            number = versions[-1].version
        found = state.version(target, number)
        if found is None:
            raise InvalidSchema(f"no schema reference found for subject '{target}' and version {reference.version}")
        return Needed(found.schema.text, target, found.schema.references)

    return texts_of(Needed(schema.text, subject, schema.references), find)

"""Whether data of one Avro schema can be read with another: the specification's rules of schema resolution.

Rule: every reason is told, in the words of Confluent's registry, with the path to it in the reader's schema.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.registry.avro.types import MISSING, Field, Type

_PROMOTED_TO = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_SAYS = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the {{new}} schema does not match with "
    "the {{old}} schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the {{new}} schema does not match with the {{old}} schema",
    "MISSING_ENUM_SYMBOLS": "The {{new}} schema is missing enum symbols '{info}' at path '{path}' in the {{old}} "
    "schema",
    "MISSING_UNION_BRANCH": "The {{new}} schema is missing a type inside a union field at path '{path}' in the {{old}} "
    "schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{info}' at path '{path}' in the {{new}} schema has no default "
    "value and is missing in the {{old}} schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
}


class Reason(NamedTuple):
    kind: str
    path: str
    info: str

    def __str__(self) -> str:
        path, info = self.path or "/", self.info.replace("{", "{{").replace("}", "}}")
        says = _SAYS[self.kind].format(path=path, info=info)
        return f"{{{{errorType:'{self.kind}', description:'{says}', additionalInfo:'{info}'}}}}"


def incompatibilities(reader: Type, writer: Type) -> list[str]:
    """Why data of `writer` can't be read with `reader`; empty where it can."""
    return [str(each) for each in _Comparison().compare(reader, writer, "")]


class _Comparison:
    """Pairs that are being compared are taken to agree: types may hold themselves."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[Reason]] = {}
        self._branches: dict[int, dict[str, list[tuple[int, Type]]]] = {}  # of unions

    def compare(self, reader: Type, writer: Type, path: str) -> list[Reason]:
        pair = id(reader), id(writer)
        if pair not in self._known:
            self._known[pair] = []
            self._known[pair] = self._compare(reader, writer, path)
        return self._known[pair]

    def _compare(self, reader: Type, writer: Type, path: str) -> list[Reason]:
        if writer.kind == "union":
            return self._of_union(reader, writer, path)
        if reader.kind == "union":
            return [] if self._has_branch(reader, writer, path) else [_lacking(writer, path)]
        if reader.kind != writer.kind:
            if reader.kind in _PROMOTED_TO.get(writer.kind, ()):
                return []
            says = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
            return [Reason("TYPE_MISMATCH", path, says)]
        if reader.items is not None and writer.items is not None:
            return self.compare(reader.items, writer.items, f"{path}/{'items' if reader.kind == 'array' else 'values'}")
        return self._of_named(reader, writer, path) if reader.name else []

    def _of_union(self, reader: Type, writer: Type, path: str) -> list[Reason]:
        found: list[Reason] = []
        for number, branch in enumerate(writer.branches):
            if reader.kind != "union":
                found += self.compare(reader, branch, path)
            elif not self._has_branch(reader, branch, path):
                found.append(_lacking(branch, f"{path}/{number}"))
        return found

    def _has_branch(self, reader: Type, writer: Type, path: str) -> bool:
        if id(reader) not in self._branches:
            self._branches[id(reader)] = _by_name(reader.branches)
        by_name = self._branches[id(reader)]
        candidates = [*by_name[""], *(by_name.get(_last(writer.name), ()) if writer.name else ())]
        return any(not self.compare(branch, writer, f"{path}/{number}") for number, branch in candidates)

    def _of_named(self, reader: Type, writer: Type, path: str) -> list[Reason]:
        found: list[Reason] = []
        if _last(reader.name) != _last(writer.name) and writer.name not in reader.aliases:
            found.append(Reason("NAME_MISMATCH", f"{path}/name", f"expected: {writer.name}"))
        if reader.kind == "fixed" and reader.size != writer.size:
            found.append(
                Reason("FIXED_SIZE_MISMATCH", f"{path}/size", f"expected: {writer.size}, found: {reader.size}")
            )
        if reader.kind == "enum" and reader.default is None:
            missing = sorted(set(writer.symbols) - set(reader.symbols))
            if missing:
                found.append(Reason("MISSING_ENUM_SYMBOLS", f"{path}/symbols", f"[{', '.join(missing)}]"))
        by_name = {each.name: each for each in writer.fields}
        for number, field in enumerate(reader.fields):
            found += self._of_field(field, by_name, f"{path}/fields/{number}")
        return found

    def _of_field(self, field: Field, written: dict[str, Field], path: str) -> list[Reason]:
        for name in (field.name, *field.aliases):
            if name in written:
                return self.compare(field.type, written[name].type, f"{path}/type")
        if field.default is not MISSING or (field.type.kind == "enum" and field.type.default is not None):
            return []
        return [Reason("READER_FIELD_MISSING_DEFAULT_VALUE", path, field.name)]


def _by_name(branches: list[Type]) -> dict[str, list[tuple[int, Type]]]:
    """The branches with their places, by the last part of the names that they go by; those without one by none."""
    found: dict[str, list[tuple[int, Type]]] = {"": []}
    for number, branch in enumerate(branches):
        for name in {_last(each) for each in (branch.name, *branch.aliases)}:
            found.setdefault(name, []).append((number, branch))
    return found


def _lacking(writer: Type, path: str) -> Reason:
    return Reason("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {writer.kind.upper()}")


def _last(name: str) -> str:
    return name.rpartition(".")[2]

"""Types of Python as JSON, both ways; bytes in JSON, and back.

Rule: a value that was read has the wanted type, or a `Problem` names the place of the mistake and the allowed values.
The JSON Schema (2020-12) of a type and the reading of the type come from the same place, so the document is true.

Types: str, int, float, bool, None, `Any` (every JSON value), Literal, X | Y, list[X], dict[str, X], dataclasses
(objects; a field with a default may be left out, no other field is taken), `Annotated[X, ValueLimits(...)]`, and
TypedDicts in answers.

Bytes are written as text if they are UTF-8, else in base64 under another name (`value_base64` beside `value`), so
nobody has to guess. Input may be either, or any other JSON, which is then written as JSON.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import re
import types
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from json import scanner
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pykafka_broker.control.problems import Problem

_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@dataclasses.dataclass(frozen=True)
class ValueLimits:
    """The limits of a number, a text or a list. pattern: of the whole text. says: the meaning, for people."""

    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    says: str = ""


# Limits that several operations have.
Index = Annotated[int, ValueLimits(minimum=0, maximum=2**31 - 1)]  # of a partition, and other counts from 0 on
Offset = Annotated[int, ValueLimits(minimum=0, maximum=2**63 - 1)]
TimeoutMs = Annotated[int, ValueLimits(minimum=0, maximum=3_600_000, says="milliseconds of real time")]


class _Wrong(Exception):
    """A value does not fit a type; another type may fit."""


@cache
def fields_of(kind: type) -> dict[str, tuple[Any, dataclasses.Field[Any]]]:
    """Return the fields of a dataclass with the types."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: (hints[field.name], field) for field in dataclasses.fields(kind)}


def is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


# -- reading


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises ValueError, also for NaN and Infinity, which JSON does not have, and for a name that an object has twice, of
    which one value would be passed over.

    A long text is for a thread, and is read by the standard library's scanner in Python: the one in C would keep all
    other threads from running until the text is read.
    """
    decoder: Any = json.JSONDecoder(parse_constant=_no_json, object_pairs_hook=_object)
    if len(text) > LONG_TEXT:
        in_python: Any = scanner
        decoder.scan_once = in_python.py_make_scanner(decoder)
    return decoder.decode(text)


LONG_TEXT = 256 << 10  # characters, or bytes


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no value of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has {twice!r} twice")
    return found


def read(kind: Any, value: Any, where: str) -> Any:
    """Return a JSON value as a type. Raises `Problem` 400, which names `where`."""
    try:
        return _read(kind, value, where)
    except _Wrong as wrong:
        raise Problem(400, str(wrong)) from None


def read_text(kind: Any, text: str, where: str) -> Any:
    """Return a part of a path or query, where everything is text, as a type. Raises `Problem` 400."""
    return read(kind, _from_text(kind, text), where)


def _from_text(kind: Any, text: str) -> Any:
    """Return the likely value of a text; an unfit text stays unchanged, and is refused when read."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _from_text(arguments[0], text)
    if origin in (Union, types.UnionType):
        for each in arguments:
            found = _from_text(each, text)
            if not isinstance(found, str):
                return found
        return text
    if kind is int and re.fullmatch(r"-?[0-9]{1,19}", text, re.ASCII):
        return int(text)
    if kind is float and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text, re.ASCII):
        return float(text)
    if kind is bool and text in ("true", "false"):
        return text == "true"
    return text


def _read(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Annotated:
        read_value = _read(arguments[0], value, where)
        _check_limits(arguments[1], read_value, where)
        return read_value
    if origin is Literal:
        if value not in arguments or isinstance(value, bool):
            raise _Wrong(f"{where} must be one of {', '.join(map(str, arguments))}")
        return value
    if origin in (Union, types.UnionType):
        return _read_one_of(arguments, value, where)
    if origin is list:
        if not isinstance(value, list):
            raise _Wrong(f"{where} must be a list")
        return [_read(arguments[0], each, f"{where}[{number}]") for number, each in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise _Wrong(f"{where} must be an object")
        return {_text(name, where): _read(arguments[1], each, f"{where}.{name}") for name, each in value.items()}
    if dataclasses.is_dataclass(kind):
        return _read_object(kind, value, where)
    return _read_plain(kind, value, where)


def _read_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is float and type(value) is int:
        value = float(value) if value.bit_length() < 1024 else math.inf
    if type(value) is not kind:
        raise _Wrong(f"{where} must be {_article(_PLAIN[kind])}")
    if kind is float and not math.isfinite(value):
        raise _Wrong(f"{where} is too large")
    return _text(value, where) if kind is str else value


def _text(value: str, where: str) -> str:
    if not value.isascii() and any(0xD800 <= ord(each) < 0xE000 for each in value):
        raise _Wrong(f"{where} has half of a surrogate pair, which is no text")
    return value


def _article(noun: str) -> str:
    return noun if noun == "null" else f"an {noun}" if noun[0] in "aio" else f"a {noun}"


def _read_one_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    wrongs = []
    for kind in kinds:
        if kind is type(None) and value is not None:
            continue
        try:
            return _read(kind, value, where)
        except _Wrong as wrong:
            wrongs.append(str(wrong))
    if len(wrongs) > 1:
        wrongs[1:] = [each.removeprefix(f"{where} must be ") for each in wrongs[1:]]
    raise _Wrong(" or ".join(dict.fromkeys(wrongs)) or f"{where} must be null")


def _read_object(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _Wrong(f"{where} must be an object")
    fields = fields_of(kind)
    unknown = sorted(value.keys() - fields.keys())
    if unknown:
        raise _Wrong(f"{where} has no {unknown[0]}; it may have {', '.join(fields)}")
    given = {}
    for name, (of, field) in fields.items():
        if name in value:
            given[name] = _read(of, value[name], f"{where}.{name}")
        elif is_required(field):
            raise _Wrong(f"{where}.{name} is missing")
    return kind(**given)


def _check_limits(limits: ValueLimits, value: Any, where: str) -> None:
    says = f" ({limits.says})" if limits.says else ""
    if limits.minimum is not None and value < limits.minimum:
        raise _Wrong(f"{where} must be at least {limits.minimum}{says}")
    if limits.maximum is not None and value > limits.maximum:
        raise _Wrong(f"{where} must be at most {limits.maximum}{says}")
    if limits.min_length is not None and len(value) < limits.min_length:
        raise _Wrong(f"{where} must have a length of at least {limits.min_length}{says}")
    if limits.max_length is not None and len(value) > limits.max_length:
        raise _Wrong(f"{where} must have a length of at most {limits.max_length}{says}")
    if limits.pattern is not None and not re.fullmatch(limits.pattern, value):
        raise _Wrong(f"{where} must match {limits.pattern}{says}")


# -- writing


def write(value: Any) -> Any:
    """Return a function's result as values for `json`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: write(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): write(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [write(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no such number
    return value


# -- describing


def describe(kind: Any, named: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type; dataclasses go into `named` and are referred to."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if origin is Annotated:
        return describe(arguments[0], named) | _limits_schema(arguments[1])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _describe_union(arguments, named)
    if origin is list:
        return {"type": "array", "items": describe(arguments[0], named)}
    if origin is dict:
        return {"type": "object", "additionalProperties": describe(arguments[1], named)}
    if dataclasses.is_dataclass(kind) or is_typeddict(kind):
        return _describe_object(kind, named)
    return {"type": _PLAIN[kind]}


def _describe_union(kinds: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    schemas = [describe(each, named) for each in kinds]
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _describe_object(kind: Any, named: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__.removesuffix("Answer").removesuffix("Input")
    if name not in named:
        schema = named[name] = {"type": "object", "additionalProperties": False}
        if is_typeddict(kind):
            types = get_type_hints(kind)
            hints = get_type_hints(kind, include_extras=True)
            required = [name for name, of in hints.items() if get_origin(of) is not NotRequired]
        else:
            fields = fields_of(kind)
            types = {name: of for name, (of, _) in fields.items()}
            required = [name for name, (_, field) in fields.items() if is_required(field)]
        schema["properties"] = {name: describe(of, named) for name, of in types.items()}
        if required:
            schema["required"] = required
        if kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}("):
            schema["description"] = one_line(kind.__doc__)
    return {"$ref": f"#/components/schemas/{name}"}


def _limits_schema(limits: ValueLimits) -> dict[str, Any]:
    schema = {
        "minimum": limits.minimum,
        "maximum": limits.maximum,
        "minLength": limits.min_length,
        "maxLength": limits.max_length,
        "pattern": limits.pattern,
        "description": limits.says or None,
    }
    return {name: value for name, value in schema.items() if value is not None}


def in_words(schema: Mapping[str, Any], word: Callable[[str], str] = str, text: Callable[[str], str] = str) -> str:
    """Return a type as JSON Schema describes it, in a few words. `word` and `text` quote values and sentences."""
    said = text(schema.get("description", ""))
    if "$ref" in schema:
        return f"object ({schema['$ref'].rpartition('/')[2]})"
    if "anyOf" in schema:
        kinds = (in_words(each, word, text) for each in schema["anyOf"] if each != {"type": "null"})
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema or "const" in schema:
        return ", ".join(word(str(each)) for each in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {in_words(schema['items'], word, text)}"
    kind = " or ".join(each for each in kind if each != "null") if isinstance(kind, list) else kind
    limits = [f"{name} {schema[limit]}" for name, limit in (("from", "minimum"), ("to", "maximum")) if limit in schema]
    return ", ".join([kind, *limits, *([said] if said else [])])


def one_line(text: str) -> str:
    """Return a docstring without the line breaks."""
    return " ".join(text.split())


def text_or_base64(data: bytes | memoryview | None) -> tuple[str | None, str | None]:
    """Return bytes as text, or else in base64."""
    if data is None:
        return None, None
    data = bytes(data)
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(data).decode()


def meant(value: Any, in_base64: str | None, where: str) -> bytes | None:
    """Return the bytes of a value: text as UTF-8, other JSON as JSON, or decoded base64. Raises `Problem` 400."""
    if in_base64 is not None:
        if value is not None:
            raise Problem(400, f"both {where} and {where}_base64 are given")
        try:
            return base64.b64decode(in_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Problem(400, f"{where}_base64 is not base64: {error}") from None
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return bytes(value, "utf-8")
    except UnicodeEncodeError:
        raise Problem(400, f"{where} has half of a surrogate pair, which is no text") from None
    except ValueError:
        raise Problem(400, f"{where} has a number that is too large") from None

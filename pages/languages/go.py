"""The operations for Go: methods of a `Client`, which return errors, and of a `Broker`, which fail the test instead.

Parameters that must be given are arguments, all others fields of a struct of options, whose zero value stands for the
default; a field is a pointer where zero means something else. Milliseconds are a `time.Duration`.
"""

from __future__ import annotations

from pages.languages.model import MARK, Api, ApiObject, ApiOperation, Field, Kind, StaticTypes, wrapped

_HEAD = f"// Code g{MARK[1:-1]}; DO NOT EDIT.\n\npackage kafkabroker\n\n"  # as Go's tools look for it
_IMPORTS = 'import (\n\t"context"\n\t"time"\n)\n\n'
_WIDTH = 100
_RECORDS = {"NewRecord": "NewRecord", "ExpectedRecord": "NewRecord", "Record": "Record"}
_UPPER = {"api": "API", "id": "ID", "json": "JSON", "url": "URL"}
_WORDS = {"type", "range", "func", "map", "interface", "package", "select", "default", "go", "var"}


def files(api: Api) -> dict[str, str]:
    return {"go/operations.go": _client(api), "go/answers.go": _answers(api), "go/testing.go": _broker(api)}


def name_of(name: str) -> str:
    """Return `client_id` as `ClientID`."""
    return "".join(_UPPER.get(part, part.capitalize()) for part in name.split("_"))


def _argument(field: Field) -> str:
    first, *rest = field.without_unit.split("_")
    name = first + "".join(_UPPER.get(part, part.capitalize()) for part in rest)
    return f"{name}_" if name in _WORDS else name


# -- kinds


def _type(kind: Kind, name: str) -> str:
    """Return the type of a field of an answer."""
    plain = _plain(kind, name)
    return f"*{plain}" if kind.nullable and not plain.startswith(("[]", "map", "any")) else plain


_TYPES = StaticTypes(
    lambda ref: _RECORDS.get(ref, ref),
    _type,
    "[]{}",
    "map[string]{}",
    "any",
    {"long": "int64", "integer": "int", "number": "float64", "boolean": "bool", "string": "string"},
)


def _plain(kind: Kind, name: str) -> str:
    return "int32" if kind.name == "integer" and name == "partition" else _TYPES.plain(kind, name)


def _given_type(field: Field) -> str:
    """Return the type of a parameter."""
    if field.is_duration:
        return "time.Duration"
    plain = _plain(field.kind, field.name)
    return f"*{plain}" if not field.required and _zero_means_something(field, plain) else plain


def _zero_means_something(field: Field, plain: str) -> bool:
    """Return whether a zero value is another one than the default, and allowed."""
    if plain == "bool":
        return bool(field.default)
    if plain in ("int", "int32", "int64", "float64"):
        return field.default != 0 and (field.kind.minimum or 0) <= 0
    return field.kind.ref != "" and plain not in _RECORDS.values()


# -- the client


def _client(api: Api) -> str:
    methods = "\n".join(_options(each) + _method(each) for each in api.operations)
    return f"{_HEAD}{_IMPORTS}{methods}"


def _options_name(operation: ApiOperation) -> str:
    return f"{name_of(operation.name)}Options"


def _options(operation: ApiOperation) -> str:
    if not operation.optional:
        return ""
    name = _options_name(operation)
    defaults = [f"{name_of(each.without_unit)} {each.default_text}" for each in operation.optional if each.default]
    told = f"{name} are the parameters of {name_of(operation.name)} that may be left out."
    if defaults:
        told += f" By default: {', '.join(defaults)}."
    rows = [(name_of(each.without_unit), _given_type(each)) for each in operation.optional]
    puts = "".join(f"\t{_put(each)}\n" for each in operation.optional)
    return (
        f"{_comment(told)}type {name} struct {{\n{_aligned(rows)}}}\n\n"
        f"func (o {name}) fields(to fields) {{\n{puts}}}\n\n"
    )


def _put(field: Field) -> str:
    kind, value = _given_type(field), f"o.{name_of(field.without_unit)}"
    how = "duration" if kind == "time.Duration" else "list" if kind.startswith("[]") else ""
    how = how or ("object" if kind.startswith("map") or kind == "any" else "pointer" if kind[0] == "*" else "value")
    return f'put{how.capitalize()}(to, "{field.name}", {value})'


def _signature(operation: ApiOperation, first: str = "") -> str:
    arguments = [
        *([first] if first else []),
        *(f"{_argument(each)} {_given_type(each)}" for each in operation.required),
    ]
    if operation.optional:
        arguments.append(f"options ...{_options_name(operation)}")
    return f"{name_of(operation.name)}({', '.join(arguments)})"


def _method(operation: ApiOperation) -> str:
    answer = _TYPES.answer(operation)
    result = f"({answer}, error)" if answer else "error"
    lines = [f"func (c *Client) {_signature(operation, 'ctx context.Context')} {result} {{"]
    query, body = (_fields(operation, place) for place in ("query", "body"))
    fields = query or body
    if fields:
        lines.append(f"\tgiven := fields{{{fields.strip()}}}" if fields.strip() else "\tgiven := fields{}")
        if operation.optional:
            lines += ["\tfor _, each := range options {", "\t\teach.fields(given)", "\t}"]
    sent = {bool(query): "query(given)", bool(body): "given", operation.text_body: "plain(text)"}.get(True, "nil")
    into = "Records" if operation.is_page else answer
    call = f'c.call(ctx, "{operation.method}", {_path(operation)}, {sent}, '
    if answer:
        lines += [f"\tvar answer {into}", f"\terr := {call}&answer)"]
        lines.append(f"\treturn answer{'.Records' if operation.is_page else ''}, err")
    else:
        lines.append(f"\treturn {call}nil)")
    return _comment(_told(operation)) + "\n".join(lines) + "\n}\n"


def _fields(operation: ApiOperation, place: str) -> str:
    """Return the entries of the map of parameters in that place, " " for an empty map and "" for none."""
    named = [
        f'"{each.name}": {_argument(each)}{".Milliseconds()" if each.is_duration else ""}'
        for each in operation.required
        if each.place == place
    ]
    return ", ".join(named) or (" " if any(each.place == place for each in operation.optional) else "")


def _path(operation: ApiOperation) -> str:
    path = operation.path_with(lambda each: f'"+inPath({_argument(each)})+"')
    return f'"{path}"'.removesuffix('+""')


# -- answers


def _answers(api: Api) -> str:
    structs = "\n".join(map(_struct, api.objects))
    return f"{_HEAD}{structs}"


def _struct(each: ApiObject) -> str:
    rows = [(name_of(field.name), _type(field.kind, field.name), f'`json:"{field.name}"`') for field in each.fields]
    return f"{_comment(f'{each.name}: {each.text}')}type {each.name} struct {{\n{_aligned(rows)}}}\n"


# -- the broker of a test


def _broker(api: Api) -> str:
    methods = "\n".join(map(_of_the_test, api.operations))
    return f"{_HEAD}{_IMPORTS}{methods}"


def _of_the_test(operation: ApiOperation) -> str:
    answer = _TYPES.answer(operation)
    arguments = ["context.Background()", *(_argument(each) for each in operation.required)]
    if operation.optional:
        arguments.append("options...")
    call = f"b.server.{name_of(operation.name)}({', '.join(arguments)})"
    head = f"func (b *Broker) {_signature(operation)}{f' {answer}' if answer else ''} {{\n\tb.t.Helper()\n"
    if answer:
        body = f"\tanswer, err := {call}\n\tb.check(err)\n\treturn answer\n}}\n"
    else:
        body = f"\tb.check({call})\n}}\n"
    return _comment(_told(operation)) + head + body


# -- text as gofmt wants it


def _aligned(rows: list[tuple[str, str]] | list[tuple[str, str, str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return "".join(
        "\t" + "".join(f"{cell:<{width + 1}}" for cell, width in zip(row, widths, strict=False)) + f"{row[-1]}\n"
        for row in rows
    )


def _told(operation: ApiOperation) -> str:
    """Return what an operation does, as Go says it: `Topics returns all topics`."""
    verb, _, rest = operation.text.partition(" ")
    verb = verb.lower()
    if verb.endswith("y"):
        verb = f"{verb[:-1]}ies"
    else:
        verb += "es" if verb.endswith(("o", "s", "sh", "ch", "x")) else "s"
    return f"{name_of(operation.name)} {verb} {rest}"


def _comment(text: str) -> str:
    return "".join(f"// {line}\n" for line in wrapped(text, _WIDTH))

"""The operations for Node.js: a class of plain JavaScript, and its types.

Parameters that must be given are arguments, all others are fields of an object, under the names of the control API, as
are the fields of answers: nothing is renamed on the way.
"""

from __future__ import annotations

from pages.languages.model import MARK, Api, ApiObject, ApiOperation, Kind, camel, pascal, wrapped

_WIDTH = 100
_RECORDS = {"NewRecord", "ExpectedRecord"}
_NAMES = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "any": "unknown"}


def files(api: Api) -> dict[str, str]:
    return {"node/operations.js": _code(api), "node/operations.d.ts": _types(api)}


# -- code


def _code(api: Api) -> str:
    methods = "\n".join(_method(each) for each in api.operations)
    return (
        f"// {MARK}\n'use strict'\n\nconst {{ toRecord, toRecords }} = require('./records.js')\n\n"
        "/** The operations of the control API; `_call` sends a request. */\n"
        f"class Operations {{\n{methods}}}\n\nmodule.exports = {{ Operations }}\n"
    )


def _method(operation: ApiOperation) -> str:
    arguments = [camel(each.name) for each in operation.required]
    if operation.optional:
        arguments.append("options = {}")
    given = [f"'{operation.method}'", _path(operation)]
    for place in ("query", "body"):
        if fields := _fields(operation, place):
            given.append(f"{{ {place}: {fields} }}")
    if operation.text_body:
        given.append("{ text }")
    call = f"this._call({', '.join(given)})"
    if operation.is_page:
        call = f"(await {call}).records"
    return f"  async {camel(operation.name)}({', '.join(arguments)}) {{\n    return {call}\n  }}\n"


def _path(operation: ApiOperation) -> str:
    path = operation.path_with(lambda each: f"${{encodeURIComponent({camel(each.name)})}}")
    return f"`{path}`" if "$" in path else f"'{path}'"


def _fields(operation: ApiOperation, place: str) -> str:
    """Return the object of the parameters in that place, "" for none."""
    named = [each for each in operation.required if each.place == place]
    optional = any(each.place == place for each in operation.optional)
    if not named and not optional:
        return ""
    if not named:
        return "options"
    said = ["...options"] if optional else []
    for each in named:
        value = camel(each.name)
        if each.kind.ref in _RECORDS:
            value = f"toRecord({value})"
        elif each.kind.name == "array" and each.kind.of[0].ref in _RECORDS:
            value = f"toRecords({value})"
        said.append(each.name if value == each.name else f"{each.name}: {value}")
    return f"{{ {', '.join(said)} }}"


# -- types


def _types(api: Api) -> str:
    options = [text for each in api.operations if (text := _options(each))]
    methods = "\n".join(_declared(each) for each in api.operations)
    parts = [
        f"// {MARK}\nimport {{ KafkaRecord, RecordLike }} from './records'\n",
        *(_interface(each) for each in api.objects),
        *options,
        f"/** The operations of the control API. */\nexport class Operations {{\n{methods}}}\n",
    ]
    return "\n".join(parts)


def _interface(each: ApiObject) -> str:
    fields = "".join(f"  {field.name}{'' if field.required else '?'}: {_type(field.kind)}\n" for field in each.fields)
    return f"{_told(each.text, '')}export interface {each.name} {{\n{fields}}}\n"


def _options(operation: ApiOperation) -> str:
    if not operation.optional:
        return ""
    lines = []
    names = {each.name for each in operation.optional}
    for each in operation.optional:
        if each.default is not None:
            lines.append(f"  /** By default {_literal(each.default)}. */\n")
        binary = "Uint8Array | " if f"{each.name}_base64" in names else ""  # the client sends bytes in base64
        lines.append(f"  {each.name}?: {binary}{_type(each.kind)}\n")
    return f"export interface {_options_name(operation)} {{\n{''.join(lines)}}}\n"


def _options_name(operation: ApiOperation) -> str:
    return f"{pascal(operation.name)}Options"


def _declared(operation: ApiOperation) -> str:
    arguments = [f"{camel(each.name)}: {_type(each.kind)}" for each in operation.required]
    if operation.optional:
        arguments.append(f"options?: {_options_name(operation)}")
    answer = "KafkaRecord[]" if operation.is_page else _type(operation.answer)
    told = _told(operation.text, "  ")
    return f"{told}  {camel(operation.name)}({', '.join(arguments)}): Promise<{answer}>\n"


def _type(kind: Kind) -> str:
    text = _plain_type(kind)
    return f"{text} | null" if kind.nullable else text


def _plain_type(kind: Kind) -> str:
    if kind.name == "null":
        return "void"
    if kind.ref:
        return "RecordLike" if kind.ref in _RECORDS else {"Record": "KafkaRecord"}.get(kind.ref, kind.ref)
    if kind.values:
        return " | ".join(f"'{each}'" for each in kind.values)
    if kind.name == "array":
        item = _type(kind.of[0])
        return f"({item})[]" if " " in item else f"{item}[]"
    if kind.name == "map":
        return f"Record<string, {_type(kind.of[0])}>"
    if kind.name == "union":
        return " | ".join(dict.fromkeys(_type(each) for each in kind.of))
    return _NAMES[kind.name]


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"'{value}'" if isinstance(value, str) else str(value)


def _told(text: str, indent: str) -> str:
    """Return a comment with the text in lines of a fitting width."""
    if not text:
        return ""
    return f"{indent}/**\n" + "".join(f"{indent} * {line}\n" for line in wrapped(text, _WIDTH)) + f"{indent} */\n"

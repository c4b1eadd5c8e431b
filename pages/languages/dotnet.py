"""The operations for .NET: asynchronous methods of an abstract class, and classes for answers.

Parameters that must be given come first, all others are optional arguments that a caller names:
`broker.WaitForRecordsAsync("orders", 3, timeout: TimeSpan.FromSeconds(5))`. Milliseconds are a `TimeSpan`. The code is
C# 8, the newest that .NET Core 3.1 knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pages.languages.model import MARK, Api, ApiObject, ApiOperation, Field, Kind, StaticTypes, camel, pascal, wrapped

_WIDTH = 100
_RECORDS = {"NewRecord": "NewRecord", "ExpectedRecord": "NewRecord", "Record": "TopicRecord"}
# A class of C# has no property of its own name.
_RENAMED = {"Lag": "GroupLag", "LeaderEpoch": "PartitionEpoch", "Records": "RecordsPage"}
_VALUES = {"int", "long", "double", "bool", "TimeSpan", "JsonElement"}
_KEYWORDS = {"event", "internal"}


def files(api: Api) -> dict[str, str]:
    return {"dotnet/src/Operations.cs": _operations(api), "dotnet/src/Answers.cs": _answers(api)}


# -- kinds


def _type(kind: Kind, name: str) -> str:
    """Return the type of a value in an answer."""
    plain = _TYPES.plain(kind, name)
    return f"{plain}?" if kind.nullable or plain == "JsonElement" else plain


_TYPES = StaticTypes(
    lambda ref: (_RECORDS | _RENAMED).get(ref, ref),
    _type,
    "IReadOnlyList<{}>",
    "IReadOnlyDictionary<string, {}>",
    "JsonElement",
    {"long": "long", "integer": "int", "number": "double", "boolean": "bool", "string": "string"},
)


def _given_type(field: Field) -> str:
    """Return the type of a parameter that must be given."""
    if field.is_duration:
        return "TimeSpan"
    plain = _TYPES.plain(field.kind, field.name).replace("JsonElement?", "object?").replace("JsonElement", "object")
    return plain.replace("IReadOnlyList<", "IEnumerable<")


def _argument(field: Field) -> str:
    name = camel(field.without_unit)
    return f"@{name}" if name in _KEYWORDS else name


# -- operations


def _operations(api: Api) -> str:
    methods = "\n".join(map(_method, api.operations))
    usings = ("System", "System.Collections.Generic", "System.Net.Http", "System.Threading", "System.Threading.Tasks")
    return (
        f"{_head(*usings, 'PykafkaBroker.Answers')}namespace PykafkaBroker\n{{\n"
        "    /// <summary>The operations of the control API.</summary>\n"
        "    public abstract class Operations\n    {\n"
        "        private protected Operations()\n        {\n        }\n\n"
        "        /// <summary>Send a request, and return the answer as that type.</summary>\n"
        "        private protected abstract Task<T> CallAsync<T>(\n"
        "            HttpMethod method, string path, Given given, CancellationToken cancellationToken);\n\n"
        f"{methods}    }}\n}}\n"
    )


def _method(operation: ApiOperation) -> str:
    given = [f"{_given_type(each)} {_argument(each)}" for each in operation.required]
    given += [f"{_given_type(each)}? {_argument(each)} = null" for each in operation.optional]
    given.append("CancellationToken cancellationToken = default")
    lines = "".join(f"\n            {each}," for each in given).removesuffix(",") if given[1:] else given[0]
    answer = _TYPES.answer(operation)
    result = f"Task<{answer}>" if answer else "Task"
    how = "virtual async" if operation.is_page else "virtual"
    return (
        f"{_comment(operation, '        ')}        public {how} {result} {pascal(operation.name)}Async({lines})\n"
        f"        {{\n{''.join(f'            {line}{chr(10)}' for line in _body(operation))}        }}\n"
    )


def _body(operation: ApiOperation) -> Iterator[str]:
    if operation.text_body:
        given = "Given.Text(text)"
    else:
        places = {each.place for each in operation.parameters} - {"path"}
        given = f"Given.{pascal(places.pop())}()" if places else "Given.Nothing"
        puts = [
            f'.Put("{each.name}", {_argument(each)})'
            for each in (*operation.required, *operation.optional)
            if each.place != "path"
        ]
        if puts:
            yield f"var given = {given}" + "".join(f"\n                {put}" for put in puts) + ";"
            given = "given"
    path = operation.path_with(lambda each: f'" + Given.InPath({_argument(each)}) + "')
    path = f'"{path}"'.removesuffix(' + ""')
    read = _TYPES.plain(operation.answer, "") if operation.is_page else _TYPES.answer(operation) or "object"
    call = f"CallAsync<{read}>(HttpMethod.{operation.method.capitalize()}, {path}, {given}, cancellationToken)"
    yield f"return (await {call}.ConfigureAwait(false)).Records;" if operation.is_page else f"return {call};"


# -- answers


def _answers(api: Api) -> str:
    classes = "\n".join(map(_class, api.objects))
    usings = ("System.Collections.Generic", "System.Text.Json", "System.Text.Json.Serialization")
    return f"{_head(*usings)}namespace PykafkaBroker.Answers\n{{\n{classes}}}\n"


def _class(each: ApiObject) -> str:
    properties = "\n".join(map(_property, each.fields))
    told = f"    /// <summary>\n{_told(each.text, '    ')}    /// </summary>\n" if each.text else ""
    return f"{told}    public sealed class {_RENAMED.get(each.name, each.name)}\n    {{\n{properties}    }}\n"


def _property(field: Field) -> str:
    kind = _type(field.kind, field.name)
    start = "" if kind in _VALUES or kind.endswith("?") else " = null!;"
    return (
        f'        [JsonPropertyName("{field.name}")]\n'
        f"        public {kind} {pascal(field.name)} {{ get; set; }}{start}\n"
    )


# -- text


def _head(*usings: str) -> str:
    return (
        f"// <auto-generated>{MARK}</auto-generated>\n#nullable enable\n\n"
        + "".join(f"using {each};\n" for each in usings)
        + "\n"
    )


def _comment(operation: ApiOperation, indent: str) -> str:
    text = f"{indent}/// <summary>\n{_told(operation.text, indent)}{indent}/// </summary>\n"
    defaults = [
        f"`{camel(each.without_unit)}` {each.default_text}" for each in operation.optional if each.default is not None
    ]
    if defaults:
        told = _told(f"By default: {', '.join(defaults)}.", indent)
        text += f"{indent}/// <remarks>\n{told}{indent}/// </remarks>\n"
    return text


def _told(text: str, indent: str) -> str:
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    safe = re.sub(r"`([^`]*)`", r"<c>\1</c>", safe)
    return "".join(f"{indent}/// {line}\n" for line in wrapped(safe, _WIDTH))

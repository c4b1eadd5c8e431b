"""The operations for Java: methods of an abstract class, records for answers, and a class of options for each method.

Parameters that must be given are arguments, all others setters of the options, which a lambda is handed:
`broker.waitForRecords("orders", 3, options -> options.timeout(Duration.ofSeconds(5)))`. Milliseconds are a `Duration`.
"""

from __future__ import annotations

import re

from pages.languages.model import MARK, Api, ApiObject, ApiOperation, Field, Kind, StaticTypes, camel, pascal, wrapped

_WIDTH = 100
_PACKAGE = "package pykafkabroker;\n"
_RECORDS = {"NewRecord": "NewRecord", "ExpectedRecord": "NewRecord", "Record": "TopicRecord"}
_BOXED = {"int": "Integer", "long": "Long", "double": "Double", "boolean": "Boolean"}
_FOLDER = "java/src/main/java/pykafkabroker"


def files(api: Api) -> dict[str, str]:
    return {
        f"{_FOLDER}/Operations.java": _operations(api),
        f"{_FOLDER}/Answers.java": _answers(api),
        f"{_FOLDER}/Options.java": _options(api),
    }


# -- kinds


def _type(kind: Kind, name: str) -> str:
    """Return the type of a value; a primitive one only where the value can't be null."""
    plain = _TYPES.plain(kind, name)
    return _BOXED.get(plain, plain) if kind.nullable else plain


def _boxed(kind: Kind, name: str) -> str:
    plain = _TYPES.plain(kind, name)
    return _BOXED.get(plain, "?" if plain == "Object" else plain)


_TYPES = StaticTypes(
    lambda ref: _RECORDS.get(ref, f"Answers.{ref}"),
    _boxed,
    "List<{}>",
    "Map<String, {}>",
    "Object",
    {"long": "long", "integer": "int", "number": "double", "boolean": "boolean", "string": "String"},
)


def _given_type(field: Field) -> str:
    return "Duration" if field.is_duration else _TYPES.plain(field.kind, field.name)


def _name(field: Field) -> str:
    return camel(field.without_unit)


# -- operations


def _operations(api: Api) -> str:
    head = _head(
        "com.google.gson.reflect.TypeToken",
        "java.time.Duration",
        "java.util.List",
        "java.util.Map",
        "java.util.function.Consumer",
    )
    methods = "\n".join(_methods(each) for each in api.operations)
    return (
        f"{head}/** The operations of the control API. */\npublic abstract class Operations {{\n"
        "    Operations() {}\n\n"
        "    /** Send a request, and return the answer as that type. */\n"
        "    abstract <T> T call(String method, String path, Given given, TypeToken<T> type);\n\n"
        f"{methods}}}\n"
    )


def _methods(operation: ApiOperation) -> str:
    arguments = [(f"{_given_type(each)} {_name(each)}", _name(each)) for each in operation.required]
    told = _comment(operation.text, "    ")
    answer = _TYPES.answer(operation) or "void"
    name = camel(operation.name)
    text = ""
    if operation.optional:
        others = ", ".join([*(each for _, each in arguments), "options -> {}"])
        said = "" if answer == "void" else "return "
        text = f"{told}    public {answer} {name}({', '.join(each for each, _ in arguments)}) {{\n"
        text += f"        {said}{name}({others});\n    }}\n\n"
        arguments.append((f"Consumer<Options.{pascal(operation.name)}> options", "options"))
    body = _body(operation)
    return f"{text}{told}    public {answer} {name}({', '.join(each for each, _ in arguments)}) {{\n{body}    }}\n"


def _body(operation: ApiOperation) -> str:
    lines = []
    if operation.text_body:
        given = "Given.text(text)"
    else:
        places = {each.place for each in operation.parameters} - {"path"}
        given = f"Given.{places.pop()}()" if places else "Given.nothing()"
        puts = "".join(
            f'.put("{each.name}", {_name(each)}{".toMillis()" if each.is_duration else ""})'
            for each in operation.required
            if each.place != "path"
        )
        if puts or operation.optional:
            lines.append(f"Given given = {given}{puts};")
            given = "given"
        if operation.optional:
            lines.append(f"options.accept(new Options.{pascal(operation.name)}(given));")
    path = operation.path_with(lambda each: f'" + Given.inPath({_name(each)}) + "')
    path = f'"{path}"'.removesuffix(' + ""')
    page = operation.answer.ref if operation.is_page else ""
    answer = _TYPES.answer(operation)
    read = f"Answers.{page}" if page else _BOXED.get(answer, answer or "Object")
    call = f'call("{operation.method}", {path}, {given}, new TypeToken<{read}>() {{}})'
    lines.append(f"{'return ' if answer else ''}{call}{'.records()' if page else ''};")
    return "".join(f"        {line}\n" for line in lines)


# -- answers


def _answers(api: Api) -> str:
    records = "\n".join(map(_record, api.objects))
    return (
        f"{_head('java.util.List', 'java.util.Map')}/** What the control API answers. */\n"
        f"public final class Answers {{\n    private Answers() {{}}\n\n{records}}}\n"
    )


def _record(each: ApiObject) -> str:
    fields = ",\n".join(f"            {_type(field.kind, field.name)} {camel(field.name)}" for field in each.fields)
    text = f"{_comment(each.text, '    ')}    public record {each.name}(\n{fields}) {{}}\n"
    return text.replace("Answers.", "")


# -- options


def _options(api: Api) -> str:
    classes = "\n".join(_option_class(each) for each in api.operations if each.optional)
    return (
        f"{_head('java.time.Duration', 'java.util.List', 'java.util.Map')}"
        "/** The parameters of operations that may be left out. */\n"
        f"public final class Options {{\n    private Options() {{}}\n\n{classes}}}\n"
    )


def _option_class(operation: ApiOperation) -> str:
    name = pascal(operation.name)
    setters = "\n".join(_setter(name, each) for each in operation.optional)
    return (
        f"    /** Of {camel(operation.name)}. */\n    public static final class {name} {{\n"
        "        private final Given given;\n\n"
        f"        {name}(Given given) {{\n            this.given = given;\n        }}\n\n"
        f"{setters}    }}\n"
    )


def _setter(of: str, field: Field) -> str:
    kind, name, value = _given_type(field), _name(field), _name(field)
    if item := re.fullmatch(r"List<(\w+)>", kind):
        kind, value = f"{item[1]}...", f"List.of({name})"
    elif kind == "Duration":
        value = f"{name}.toMillis()"
    told = "" if field.default is None else f"        /** By default {field.default_text}. */\n"
    return (
        f"{told}        public {of} {name}({kind} {name}) {{\n"
        f'            given.put("{field.name}", {value});\n            return this;\n        }}\n'
    )


def _head(*imports: str) -> str:
    return f"// {MARK}\n{_PACKAGE}\n" + "".join(f"import {each};\n" for each in imports) + "\n"


def _comment(text: str, indent: str) -> str:
    if not text:
        return ""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace("*/", "*&#47;")
    safe = re.sub(r"`([^`]*)`", r"{@code \1}", safe)
    return f"{indent}/**\n" + "".join(f"{indent} * {line}\n" for line in wrapped(safe, _WIDTH)) + f"{indent} */\n"

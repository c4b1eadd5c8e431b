"""`pykafka-broker control OPERATION`, `seed` and `dump`: the control API from a shell.

Rule: an operation's flags are its parameters, from the same signature as everything else. Answers go to standard
output; a refused operation is one line on standard error and exit code 1; a wrong flag is exit code 2.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, get_args, get_origin

from pykafka_broker.cli.addresses import TOKEN_VARIABLE, URL_VARIABLE
from pykafka_broker.cli.commands import CONTROLLING, parser_for
from pykafka_broker.control.operations import REQUIRED, Operation, Parameter, Text, operations
from pykafka_broker.control.schema import describe, in_words
from pykafka_broker.testing.control_client import ControlClient, ControlError, in_path

REFUSED = 1
_TIMEOUT_S = 3_700.0  # longer than any wait may take
_STANDARD_INPUT = "-"


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments[arguments[0] == "control" :])  # `seed` and `dump` are operations
    url = options.url or os.environ.get(URL_VARIABLE)
    if url is None:
        print(f"pykafka-broker: --url or {URL_VARIABLE} must name the control API", file=sys.stderr)
        return 2
    try:
        answer = _call(ControlClient(url, os.environ.get(TOKEN_VARIABLE)), options.operation, options)
    except ControlError as error:
        print(f"pykafka-broker: {error}", file=sys.stderr)
        return REFUSED
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None)
        told = f"{getattr(error, 'filename', None) or url}: {reason}" if reason else error
        print(f"pykafka-broker: {told}", file=sys.stderr)
        return REFUSED
    _print(answer)
    return 0


def parser() -> argparse.ArgumentParser:
    """Return a parser with a command for each operation."""
    whole = parser_for("control")
    address = f"address of the control API; by default {URL_VARIABLE}"
    whole.add_argument("--url", help=address)
    commands = whole.add_subparsers(metavar="OPERATION", required=True)
    for operation in operations():
        summary = operation.text.partition(". ")[0].removesuffix(".")
        name = _dashed(operation.name)
        prog = f"pykafka-broker {name}" if name in CONTROLLING else None  # `seed` and `dump` need no `control` before
        command = commands.add_parser(name, prog=prog, help=summary, description=operation.text)
        command.set_defaults(operation=operation)
        command.add_argument("--url", default=argparse.SUPPRESS, help=address)  # may stand before the operation too
        for each in operation.parameters:
            _add(command, each)
    return whole


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _add(command: argparse.ArgumentParser, parameter: Parameter) -> None:
    name, kind, default, _place = parameter
    if kind is Text:
        command.add_argument(name, metavar="FILE", help=f"a file; {_STANDARD_INPUT} is standard input")
    elif default is REQUIRED:
        command.add_argument(name, type=_reader(kind), metavar=name.upper(), help=_described(kind))
    else:
        usually = "" if default is None else f" (by default {json.dumps(default)})"
        said = _described(kind, usually)
        command.add_argument(f"--{_dashed(name)}", dest=name, type=_reader(kind), metavar=name.upper(), help=said)


def _described(kind: Any, usually: str = "") -> str:
    """Return the help of a parameter: the type, in the form of argparse."""
    commas = ", with commas between" if _is_list_of_words(kind) else ""
    return f"{in_words(describe(kind, {}))}{commas}{usually}".replace("%", "%%")


def _reader(kind: Any) -> Any:
    """Return the function from an argument to a value: text for text parameters, words for lists of text, else JSON."""
    if get_origin(kind) is not None and hasattr(kind, "__metadata__"):
        return _reader(get_args(kind)[0])
    texts = {str, type(None)}
    only_text = kind is str or (get_args(kind) and {*get_args(kind)} <= texts)
    words = get_args(kind) and all(isinstance(each, str) or _is_words(each) for each in get_args(kind))
    if only_text or words:
        return str
    if str in get_args(kind):
        return _json_or_text
    wanted = in_words(describe(kind, {}))
    return partial(_words if _is_list_of_words(kind) else _json, wanted=wanted)


def _is_list_of_words(kind: Any) -> bool:
    lists = (each for each in (kind, *get_args(kind)) if get_origin(each) is list)
    return any(get_args(each)[0] is str or _is_words(get_args(each)[0]) for each in lists)


def _is_words(kind: Any) -> bool:
    return kind is type(None) or (bool(get_args(kind)) and all(isinstance(each, str) for each in get_args(kind)))


def _json(text: str, wanted: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not JSON; it must be: {wanted}") from None


def _words(text: str, wanted: str) -> Any:
    return _json(text, wanted) if text.startswith("[") else [each.strip() for each in text.split(",")]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _call(client: ControlClient, operation: Operation, options: argparse.Namespace) -> Any:
    given = vars(options)
    if operation.text_parameter is not None:
        given = given | {operation.text_parameter: _content(given[operation.text_parameter])}
    return call_operation(client, operation, given)


def call_operation(client: ControlClient, operation: Operation, given: Mapping[str, Any]) -> Any:
    """Call an operation with these arguments by name, and return the answer; what is missing or None is left out.

    Raises:
        ControlError: the broker refuses the operation.
        OSError: the broker can't be reached.
    """
    path = operation.path
    query: dict[str, Any] = {}
    body: dict[str, Any] = {}
    text: str | None = None
    for name, kind, _default, place in operation.parameters:
        value = given.get(name)
        if kind is Text:
            text = value
        elif place == "path":
            path = path.replace(f"{{{name}}}", in_path(str(value)))
        else:
            (query if place == "query" else body)[name] = value
    sent: Any = text if text is not None else body if operation.takes_json else None
    return client.call(operation.method, path, sent, query=query, timeout_s=_TIMEOUT_S)


def _content(path: str) -> str:
    if path == _STANDARD_INPUT:
        return sys.stdin.read()
    try:
        with open(path, encoding="utf-8-sig") as file:  # editors of Windows write a byte order mark
            return file.read()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8: {error.reason} at byte {error.start}", path) from error


def _print(answer: Any) -> None:
    if isinstance(answer, str):
        sys.stdout.write(answer)
    elif answer is not None:
        print(json.dumps(answer, indent=2, ensure_ascii=False))

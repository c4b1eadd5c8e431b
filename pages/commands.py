"""Every option of every command, from the parser that reads it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from pages.markdown import code, plain, table
from pykafka_broker.cli.commands import CONTROLLING, SUMMARIES, flags, subcommands
from pykafka_broker.cli.configs import parser as keys_parser
from pykafka_broker.cli.help import parser_of
from pykafka_broker.tools import TOOLS
from pykafka_broker.tools.frame import parser_of as parser_of_tool

_HEADS = ("option", "meaning")
_HEAD = """# Options of every command

Every option of the broker and of its own commands. Kafka's tools, which are commands too, have [a page of their
own](tools.md), and so has the [control API](control.md), whose operations are the commands of `pykafka-broker control`.
How the commands end is in [exit codes](exit-codes.md).
"""


def commands() -> str:
    parts = [_HEAD, "## pykafka-broker [server.properties]\n\n" + _described(parser_of(""))]
    for names in SUMMARIES.values():
        if names is not TOOLS:
            parts += [_command(name, summary) for name, summary in sorted(names.items()) if name not in CONTROLLING]
    return "\n".join(parts)


def tools() -> str:
    head = (
        "# Options of Kafka's tools\n\nEvery option of Kafka's tools as subcommands of `pykafka-broker`. What they"
        " are for is in [Kafka's tools, without Java](../tools.md).\n"
    )
    return "\n".join([head, *(_tool(name, summary) for name, summary in sorted(TOOLS.items()))])


def _command(name: str, summary: str) -> str:
    parser = keys_parser() if name == "configs" else parser_of(name)
    return f"## pykafka-broker {name}\n\n{_sentence(summary)}\n\n{_below(parser, name)}"


def _tool(name: str, summary: str) -> str:
    return f"## pykafka-broker {name}\n\n{_sentence(summary)}\n\n{_below(parser_of_tool(name), name)}"


def _below(parser: argparse.ArgumentParser, name: str) -> str:
    parts = [_described(parser)]
    for word, each in subcommands(parser).items():
        summary = f"{_sentence(each.description)}\n\n" if each.description else ""
        parts.append(f"### {name} {word}\n\n{summary}{_described(each)}")
    return "\n".join(parts)


def _described(parser: argparse.ArgumentParser) -> str:
    rows = [*_words(parser), *map(_flag, _told(parser))]
    return table(_HEADS, rows) if rows else "It takes no options.\n"


def _told(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (action for action in flags(parser) if not isinstance(action, argparse._HelpAction))


def _words(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the rows of arguments without a flag."""
    for action in parser._actions:
        hidden = action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction)
        if not action.option_strings and not hidden:
            yield code(str(action.metavar or action.dest)), _meaning(action)


def _flag(action: argparse.Action) -> tuple[str, str]:
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(code(f"{spelt}{value}") for spelt in action.option_strings), _meaning(action)


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    return action.dest.upper()


def _meaning(action: argparse.Action) -> str:
    text = plain((action.help or "").replace("%%", "%"))
    if isinstance(action, argparse._VersionAction):
        text = "the version"
    if action.choices:
        text += f"{'; ' if text else ''}one of {', '.join(code(str(each)) for each in action.choices)}"
    if (
        action.nargs != 0
        and action.default
        and str(action.default) not in (*re.split(r"[\s()]+", text), argparse.SUPPRESS)
    ):
        text += f"; by default {code(str(action.default))}"
    return text


def _sentence(text: str | None) -> str:
    said = plain(text or "")
    return said[:1].upper() + said[1:].rstrip(".") + "."

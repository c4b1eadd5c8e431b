"""`pykafka-broker help [COMMAND]`: all commands in their groups, or the flags of one; the parser of each command.

`pykafka-broker completion bash|zsh|fish`: a script for that shell, made from the same parsers.

Rule: only a command's own parser knows what the command takes; nothing is listed a second time. A place is the words
that lead to a parser (`/features/describe`); each place has the words that may come next. Where a flag takes a value,
file names are offered, or the values if they are known.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pykafka_broker.cli.commands import (
    COMMANDS,
    OWN_FIRST,
    SUMMARIES,
    CommandParser,
    flags,
    module_of,
    parser_for,
    subcommands,
    what_was_meant,
)
from pykafka_broker.tools import TOOLS

# -- the parser of each command


_SHELLS = ("bash", "zsh", "fish")


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser of a command, or of the broker for the empty word."""
    if command in TOOLS and command not in OWN_FIRST:
        from pykafka_broker.tools.frame import parser_of as of_tool

        return of_tool(command)
    if command in _PARSERS:
        return _PARSERS[command]()
    parser: argparse.ArgumentParser = module_of(command).parser()
    return subcommands(parser).get(command, parser)


def help_parser() -> argparse.ArgumentParser:
    command = parser_for("help")
    command.add_argument(
        "command",
        nargs="?",
        choices=sorted({*COMMANDS, *TOOLS}),
        metavar="COMMAND",
        help="show the flags of this command",
    )
    return command


def completion_parser() -> argparse.ArgumentParser:
    command = CommandParser(
        prog="pykafka-broker completion",
        description="Print a script that completes commands and flags. For bash: "
        'eval "$(pykafka-broker completion bash)" in ~/.bashrc; for zsh the same in ~/.zshrc, behind compinit; '
        "for fish: pykafka-broker completion fish > ~/.config/fish/completions/pykafka-broker.fish",
    )
    command.add_argument("shell", choices=_SHELLS, help="the shell")
    return command


_PARSERS = {"help": help_parser, "completion": completion_parser}


# -- the list


_UNKNOWN = 2


def main(arguments: Sequence[str]) -> int:
    """Run the command; `arguments` begin with `help` or `completion`. Returns the exit code."""
    if arguments[0] == "completion":
        return _complete(arguments)
    if len(arguments) == 1:
        print(
            "pykafka-broker [server.properties] [options]    serve until SIGTERM or Ctrl-C; --help shows the options\n"
        )
        for title, commands in SUMMARIES.items():
            print(f"{title}:")
            for name, summary in sorted(commands.items()):
                print(f"  {name:<28}{summary}")
            print()
        print("pykafka-broker help COMMAND, or pykafka-broker COMMAND --help, shows what a command takes.")
        return 0
    if arguments[1] not in COMMANDS and arguments[1] not in TOOLS and not arguments[1].startswith("-"):
        print(f"pykafka-broker help: there is no {arguments[1]}: {what_was_meant(arguments[1])}", file=sys.stderr)
        return _UNKNOWN
    parser_of(help_parser().parse_args(arguments[1:]).command).print_help()
    return 0


# -- completion


class Word(NamedTuple):
    """A possible next word. choices: the possible values, () for any value, None for no value."""

    spelt: str
    summary: str
    choices: tuple[str, ...] | None = None


def _complete(arguments: Sequence[str]) -> int:
    shell = completion_parser().parse_args(arguments[1:]).shell
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](dict(_places())))
    return 0


def _places() -> Iterator[tuple[str, list[Word]]]:
    commands = {name: text for group in SUMMARIES.values() for name, text in group.items()} | TOOLS
    yield "", [*(Word(name, text) for name, text in sorted(commands.items())), *_flags(parser_of(""))]
    for name in sorted(commands):
        yield from _places_of(f"/{name}", parser_of(name))


def _places_of(place: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[Word]]]:
    within = subcommands(parser)
    words = [Word(name, _one_line(each.description)) for name, each in within.items()]
    chosen = [each for each in parser._actions if not each.option_strings and each.choices and not within]
    words += [Word(str(choice), "") for each in chosen for choice in each.choices or ()]
    yield place, [*words, *_flags(parser)]
    for name, each in within.items():
        yield from _places_of(f"{place}/{name}", each)


def _flags(parser: argparse.ArgumentParser) -> Iterator[Word]:
    for action in flags(parser):
        choices = None if action.nargs == 0 else tuple(map(str, action.choices or ()))
        for spelt in action.option_strings:
            yield Word(spelt, _one_line(action.help), choices)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").replace("%%", "%").split())


def _bash(places: dict[str, list[Word]]) -> str:
    lines = [
        "_pykafka_broker() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} place= words= each",
        '    for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        '        case "$place/$each" in',
        f"            {_or(places)}) place=$place/$each ;;",
        "        esac",
        "    done",
        '    case "$place $previous" in',
        *(f'        {each}) words="{" ".join(choices)}" ;;' for each, choices in _valued(places)),
        "        *)",
        '            case "$place" in',
        *(
            f'                {place or chr(34) * 2}) words="{" ".join(each.spelt for each in words)}" ;;'
            for place, words in places.items()
        ),
        "            esac ;;",
        "    esac",
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -o default -F _pykafka_broker pykafka-broker",
    ]
    return "\n".join(lines)


def _valued(places: dict[str, list[Word]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    r"""Yield flags with a value as `PLACE\ FLAG`, and the possible values."""
    for place, words in places.items():
        for each in words:
            if each.choices is not None:
                yield f"{place}\\ {each.spelt}", each.choices


def _or(places: dict[str, list[Word]]) -> str:
    return "|".join(place for place in places if place)


def _zsh(places: dict[str, list[Word]]) -> str:
    lines = [
        "#compdef pykafka-broker",
        "_pykafka_broker() {",
        "    local place= each",
        "    local -a found",
        '    for each in "${words[@]:1:CURRENT-2}"; do',
        '        case "$place/$each" in',
        f"            ({_or(places)}) place=$place/$each ;;",
        "        esac",
        "    done",
        '    case "$place ${words[CURRENT-1]}" in',
        *(
            f"        ({each}) {f'compadd -- {chr(32).join(choices)}' if choices else '_files'}; return ;;"
            for each, choices in _valued(places)
        ),
        "    esac",
        '    case "$place" in',
    ]
    for place, words in places.items():
        listed = " ".join(_quoted(f"{each.spelt}:{each.summary}") for each in words)
        lines.append(f"        ({place or chr(34) * 2}) found=({listed}) ;;")
    lines += [
        "    esac",
        "    _describe -o pykafka-broker found || _files",
        "}",
        "compdef _pykafka_broker pykafka-broker",
    ]
    return "\n".join(lines)


def _fish(places: dict[str, list[Word]]) -> str:
    lines = []
    for place, words in places.items():
        seen = [f"__fish_seen_subcommand_from {each}" for each in place.split("/")[1:]]
        when = "; and ".join(seen) if seen else "__fish_use_subcommand"
        for each in words:
            lines.append(f"complete -c pykafka-broker -n {_quoted(when)} {_fish_word(each)} -d {_quoted(each.summary)}")
    return "\n".join(lines)


def _fish_word(word: Word) -> str:
    if not word.spelt.startswith("-"):
        return f"-a {word.spelt}"
    name = f"-l {word.spelt[2:]}" if word.spelt.startswith("--") else f"-s {word.spelt[1:]}"
    if word.choices is None:
        return name
    return f"{name} -x -a {_quoted(' '.join(word.choices))}" if word.choices else f"{name} -r"


def _quoted(text: str) -> str:
    """Quote a text for zsh and fish."""
    return "'" + text.replace("\\", "").replace("'", "'\\''") + "'"

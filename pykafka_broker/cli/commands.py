"""The words that `pykafka-broker` may begin with. Rule: any other word is a file of settings, or a mistake."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka_broker.tools import TOOLS

CONTROLLING = ("control", "seed", "dump")
STORAGE = ("format", "info", "random-uuid", "version-mapping", "feature-dependencies")
COMMANDS = ("configs", "log", "trace", "proxy", "cluster", *CONTROLLING, *STORAGE)

_KEYS_FLAGS = ("--scope", "--effect")


def is_tool(arguments: Sequence[str]) -> bool:
    """`configs` is a tool that asks a broker, and without flags of that tool a list of all keys that there are."""
    if arguments[0] != "configs":
        return arguments[0] in TOOLS
    flags = [each.partition("=")[0] for each in arguments[1:] if each.startswith("-")]
    return bool(flags) and not any(each in _KEYS_FLAGS for each in flags)


def is_like_a_command(word: str) -> bool:
    """A file is usually named with a dot or a slash."""
    return word.isalpha()


def what_was_meant(word: str) -> str:
    """For somebody who has mistyped a command."""
    import difflib  # 1 ms that no other start has to wait for

    meant = difflib.get_close_matches(word.lower(), (*COMMANDS, *TOOLS), n=1, cutoff=0.7)
    return f"did you mean {meant[0]}?" if meant else f"the commands are {', '.join(COMMANDS)}"

"""The words that `pykafka-broker` may begin with. Rule: any other word is a file of settings, or a mistake."""

from __future__ import annotations

from pykafka_broker.tools import TOOLS

CONTROLLING = ("control", "seed", "dump")
STORAGE = ("format", "info", "random-uuid", "version-mapping", "feature-dependencies")
COMMANDS = ("configs", "log", "trace", "proxy", "cluster", *CONTROLLING, *STORAGE)


def is_like_a_command(word: str) -> bool:
    """A file is usually named with a dot or a slash."""
    return word.isalpha()


def what_was_meant(word: str) -> str:
    """For somebody who has mistyped a command."""
    import difflib  # 1 ms that no other start has to wait for

    meant = difflib.get_close_matches(word.lower(), (*COMMANDS, *TOOLS), n=1, cutoff=0.7)
    return f"did you mean {meant[0]}?" if meant else f"the commands are {', '.join(COMMANDS)}"

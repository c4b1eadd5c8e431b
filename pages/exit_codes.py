"""With what commands end.

Rule: each row has an invocation that ends so; `tests/pages/test_exit_codes.py` runs them.
"""

from __future__ import annotations

from typing import NamedTuple

from pages.markdown import code, table


class Ending(NamedTuple):
    """`command`: as typed behind `pykafka-broker`, where FREE is an address at which nobody listens, TAKEN one that is
    in use, and EMPTY an empty directory; none where it takes a signal or a kill."""

    code: int
    when: str
    command: str | None = None


BROKER = (
    Ending(
        0, "it was told to stop: Ctrl-C, SIGTERM or SIGHUP, also while it was still starting; everything is on disk"
    ),
    Ending(1, "it cannot start: a port is taken", "--ephemeral --listen TAKEN"),
    Ending(1, "it cannot start: a data directory is locked by another broker, not writable, or of another cluster"),
    Ending(1, "all its log directories have failed while it ran"),
    Ending(
        2,
        "a value is not allowed: one line for each, with key, value and what is allowed",
        "--override num.partitions=many",
    ),
    Ending(2, "a key is refused", "--override remote.log.storage.system.enable=true"),
    Ending(2, "a file of settings is not there", "no-such-file.properties"),
    Ending(2, "a flag is unknown", "--no-such-flag"),
    Ending(2, "a command is mistyped", "tpics --list"),
)
OWN_COMMANDS = (
    Ending(1, "`log verify`: something is damaged"),
    Ending(0, "it is done, or the help was asked for", "configs --effect refused"),
    Ending(1, "`control`, `seed`, `dump`: the broker refuses, or is not there", "control health --url http://FREE"),
    Ending(2, "`control`, `seed`, `dump`: nobody says where the broker is", "control health"),
    Ending(2, "`log`: there is no such data directory", "log verify no-such-directory"),
    Ending(1, "`trace`: the capture can't be read", "trace no-such-file.pcap"),
    Ending(2, "`trace`, `advise`: nobody names a capture or a broker", "trace"),
    Ending(1, "`replay`: the recording can't be read, or the target not be reached", "replay no-such-file.jsonl"),
    Ending(3, "`replay`: an answer differs from the recorded one"),
    Ending(4, "`replay --check`: all answers are as recorded, and the check finds something"),
    Ending(1, "`format`, `info` and the other storage commands: anything is wrong, as with `kafka-storage`", "format"),
    Ending(2, "`help`: there is no such command", "help tpics"),
    Ending(130, "any command: Ctrl-C"),
)
TOOLS = (
    Ending(0, "it is done", "topics --version"),
    Ending(1, "wrong use", "topics --lst"),
    Ending(1, "the broker refuses, or can't be reached in time"),
    Ending(0, "`consumer-groups`, `share-groups` and `delete-records`: many errors, which are told on standard output"),
    Ending(130, "Ctrl-C; the consoles and the verifiable tools end with 0, as Kafka's"),
)
_HEAD = """# Exit codes

The exit codes of all commands. Errors are on standard error, one line each, never a stack trace.
"""


def exit_codes() -> str:
    parts = [_HEAD]
    for title, endings in (("The broker", BROKER), ("Commands of its own", OWN_COMMANDS), ("Kafka's tools", TOOLS)):
        rows = [(str(each.code), each.when, _example(each)) for each in endings]
        parts.append(f"## {title}\n\n" + table(("code", "when", "for example"), rows))
    return "\n".join(parts)


def _example(ending: Ending) -> str:
    shown = (ending.command or "").replace("TAKEN", "9092").replace("FREE", "127.0.0.1:9644")
    return code(f"pykafka-broker {shown}") if shown else ""

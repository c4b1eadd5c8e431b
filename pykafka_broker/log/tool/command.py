"""`pykafka-broker log dump|verify|repair DIR`.

Rule: the exit code is 0 if all is well or mended, 1 if something is damaged, 2 if the arguments make no sense. Each
command is imported when it runs.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Sequence

from pykafka_broker.log.filesystem import FileSystem, OsFileSystem
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.log.tool.directory import Row

_BAD = frozenset({"error", "damage"})


def run(
    arguments: Sequence[str],
    write: Callable[[str], object],
    now: int,
    *,
    complain: Callable[[str], object] | None = None,
    fs: FileSystem | None = None,
) -> int:
    """Print the result of a command, a line at a time, and return the exit code.

    Args:
        complain: is called with the reason of a refusal; None for `write`.
    """
    complain = complain or write
    options = parser().parse_args(arguments)
    options.dir = os.path.abspath(options.dir)
    if not os.path.isdir(options.dir):
        complain(f"{options.dir} is not a directory")
        return 2
    show = _json if options.json else _text
    status = 0
    try:
        for row in _rows(options, fs or OsFileSystem(), now):
            write(show(row))
            if row["type"] in _BAD:
                status = 1
    except BrokenPipeError:
        raise
    except (LogDirectoryError, OSError) as error:
        complain(str(error))
        return 2
    return status


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pykafka-broker log", description="Look into a data directory, offline.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("dump", "print every batch, index entry and checkpoint"),
        ("verify", "check that everything is as it should be"),
        ("repair", "cut damaged logs, keep what was cut off, make indexes anew"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("dir", help="a directory of log.dirs, or the folder of one partition")
        command.add_argument("--json", action="store_true", help="one JSON object a line")
        if name == "dump":
            command.add_argument("--records", action="store_true", help="with the records of each batch")
    return parser


def _rows(options: argparse.Namespace, fs: FileSystem, now: int) -> Iterable[Row]:
    if options.command == "dump":
        from pykafka_broker.log.tool.dump import dump

        return dump(fs, options.dir, records=options.records)
    if options.command == "verify":
        from pykafka_broker.log.tool.verify import verify

        return verify(fs, options.dir)
    from pykafka_broker.log.tool.repair import repair

    return repair(fs, options.dir, now)


def _json(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _text(row: Row) -> str:
    fields = " ".join(f"{key}={_value(value)}" for key, value in row.items() if key not in ("type", "file"))
    return f"{row['file']}: {row['type']} {fields}".rstrip()


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | dict | list) else str(value)

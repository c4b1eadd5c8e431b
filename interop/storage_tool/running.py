"""One script with one tool.

Rule: what is told of it is the same for both: exit code, standard output, the sentence about what is wrong (Kafka's
stands in a stack trace at times, advice of ours in parentheses behind it), and what stands in the directories
afterwards. Keys and ids that are drawn are left out, and so is how a wrong option is told.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interop.storage_tool.scripts import Script
from pykafka_broker.cluster.snapshot import MetadataSnapshot, control_type, snapshot_records
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.protocol.stored.voters_record import VotersRecord
from pykafka_broker.records.record import iter_records

CLUSTER_ID = "DlucevI8RBOIwwbz5AzpFA"
Tool = Callable[[list[str]], tuple[int, str, str]]  # from arguments to exit code, standard output and error
_KEYS = re.compile(r"salt=\[.*?\], storedKey=\[.*?\], serverKey=\[.*?\]")
_DRAWN = re.compile(r"directory\.id=[A-Za-z0-9_-]{22}")
_PASSED_OVER = ("SLF4J", "\tat ", "\t... ", "Caused by:", "(")
_EXCEPTION = re.compile(r'Exception in thread "main" [\w.]+: ')
_BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
    "log.dirs": "$DIR/logs",
}
_STATIC = {"controller.quorum.voters": "1@127.0.0.1:19093"}
_DYNAMIC = {"controller.quorum.bootstrap.servers": "127.0.0.1:19093"}
_CONFIGS = {
    "static": _BASE | _STATIC,
    "two": _BASE | _STATIC | {"log.dirs": "$DIR/a,$DIR/b"},
    "dynamic": _BASE | _DYNAMIC,
    "metadata": _BASE | _DYNAMIC | {"metadata.log.dir": "$DIR/metadata"},
    "broker": _BASE | _DYNAMIC | {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:19092"},
}


def run(script: Script, tool: Tool, directory: Path) -> dict[str, Any]:
    """Everything that came of it, as JSON can say it."""
    name, lines = script
    config = directory / "server.properties"
    text = "".join(f"{key}={value}\n" for key, value in _CONFIGS[name].items())
    config.write_text(text.replace("$DIR", str(directory)))
    answers = []
    for line in lines:
        words = [{"$CONFIG": str(config), "$ID": CLUSTER_ID}.get(word, word) for word in line.split(" ")]
        if words[0].startswith("$"):
            _prepare(directory / words[1], *words)
        else:
            answers.append(_answer(line, tool(words), directory))
    left = {str(path.relative_to(directory)): _content(path) for path in sorted(directory.rglob("*")) if path.is_file()}
    left.pop("server.properties")
    return {"answers": answers, "files": left}


def _prepare(path: Path, action: str, _name: str, value: str = "") -> None:
    if action == "$LOSE":
        shutil.rmtree(path)
    elif action == "$FILE":
        path.touch()
    elif action == "$FOLDER":
        path.mkdir()
    else:
        key = {"$NODE": "node.id", "$CLUSTER": "cluster.id"}[action]
        file = path / "meta.properties"
        file.write_text(re.sub(rf"(?m)^{key}=.*$", f"{key}={value}", file.read_text()))


def _answer(line: str, done: tuple[int, str, str], directory: Path) -> dict[str, Any]:
    code, out, wrong = done
    return {
        "line": line,
        "exit": code,
        "out": _in_order(_told(out, directory)),
        "wrong": _complaint(_told(wrong, directory)),
    }


def _in_order(text: str) -> str:
    """Kafka formats directories in the order of a hash table."""
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("Formatting ")), len(lines))
    return "\n".join([*lines[:first], *sorted(lines[first:])])


def _told(text: str, directory: Path) -> str:
    text = text.replace(str(directory), "$DIR")
    return _DRAWN.sub("directory.id=...", _KEYS.sub("salt=[hidden], storedKey=[hidden], serverKey=[hidden]", text))


def _complaint(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith(_PASSED_OVER)]
    if lines and lines[0].startswith("usage:"):
        return "wrong options"
    return _EXCEPTION.sub("", "\n".join(lines))


def _content(path: Path) -> Any:
    if path.name == "meta.properties":
        lines = sorted(line for line in path.read_text().splitlines() if not line.startswith("#"))
        return [line for line in lines if not line.startswith("directory.id=")]
    if path.suffix != ".checkpoint":
        return None
    fs = OsFileSystem()
    return [_record(each.message) for each in snapshot_records(fs, str(path))] + _control_records(fs, path)


def _record(message: Any) -> list[Any]:
    if hasattr(message, "feature_level"):
        return [message.name, message.feature_level]
    keys = hashlib.sha256(message.stored_key + message.server_key).hexdigest()
    given = message.salt == b"1lv4pdnw4fwq7notcxm0yci"
    return [message.name, message.mechanism, message.iterations, keys if given else "drawn"]


def _control_records(fs: OsFileSystem, path: Path) -> list[Any]:
    found: list[Any] = []
    for header, batch in MetadataSnapshot(fs, str(path), 0, 0).batches():
        for record in iter_records(batch, header) if header.is_control else ():
            kind = control_type(record)
            found.append([kind, _voters(record.value or b"")] if kind == 6 else kind)
    return found


def _voters(value: bytes) -> list[Any]:
    return [
        [voter.voter_id, [[each.name, _host(each.host), each.port] for each in voter.endpoints]]
        for voter in VotersRecord.decode(value, 0).voters
    ]


def _host(text: str) -> str:
    """Java spells addresses in another way."""
    return ipaddress.ip_address(text).exploded if ":" in text else text

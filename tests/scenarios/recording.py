"""Scenarios against a running Apache Kafka, whose answers are kept, and against our broker.

Rule: ours has to say the same, line by line.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TypeVar

from tests.scenarios.groups.local import LocalWorld
from tests.scenarios.groups.sockets import SocketWorld
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

S = TypeVar("S", bound=Stage)


def record(scripts: Scripts[S], stage: type[S], answers: Path, address: str, names: list[str]) -> None:
    """Play scenarios (`names`, or all) with the broker at `address`, HOST:PORT, and write its answers to files."""
    host, _, port = address.rpartition(":")
    answers.mkdir(exist_ok=True)
    for name in names or scripts:
        suffix = secrets.token_hex(3)  # so that a broker can be recorded twice
        lines = _play(scripts, name, stage(SocketWorld((host, int(port)), f"{name}-{suffix}")))
        (answers / f"{name}.json").write_text(json.dumps(lines, indent=0, ensure_ascii=False) + "\n")
        print(f"{name}: {len(lines)} lines")


def check(scripts: Scripts[S], stage: type[S], answers: Path, name: str, log_dir: Path, config: dict[str, str]) -> None:
    """Check that our broker, with its data in `log_dir`, gives the recorded answers in a scenario."""
    suffix = "000000"  # as long as the suffix of the recording
    lines = _play(scripts, name, stage(LocalWorld(log_dir, f"{name}-{suffix}", config)))
    assert lines == json.loads((answers / f"{name}.json").read_text())


def _play(scripts: Scripts[S], name: str, stage: S) -> list[str]:
    stage.ready()
    scripts[name](stage)
    return stage.lines

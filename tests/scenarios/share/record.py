"""Record what a running Apache Kafka answers: python tests/scenarios/share/record.py HOST:PORT [scenario ...]

The broker must run with the settings of `settings.CONFIG`.
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.scenarios.groups.sockets import SocketWorld
from tests.scenarios.share.scripts import SCENARIOS
from tests.scenarios.share.stage import ShareStage

ANSWERS = Path(__file__).with_name("answers")


def play(name: str, address: tuple[str, int]) -> list[str]:
    stage = ShareStage(SocketWorld(address, f"{name}-{secrets.token_hex(3)}"))  # one broker may be asked twice
    stage.ready()
    SCENARIOS[name](stage)
    return stage.lines


def main(address: str, names: list[str]) -> None:
    host, _, port = address.rpartition(":")
    ANSWERS.mkdir(exist_ok=True)
    for name in names or SCENARIOS:
        lines = play(name, (host, int(port)))
        (ANSWERS / f"{name}.json").write_text(json.dumps(lines, indent=0, ensure_ascii=False) + "\n")
        print(f"{name}: {len(lines)} lines")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

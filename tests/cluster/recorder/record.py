"""Records what a controller of Apache Kafka decides: python -m tests.cluster.recorder.record [section ...]

Needs Java and the jars (`interop/jars.py`). One JVM at a time; each section has a fresh controller, brokers are played.
The lines go to `../kafka_decisions.jsonl`, which `test_like_kafka.py` compares with.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.cluster.recorder.scripts import SECTIONS
from tests.cluster.recorder.stage import Stage

RECORDED = Path(__file__).parents[1] / "kafka_decisions.jsonl"


def record(sections: list[str]) -> None:
    kept = RECORDED.read_text().splitlines() if RECORDED.exists() else []
    lines = {name: [line for line in kept if json.loads(line)["section"] == name] for name in SECTIONS}
    for name in sections or SECTIONS:
        script, settings = SECTIONS[name]
        lines[name] = []
        with Stage(name, settings, lines[name]) as stage:
            script(stage)
    RECORDED.write_text("".join(f"{line}\n" for of_section in lines.values() for line in of_section))


if __name__ == "__main__":
    record(sys.argv[1:])

"""Records the tables anew: `python -m interop.answers [AREA ...]`. Needs Java and Kafka's jars (interop/java.py)."""

import json
import sys
from pathlib import Path

from interop.answers.areas import AREAS
from interop.answers.script import run, scenarios_of
from interop.real_kafka import RealKafka

RECORDED = Path(__file__).parent / "recorded"
SETTLE_S = 0.15


def as_text(table: dict[str, list[dict[str, object]]]) -> str:
    """JSON with one line for each answer, so that a difference is a line too."""
    parts = []
    for name, answers in table.items():
        lines = ",\n".join(f"    {json.dumps(answer, ensure_ascii=False)}" for answer in answers)
        parts.append(f"  {json.dumps(name)}: [\n{lines}\n  ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    with RealKafka() as kafka:
        for area in sys.argv[1:] or AREAS:
            scripts = scenarios_of(AREAS[area])
            table = {name: run(name, script, kafka.bootstrap_servers, SETTLE_S) for name, script in scripts.items()}
            (RECORDED / f"{area}.json").write_text(as_text(table))
            print(f"{area}: {len(table)} scenarios, {sum(map(len, table.values()))} answers")


if __name__ == "__main__":
    main()

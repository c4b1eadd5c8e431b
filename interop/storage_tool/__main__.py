"""Records anew what Kafka's tool answers: `python -m interop.storage_tool`."""

import json
import subprocess
import tempfile
from pathlib import Path

from interop.java import java_command, kafka_classpath
from interop.storage_tool.running import run
from interop.storage_tool.scripts import SCRIPTS

RECORDED = Path(__file__).parent / "recorded.json"


def kafka(arguments: list[str]) -> tuple[int, str, str]:
    """Kafka's own tool."""
    jvm = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", kafka_classpath())
    command = java_command(*jvm, "kafka.tools.StorageTool", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def main() -> None:
    answers = {}
    for name, script in SCRIPTS.items():
        with tempfile.TemporaryDirectory() as directory:
            answers[name] = run(script, kafka, Path(directory))
    RECORDED.write_text(json.dumps(answers, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(answers)} scripts, {sum(len(each['answers']) for each in answers.values())} invocations")


if __name__ == "__main__":
    main()

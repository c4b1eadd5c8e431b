"""`--help` and `--version` of every tool, whose texts are their own: their exit codes, and where they are printed."""

from interop.tools.steps import Step
from pykafka_broker.tools import TOOLS

_WITHOUT_VERSION = {"cluster", "end-to-end-latency", "features", "metadata-quorum", "transactions"}
_WITHOUT_VERSION |= {"producer-perf-test", "verifiable-consumer", "verifiable-producer", "verifiable-share-consumer"}


def _printed(out: str) -> str:
    return "text" if out.strip() else ""


STEPS = [
    Step(tool, command, alike=_printed, other_errors="the help is in our words", alone=True)
    for tool in TOOLS
    if tool != "mirror"
    for command in ("{nowhere} --help", "{nowhere} --version", "{nowhere}")
    if command != "{nowhere} --version" or tool not in _WITHOUT_VERSION
]

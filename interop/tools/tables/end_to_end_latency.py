"""kafka-end-to-end-latency: numbers are compared as shapes."""

import re

from interop.tools.preparing import make_topics
from interop.tools.steps import Step


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"lat": 1})


def shapes(out: str) -> str:
    """Measured figures aside."""
    out = re.sub(r"(?<=^0[ \t])[\d.]+$", "N", out, flags=re.MULTILINE)
    return re.sub(r"(?<== )\d+|(?<=latency: )[\d.]+", "N", out)


_SENT = "--topic lat --num-records 5 --producer-acks 1 --record-size 10"
_COMMANDS = [
    _SENT,
    "--topic lat --num-records 5 --producer-acks all --record-size 10",
    "--topic new --num-records 5 --producer-acks 1 --record-size 10",
    f"{_SENT} --record-key-size 4",
    f"{_SENT} --num-headers 2 --record-header-key-size 3 --record-header-size 4",
    f"{_SENT} --command-config '{{file:client.id=me}}'",
    "{nowhere} {bootstrap} lat 5 1 10",
    "{nowhere} {bootstrap} lat 5 all 10",
    "{nowhere} {bootstrap} lat 5 2 10",
    "{nowhere} {bootstrap} lat x 1 10",
    "{nowhere} {bootstrap} lat",
    "--topic lat --num-records 5 --producer-acks 0 --record-size 10",
    "--topic lat --num-records 0 --producer-acks 1 --record-size 10",
    "--topic lat --num-records 5 --producer-acks 1 --record-size 0",
    "--topic lat --num-records 5 --producer-acks 1",
    "--num-records 5 --producer-acks 1 --record-size 10",
    f"{_SENT} --no-such-flag",
    f"{_SENT} --command-config /no/such/file",
    f"{{nowhere}} {_SENT}",
]
STEPS = [Step("end-to-end-latency", each, alike=shapes) for each in _COMMANDS]
STEPS += [
    Step("end-to-end-latency", each)
    for each in (
        "--",
        "{nowhere}",
    )
]
IN_OUR_WORDS = {
    "--topic lat --num-records 0 --producer-acks 1 --record-size 10",
    "{nowhere}",
}

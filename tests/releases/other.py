"""The one other release of Kafka that tests compare with, beside the one that this broker is (`OWN_VERSION`).

Rule: this broker passes for it with `--emulate`. It is the release before, and a newer one for as long as that is not
yet the one that this broker is; then the two change places, here and in `pykafka_broker/releases/release.py`. Names and
numbers alone are used here: the pin may be of a release that is not recorded yet.
"""

from __future__ import annotations

from pykafka_broker.releases.release import OWN_VERSION


def number(version: str) -> tuple[int, ...]:
    """Return the numbers of a version; a candidate has those of its release."""
    return tuple(map(int, version.partition("-")[0].split(".")))


def name_of(version: str) -> str:
    return "{}.{}".format(*number(version))


OTHER_VERSION = "4.3.1"
OTHER = name_of(OTHER_VERSION)
OWN = name_of(OWN_VERSION)
NEWEST_VERSION = max(OWN_VERSION, OTHER_VERSION, key=number)


def emulated(version: str) -> str:
    """Return the value of `pykafka.emulate` that makes a broker one of the release: empty for our own."""
    return "" if version == OWN_VERSION else name_of(version)

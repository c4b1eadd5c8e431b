"""The one other release of Kafka that tests compare with, beside the one that this broker is (`OWN_VERSION`).

Rule: this broker passes for it with `--emulate`. It is the release before, and a newer one for as long as that is not
yet the one that this broker is; then the two change places, here and in `pykafka_broker/releases/release.py`.
"""

from __future__ import annotations

from pykafka_broker.releases.release import OWN_VERSION, release

OTHER_VERSION = "4.4.0"
OTHER = release(OTHER_VERSION).name
OWN = release(OWN_VERSION).name
NEWEST_VERSION = max(OWN_VERSION, OTHER_VERSION, key=lambda version: release(version).number)


def emulated(version: str) -> str:
    """Return the value of `pykafka.emulate` that makes a broker one of the release: empty for our own."""
    return "" if version == OWN_VERSION else release(version).name

"""The order in which a Java HashMap gives its strings. Rule: only for what a client can see of it, which is how Kafka
decides between protocols, or assignors, with as many votes.
"""

from __future__ import annotations

import struct

_SLOTS = 16
_FILLED_TO = 0.75  # then there are twice as many


def hash_order(names: list[str], among: int = 0) -> list[str]:
    """Those that fall into the same slot stay as they are. `among`: how many the map has, if they are not all of it."""
    slots = _SLOTS
    while max(among, len(names)) > slots * _FILLED_TO:
        slots *= 2
    return sorted(names, key=lambda name: _spread(name) & (slots - 1))


def _spread(name: str) -> int:
    """String.hashCode, with its upper half over the lower one."""
    units = name.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code ^ code >> 16

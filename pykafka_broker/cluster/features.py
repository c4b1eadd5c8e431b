"""Features: the levels that this broker supports and that a new cluster finalizes (KIP-584, KIP-778, KIP-1022).

Rule: the ranges and levels are those of Kafka 4.4, since clients and tools decide by them. A broker that passes for a
newer release supports the levels of that release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykafka_broker.config import BrokerConfig

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"

# The level of metadata.version as each release names it; a level without a release of its own lies between two of them.
METADATA_VERSIONS = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
    31: "4.4-IV0",
    32: "4.4-IV1",
    33: "4.4-IV2",
    34: "4.5-IV0",  # in no release yet; 4.4 knows the name
}

UNREGISTER_CONTROLLER_FROM = 33  # 4.4-IV2, the first metadata.version with UnregisterControllerRecord

# name: (lowest, highest) supported level, in the order in which a 4.4 broker lists them
SUPPORTED: dict[str, tuple[int, int]] = {
    "group.version": (0, 1),
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (7, 33),
    SHARE_VERSION: (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    ELR_VERSION: (0, 1),
}

# The levels that releases finalize, each by the first metadata.version of them, in the order of kafka-storage.
_DEFAULTS_FROM: dict[str, dict[int, int]] = {
    KRAFT_VERSION: {21: 1},
    "transaction.version": {24: 2},
    "group.version": {22: 1},
    ELR_VERSION: {26: 1},
    SHARE_VERSION: {28: 1, 31: 2},
    "streams.version": {29: 1},
}
_OWN_LEVELS_SINCE = (4,)  # the release from which on everything that works here has its level of metadata.version
# name: {level: what it needs}
DEPENDENCIES = {ELR_VERSION: {1: {METADATA_VERSION: 23}}}


def default_levels(metadata_version: int) -> dict[str, int]:
    """Return the level of each other feature in a release with the metadata.version."""
    return {
        name: max((level for start, level in levels.items() if metadata_version >= start), default=0)
        for name, levels in _DEFAULTS_FROM.items()
    }


def bootstrap_levels(metadata_version: int) -> dict[str, int]:
    """Return the levels finalized by formatting a new cluster, in the order of the bootstrap records.

    kraft.version is not among them: it stands in the control records.
    """
    levels = sorted(default_levels(metadata_version).items())
    return {METADATA_VERSION: metadata_version} | {
        name: level for name, level in levels if level and name != KRAFT_VERSION
    }


def has_dead_letters(features: Mapping[str, int]) -> bool:
    """Return whether share groups can have dead-letter topics (KIP-1191)."""
    return features.get(SHARE_VERSION, 0) >= 2


BOOTSTRAP_LEVELS = bootstrap_levels(SUPPORTED[METADATA_VERSION][1])


def supported_features(config: BrokerConfig) -> dict[str, tuple[int, int]]:
    """Return the range of each feature in the release which the broker passes for."""
    release = config.own.release
    if release is None:
        return SUPPORTED
    return {name: (lowest, highest) for name, (lowest, highest, _) in release.features.items()}


def abilities(config: BrokerConfig) -> Mapping[str, tuple[int, int]]:
    """Return the range of each feature that a node registers: an emulated release adds levels and takes none away."""
    if config.own.release is None:
        return SUPPORTED
    more = supported_features(config)
    return {name: (lowest, max(highest, more.get(name, (0, 0))[1])) for name, (lowest, highest) in SUPPORTED.items()}


def first_levels(config: BrokerConfig) -> dict[str, int]:
    """Return the levels that a broker finalizes for a new cluster without a format.

    A broker that passes for a release since 4.0 takes the release's metadata.version, so that a Kafka of the release
    can take the directory over, and otherwise the highest level that works here. Other features have the highest level
    that the release supports, switched on there or not.
    """
    release, levels = config.own.release, bootstrap_levels(abilities(config)[METADATA_VERSION][1])
    if release is None or release.number < _OWN_LEVELS_SINCE:
        return levels
    highest = {name: high for name, (_, high) in supported_features(config).items()}
    own = {name: min(level, highest.get(name, 0)) for name, level in levels.items()}
    return {name: level for name, level in own.items() if level}


def shown_levels(config: BrokerConfig, levels: Mapping[str, int]) -> dict[str, int]:
    """Return the levels in force known to the release, none higher than the release has."""
    release = config.own.release
    if release is None:
        return {name: level for name, level in levels.items() if level}
    theirs = {name: min(levels.get(name, 0), level) for name, (_, _, level) in release.features.items()}
    return {name: level for name, level in theirs.items() if level}

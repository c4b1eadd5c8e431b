"""Which topics and groups MirrorMaker 4.3.1 mirrors from `from` to `to`, by their names, under several policies.

Rule: what stands here a real MirrorMaker does; `interop/test_mirror_beside.py` asks one.
"""

from typing import NamedTuple

TOPICS = [
    "plain",
    "_x",
    "__x",
    ".x",
    "x.",
    "x-internal",
    "x.internal",
    "a.b.c.internal",
    "internal",
    "_schemas",
    "connect-configs",
    "heartbeats",
    "heartbeats.x",
    "other-heartbeats",
    "from.heartbeats",
    "other.heartbeats",
    "to.heartbeats",
    "mm2x",
    "mm2x.y",
    "mm2internal",
    "mm2.internal",
    "mm2-internal",
    "mm2.x.internal",
    "mm2-x-internal",
    "mm2-offsets.other.internal",
    "mm2-configs.to.internal",
    "mm2-offset-syncs.other.internal",
    "mm2-offset-syncs-other-internal",
    "from",
    "to",
    "to.",
    "from.topic",
    "other.topic",
    "to.topic",
    "to.x.topic",
    "x.to.topic",
    "other.to.topic",
    "to-topic",
    "x-to-topic",
    "x.checkpoints.internal",
    "x-checkpoints-internal",
    "to.checkpoints.internal",
    ".checkpoints.internal",
    "replica",
    "x.replica",
    "x.replica.y",
    ".replica",
]
GROUPS = ["normal", "console-consumer", "console-consumer-1", "connect", "connect-a", "_a", "__a", ".a", "a.internal"]

_EVERYWHERE = "__x .x .checkpoints.internal .replica"
_OF_MM2 = (
    "mm2.internal mm2.x.internal mm2-offsets.other.internal mm2-configs.to.internal mm2-offset-syncs.other.internal"
)
_CHECKPOINTS = "x.checkpoints.internal to.checkpoints.internal"
_CYCLES = "to.heartbeats to.topic to.x.topic x.to.topic other.to.topic"
_EXCLUDED_GROUPS = "console-consumer-1 connect-a __a"


class Policy(NamedTuple):
    """Settings, the topics and groups that they leave out, and the prefix of copies."""

    settings: str
    topics: str
    groups: str = _EXCLUDED_GROUPS
    prefix: str = "from."


ALL = "topics.exclude = nothing\n"
DASHES = ALL + "replication.policy.separator = -\n"
POLICIES = {
    "default": Policy("", f"{_EVERYWHERE} {_OF_MM2} {_CHECKPOINTS} {_CYCLES} x.replica"),
    "nothing is excluded": Policy(
        f"{ALL}groups.exclude = nothing\n", f"{_EVERYWHERE} {_OF_MM2} {_CHECKPOINTS} {_CYCLES}", groups=""
    ),
    "another separator": Policy(
        DASHES,
        f"{_EVERYWHERE} mm2-internal mm2-x-internal mm2-offset-syncs-other-internal x-checkpoints-internal to-topic "
        "x-to-topic",
        prefix="from-",
    ),
    "another separator, not of internal topics": Policy(
        f"{DASHES}replication.policy.internal.topic.separator.enabled = false\n",
        f"{_EVERYWHERE} {_OF_MM2} {_CHECKPOINTS} to-topic x-to-topic",
        prefix="from-",
    ),
    "names are kept": Policy(
        f"{ALL}replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n",
        f"{_EVERYWHERE} {_OF_MM2} {_CHECKPOINTS} to.heartbeats",
        prefix="",
    ),
}


def copies(policy: Policy) -> set[str]:
    """Return the target's names of the topics that go over; heartbeats never keep their names."""
    left = policy.topics.split()
    return {
        (policy.prefix if not each.endswith("heartbeats") else policy.prefix or "from.") + each
        for each in TOPICS
        if each not in left
    }

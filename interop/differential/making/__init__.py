"""Makes sequences. Rule: an area knows the requests of its field and how they go wrong; most are right, since an error
early in a sequence hides what comes after it. Areas are mixed, since brokers differ where fields meet.
"""

from __future__ import annotations

import random

from interop.differential.making import (
    acls,
    admin,
    configs,
    edges,
    groups,
    log,
    offsets,
    shares,
    streams,
    topics,
    transactions,
)
from interop.differential.making.maker import Area, Maker, Versions
from interop.differential.steps import Step

AREAS: dict[str, Area] = {
    "topics": topics.AREA,
    "configs": configs.AREA,
    "log": log.AREA,
    "transactions": transactions.AREA,
    "groups": groups.AREA,
    "consumers": groups.CONSUMERS,
    "offsets": offsets.AREA,
    "shares": shares.AREA,
    "streams": streams.AREA,
    "admin": admin.AREA,
}
LENGTH = 40


def sequence(
    seed: int,
    versions: Versions,
    only: list[str] | None = None,
    length: int = LENGTH,
    rights: bool = False,
    at_edges: bool = False,
) -> list[Step]:
    """The first steps make what the others need. `rights`: whoever does it has rights that change. `at_edges`:
    some steps come with a copy before them that has odd values.
    """
    rng = random.Random(seed)
    maker = Maker(rng, versions)
    chosen = rng.sample(only or list(AREAS), min(len(only or AREAS), rng.choice((1, 1, 2, 3))))
    steps = [step for name in chosen for step in AREAS[name].start(maker)]
    started = len(steps)
    while len(steps) < length:
        area = AREAS[rng.choice(chosen)]
        kinds, weights = zip(*area.kinds, strict=True)
        steps += rng.choices(kinds, weights)[0](maker)
    if at_edges:
        steps = edges.edged(rng, steps, started)
    return acls.with_changing_rights(rng, steps) if rights else steps

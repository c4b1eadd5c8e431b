"""Runs of all kinds for as long as one likes: `python -m tests.simulation.soak --minutes 60 --seeds 100000-`.

Rule: seeds count up, and those of a kind take turns with the forms in which records are kept (`keeping.py`); the nodes
of every third are busy. What fails is printed with its seed and kind, and the rest goes on; a seed that has failed
becomes a test once what it found is mended. How often each rare state was reached is counted over all runs. A state
that enough runs should have reached, and none has, fails the soak too.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile
from multiprocessing import get_context
from typing import NamedTuple

from pykafka_broker.testing.simulation.faults import break_disk
from tests import invariants
from tests.simulation import rare
from tests.simulation.keeping import FORMS, KEPT, UNCLEAN, UNCLEAN_TRIMMED, Keeping, form_of, is_busy
from tests.simulation.layouts import ALONE
from tests.simulation.leases import run_leases
from tests.simulation.runs import (
    EVERYTHING,
    KILLS,
    ONCE,
    POWER_CUTS,
    SLOW,
    SYNCED,
    WIPES,
    run_alone,
    run_changes,
    run_cluster,
    run_groups,
    run_letters,
    run_shares,
)
from tests.simulation.simulation import Simulation

KINDS: dict[str, partial[Simulation]] = {
    "alone": partial(run_alone, settings=ALONE, faults=KILLS),
    "alone, synced": partial(run_alone, settings=SYNCED, faults=POWER_CUTS),
    "alone, one call fails": partial(run_alone, settings=ALONE, faults=ONCE),
    "cluster": partial(run_cluster, faults=KILLS, trouble_ms=8_000),
    "combined": partial(run_cluster, faults=KILLS, combined=True, trouble_ms=8_000),
    "groups": partial(run_groups, faults=KILLS, trouble_ms=8_000),
    "groups, combined": partial(run_groups, faults=KILLS, combined=True, trouble_ms=8_000),
    "groups, power cuts": partial(run_groups, faults=POWER_CUTS, trouble_ms=8_000),
    "groups, sole replicas": partial(run_groups, faults=(*ONCE, *KILLS), trouble_ms=8_000, sole=True, busy=True),
    "changes": partial(run_changes, faults=EVERYTHING, trouble_ms=8_000),
    "changes and groups": partial(run_changes, faults=EVERYTHING, trouble_ms=8_000, groups=True),
    "changes, combined": partial(run_changes, faults=EVERYTHING, combined=True, trouble_ms=8_000, groups=True),
    "cluster, power cuts": partial(run_cluster, faults=POWER_CUTS, trouble_ms=8_000),
    "wiped disks": partial(run_cluster, faults=WIPES, trouble_ms=8_000),
    "moves between disks": partial(run_changes, faults=(break_disk, *KILLS, *WIPES), trouble_ms=8_000, on_disk=True),
    "shares": partial(run_shares, faults=KILLS, trouble_ms=8_000),
    "dead letters": partial(run_letters, faults=KILLS, trouble_ms=8_000, keeping=KEPT),
    "near readers": partial(run_cluster, faults=KILLS, trouble_ms=8_000, near=True),
    "calm": partial(run_cluster, faults=KILLS, calm=True),
    "restored": partial(run_leases, faults=KILLS),
    "slow": partial(run_cluster, faults=SLOW, trouble_ms=8_000),
    "one call fails": partial(run_cluster, faults=ONCE, trouble_ms=8_000),
    "unclean": partial(run_cluster, faults=KILLS, trouble_ms=8_000, keeping=UNCLEAN),
    "unclean, trimmed": partial(run_cluster, faults=WIPES, trouble_ms=8_000, keeping=UNCLEAN_TRIMMED),
}
ENOUGH = 20  # runs of each kind and form, to have reached every rare state
_EVERY_STATE = (
    *rare.OF_STARTS,
    *rare.OF_TRIMS,
    *rare.OF_CUTS,
    *rare.OF_CLEANING,
    *rare.OF_POWER,
    *rare.OF_UNCLEAN,
    *rare.OF_MOVES,
    *rare.OF_STANDSTILL,
    *rare.OF_ONCE,
    *rare.OF_GROWTH,
    *rare.OF_ACKS,
    *rare.OF_REWINDING,
    *rare.OF_LEASES,
    *rare.OF_COMMITS,
    *rare.OF_NEARNESS,
)


class Outcome(NamedTuple):
    """The outcome of a run. wrong: what failed, with kind and seed; None if nothing did."""

    kind: str
    form: str
    wrong: str | None
    reached: Counter[str]


def form_for(kind: str, seed: int) -> Keeping:
    """Return how the records of this run are kept."""
    own: Keeping | None = KINDS[kind].keywords.get("keeping")
    return own or form_of(seed)


def outcome_of(kind: str, seed: int) -> Outcome:
    """Play one run and return its outcome: violations or an exception make it wrong."""
    form, busy = form_for(kind, seed), KINDS[kind].keywords.get("busy", is_busy(seed))
    try:
        reached = KINDS[kind](seed, keeping=form, busy=busy).history.rare
    except AssertionError as error:
        return Outcome(kind, form.name, f"{kind}, seed {seed}: {str(error) or traceback.format_exc()}", Counter())
    except Exception:  # a defect that the run itself did not catch; later seeds run all the same
        return Outcome(kind, form.name, f"{kind}, seed {seed}: {traceback.format_exc()}", Counter())
    return Outcome(kind, form.name, None, reached)


def never_reached(runs: Counter[tuple[str, str]], reached: Counter[str]) -> list[str]:
    """Return the rare states that no run has reached, if there were enough runs of every kind and form."""
    wanted = [(kind, form_for(kind, seed).name) for kind in KINDS for seed in range(len(FORMS))]
    if any(runs[each] < ENOUGH for each in wanted):
        return []
    return [state for state in _EVERY_STATE if not reached[state]]


def prepare() -> None:
    """Make this process one that soaks: offsets are asserted, and defects are told with their runs alone."""
    invariants.install()
    logging.getLogger("pykafka_broker").setLevel(logging.ERROR)
    logging.lastResort = None


def _run(kind_and_seed: tuple[str, int]) -> Outcome:
    return outcome_of(*kind_and_seed)


def _seeds(text: str) -> range:
    """Parse A-B, both included, or A- without an end."""
    found = re.fullmatch(r"(\d+)-(\d*)", text)
    if found is None:
        raise argparse.ArgumentTypeError("seeds are given as FIRST-LAST or FIRST-")
    return range(int(found[1]), int(found[2]) + 1 if found[2] else sys.maxsize)


def _outcomes(kinds: Sequence[str], seeds: range, processes: int, end: float) -> Iterator[Outcome]:
    """Run until the seeds or the time are used up."""
    wanted = takewhile(lambda _: time.monotonic() < end, ((kind, seed) for seed in seeds for kind in kinds))
    if processes == 1:
        prepare()
        yield from map(_run, wanted)
        return
    with get_context("spawn").Pool(processes, initializer=prepare) as pool:
        ahead = iter(lambda: [each for each in (next(wanted, None) for _ in range(processes * 8)) if each], [])
        for some in ahead:
            yield from pool.imap_unordered(_run, some)


def main() -> int:
    """Run the soak; return 1 if a run failed or a rare state was never reached."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.soak")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seeds", type=_seeds, default=_seeds("100000-"), metavar="FIRST-LAST")
    parser.add_argument("--kind", choices=KINDS, action="append", help="all, if none is named")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    options = parser.parse_args()
    runs, reached, failed = Counter[tuple[str, str]](), Counter[str](), 0
    end = time.monotonic() + options.minutes * 60
    for outcome in _outcomes(options.kind or [*KINDS], options.seeds, options.processes, end):
        runs[outcome.kind, outcome.form] += 1
        reached.update(outcome.reached)
        if outcome.wrong is not None:
            failed += 1
            print(f"{outcome.wrong}\n", flush=True)
    for (kind, form), count in sorted(runs.items()):
        print(f"{count:8} runs of {kind!r}, records {form}")
    for state in _EVERY_STATE:
        print(f"{reached[state]:8} times: {state}")
    missing = never_reached(runs, reached)
    print(f"{sum(runs.values())} runs, {failed} failed; never reached: {missing or 'nothing that should have been'}")
    return int(failed > 0 or bool(missing))


if __name__ == "__main__":
    sys.exit(main())

"""Runs of all kinds for as long as one likes: `python -m tests.simulation.soak --minutes 60 --from 100000`.

Rule: seeds count up; what fails is printed with its seed and kind, and the rest goes on. A seed that has failed becomes
a test once what it found is mended.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from functools import partial

from tests import invariants
from tests.simulation.faults import break_disk
from tests.simulation.layouts import ALONE
from tests.simulation.runs import (
    EVERYTHING,
    KILLS,
    POWER_CUTS,
    SYNCED,
    WIPES,
    run_alone,
    run_changes,
    run_cluster,
    run_groups,
    run_shares,
)
from tests.simulation.simulation import Simulation

KINDS: dict[str, partial[Simulation]] = {
    "alone": partial(run_alone, settings=ALONE, faults=KILLS),
    "alone, synced": partial(run_alone, settings=SYNCED, faults=POWER_CUTS),
    "cluster": partial(run_cluster, faults=KILLS, trouble_ms=8_000),
    "combined": partial(run_cluster, faults=KILLS, combined=True, trouble_ms=8_000),
    "groups": partial(run_groups, faults=KILLS, trouble_ms=8_000),
    "groups, combined": partial(run_groups, faults=KILLS, combined=True, trouble_ms=8_000),
    "groups, power cuts": partial(run_groups, faults=POWER_CUTS, trouble_ms=8_000),
    "changes": partial(run_changes, faults=EVERYTHING, trouble_ms=8_000),
    "changes and groups": partial(run_changes, faults=EVERYTHING, trouble_ms=8_000, groups=True),
    "changes, combined": partial(run_changes, faults=EVERYTHING, combined=True, trouble_ms=8_000, groups=True),
    "cluster, power cuts": partial(run_cluster, faults=POWER_CUTS, trouble_ms=8_000),
    "wiped disks": partial(run_cluster, faults=WIPES, trouble_ms=8_000),
    "moves between disks": partial(run_changes, faults=(break_disk, *KILLS, *WIPES), trouble_ms=8_000, on_disk=True),
    "shares": partial(run_shares, faults=KILLS, trouble_ms=8_000),
}


def what_fails(kind: str, seed: int) -> str | None:
    """What is wrong with one run: that something was lost, or that it ended in the middle."""
    try:
        KINDS[kind](seed)
    except AssertionError as error:
        return f"{kind}, seed {seed}: {str(error) or traceback.format_exc()}"
    except Exception:  # a defect that nobody in the run has caught; the seeds behind it are wanted too
        return f"{kind}, seed {seed}: {traceback.format_exc()}"
    return None


def main() -> int:
    """Returns 1 if something has failed."""
    invariants.install()
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.soak")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--from", dest="first", type=int, default=100_000, metavar="SEED")
    parser.add_argument("--kind", choices=KINDS, action="append", help="all, if none is named")
    options = parser.parse_args()
    logging.getLogger("pykafka_broker").setLevel(logging.ERROR)
    logging.lastResort = None  # defects are told with their runs
    end, seed, failed = time.monotonic() + options.minutes * 60, options.first, 0
    while time.monotonic() < end:
        for kind in options.kind or KINDS:
            if wrong := what_fails(kind, seed):
                failed += 1
                print(f"{wrong}\n", flush=True)
        seed += 1
    print(f"seeds {options.first} to {seed - 1}: {failed} runs failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m interop.differential`: thousands of steps against a real Kafka. Needs Java and Kafka's jars.

A night of it, which ends with status 1 if there is a difference: `--steps 100000 --jobs 4 --seed $(date +%Y%m%d)0000`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import ExitStack

from interop.differential.found import FOUND
from interop.differential.found_rights import FOUND as FOUND_WITH_RIGHTS
from interop.differential.hunt import Hunt
from interop.differential.making import AREAS, sequence
from interop.differential.making.maker import Versions
from interop.differential.pair import CAREFUL_SETTLE_S, CONFIG, Pair
from interop.differential.recording import RECORDED, RIGHTS, Recording, write
from interop.differential.steps import Step
from interop.differential.warm import offered, warm_up
from interop.real_kafka import RealKafka
from interop.rights import AUTHORIZER, open_up
from pykafka_broker.testing import KafkaBroker

SEEDS = (1, 2)  # for each area, so that CI is done in seconds


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop.differential", description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="how many to play before the last sequence ends")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--areas", nargs="+", choices=AREAS, help="only these")
    parser.add_argument("--jobs", type=int, default=1, help="pairs of brokers that play at the same time")
    parser.add_argument("--lanes", type=int, default=1, help="sequences at the same time on each of these pairs")
    parser.add_argument("--kafka", help="HOST:PORT of a Kafka that runs already, for one job")
    parser.add_argument("--ours", help="HOST:PORT of a broker of ours that runs already, for one job")
    parser.add_argument("--emulate", default="", help="the release that our brokers pass for")
    parser.add_argument("--acls", action="store_true", help="as a client whose rights change, with the authorizer")
    parser.add_argument("--edges", action="store_true", help="with requests that have odd values between the others")
    parser.add_argument("--record", action="store_true", help="write the sequences and Kafka's answers to recorded/")
    return parser.parse_args()


def record(pair: Pair, versions: Versions) -> None:
    """Each area's sequences, as many as there should be, and what has been found."""
    for area in AREAS:
        sequences = {f"{area}-{seed}": sequence(seed, versions, [area]) for seed in SEEDS}
        write(RECORDED / f"{area}.json", recorded(pair, sequences))
    write(RECORDED / "found.json", recorded(pair, FOUND))


def record_rights(pair: Pair, versions: Versions) -> None:
    """The same of a client whose rights change, with areas mixed."""
    sequences = {f"rights-{seed}": sequence(seed, versions, rights=True) for seed in SEEDS}
    write(RIGHTS, recorded(pair, sequences | FOUND_WITH_RIGHTS))


def recorded(pair: Pair, sequences: Mapping[str, list[Step]]) -> list[Recording]:
    return [
        Recording(name, steps, pair.run(steps, CAREFUL_SETTLE_S, to_the_end=True).theirs)
        for name, steps in sequences.items()
    ]


def started(chosen: argparse.Namespace, stack: ExitStack) -> list[Pair]:
    """Two brokers, and who plays on them."""
    config = CONFIG | AUTHORIZER if chosen.acls else CONFIG
    ours = chosen.ours
    if not ours:
        broker = KafkaBroker(config, quick_groups=False, emulate=chosen.emulate or None)
        ours = stack.enter_context(broker).bootstrap_servers
    theirs = chosen.kafka or stack.enter_context(RealKafka(config)).bootstrap_servers
    for address in (ours, theirs):
        warm_up(address)
        if chosen.acls:
            open_up(address)
    return [
        Pair(ours, theirs, stranger=f"127.0.0.{2 + lane}" if chosen.acls else "", lane=lane, lanes=chosen.lanes)
        for lane in range(chosen.lanes)
    ]


def main() -> None:
    """Ends with status 1 where there is a difference that stays."""
    chosen = arguments()
    with ExitStack() as stack:
        pairs = [pair for _ in range(chosen.jobs) for pair in started(chosen, stack)]
        versions = offered(*pairs[0].addresses)
        if chosen.record:
            (record_rights if chosen.acls else record)(pairs[0], versions)
            return
        hunt = Hunt(pairs, versions, chosen.areas, lambda text: print(text, flush=True), chosen.acls, chosen.edges)
        if hunt.run(chosen.seed, chosen.steps):
            sys.exit(1)


if __name__ == "__main__":
    main()

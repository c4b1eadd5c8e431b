"""`python -m interop.differential`: thousands of steps against a real Kafka. Needs Java and Kafka's jars."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from contextlib import ExitStack, suppress

from interop.differential.found import FOUND
from interop.differential.making import AREAS, sequence
from interop.differential.making.maker import Versions
from interop.differential.pair import CAREFUL_SETTLE_S, CONFIG, Difference, Pair
from interop.differential.recording import RECORDED, Recording, write
from interop.differential.warm import offered, warm_up
from interop.real_kafka import RealKafka
from pykafka_broker.testing import KafkaBroker

RECORDED_SEQUENCES = 2  # for each area, so that CI is done in seconds


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop.differential", description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="how many to play before the last sequence ends")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--areas", nargs="+", choices=AREAS, help="only these")
    parser.add_argument("--kafka", help="HOST:PORT of a Kafka that runs already")
    parser.add_argument("--ours", help="HOST:PORT of a broker of ours that runs already")
    parser.add_argument("--record", action="store_true", help="write the sequences and Kafka's answers to recorded/")
    return parser.parse_args()


def compare(pair: Pair, versions: Versions, chosen: argparse.Namespace) -> list[Difference]:
    """Prints each class of differences once, when it is found."""
    kinds: Counter[str] = Counter()
    differences = []
    seed, start = chosen.seed, time.monotonic()
    played = 0
    with suppress(KeyboardInterrupt):  # which ends a long run with what it has found
        while played < chosen.steps:
            steps = sequence(seed, versions, chosen.areas)
            run = pair.run(steps)
            played += len(run.theirs)
            if run.difference is not None:
                kinds[run.difference.kind] += 1
                if kinds[run.difference.kind] == 1:
                    differences += report(pair, seed, run.difference)
            seed += 1
    took = time.monotonic() - start
    print(f"\n{played} steps in {seed - chosen.seed} sequences, {took:.0f} s, {pair.steps_played} with repetitions")
    for kind, count in kinds.most_common():
        print(f"{count:5} x {kind}")
    return differences


def report(pair: Pair, seed: int, first: Difference) -> list[Difference]:
    smallest = pair.confirmed(first)
    if smallest is None:
        print(f"\nseed {seed}: unsteady: {first.kind}", flush=True)
        return []
    print(f"\nseed {seed}: {smallest.kind}\n{smallest.script()}", flush=True)
    return [smallest]


def record(pair: Pair, versions: Versions) -> None:
    """Each area's sequences, as many as there should be, and what has been found."""
    for area in AREAS:
        recordings = []
        for seed in range(1, RECORDED_SEQUENCES + 1):
            steps = sequence(seed, versions, [area])
            recordings.append(
                Recording(f"{area}-{seed}", steps, pair.run(steps, CAREFUL_SETTLE_S, to_the_end=True).theirs)
            )
        write(RECORDED / f"{area}.json", recordings)
    found = [
        Recording(name, steps, pair.run(steps, CAREFUL_SETTLE_S, to_the_end=True).theirs)
        for name, steps in FOUND.items()
    ]
    write(RECORDED / "found.json", found)


def main() -> None:
    chosen = arguments()
    with ExitStack() as stack:
        ours = chosen.ours or stack.enter_context(KafkaBroker(CONFIG, quick_groups=False)).bootstrap_servers
        theirs = chosen.kafka or stack.enter_context(RealKafka(CONFIG)).bootstrap_servers
        for address in (ours, theirs):
            warm_up(address)
        pair = Pair(ours, theirs)
        versions = offered(ours, theirs)
        if chosen.record:
            record(pair, versions)
        else:
            compare(pair, versions, chosen)


if __name__ == "__main__":
    main()

"""`python -m bench.control`: what the control API costs, with no rule and nobody who asks the log; with `--history`,
what a history costs on top of it, and with `--recording` a recording.

Rule: two brokers that differ in `--control` alone, or in the history or recording, take turns, in rounds short enough
that the machine is the same for both; of each pair of rounds the ratio, of all pairs the median, with the middle half
of them beside it. Which of the two is first changes with each round. Of produce, consume and latency the time is
compared as a client has it, and the CPU time of the broker's process; of small requests, where noise is larger than
what there is to see, the CPU time.
"""

import argparse
import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.peers import Peer, ours
from bench.requests import Asked, asked, load, prepare
from bench.running import Running
from bench.running import load as load_generator
from bench.workloads import Figures, create


def _controlled(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    return [*ours(directory, port, settings), "--control", "127.0.0.1:0"]


def _noted(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    return [*_controlled(directory, port, settings), "--history", str(directory / "history")]


def _recorded(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    return [*_controlled(directory, port, settings), "--record"]


def _on_cpu_ns(run: Running) -> int:
    """Return the CPU time of all threads, finer than the hundredths of a second of `cpu_s`."""
    return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{run.pid}/task").glob("*/schedstat"))


def pairs(each: Asked, runs: list[Running], connections: int, rounds: int, measured_ms: int) -> Iterator[float]:
    """Yield for each round the CPU of a request with the control API, divided by that without."""
    for number in range(rounds):
        spent = {}
        for run in runs if number % 2 else reversed(runs):
            cpu = _on_cpu_ns(run)
            answers = load(run, each, connections, 0, measured_ms)["answers"]
            spent[run.name] = (_on_cpu_ns(run) - cpu) / answers
        yield spent["on"] / spent["off"]


class Way(NamedTuple):
    """A run of the load generator, and the figure of it that says how long a client takes."""

    mode: str
    topic: str
    records: int
    size: int
    time: Callable[[Figures], float]
    settings: tuple[str, ...] = ()


def _seconds_of_a_mb(found: Figures) -> float:
    return 1 / found["mb_per_s"]


def _p50_ms(found: Figures) -> float:
    return found["p50_ms"]


_BATCHED = ("linger.ms=5", "acks=all")
WAYS = {
    "produce_100b": Way("produce", "of-100", 300_000, 100, _seconds_of_a_mb, _BATCHED),
    "consume_100b": Way("consume", "of-100", 300_000, 100, _seconds_of_a_mb),
    "produce_1k": Way("produce", "of-1k", 60_000, 1024, _seconds_of_a_mb, _BATCHED),
    "consume_1k": Way("consume", "of-1k", 60_000, 1024, _seconds_of_a_mb),
    "latency": Way("latency", "latency", 2000, 100, _p50_ms, ("linger.ms=0", "acks=all")),
}


def pairs_on_the_way(way: Way, runs: list[Running], rounds: int) -> Iterator[tuple[float, float]]:
    """Yield for each round time and CPU with the control API, each divided by that without."""
    for number in range(rounds):
        spent = {}
        for run in runs if number % 2 else reversed(runs):
            cpu = _on_cpu_ns(run)
            found = load_generator(run, way.mode, way.topic, 1, way.records, way.size, *way.settings)
            spent[run.name] = way.time(found), _on_cpu_ns(run) - cpu
        yield spent["on"][0] / spent["off"][0], spent["on"][1] / spent["off"][1]


def _told(name: str, found: list[float]) -> float:
    low, middle, high = statistics.quantiles(found, n=4)
    print(f"{name:20} {middle:6.3f}   {low:.3f} to {high:.3f}", flush=True)
    return middle


Pair = tuple[Peer, Peer]
CONTROL: Pair = Peer("off", ours), Peer("on", _controlled)
HISTORY: Pair = Peer("off", _controlled), Peer("on", _noted)
RECORDING: Pair = Peer("off", _controlled), Peer("on", _recorded)


@contextlib.contextmanager
def _both(pair: Pair) -> Iterator[list[Running]]:
    with Running(pair[0]) as off, Running(pair[1]) as on:
        yield [off, on]


def on_the_way(pair: Pair, rounds: int) -> None:
    """Compare produce, consume and latency."""
    with _both(pair) as runs:
        for run in runs:
            create(run, *{way.topic for way in WAYS.values()})
        for name, way in WAYS.items():
            list(pairs_on_the_way(way, runs, 1))
            times, cpu = zip(*pairs_on_the_way(way, runs, rounds), strict=True)
            _told(f"{name} time", list(times))
            _told(f"{name} CPU", list(cpu))


def small(pair: Pair, rounds: int, measured_ms: int, connections: int) -> None:
    """Compare requests of a few bytes."""
    figures = []
    with _both(pair) as runs:
        for run in runs:
            prepare(run)
        for name, each in asked().items():
            list(pairs(each, runs, connections, 1, measured_ms))
            figures.append(_told(f"{name} CPU", list(pairs(each, runs, connections, rounds, measured_ms))))
    print(f"{'all kinds':20} {statistics.geometric_mean(figures):6.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.control", description=__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="of each kind; a recording is full after 4")
    parser.add_argument("--round-ms", type=int, default=400)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--history", action="store_true", help="both have the control API, and one a history")
    parser.add_argument("--recording", action="store_true", help="both have the control API, and one a recording")
    options = parser.parse_args()
    pair = HISTORY if options.history else RECORDING if options.recording else CONTROL
    on_the_way(pair, options.rounds)
    small(pair, options.rounds, options.round_ms, options.connections)


if __name__ == "__main__":
    main()

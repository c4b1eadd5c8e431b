"""`python -m bench.control`: what the control API costs each small request, with no rule and nobody who asks the log.

Rule: two brokers that differ in `--control` alone take turns, in rounds short enough that the machine is the same for
both, and what is compared is the CPU time of the broker's process for a request; of each pair of rounds the ratio, of
all pairs the median, with the middle half of them beside it. Which of the two is first changes with each round.
"""

import argparse
import contextlib
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.peers import Peer, ours
from bench.requests import Asked, asked, load, prepare
from bench.running import Running


def _controlled(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    return [*ours(directory, port, settings), "--control", "127.0.0.1:0"]


def _on_cpu_ns(run: Running) -> int:
    """Of all threads; what `cpu_s` tells comes in hundredths of a second."""
    return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{run.pid}/task").glob("*/schedstat"))


def pairs(each: Asked, runs: list[Running], connections: int, rounds: int, measured_ms: int) -> Iterator[float]:
    """The CPU of a request with the control API, times that without, by rounds."""
    for number in range(rounds):
        spent = {}
        for run in runs if number % 2 else reversed(runs):
            cpu = _on_cpu_ns(run)
            answers = load(run, each, connections, 0, measured_ms)["answers"]
            spent[run.name] = (_on_cpu_ns(run) - cpu) / answers
        yield spent["on"] / spent["off"]


def control(rounds: int, measured_ms: int, connections: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(Running(peer)) for peer in (Peer("off", ours), Peer("on", _controlled))]
        for run in runs:
            prepare(run)
        for name, each in asked().items():
            list(pairs(each, runs, connections, 1, measured_ms))
            found = list(pairs(each, runs, connections, rounds, measured_ms))
            low, middle, high = statistics.quantiles(found, n=4)
            figures[f"control_{name}_cpu"] = middle
            print(f"{name:15} {middle:6.3f}   {low:.3f} to {high:.3f}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.control", description=__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="of each kind of request")
    parser.add_argument("--round-ms", type=int, default=400)
    parser.add_argument("--connections", type=int, default=8)
    options = parser.parse_args()
    figures = control(options.rounds, options.round_ms, options.connections)
    print(f"{'all kinds':15} {statistics.geometric_mean(figures.values()):6.3f}")


if __name__ == "__main__":
    main()

"""`python -m bench`: peers take turns, medians of three rounds, a Markdown table at the end."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
from datetime import date
from pathlib import Path

from bench.peers import PEERS, build_load, missing
from bench.report import Rounds, medians, table
from bench.running import Running
from bench.workloads import NOT_FOR, SETTINGS, WORKLOADS, Figures, Sizes

RESULTS = Path(__file__).with_name("results.json")
IMPORT = (
    "import time; t = time.perf_counter(); import pykafka_broker.cli.serve; print((time.perf_counter() - t) * 1000)"
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="kafka,kfake,ours", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything: to see that it works")
    parser.add_argument("--json", type=Path, help="write every round's figures there as well")
    parser.add_argument("--keep", metavar="NAME", help="put the medians into bench/results.json, as a run of that name")
    return parser.parse_args()


def import_ms() -> float:
    """Return how long the imports of a start take, the median of processes that do nothing else."""
    command = [sys.executable, "-c", IMPORT]
    return statistics.median(float(subprocess.check_output(command, text=True)) for _ in range(7))


def one_turn(peer: str, workload: str, sizes: Sizes) -> Figures:
    if workload in NOT_FOR.get(peer, ()):
        return {}
    with Running(PEERS[peer], SETTINGS.get(workload)) as run:
        return WORKLOADS[workload](run, sizes)


def keep(name: str, rounds: Rounds, results: Path = RESULTS) -> None:
    """Put the medians into the file of results, from which `make generate` makes the tables of the docs.

    A run that no figure belongs to any more is removed.
    """
    kept = json.loads(results.read_text(encoding="utf-8"))
    for metric, values in medians(rounds).items():
        kept["figures"][metric] = {"run": name} | {peer: float(f"{value:.4g}") for peer, value in values.items()}
    kept["runs"][name] = {
        "date": date.today().isoformat(),
        "rounds": max(map(len, rounds.values())),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "profile_guided": "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS")),
        "note": "",
    }
    named = {figure["run"] for figure in kept["figures"].values()}
    kept["runs"] = {name: run for name, run in kept["runs"].items() if name in named}
    results.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    options = arguments()
    sizes = Sizes().quick() if options.quick else Sizes()
    peers = [name for name in options.peers.split(",") if say_missing(name)]
    build_load()
    rounds: Rounds = {peer: [{} for _ in range(options.rounds)] for peer in peers}
    for number in range(options.rounds):
        for workload in options.workloads.split(","):
            for peer in peers:
                try:
                    found = one_turn(peer, workload, sizes)
                except Exception as error:  # a peer that fails at one thing is compared in the others
                    found = {}
                    print(f"round {number} {peer} {workload}: {type(error).__name__}: {error}", file=sys.stderr)
                rounds[peer][number] |= found
                line = " ".join(f"{name}={value:.4g}" for name, value in found.items())
                print(f"round {number} {peer}: {line}", file=sys.stderr, flush=True)
    if "ours" in peers:
        rounds["ours"][0]["import_ms"] = import_ms()
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=1))
    if options.keep:
        keep(options.keep, rounds)
    print(f"Python {platform.python_version()}, {platform.machine()}, {options.rounds} rounds\n\n{table(rounds)}")


def say_missing(name: str) -> bool:
    why = missing(name)
    if why:
        print(f"{name} takes no part: {why}", file=sys.stderr)
    return why is None


if __name__ == "__main__":
    main()

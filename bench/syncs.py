"""`python -m bench.syncs`: the group commit benchmark under strace. How many records share a sync, and did any answer
leave before its record was synced?

Rule: the system calls decide. A record counts as synced from the end of the first sync of its file that began after
its write had ended; the n-th answer must not leave before n records are synced.
"""

import argparse
import contextlib
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.log import COMMITTERS, commits_per_s, create, end_offsets
from bench.peers import PEERS
from bench.running import Running

SYNCS = {"fsync", "fdatasync", "msync"}
TRACED = [*SYNCS, "sync_file_range", "pwrite64", "write", "writev", "sendto", "sendmsg"]
BEGUN = re.compile(r"(\d+)\s+([\d.]+) (\w+)\((.*)")
RESUMED = re.compile(r"(\d+)\s+([\d.]+) <\.\.\. \w+ resumed>(.*)")
DURATION = re.compile(r"<([\d.]+)>$")
ATTACH_S = 3  # the JVM has a hundred threads


class Call(NamedTuple):
    begun: float
    ended: float
    name: str
    target: str  # of its file descriptor


@contextlib.contextmanager
def traced(pid: int, path: Path) -> Iterator[None]:
    command = ["strace", "-f", "-yy", "-ttt", "-T", "-s", "0", "-e", f"trace={','.join(TRACED)}", "-o", str(path)]
    tracer = subprocess.Popen([*command, "-p", str(pid)], stderr=subprocess.DEVNULL)
    time.sleep(ATTACH_S)
    try:
        yield
        time.sleep(0.5)
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()


def calls(lines: Iterator[str]) -> Iterator[Call]:
    """Yield the calls of a trace; an interrupted one comes when it ends."""
    open_calls: dict[str, tuple[float, str, str]] = {}
    for line in lines:
        if resumed := RESUMED.match(line):
            thread, _, rest = resumed.groups()
            begun, name, arguments = open_calls.pop(thread, (0.0, "", ""))
        elif match := BEGUN.match(line):
            thread, at, name, arguments = match.groups()
            begun, rest = float(at), arguments
            if rest.endswith("<unfinished ...>"):
                open_calls[thread] = begun, name, arguments
                continue
        else:
            continue
        took = DURATION.search(rest)
        if name and took:
            yield Call(begun, begun + float(took[1]), name, arguments.split(",")[0])


def verdict(found: list[Call], topic: str, port: int, records: int) -> str:
    """Return in a line what the calls say of the topic's commits."""
    log_file = re.compile(rf"/{topic}-(\d+)/\d+\.log>")
    written: dict[str, list[float]] = {}
    synced: list[float] = []
    syncs = writes = others = 0
    answers = sorted(call.begun for call in found if f":{port}->" in call.target and call.name not in SYNCS)
    for call in sorted(found, key=lambda call: call.ended):
        file = log_file.search(call.target)
        if file is None:
            others += call.name in SYNCS
        elif call.name in SYNCS:
            syncs += 1
            waiting = written.get(file[1], [])
            synced += [call.ended] * sum(end <= call.begun for end in waiting)
            written[file[1]] = [end for end in waiting if end > call.begun]
        else:
            writes += 1
            written.setdefault(file[1], []).append(call.ended)
    early = sum(number >= len(synced) or synced[number] > at for number, at in enumerate(answers))
    return (
        f"{records} records in {writes} writes, {syncs} syncs of the log ({records / max(1, syncs):.1f} records each), "
        f"{others} syncs of other files; {len(answers)} answers, {early} of them before the sync"
    )


def prove(peer: str, topic: str, partitions: int, commits: int) -> str:
    with Running(PEERS[peer]) as run, tempfile.TemporaryDirectory() as folder:
        create(run, topic, partitions, flush_messages=1)
        untraced = commits_per_s(run, topic, partitions, commits)
        before = end_offsets(run, topic, partitions) or []
        trace = Path(folder) / "trace"
        with traced(run.pid, trace):
            commits_per_s(run, topic, partitions, commits)
        records = sum(end_offsets(run, topic, partitions) or []) - sum(before)
        with trace.open(errors="replace") as lines:
            found = list(calls(line.rstrip() for line in lines))
    return f"{peer}, {partitions} partitions: {untraced:.0f}/s untraced. {verdict(found, topic, run.port, records)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.syncs", description=__doc__)
    parser.add_argument("--peers", default="kafka,ours")
    parser.add_argument("--commits", type=int, default=2000)
    options = parser.parse_args()
    for peer in options.peers.split(","):
        for topic, partitions in (("together", 1), ("apart", COMMITTERS)):
            print(prove(peer, topic, partitions, options.commits), flush=True)


if __name__ == "__main__":
    main()

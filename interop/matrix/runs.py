"""Runs the cells that are wanted. Rule: whatever a client or a broker does, the run goes on with the next cell, ends by
itself, and what it has found by then is kept.

Cells that leave their broker as it is come first and several at once; each that restarts it has one for itself.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from interop.matrix.brokers import KAFKA, OLDER, Broker, Shared, plain, release_of
from interop.matrix.cells import LOGS, now, run_cell
from interop.matrix.columns import Column, release
from interop.matrix.preparing import Prepared, Unprepared, prepare, shortened
from interop.matrix.results import GREY, Cell, Key, Results
from interop.matrix.rows import Row
from interop.raw import Closed

SAVE_EACH_S = 20
RESTART, SECURITY = "restart", "security"


class Wanted(NamedTuple):
    row: Row
    target: str
    column: Column

    @property
    def key(self) -> Key:
        return self.row.name, self.target, self.column.name

    @property
    def log(self) -> Path:
        return LOGS / self.target / re.sub(r"[^\w.-]+", "-", self.row.name) / f"{self.column.name}.log"


class Run:
    """One run; `until` is when no cell is begun any more, by `time.monotonic`."""

    def __init__(self, results: Results, *, jobs: int, until: float, out: bool = True) -> None:
        self._results = results
        self._jobs = jobs
        self._until = until
        self._out = out
        self._saved = time.monotonic()
        self._number = int(time.time() * 1000) % 10**9

    def all(self, wanted: Sequence[Wanted]) -> None:
        for target in dict.fromkeys(each.target for each in wanted):
            here = [each for each in wanted if each.target == target]
            self._phase(target, [each for each in here if each.column.name not in (RESTART, SECURITY)])
            self._phase(target, [each for each in here if each.column.name == SECURITY])
            self._phase(target, [each for each in here if each.column.name == RESTART])
        self._results.save()

    def _phase(self, target: str, wanted: list[Wanted]) -> None:
        shared = Shared(target)
        alone = target == KAFKA and any(each.column.name == RESTART for each in wanted)
        try:
            with ThreadPoolExecutor(1 if alone else self._jobs) as pool:
                for found in pool.map(lambda each: self._one(each, shared), wanted):
                    if found is not None:
                        self._tell(*found)
        finally:
            shared.close()
            self._results.save()

    def _one(self, wanted: Wanted, shared: Shared) -> tuple[Wanted, Cell] | None:
        if time.monotonic() > self._until:
            return None
        try:
            cell = self._found(wanted, shared)
        except (AssertionError, OSError, RuntimeError, ValueError, subprocess.SubprocessError, Closed) as error:
            print(f"not run: {' | '.join(wanted.key)}: {shortened(str(error))}", file=sys.stderr, flush=True)
            return None
        self._results.put(wanted.key, cell)
        return wanted, cell

    def _found(self, wanted: Wanted, shared: Shared) -> Cell:
        row, target, column = wanted
        why_not = row.lacks.get(column.name) or _not_in_that_release(column, target, row.older)
        if why_not:
            return Cell(GREY, now(), 0, why_not)
        try:
            prepared = prepare(row)
        except Unprepared as error:
            return Cell(GREY, now(), 0, f"not run here: {error}")
        self._results.ran_with(row.name, prepared.says)
        environment = {"MATRIX_RELEASE": release_of(target, row.older)}
        if column.name == RESTART and target != KAFKA:
            with plain(target, row.older) as broker:
                return self._run(wanted, prepared, broker, environment)
        if column.name == SECURITY:
            secured, said = shared.secure(row.older)
            return self._run(wanted, prepared, secured, environment | said)
        return self._run(wanted, prepared, shared.plain(row.older), environment)

    def _run(self, wanted: Wanted, prepared: Prepared, broker: Broker, environment: dict[str, str]) -> Cell:
        self._number += 1
        topic = f"{wanted.column.name}-{self._number}"
        broker.create_topic(topic, wanted.column.partitions)
        name, row = wanted.column.name, wanted.row
        return run_cell(prepared, name, broker, topic, environment, wanted.log, row.timeout_s)

    def _tell(self, wanted: Wanted, cell: Cell) -> None:
        if self._out:
            note = f"  {cell.note}" if cell.note else ""
            print(f"{cell.state:5} {' | '.join(wanted.key)}  {cell.seconds:.1f} s{note}", flush=True)
        if time.monotonic() > self._saved + SAVE_EACH_S:
            self._saved = time.monotonic()
            self._results.save()


def _not_in_that_release(column: Column, target: str, older: str) -> str:
    if target == OLDER and release(older) < column.since:
        return f"Kafka {older} has none"
    return ""

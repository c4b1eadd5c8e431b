"""A broker whose wall clock is set while it runs."""

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from interop import ROOT
from interop.real_kafka import free_port
from pykafka_broker.testing import KafkaBroker


class SteppedBroker(KafkaBroker):
    """A broker whose clock alone is set; clients keep theirs."""

    def __init__(self, config: Mapping[str, object], data_dir: Path, step_file: Path) -> None:
        super().__init__(config, data_dir=data_dir, port=free_port(), start_timeout_s=120)
        self._step_file = step_file
        self.set_clock(0)

    def set_clock(self, minutes: float) -> None:
        """Set how many minutes the broker's clock is ahead of the right time, also after restarts."""
        # The file is overwritten in place, since the running broker has it mapped.
        with self._step_file.open("r+b" if self._step_file.exists() else "wb") as file:
            file.write(struct.pack("<q", int(minutes * 60_000)))

    def start(self) -> Self:
        with _environment(WALL_CLOCK_STEP_FILE=str(self._step_file), PYTHONPATH=f"{ROOT / 'interop/stepped_clock'}"):
            return super().start()


@contextmanager
def _environment(**changed: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changed)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)

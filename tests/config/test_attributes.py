"""The typed attributes are those of `data.json`."""

from __future__ import annotations

import runpy
from pathlib import Path

from pykafka_broker.config import attributes


def test_attributes_are_up_to_date() -> None:
    recorder = runpy.run_path(str(Path(__file__).parent / "recorder" / "attributes.py"))
    assert Path(attributes.__file__).read_text() == recorder["source"]()

"""Record what a running Apache Kafka answers: python tests/scenarios/dead_letters/record.py HOST:PORT [scenario ...]

The broker must be of a release with dead-letter queues (4.4.0), and run with the settings of `settings.CONFIG`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.scenarios.dead_letters.scripts import SCENARIOS
from tests.scenarios.recording import record
from tests.scenarios.share.stage import ShareStage

if __name__ == "__main__":
    record(SCENARIOS, ShareStage, Path(__file__).with_name("answers"), sys.argv[1], sys.argv[2:])

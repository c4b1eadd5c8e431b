"""Record what a running Apache Kafka answers: python tests/scenarios/telemetry/record.py HOST:PORT [scenario ...]

The broker must run with the settings of `settings.CONFIG` and, to offer telemetry, a receiver of metrics among its
`metric.reporters` (interop/languages/java/TelemetryReceiver.java).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.scenarios.recording import record
from tests.scenarios.telemetry.scripts import SCENARIOS, TelemetryStage

if __name__ == "__main__":
    record(SCENARIOS, TelemetryStage, Path(__file__).with_name("answers"), sys.argv[1], sys.argv[2:])

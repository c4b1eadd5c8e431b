"""The settings under which these scenarios are recorded and played: offsets are looked through every two seconds."""

from tests.scenarios.groups import settings

CHECK_INTERVAL_MS = 2_000
CONFIG = settings.CONFIG | {"offsets.retention.check.interval.ms": str(CHECK_INTERVAL_MS)}

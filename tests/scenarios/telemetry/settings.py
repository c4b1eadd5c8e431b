"""The settings under which these scenarios are recorded and played."""

MAX_BYTES = 100_000
CONFIG = {"telemetry.max.bytes": str(MAX_BYTES)}

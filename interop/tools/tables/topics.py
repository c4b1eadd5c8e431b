"""kafka-topics."""

from interop.tools.steps import Step, steps

STEPS: list[Step] = steps(
    "topics",
    "--list",
)

"""Real clients, tools and connectors against a running broker: ours, or the Apache Kafka that says what is right.

Rule: what finds and fetches jars is the pipeline's own (`pipeline.jars`), so its folder is made known here.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # where `python -m interop.…` has to be started
if str(ROOT / "spark") not in sys.path:
    sys.path.append(str(ROOT / "spark"))

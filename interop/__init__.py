"""Real clients, tools and connectors against a running broker: ours, or Apache Kafka, whose answers are right.

Rule: jars are found and fetched by the pipeline's code (`pipeline.jars`), so its folder is put on the path here.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # where `python -m interop.…` has to be started
if str(ROOT / "spark") not in sys.path:
    sys.path.append(str(ROOT / "spark"))

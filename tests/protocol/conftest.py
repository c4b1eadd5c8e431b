"""Puts the repository on the path, for the generator's schema reader and the helpers next to the tests."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

"""What each config key is for, in a sentence, as DescribeConfigs tells it (KIP-569). Rule: in our own words; a unit is
named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache


def documentation(scope: str) -> Mapping[str, str]:
    """By key. `scope` is "broker", "topic", "group" or "client_metrics", as in `data.json`."""
    return _all()[scope]


@lru_cache(maxsize=1)
def _all() -> dict[str, dict[str, str]]:
    with open(os.path.join(os.path.dirname(__file__), "documentation.json"), "rb") as file:
        found: dict[str, dict[str, str]] = json.load(file)
    return found

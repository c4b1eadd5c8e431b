"""Event data like a shop's: a few users make most events, some events come hours late, some twice, some lines are
broken. Rule: the same settings give the same bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

from pipeline.errors import SettingsError
from pipeline.settings import Settings

START = datetime(2024, 5, 1, tzinfo=UTC)
SECONDS_BETWEEN_EVENTS = 0.5
JITTER_S = 60.0  # events of a minute come in any order: nobody's watermark minds
LATE_S = (2 * 3600.0, 30 * 3600.0)
KINDS = ["view", "view", "view", "view", "view", "cart", "cart", "purchase"]
COUNTRIES = ["de", "fr", "us", "jp", "br"]
COUNTRY_WEIGHTS = [40, 25, 20, 10, 5]
PRODUCTS = 200
BROKEN = ['{"event_id": "half', "not json", "", '{"event_id": "no-time"}', '{"event_time": "2024-05-01T00:00:00Z"}']


def iso(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Generator:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._random = random.Random(settings.seed)
        # Zipf's law: the second user makes half as many events as the first, the third a third.
        self._user_weights = list(accumulate(1 / (rank + 1) for rank in range(settings.users)))

    def lines(self) -> Iterator[str]:
        """Yield lines of JSON, `settings.events` of them; duplicates and broken ones come in between."""
        settings, draw = self._settings, self._random
        recent: list[str] = []
        for number in range(settings.events):
            line = json.dumps(self.event(number))
            yield line
            recent = [*recent[-50:], line]
            if draw.random() < settings.duplicate_share:
                yield draw.choice(recent)
            if draw.random() < settings.broken_share:
                yield draw.choice(BROKEN)

    def event(self, number: int) -> dict[str, Any]:
        draw = self._random
        seconds = number * SECONDS_BETWEEN_EVENTS - draw.uniform(0, JITTER_S)
        if draw.random() < self._settings.late_share:
            seconds -= draw.uniform(*LATE_S)
        kind = draw.choice(KINDS)
        user = draw.choices(range(self._settings.users), cum_weights=self._user_weights)[0]
        return {
            "event_id": f"{self._settings.seed}-{number}",
            "event_time": iso(START + timedelta(seconds=seconds)),
            "user_id": f"user-{user}",
            "kind": kind,
            "product": f"product-{int(draw.paretovariate(1.2)) % PRODUCTS}",
            "country": draw.choices(COUNTRIES, COUNTRY_WEIGHTS)[0],
            "amount": round(draw.lognormvariate(3, 1), 2) if kind == "purchase" else None,
        }


def write(settings: Settings) -> dict[str, Any]:
    """Do the job: no Spark and no broker needed."""
    if not settings.output:
        raise SettingsError("output is not set: the file to write the events to")
    path = Path(settings.output)
    unfinished = path.with_name(path.name + ".unfinished")
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w") as file:
            for line in Generator(settings).lines():
                file.write(line + "\n")
                count += 1
        unfinished.replace(path)
    except OSError as error:
        raise SettingsError(f"output {path} can't be written: {error.strerror}") from error
    return {"file": str(path), "lines": count}

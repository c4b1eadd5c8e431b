"""The generator: same seed, same bytes; and the shares that were asked for."""

import json
from collections import Counter
from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.generate import Generator, write
from pipeline.settings import Settings


def parsed(line: str) -> dict[str, str] | None:
    try:
        event: dict[str, str] = json.loads(line)
        return event if "event_id" in event and "event_time" in event else None
    except ValueError:
        return None


def test_the_seed_decides() -> None:
    settings = Settings(events=300)
    assert list(Generator(settings).lines()) == list(Generator(settings).lines())
    assert list(Generator(settings).lines()) != list(Generator(Settings(events=300, seed=8)).lines())


def test_shares_and_skew() -> None:
    lines = list(Generator(Settings(events=5000, duplicate_share=0.1, broken_share=0.05)).lines())
    events = [event for line in lines if (event := parsed(line))]
    ids = Counter(event["event_id"] for event in events)
    assert len(ids) == 5000
    assert 400 < sum(count - 1 for count in ids.values()) < 600
    assert 180 < len(lines) - len(events) < 320
    users = Counter(event["user_id"] for event in events).most_common()
    assert users[0][1] > 20 * users[len(users) // 2][1]


def test_late_events_are_hours_behind() -> None:
    times = [parsed(line) for line in Generator(Settings(events=2000, late_share=0.5, broken_share=0)).lines()]
    newest, late = "", 0
    for event in times:
        assert event is not None
        newest = max(newest, event["event_time"])
        late += event["event_time"][:13] < newest[:13] and event["event_time"][:10] < newest[:10]
    assert late > 500


def test_the_file_is_there_whole_or_not(tmp_path: Path) -> None:
    output = tmp_path / "events.jsonl"
    summary = write(Settings(events=50, output=str(output)))
    assert summary["lines"] == len(output.read_text().splitlines()) >= 50
    assert [path.name for path in tmp_path.iterdir()] == ["events.jsonl"]
    with pytest.raises(SettingsError, match="can't be written"):
        write(Settings(output=str(output / "below-a-file")))
    with pytest.raises(SettingsError, match="output is not set"):
        write(Settings())

"""Chaos cuts down each mistake of the catalogue, in each language, to few faults, and accuses no right application."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from interop import broken_programs
from interop.test_broken_programs import UNSEEN

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.ours_only, pytest.mark.timeout(900)]

MOST_FAULTS = 3
SEEDS = 40
SEEDS_WHILE_RIGHT = 4
HEAD = """
import pytest
from interop import broken_applications, broken_programs, supervised_applications
"""
TEST = """
@pytest.mark.kafka(history=True)
{chaos}
def test_{about}(kafka_broker):
    broken_applications.fill(kafka_broker, supervised_applications.ORDERS)
    {lines}
    {call}kafka_broker, right={right})
    kafka_broker.check({asked})
"""
OF_ORDERS = 'input="orders", output="billed", guarantee="at_least_once"'


class Mistake(NamedTuple):
    """A mistake, what finds it, and the chaos under which it shows."""

    name: str
    anomaly: str
    asked: str = OF_ORDERS
    rate: float = 0.05
    events: bool = False
    language: str = "python"


MISTAKES = [
    Mistake("commits_automatically", "lost"),
    Mistake("reorders", "out of order", 'allow=["duplicate"]', 0.3),
    Mistake("commits_first", "lost"),
    Mistake("retries_without_idempotence", "duplicate", 'allow=["out of order"]'),
    Mistake("swallows_errors", "lost"),
    Mistake("commits_the_end", "lost"),
    Mistake("seeks_back", "nonmonotonic poll", ""),
    Mistake("rebalance_listener_forgets", "lost"),
    Mistake("reads_uncommitted", "aborted read", ""),
    Mistake("zombie", "doubled", OF_ORDERS.replace("at_least", "exactly"), events=True),
]
OF_KAFKAJS = Mistake("retries_without_idempotence", "doubled", OF_ORDERS.replace("at_least", "exactly"))
IN_OTHER_LANGUAGES = [
    (OF_KAFKAJS if (language, each.name) in UNSEEN else each)._replace(language=language)
    for language in broken_programs.LANGUAGES
    for each in MISTAKES
    if each.name in broken_programs.FAULTS
]
CHEAP = {
    ("python", "commits_automatically"),
    ("python", "reorders"),
    ("node", "retries_without_idempotence"),
}


def written(about: str, mistake: Mistake, right: bool = False, seeds: int = 0, lines: str = "") -> str:
    """Return the source of a test of an application."""
    chaos = f"@pytest.mark.kafka_chaos(seeds={seeds}, rate={mistake.rate}, events={mistake.events}, shrink_runs=30)"
    call = f"supervised_applications.{mistake.name}("
    if mistake.language != "python":
        call = f'broken_programs.run("{mistake.language}", "{mistake.name}", '
    given = {"call": call, "right": right, "asked": mistake.asked}
    return TEST.format(about=about, chaos=chaos if seeds else "", lines=lines, **given)


@pytest.fixture(autouse=True)
def _of_users(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs of pytest find the applications, and load our plugin alone."""
    pytester.plugins = ["pykafka_broker.pytest_plugin"]
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(each, id="-".join(place), marks=() if place in CHEAP else pytest.mark.slow)
        for each in MISTAKES + IN_OTHER_LANGUAGES
        for place in [(each.language, each.name)]
    ],
)
def test_chaos_cuts_a_mistake_down_to_lines_that_show_it_and_accuses_no_right_application(
    pytester: pytest.Pytester, mistake: Mistake
) -> None:
    pytester.makepyfile(HEAD + written("found", mistake, seeds=SEEDS))
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([rf"E +{mistake.anomaly}: .*", r"seed \d+ at rate .* enough \(\d+ runs\):"])
    lines = [line.strip() for line in result.stdout.lines if line.startswith("    kafka_broker.faults.add(")]
    assert 1 <= len(lines) <= MOST_FAULTS
    pasted = "; ".join(lines)
    tests = (
        written("without_a_fault", mistake),
        written("pasted", mistake, lines=pasted),
        written("right", mistake, right=True, lines=pasted),
        written("right_under_chaos", mistake, right=True, seeds=SEEDS_WHILE_RIGHT),
    )
    pytester.makepyfile("".join([HEAD, *tests]))
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1, passed=3)
    result.stdout.re_match_lines([rf"E +{mistake.anomaly}: .*", "FAILED .*test_pasted.*"])


def test_a_mistake_that_needs_no_fault_is_none_of_the_chaos(pytester: pytest.Pytester) -> None:
    """Chaos says so when a test also fails without a fault: this application always seeks to the beginning."""
    mistake = Mistake("seeks_back", "nonmonotonic poll", "")
    own_form = written("own_form", mistake, seeds=10).replace("supervised_applications", "broken_applications")
    pytester.makepyfile(HEAD + own_form)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [r"E +nonmonotonic poll: .*", r"seed \d+ at rate 0.05 failed, and fails without any fault as well: .*"]
    )

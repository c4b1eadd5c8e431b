"""Who gets a second try, and what is never tried again (interop/second_try.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import SECOND_TRIES

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
CONFTEST = """
    import pytest
    from interop.second_try import begin_anew

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(item):
        begin_anew(item)
"""
OWN = """
    import pytest
    from interop.second_try import SECOND_TRY, WrongRecords, about_records

    runs = {"late": 0, "wrong": 0}

    @SECOND_TRY
    def test_late():
        runs["late"] += 1
        assert runs["late"] == 2

    made = []

    @pytest.fixture(scope="session")
    def run():
        made.append("session")

    @pytest.fixture(scope="module")
    def broker(run):
        made.append("broker")
        yield set()
        made.append("gone")

    def test_before(broker):
        broker.add("before")

    @SECOND_TRY
    def test_once(broker):
        assert "orders" not in broker, "it exists already"
        broker.add("orders")
        assert made != ["session", "broker"], "so busy"

    def test_after(broker):
        assert broker == {"orders"}
        assert made == ["session", "broker", "gone", "broker"]

    @about_records()
    def check(found):
        assert found == [1], "a record is doubled"

    @SECOND_TRY
    def test_wrong():
        runs["wrong"] += 1
        check([1, 1] if runs["wrong"] == 1 else [1])
"""


def test_what_came_late_is_tried_again_with_a_broker_of_its_own_and_wrong_records_are_not(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(OWN)
    result = pytester.runpytest_subprocess("-raR", "--rerun-show-tracebacks", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["RERUN *test_late*"])
    result.stdout.fnmatch_lines(["*AssertionError: so busy"])  # why it was tried again
    result.stdout.fnmatch_lines(["E *interop.second_try.WrongRecords: a record is doubled"])
    result.stdout.fnmatch_lines(["*1 failed, 4 passed, 2 rerun*"])


def test_only_files_of_the_list(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        listed = item.nodeid.partition("::")[0] in SECOND_TRIES
        assert (item.get_closest_marker("flaky") is not None) == listed, item.nodeid


def test_the_list_names_files_with_other_peoples_clients() -> None:
    assert all(file.startswith(("interop/", "spark/tests/")) and (ROOT / file).exists() for file in SECOND_TRIES)

"""The pages of the reference say what the code says: `make generate` writes them."""

from __future__ import annotations

import argparse

import pytest

from pages.__main__ import FOLDER, PAGES, text_of
from pages.commands import _described
from pages.markdown import plain, table
from pykafka_broker.config.extensions import OWN_NAMES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == text_of(name), "make generate"


def test_there_are_no_pages_that_nothing_makes() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*PAGES}


def test_a_new_option_is_told_and_a_hidden_one_is_not() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("file", metavar="FILE", help="what is read")
    parser.add_argument("--codec", choices=["lz4", "zstd"], default="lz4", help="what it is packed with")
    parser.add_argument("--loud", action="store_true", help="50%% more")
    parser.add_argument("--within", help=argparse.SUPPRESS)
    assert _described(parser).splitlines()[2:] == [
        "| `FILE` | what is read |",
        "| `--codec CODEC` | what it is packed with; one of `lz4`, `zstd`; by default `lz4` |",
        "| `--loud` | 50% more |",
    ]


def test_a_method_is_told_as_it_is_called_with_what_it_inherits_from() -> None:
    page = text_of("python.md")
    signature = "`wait_for_lag(group: str, lag: int = 0, timeout: float = 10) -> int`"
    assert f"### KafkaBroker.wait_for_lag\n\n{signature}\n\nWait until" in page
    assert "### KafkaBroker.bootstrap_servers\n\n`bootstrap_servers`\n\nThe address" in page
    assert "### KafkaBroker._" not in page


def test_several_arguments_are_a_list_and_one_is_a_sentence() -> None:
    page = text_of("python.md")
    assert "\n- `port`: the port to listen on; 0 for a free port\n" in page
    assert "`check` ([checking.md](../checking.md))\n" in page
    _, _, wait = page.partition("### KafkaBroker.wait_for_lag\n\n")
    assert wait.split("\n\n")[2:4] == [
        "- `lag`: the most records still to read\n- `timeout`: in seconds",
        "Raises `WaitTimeout`: the lag was larger in time, or nothing was committed.",
    ]


def test_all_keys_of_our_own_are_told() -> None:
    page = text_of("configs.md")
    assert [name for name in OWN_NAMES if f"| `{name}` |" not in page] == []


def test_what_means_something_to_markdown_is_told_as_it_is() -> None:
    assert plain("a_b <c> *d* `e_*`") == "a\\_b \\<c> \\*d\\* `e_*`"
    assert table(["a"], [["x|y"]]) == "| a |\n|---|\n| x\\|y |\n"

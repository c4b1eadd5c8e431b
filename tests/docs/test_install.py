"""Every command that installs the package names a place that is ours: its clone, or its repository at a commit.

The name `pykafka-broker` is nobody's on PyPI: whoever registered it would run code on the machine of every reader.
"""

from __future__ import annotations

import re

import yaml

from tests.docs.test_links import ROOT, TEXTS

SHOWN = [
    *TEXTS,
    *sorted(path for path in (ROOT / "packaging").rglob("*") if path.suffix in (".yml", "") and path.is_file()),
    *sorted((ROOT / "pykafka_broker").rglob("*.py")),
]
INSTALLS = re.compile(r"\b(?:pip|pipx|uv|poetry) (?:install|add|run|wheel|download)(\s+[^\s`;&|]+(?: +[^\s`;&|]+)*)")
BY_NAME = re.compile(r"""["']*pykafka[-_.]broker(\[[\w,-]*\])?([=<>~!@]\S*)?["'),.:]*""", re.IGNORECASE)


def by_name(text: str) -> list[str]:
    """Return the words of commands that would make pip ask an index for the package."""
    wrong = []
    for words in INSTALLS.findall(text.replace("\\\n", " ")):
        if "--no-index" not in words:
            wrong += [word for word in words.split() if BY_NAME.fullmatch(word)]
    return wrong


def test_no_index_is_asked_for_the_package() -> None:
    asked = {path.relative_to(ROOT).as_posix(): by_name(path.read_text(encoding="utf-8")) for path in SHOWN}
    assert {path: words for path, words in asked.items() if words} == {}


def test_the_action_and_the_snippet_for_gitlab_name_a_commit() -> None:
    action = yaml.safe_load((ROOT / "packaging" / "github-action" / "action.yml").read_text(encoding="utf-8"))
    assert action["inputs"]["version"]["default"] == ""
    assert '"${VERSION:-$GITHUB_ACTION_PATH/../..}"' in action["runs"]["steps"][0]["run"]
    gitlab = yaml.safe_load((ROOT / "packaging" / "gitlab-ci.yml").read_text(encoding="utf-8"))
    assert gitlab["test"]["before_script"][0].endswith('"git+https://HOST/PATH@COMMIT"')


def test_a_name_would_be_noticed() -> None:
    for command in (
        "pip install pykafka-broker",
        "pip install -q 'pykafka-broker[tools]==0.1' pytest",
        'uv add "pykafka_broker[security]"',
        "`pip install\n'pykafka-broker[security]'` brings it",
    ):
        assert by_name(command) != [], command
    for command in (
        "pip install /home/me/pykafka-broker pytest",
        "pip install git+https://HOST/pykafka-broker@COMMIT",
        "pip install --no-index --find-links /wheels pykafka-broker",
        "pip install .\npykafka-broker --ephemeral",
    ):
        assert by_name(command) == [], command

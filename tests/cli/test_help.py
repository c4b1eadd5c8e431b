"""`pykafka-broker help`, and what is said to somebody who mistypes."""

import pytest

from pykafka_broker.cli import main
from pykafka_broker.cli.commands import COMMANDS, SUMMARIES
from pykafka_broker.tools import TOOLS


def test_help_lists_every_command_once_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    out = capsys.readouterr().out
    for title, commands in SUMMARIES.items():
        assert f"\n{title}:\n" in out
        for name, summary in commands.items():
            assert f"  {name:<28}{summary}\n" in out


@pytest.mark.parametrize("command", sorted({*COMMANDS, *TOOLS}))
def test_help_of_a_command_is_what_its_own_help_says(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", command]) == 0
    told = capsys.readouterr().out
    with pytest.raises(SystemExit) as leaving:
        main([command, "--help"])
    own = "".join(capsys.readouterr())  # most tools tell it on standard error, as Kafka's scripts do
    ends_well = command not in TOOLS or command in ("features", "metadata-quorum", "mirror")
    assert leaving.value.code == (0 if ends_well else 1)  # as with Kafka's scripts
    assert told == own


def test_help_of_what_is_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "tpics"]) == 2
    assert capsys.readouterr() == ("", "pykafka-broker help: there is no tpics: did you mean topics?\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tpics", "--list"], "tpics is neither a command nor a file: did you mean topics?"),
        (["metadata-quorom", "describe"], "did you mean metadata-quorum?"),
        (["xyzzy", "--list"], "pykafka-broker help lists the commands"),
    ],
)
def test_a_mistyped_command_with_its_flags(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


def test_a_mistyped_flag_of_a_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--bootstrap-server", "localhost:1", "--lst"]) == 1
    said = "lst is not a recognized option\npykafka-broker topics --help shows what there is; did you mean --list?\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("word", "hint"), [("produce", "console-producer"), ("consume", "console-consumer"), ("Start", "serves")]
)
def test_a_command_that_is_known_by_another_word(word: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert hint in capsys.readouterr().err

"""`pykafka-broker help`, and messages for mistyped commands."""

import shutil
import subprocess

import pytest

from pykafka_broker.cli import main
from pykafka_broker.cli.commands import COMMANDS, OWN_FIRST, SUMMARIES
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
    ends_well = command not in TOOLS or command in (*OWN_FIRST, "features", "metadata-quorum", "mirror")
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


@pytest.mark.parametrize("name", ["kafka-topics.sh", "kafka-topics", "topics.sh", "kafka-topics.bat"])
def test_a_tool_by_the_name_of_kafkas_script(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--bootstrap-server", "localhost:1", "--lst"]) == 1
    assert "pykafka-broker topics --help" in capsys.readouterr().err


def test_a_mistyped_flag_of_a_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--bootstrap-server", "localhost:1", "--lst"]) == 1
    said = "lst is not a recognized option\npykafka-broker topics --help shows what there is; did you mean --list?\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("produce", "console-producer"),
        ("consume", "console-consumer"),
        ("version", "--version"),
        ("Start", "serves"),
        ("kafka-server-start.sh", "serves"),
        ("kafka-dump-log.sh", "log dump"),
        ("kafka-storage.sh", "format or info"),
    ],
)
def test_a_command_that_is_known_by_another_word(word: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert hint in capsys.readouterr().err


# -- the scripts that complete commands and flags, run by the shells they are for


_BASH = """
{script}
COMP_WORDS=({words} "{current}"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_pykafka_broker
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def script(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the completion script for the shell that the test names, which has to be installed."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    assert main(["completion", request.param]) == 0
    return capsys.readouterr().out


@pytest.mark.posix("shells of POSIX")
@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize(
    ("words", "current", "offered"),
    [
        ("", "top", {"topics"}),
        ("", "--ephem", {"--ephemeral"}),
        ("topics", "--under", {"--under-replicated-partitions", "--under-min-isr-partitions"}),
        ("topics --list", "--excl", {"--exclude-internal"}),
        ("features", "d", {"describe", "downgrade", "disable"}),
        ("features describe", "--node", {"--node-id"}),
        ("features --bootstrap-server localhost:9092 upgrade", "--rel", {"--release-version"}),
        ("log", "d", {"dump"}),
        ("completion", "", {"bash", "zsh", "fish", "--help", "-h"}),
        ("--log-level", "d", {"debug"}),
        ("topics --command-config", "", {""}),
        ("help", "metadata", {"metadata-quorum"}),
    ],
)
def test_bash_offers_what_may_come_next(script: str, words: str, current: str, offered: set[str]) -> None:
    told = _BASH.format(script=script, words=f"pykafka-broker {words}", current=current)
    run = subprocess.run(["bash", "--norc", "-c", told], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert set(run.stdout.split("\n")[:-1]) == offered


@pytest.mark.posix("shells of POSIX")
@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_takes_the_script(script: str) -> None:
    told = f"autoload -U compinit; compinit -u -D; {script}\nwhence -w _pykafka_broker"
    run = subprocess.run(["zsh", "-f", "-c", told], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("_pykafka_broker: function\n", "")


@pytest.mark.posix("shells of POSIX")
@pytest.mark.parametrize("script", ["fish"], indirect=True)
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("top", "topics"),
        ("topics --exc", "--exclude-internal"),
        ("features desc", "describe"),
        ("streams-groups --delete-all", "--delete-all-internal-topics"),
    ],
)
def test_fish_offers_what_may_come_next(script: str, line: str, offered: str) -> None:
    told = f"{script}\ncomplete -C 'pykafka-broker {line}'"
    run = subprocess.run(["fish", "--no-config"], input=told, capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert offered in [each.split("\t")[0] for each in run.stdout.splitlines()]


def test_every_shells_script_has_every_place(capsys: pytest.CaptureFixture[str]) -> None:
    for shell, spelt in (
        ("bash", '/features/describe) words="--help'),
        ("zsh", "(/features/describe) found=('"),
        ("fish", "__fish_seen_subcommand_from features; and __fish_seen_subcommand_from describe"),
    ):
        main(["completion", shell])
        assert spelt in capsys.readouterr().out.replace('words="-h ', 'words="')


def test_only_known_shells(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "tcsh"])
    assert "tcsh" in capsys.readouterr().err

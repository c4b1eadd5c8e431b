"""kafka-consumer-groups: groups with and without members, of both protocols, and one that only has offsets."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

from interop.tools.preparing import commit, make_topics, member, send, settled
from interop.tools.steps import QUICK, UNREACHABLE, Step, sorted_lines, steps

SETTINGS = {"offsets.topic.num.partitions": "1"}
TOOL = "consumer-groups"
LONG = "a-topic-with-a-rather-long-name"


def prepare(bootstrap: str) -> Iterator[None]:
    make_topics(bootstrap, {"one": 1, "two": 2, "three": 3, LONG: 1})
    for topic, partition, count in (("one", 0, 5), ("two", 0, 3), ("two", 1, 4), ("three", 0, 6), (LONG, 0, 1)):
        send(bootstrap, topic, count, partition)
    commit(bootstrap, "simple", {("one", 0): 2, ("three", 0): 1, ("three", 2): 0})
    commit(bootstrap, "to-delete", {("one", 0): 2})
    commit(bootstrap, "to-reset", {("one", 0): 2, ("two", 0): 1, ("three", 1): 0})
    commit(bootstrap, "of-times", {("three", 0): 2})
    for protocol in ("classic", "consumer"):
        with member(bootstrap, f"{protocol}-left", ["two"], 7, group_protocol=protocol):
            pass
    with ExitStack() as alive:
        for protocol in ("classic", "consumer"):
            alive.enter_context(member(bootstrap, f"{protocol}-live", ["two"], 7, group_protocol=protocol))
        alive.enter_context(member(bootstrap, "static", ["one", LONG], 6, group_instance_id="me"))
        alive.enter_context(member(bootstrap, "mixed", ["one"], 5, group_protocol="classic"))
        alive.enter_context(member(bootstrap, "mixed", ["one"], 0, group_protocol="consumer"))
        settled(bootstrap, "mixed", 2)
        yield


def _alike(out: str) -> str:
    """Return the output sorted, with ID for ids in base64, which members of the consumer protocol have."""
    out = re.sub(r"(successfully: )(.*)", lambda match: match[1] + ", ".join(sorted(match[2].split(", "))), out)
    return sorted_lines(re.sub(r"(?<![.\w+/-])[\w+/-]{22}(?![\w+/-])", "ID", out))


def _late(out: str) -> str:
    """Return the output without the reason of a time-out, which changes from run to run."""
    return re.sub(r"failed due to .*", "failed", out)


def _sorted(*commands: str) -> list[Step]:
    return [Step(TOOL, each, alike=_alike) for each in commands]


def _reset(group: str, *commands: str) -> list[Step]:
    return _sorted(*(f"--reset-offsets --group {group} {each}" for each in commands))


def _reset_late(*commands: str) -> list[Step]:
    return [Step(TOOL, f"--reset-offsets --group to-reset {each} {QUICK}", alike=_late) for each in commands]


def _other_words(*commands: str) -> list[Step]:
    return [Step(TOOL, each, why_not="classes of Java are named") for each in commands]


def _held_back(*commands: str) -> list[Step]:
    return [Step(TOOL, each, why_not="the exit is held back here") for each in commands]


LISTS = _sorted(
    "--list",
    "--list --state",
    "--list --type",
    "--list --state --type",
    "--list --state stable",
    "--list --state Empty,Stable",
    "--list --state 'Empty, Dead'",
    "--list --state unknown",
    "--list --state ''",
    "--list --state assigning",
    "--list --state PreparingRebalance",
    "--list --state NotReady",
    "--list --type classic",
    "--list --type Consumer",
    "--list --type classic,consumer --state Empty",
    "--list --type share",
    "--list --type streams",
    "--list --type nothing",
    "--list --type ''",
    "--list --group simple",
    "--list --describe",
    "--list --delete",
    "--list --verbose",
    "--list --topic one",
    "--list --timeout 9000",
    "--list --all-groups",
    "--list --to-earliest",
    "--list --members",
    "--list --command-config '{file:client.id=me}'",
    "--list --state Stable --verbose",
    "",
    "--group simple",
    "--no-such-flag",
    "{nowhere} --list",
    UNREACHABLE + " --list",
)
DESCRIPTIONS = _sorted(
    *(
        f"--describe --group {group} {what}".strip()
        for group in ("simple", "classic-live", "consumer-live", "classic-left", "consumer-left", "static", "mixed")
        for what in (
            "",
            "--verbose",
            "--members",
            "--members --verbose",
            "--state",
            "--state --verbose",
            "--offsets",
        )
    ),
    "--describe --group simple --group static",
    "--describe --group classic-live --group consumer-live --members",
    "--describe --group static --group simple --group classic-left --state",
    "--describe --group unknown",
    "--describe --group unknown --members",
    "--describe --group unknown --state",
    "--describe --group unknown --group simple",
    "--describe --group simple --timeout 9000",
    "--describe --group ''",
    "--describe",
    "--describe --group simple --all-groups",
    "--describe --all-groups --state",
    "--describe --all-groups --members",
    "--describe --all-groups --offsets",
    "--describe --group simple --members --state",
    "--describe --group simple --members --offsets",
    "--describe --group simple --offsets --state",
    "--describe --group simple --state Stable",
    "--describe --group simple --topic one",
    "--describe --group simple --to-earliest",
    "--describe --group simple --all-topics",
    "--describe --group simple --type classic",
    "--describe --group simple --dry-run",
    "--describe --group simple --delete",
    "--describe --group simple --timeout x",
    UNREACHABLE + " --describe --group simple",
)
RESETS = [
    *_reset(
        "to-reset",
        "--topic one --to-earliest",
        "--topic one --to-earliest --dry-run",
        "--topic one --to-latest --dry-run",
        "--topic one --to-current",
        "--topic one --to-offset 3",
        "--topic one --to-offset 99",
        "--topic one --to-offset -1",
        "--topic one --to-offset x",
        "--topic one --to-offset 1_0",
        "--topic one --to-offset ' 1'",
        "--topic one --to-offset 99999999999999999999",
        "--topic one --shift-by 1_0",
        "--topic one --shift-by 2",
        "--topic one --shift-by -1",
        "--topic one --shift-by -100",
        "--topic one --shift-by 100",
        "--topic two --shift-by 1",
        "--topic one --to-datetime 2023-11-14T23:30:00.000",
        "--topic one --to-datetime 2023-11-14T23:30:00.000Z",
        "--topic one --to-datetime 2023-11-15T00:30:00.000+0100",
        "--topic one --to-datetime 2023-11-15T00:30:00.000+01:00",
        "--topic one --to-datetime 2023-11-14T23:30:00",
        "--topic one --to-datetime 2023-11-14",
        "--topic one --to-datetime yesterday",
        "--topic one --to-datetime 2023-11-14T23:30:00.123456",
        "--topic one --to-datetime 2023-11-14T23:30:00.000+25:00",
        "--topic one --to-datetime 2100-01-01T00:00:00.000",
        "--topic one --to-datetime 1970-01-01T00:00:00.000",
        "--topic one --by-duration PT1H",
        "--topic one --by-duration P10000D",
        "--topic one --by-duration P1DT2H3M4S",
        "--topic one --by-duration -PT1H",
        "--topic one --by-duration 1h",
        "--topic one:0 --to-earliest",
        "--topic one:0 --topic three:1,2 --to-latest",
        "--topic three:0,1,2 --to-latest",
        "--topic three --topic two --to-earliest",
        "--topic three --to-current",
        "--topic one:7 --to-latest",
        "--topic one:x --to-latest",
        "--topic one: --to-latest",
        "--topic one:0:1 --to-latest",
        "--topic one:0, --to-earliest",
        "--topic one:1_0 --to-earliest",
        "--topic 'one: 0' --to-earliest",
        "--topic one:99999999999 --to-earliest",
        "--topic unknown --to-latest " + QUICK,
        "--all-topics --to-earliest",
        "--all-topics --to-latest --export",
        "--topic one --to-earliest --export",
        "--topic one --to-earliest --export --dry-run",
        "--topic one --to-earliest --topic two --to-latest",
        "--topic one --to-earliest --shift-by 3",
        "--topic one --all-topics --to-earliest",
        "--topic one --to-earliest --execute --dry-run",
        "--topic one --to-earliest --members",
        "--topic one --to-earliest --timeout 20000",
        "--from-file '{file:one,0,4}'",
        "--from-file '{file:one,0,4\\ntwo,1,2}'",
        '--from-file \'{file:"one",0,4\\n"two",1,99}\'',
        "--from-file '{file:to-reset,one,0,4}'",
        "--from-file '{file:one,0}'",
        "--from-file '{file:one,x,4}'",
        "--from-file '{file:one,0,-1}'",
        "--from-file '{file:one,0,4}' --topic one",
    ),
    *_reset_late("--from-file '{file:unknown,0,4}'", "--from-file '{file:one,7,4}'"),
    *_held_back("--reset-offsets --group to-reset --topic one", "--reset-offsets --group to-reset --to-earliest"),
    *_other_words(
        "--reset-offsets --group to-reset --from-file '{file:}'",
        "--reset-offsets --group to-reset --from-file /no/such/file",
        "--list --command-config /no/such/file",
    ),
    *_reset(
        "to-reset",
        "--topic one --topic two --to-latest --execute",
        "--all-topics --shift-by -1 --execute",
        "--from-file '{file:one,0,4\\ntwo,1,2}' --execute",
        "--all-topics --to-current --export --execute",
        "--topic three:2 --to-offset 0 --execute",
    ),
    *_sorted("--describe --group to-reset --verbose"),
    *_reset("simple", "--topic " + LONG + " --to-earliest --export", "--all-topics --to-current --execute"),
    *_sorted("--describe --group simple --verbose"),
    *_reset(
        "of-times",
        "--topic three:0 --to-datetime 2023-11-15T00:30:00.000 --execute",
        "--topic three --by-duration PT0S --execute",
    ),
    *_sorted(
        "--reset-offsets --group fresh --topic one --to-earliest",
        "--reset-offsets --group fresh --topic one --to-current",
        "--reset-offsets --group fresh --topic one --shift-by 1",
        "--reset-offsets --group fresh --all-topics --to-earliest",
        "--reset-offsets --group fresh --topic one --to-earliest --execute",
        "--describe --group fresh",
        "--reset-offsets --group classic-live --topic two --to-earliest",
        "--reset-offsets --group classic-live --topic two --to-earliest --execute",
        "--reset-offsets --group consumer-live --topic two --to-earliest --execute",
        "--reset-offsets --group consumer-left --topic two --to-earliest --execute",
        "--reset-offsets --group classic-left --all-topics --to-latest --export",
        "--reset-offsets --group simple --group classic-left --topic one --to-earliest",
        "--reset-offsets --group simple --group classic-left --topic one --to-earliest --export",
        "--reset-offsets --group simple --group to-reset --from-file '{file:simple,one,0,1\\nto-reset,two,0,1}'",
        "--reset-offsets --group simple --group to-reset --from-file '{file:one,0,1}'",
        "--reset-offsets --all-groups --topic one --to-earliest",
        "--reset-offsets --all-groups --topic one --to-earliest --export",
        "--reset-offsets --topic one --to-earliest",
        UNREACHABLE + " --reset-offsets --group simple --topic one --to-earliest",
    ),
]
DELETIONS = _sorted(
    "--delete-offsets --group simple --topic three:2",
    "--delete-offsets --group simple --topic three",
    "--delete-offsets --group simple --topic one --topic two",
    "--delete-offsets --group simple --topic unknown " + QUICK,
    "--delete-offsets --group simple --topic unknown:0",
    "--delete-offsets --group simple --topic one:5",
    "--delete-offsets --group unknown --topic one",
    "--delete-offsets --group classic-live --topic two",
    "--delete-offsets --group classic-live --topic one",
    "--delete-offsets --group consumer-live --topic two:0",
    "--delete-offsets --group simple",
    "--delete-offsets --topic one",
    "--delete-offsets --group simple --group to-reset --topic one",
    "--delete-offsets --group simple --topic one --all-topics",
    UNREACHABLE + " --delete-offsets --group simple --topic one:0",
    "--describe --group simple",
    "--delete --group to-delete",
    "--delete --group to-delete",
    "--delete --group unknown --group fresh",
    "--delete --group classic-live",
    "--delete --group consumer-live",
    "--delete --group classic-live --group unknown",
    "--delete",
    "--delete --group simple --topic one",
    "--delete --topic one",
    "--delete --group simple --execute",
    "--delete --group consumer-left --timeout 4000",
    UNREACHABLE + " --delete --group simple",
    "--list",
    "--delete --all-groups",
    "--list",
)
REGEXES = steps(
    TOOL,
    "--validate-regex 'a.*'",
    "--validate-regex '['",
    "--validate-regex '(?<=a)b'",
    "--validate-regex 'a(?P<x>b)'",
    "--validate-regex ''",
    "--validate-regex",
    "--validate-regex 'a.*' --list",
    "{nowhere} --validate-regex 'a|b'",
)
STEPS: list[Step] = [*LISTS, *DESCRIPTIONS, *RESETS, *DELETIONS, *REGEXES]
STEPS += _sorted(
    "--list --state --state",
    "--list --type --type",
    "--list --list",
    "--list extra",
    "--list --timeout x",
    "--list --timeout",
    "--describe --group",
    "--describe --group classic-live --group unknown",
    "--describe --group classic-live --members --state",
    "--describe --group classic-live --offsets --verbose",
    "--describe --group static --members --verbose",
    "--describe --all-groups --state",
    "--describe --group classic-live --state Stable",
    "--describe --group classic-live --group classic-live",
    "--reset-offsets --group to-reset --topic one --to-earliest",
    "--reset-offsets --group to-reset --topic one --to-earliest --dry-run --execute",
    "--reset-offsets --group to-reset --topic one --dry-run",
    "--reset-offsets --group to-reset --to-earliest --dry-run",
    "--reset-offsets --group classic-live --topic two --to-earliest --dry-run",
    "--reset-offsets --group consumer-live --all-topics --to-earliest --execute",
    "--reset-offsets --group unknown-one --topic one --to-earliest --dry-run",
    "--reset-offsets --group unknown-one --topic no-such-topic --to-earliest --dry-run",
    "--reset-offsets --group unknown-one --topic one:7 --to-earliest --dry-run",
    "--delete-offsets --group unknown-one --topic one",
    "--delete-offsets --group classic-live --topic two",
    "{nowhere} --list --bootstrap-server nonsense",
)
IN_OUR_WORDS = {
    "--delete",
    "--delete --group simple --topic one",
    "--delete --topic one",
    "--delete-offsets --group simple",
    "--delete-offsets --topic one",
    "--describe",
    "--describe --group classic-live --members --state",
    "--describe --group classic-live --state Stable",
    "--describe --group simple --members --offsets",
    "--describe --group simple --members --state",
    "--describe --group simple --offsets --state",
    "--describe --group simple --state Stable",
    "--describe --group simple --type classic",
    "--list --delete",
    "--list --describe",
    "--list --members",
    "--list --state NotReady",
    "--list --state Stable --verbose",
    "--list --state unknown",
    "--list --type nothing",
    "--list --type share",
    "--list --type streams",
    "--list --verbose",
    "--reset-offsets --group simple --group to-reset --from-file '{file:simple,one,0,1\\nto-reset,two,0,1}'",
    "--reset-offsets --group to-reset --from-file '{file:one,7,4}' --command-config '{file:default.api.timeout.ms=300\\nrequest.timeout.ms=300}'",  # noqa: E501
    "--reset-offsets --group to-reset --from-file '{file:one,x,4}'",
    "--reset-offsets --group to-reset --from-file '{file:to-reset,one,0,4}'",
    "--reset-offsets --group to-reset --from-file '{file:unknown,0,4}' --command-config '{file:default.api.timeout.ms=300\\nrequest.timeout.ms=300}'",  # noqa: E501
    "--reset-offsets --group to-reset --topic 'one: 0' --to-earliest",
    "--reset-offsets --group to-reset --topic one --dry-run",
    "--reset-offsets --group to-reset --topic one --to-earliest --dry-run --execute",
    "--reset-offsets --group to-reset --topic one --to-earliest --execute --dry-run",
    "--reset-offsets --group to-reset --topic one --to-earliest --members",
    "--reset-offsets --group to-reset --topic one --to-earliest --shift-by 3",
    "--reset-offsets --group to-reset --topic one --to-earliest --topic two --to-latest",
    "--reset-offsets --group to-reset --topic one: --to-latest",
    "--reset-offsets --group to-reset --topic one:0:1 --to-latest",
    "--reset-offsets --group to-reset --topic one:1_0 --to-earliest",
    "--reset-offsets --group to-reset --topic one:99999999999 --to-earliest",
    "--reset-offsets --group to-reset --topic one:x --to-latest",
    "--reset-offsets --topic one --to-earliest",
}

"""kafka-share-groups: groups with and without members."""

import re

from interop.tools.preparing import make_topics, send
from interop.tools.share_members import join_share_group, leave_share_group
from interop.tools.steps import QUICK, UNREACHABLE, Step, sorted_lines

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.session.timeout.ms": "600000",
    "group.share.max.session.timeout.ms": "600000",
}
TOOL = "share-groups"


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"one": 1, "two": 2, "three": 3})
    for topic, partition, count in (("one", 0, 5), ("two", 0, 3), ("two", 1, 4), ("three", 0, 6)):
        send(bootstrap, topic, count, partition)
    for group in ("left", "to-delete"):
        join_share_group(bootstrap, group, "a" * 22, ["one", "two"])
        leave_share_group(bootstrap, group, "a" * 22)
    join_share_group(bootstrap, "live", "b" * 22, ["one", "two"])


def _sorted(*commands: str) -> list[Step]:
    return [Step(TOOL, each, alike=_alike) for each in commands]


def _alike(out: str) -> str:
    """In no order."""
    quoted = re.compile(r"('[\w-]+')(, '[\w-]+')+")
    return sorted_lines(quoted.sub(lambda match: ", ".join(sorted(match[0].split(", "))), out))


def _held_back(*commands: str) -> list[Step]:
    return [Step(TOOL, each, why_not="the exit is held back here") for each in commands]


_JAVA = "classes of Java are named"
_BROKEN = [f"--from-file {each} --dry-run" for each in ("'{file:one,0,x}'", "'{file:}'", "/no/such/file")]
STEPS = [
    *_sorted(
        "--list",
        "--list --state",
        "--list --state empty",
        "--list --state Stable,Dead",
        "--list --state ''",
        "--list --state Assigning",
        "--list --group live",
        "--list --topic one",
        "--list --describe",
        "--list --verbose",
        "--list --all-groups",
        "",
        "--no-such-flag",
        "{nowhere} --list",
        UNREACHABLE + " --list",
        *(
            f"--describe --group {group} {what}".strip()
            for group in ("left", "live")
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
        "--describe --group unknown",
        "--describe --group unknown --members",
        "--describe --group unknown --state",
        "--describe --group left --group live",
        "--describe --group left --group live --state",
        "--describe --all-groups --state",
        "--describe --all-groups --members",
        "--describe --all-groups",
        "--describe",
        "--describe --group left --all-groups",
        "--describe --group left --members --state",
        "--describe --group left --state Stable",
        "--describe --group left --topic one",
        "--describe --group left --to-earliest",
        UNREACHABLE + " --describe --group left",
    ),
    *_sorted(
        *(
            f"--reset-offsets --group left {each}"
            for each in (
                "--topic one --to-earliest",
                "--topic one --to-earliest --dry-run",
                "--topic one --to-latest --dry-run",
                "--topic one:0 --to-datetime 2023-11-14T23:30:00.000 --dry-run",
                "--topic one --to-datetime 2100-01-01T00:00:00.000 --dry-run",
                "--topic one --to-datetime yesterday --dry-run",
                "--topic two:1 --topic one --to-latest --dry-run",
                "--topic one:7 --to-latest --dry-run",
                "--topic one:x --to-latest --dry-run",
                "--topic unknown --to-latest --dry-run " + QUICK,
                "--topic three --to-latest --dry-run",
                "--all-topics --to-earliest --dry-run",
                "--topic one --to-earliest --to-latest --dry-run",
                "--topic one --to-earliest --dry-run --execute",
                "--topic one --all-topics --to-earliest --dry-run",
                "--topic one --dry-run",
                "--to-earliest --dry-run",
                "--topic one --topic two --to-earliest --execute",
                "--topic two --to-latest --execute",
            )
        ),
        *(
            f"--reset-offsets --group left {each}"
            for each in (
                "--topic one --to-current --dry-run",
                "--topic three --to-current --dry-run",
                "--topic one --topic three --to-current --dry-run",
                "--all-topics --to-current --dry-run",
                "--all-topics --to-current --execute",
                "--topic one --to-offset 2 --dry-run",
                "--topic one --to-offset 99 --dry-run",
                "--topic one --to-offset -1 --dry-run",
                "--topic one --to-offset x --dry-run",
                "--topic one --to-offset 99999999999999999999 --dry-run",
                "--topic one --to-offset --dry-run",
                "--topic three --to-offset 2 --dry-run",
                "--topic two:1 --to-offset 1 --execute",
                "--topic one --to-offset 2 --to-current --dry-run",
                "--all-topics --to-offset 2 --export --dry-run",
                "--topic two --to-latest --export --execute",
                "--topic two --to-latest --export",
                "--export --dry-run",
                "--from-file '{file:one,0,2\\ntwo,1,3}' --dry-run",
                "--from-file '{file:one,0,2\\ntwo,1,3}' --dry-run --export",
                "--from-file '{file:one,0,2\\ntwo,1,3}'",
                "--from-file '{file:one,0,1\\ntwo,1,99}' --execute",
                "--from-file '{file:one,0,2}' --topic one --dry-run",
                "--from-file '{file:one,0,2}' --topic two --dry-run",
                "--from-file '{file:one,0,2}' --all-topics --dry-run",
                "--from-file '{file:one,0,2}' --to-latest --dry-run",
                "--from-file '{file:three,0,2}' --dry-run",
                "--from-file '{file:left,one,0,2}' --dry-run",
                "--from-file '{file:live,one,0,2}' --dry-run",
                "--from-file '{file:one,0}' --dry-run",
                "--from-file '{file:one}' --dry-run",
                "--from-file '{file:one,0,-1}' --dry-run",
                "--from-file '{file:one,0,1\\none,0,2}' --dry-run",
                "--from-file --dry-run",
            )
        ),
    ),
    *(Step(TOOL, f"--reset-offsets --group left {each}", why_not=_JAVA) for each in _BROKEN),
    *_sorted(
        "--reset-offsets --group live --topic one --to-current --dry-run",
        "--reset-offsets --group unknown --all-topics --to-current --dry-run",
        "--reset-offsets --group unknown --topic two --to-current --dry-run",
        "--reset-offsets --group unknown --from-file '{file:one,0,2}' --dry-run",
        "--describe --group left --export",
        "--describe --group left --to-current",
        "--describe --group left --from-file x",
        "--list --export",
        "--delete --group unknown --export",
        "--delete-offsets --group unknown --topic one --to-offset 2",
        "--reset-offsets --group unknown --topic one --to-earliest --execute",
        "--reset-offsets --group left --group live --topic one --to-earliest --execute",
        "--reset-offsets --topic one --to-earliest --execute",
        "--reset-offsets --all-groups --topic one --to-earliest --execute",
        "--describe --group left",
        "--describe --group left --verbose",
    ),
    *_held_back(
        "--reset-offsets --group live --topic one --to-earliest --execute",
        UNREACHABLE + " --reset-offsets --group left --topic one --to-earliest --execute",
    ),
    *_sorted(
        "--delete-offsets --group left --topic two",
        "--delete-offsets --group left --topic two",
        "--delete-offsets --group left --topic one --topic unknown",
        "--delete-offsets --group left --topic one:0",
        "--delete-offsets --group unknown --topic one",
        "--delete-offsets --group live --topic one",
        "--delete-offsets --group left",
        "--delete-offsets --topic one",
        "--delete-offsets --group left --group live --topic one",
        UNREACHABLE + " --delete-offsets --group left --topic one",
        "--describe --group left",
        "--delete --group to-delete",
        "--delete --group to-delete",
        "--delete --group unknown --group left",
        "--delete --group live",
        "--delete",
        "--delete --group live --topic one",
        UNREACHABLE + " --delete --group live",
        "--delete --all-groups",
        "--list",
    ),
]
STEPS += [
    Step("share-groups", each)
    for each in (
        "--",
        "{nowhere}",
    )
]
IN_OUR_WORDS = {
    "",
    "--",
    "--delete",
    "--delete --group live --topic one",
    "--delete-offsets --group left",
    "--delete-offsets --topic one",
    "--describe",
    "--describe --group left --members --state",
    "--describe --group left --state Stable",
    "--list --describe",
    "--list --verbose",
    "--reset-offsets --all-groups --topic one --to-earliest --execute",
    "--reset-offsets --group left --to-earliest --dry-run",
    "--list --state Assigning",
    "--reset-offsets --group left --export --dry-run",
    "--reset-offsets --group left --from-file '{file:one,0,2\\ntwo,1,3}'",
    "--reset-offsets --group left --from-file '{file:one,0,2}' --to-latest --dry-run",
    "--reset-offsets --group left --from-file --dry-run",
    "--reset-offsets --group left --topic one --to-offset --dry-run",
    "--reset-offsets --group left --topic one --to-offset 2 --to-current --dry-run",
    "--reset-offsets --group left --topic two --to-latest --export",
    "--reset-offsets --group left --topic one --dry-run",
    "--reset-offsets --group left --topic one --to-earliest",
    "--reset-offsets --group left --topic one --to-earliest --dry-run --execute",
    "--reset-offsets --group left --topic one --to-earliest --to-latest --dry-run",
    "--reset-offsets --group left --topic one:x --to-latest --dry-run",
    "--reset-offsets --topic one --to-earliest --execute",
    "{nowhere}",
}

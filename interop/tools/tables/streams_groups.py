"""kafka-streams-groups: groups with and without members, and one whose input is not there."""

import asyncio
import re

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from interop.tools.preparing import make_topics, send
from interop.tools.steps import QUICK, UNREACHABLE, Step, sorted_lines
from interop.tools.streams_members import StreamsMember, settle
from pykafka_broker.client.cluster import Client

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.streams.session.timeout.ms": "600000",
    "group.streams.max.session.timeout.ms": "600000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
    "group.streams.assignment.interval.ms": "0",
}
TOOL = "streams-groups"


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"one": 1, "two": 2, "cut": 1, "other": 1})
    for topic, partition, count in (("one", 0, 5), ("two", 0, 3), ("two", 1, 4), ("cut", 0, 6)):
        send(bootstrap, topic, count, partition)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.delete_records([TopicPartition("cut", 0, 4)]).values():
        done.result(60)
    asyncio.run(_prepare_groups(bootstrap))


async def _prepare_groups(bootstrap: str) -> None:
    async with Client(bootstrap, client_id="streamer") as client:
        for group in ("live", "left", "to-delete", "to-reset", "kept"):
            member = StreamsMember(group, f"member-of-{group}", ["two"])
            await settle(client, [member])
            await member.commit(client, {("two", 0): 1, ("two", 1): 4, (f"{group}-words-repartition", 0): 0})
            if group != "live":
                await member.leave(client)
        await settle(client, [StreamsMember("waits", "member-of-waits", ["missing"], ready=False)])
        await settle(client, [StreamsMember("of-two", "member-of-two", ["one", "cut"])])
        elder, younger = (StreamsMember("twins", each, ["two"]) for each in ("elder", "younger"))
        await settle(client, [elder])
        await settle(client, [elder, younger])


def _sorted(*commands: str | Step) -> list[Step]:
    return [each if isinstance(each, Step) else Step(TOOL, each, alike=_alike) for each in commands]


def _alike(out: str) -> str:
    """In no order."""
    quoted = re.compile(r"('[\w-]+')(, '[\w-]+')+")
    return sorted_lines(quoted.sub(lambda match: ", ".join(sorted(match[0].split(", "))), out))


def _why_cut(out: str) -> str:
    return re.sub("(?s)failed due to .*", "failed due to", out)


LISTS = _sorted(
    "--list",
    "--list --state",
    "--list --state empty",
    "--list --state Stable,NotReady",
    "--list --state 'Stable, Dead'",
    "--list --state ''",
    "--list --state nothing",
    "--list --state PreparingRebalance",
    "--list --group live",
    "--list --input-topic one",
    "--list --describe",
    "--list --verbose",
    "--list --all-groups",
    "--list --timeout 9000",
    "--list --members",
    "--list --to-earliest",
    "--list --dry-run",
    "",
    "--group live",
    "--no-such-flag",
    "--list extra",
    "{nowhere} --list",
    UNREACHABLE + " --list",
)
DESCRIPTIONS = _sorted(
    *(
        f"--describe --group {group} {what}".strip()
        for group in ("live", "left", "waits", "of-two", "twins")
        for what in (
            "",
            "--verbose",
            "--members",
            "--members --verbose",
            "--state",
            "--state --verbose",
            "--offsets",
            "--offsets --verbose",
        )
    ),
    *(f"--describe --group {group} --topology" for group in ("live", "left", "waits")),
    "--describe --group live --topology --verbose",
    "--describe --group live --group left --topology",
    "--describe --all-groups --topology",
    "--describe --group unknown --topology",
    "--describe --group live --topology --members",
    "--describe --group live --topology --state",
    "--list --topology",
    "--delete --group left --topology",
    "--describe --group unknown",
    "--describe --group unknown --members",
    "--describe --group unknown --state",
    "--describe --group left --group live",
    "--describe --group left --group live --state",
    "--describe --group live --timeout 9000",
    "--describe --group live --timeout x",
    "--describe --all-groups --state",
    "--describe --all-groups --members",
    "--describe --all-groups",
    "--describe --all-groups --verbose",
    "--describe",
    "--describe --group left --all-groups",
    "--describe --group left --members --state",
    "--describe --group left --members --offsets",
    "--describe --group left --state Stable",
    "--describe --group left --input-topic one",
    "--describe --group left --to-earliest",
    "--describe --group left --delete-all-internal-topics",
    "--describe --group left --dry-run",
    UNREACHABLE + " --describe --group left",
)
FILES = [
    *(
        Step(
            TOOL,
            f"--reset-offsets --group to-reset --from-file {each}",
            alike=_why_cut,
            other_errors="Java's own words",
        )
        for each in (
            "'{file:two,0,x}' --dry-run",
            f"'{{file:two,7,2}}' --dry-run {QUICK}",
            f"'{{file:unknown,0,2}}' --dry-run {QUICK}",
            "'{file:}' --dry-run",
            "/no/such/file --dry-run",
        )
    ),
    *(
        Step(TOOL, f"--reset-offsets {each} --dry-run", alike=_alike, untold=True)
        for each in (
            "--group to-reset --from-file '{file:to-reset,two,0,1}'",
            "--group to-reset --from-file '{file:kept,two,0,1}'",
            "--group to-reset --from-file '{file:two,x,1}'",
            "--group kept --group to-reset --from-file '{file:kept,two,0,1\\nto-reset,two,1,2}'",
        )
    ),
]
RESETS = [
    *_sorted(
        *(
            f"--reset-offsets --group to-reset {each}"
            for each in (
                "--input-topic two --to-earliest",
                "--input-topic two --to-earliest --dry-run",
                "--input-topic two --to-latest --dry-run",
                "--input-topic two --to-current --dry-run",
                "--input-topic two --to-offset 2 --dry-run",
                "--input-topic two --to-offset 99 --dry-run",
                "--input-topic two --to-offset x --dry-run",
                "--input-topic two --shift-by 1 --dry-run",
                "--input-topic two --shift-by -1 --dry-run",
                "--input-topic two:0 --to-datetime 2023-11-14T23:30:00.000 --dry-run",
                "--input-topic two --to-datetime 2100-01-01T00:00:00.000 --dry-run",
                "--input-topic two --to-datetime yesterday --dry-run",
                "--input-topic two --by-duration P10000D --dry-run",
                "--input-topic two --by-duration 1h --dry-run",
                "--input-topic two:0,1 --to-latest --dry-run",
                "--input-topic two:7 --to-latest --dry-run",
                "--input-topic two:x --to-latest --dry-run",
                "--input-topic one --to-latest --dry-run",
                "--input-topic one --shift-by 1 --dry-run",
                "--input-topic one --input-topic two --to-latest --dry-run",
                "--input-topic unknown --to-latest --dry-run " + QUICK,
                "--input-topic to-reset-words-repartition --to-latest --dry-run",
                "--all-input-topics --to-earliest --dry-run",
                "--all-input-topics --to-latest --dry-run --export",
                "--input-topic two --to-earliest --export --dry-run",
                "--input-topic two --to-earliest --to-latest --dry-run",
                "--input-topic two --to-earliest --dry-run --execute",
                "--input-topic two --all-input-topics --to-earliest --dry-run",
                "--input-topic two --dry-run",
                "--to-earliest --dry-run",
                "--input-topic two --to-earliest --members --dry-run",
                "--from-file '{file:two,0,1}' --dry-run",
                "--from-file '{file:two,0}' --dry-run",
                "--from-file '{file:two,0,1\\ntwo,1,2}'",
                "--from-file '{file:two,0,1\\ntwo,1,2}' --dry-run --export",
                "--from-file '{file:\"two\",0,99}' --dry-run",
                "--from-file '{file:two,0,-1}' --dry-run",
                "--from-file '{file:one,0,2}' --dry-run",
                "--from-file '{file:to-reset-words-repartition,0,0}' --dry-run",
                "--from-file '{file:two,0,1}' --input-topic two --dry-run",
                "--from-file '{file:two,0,1}' --all-input-topics --dry-run",
                "--from-file '{file:two,0,1}' --to-earliest --dry-run",
                "--input-topic two --to-earliest --dry-run --delete-all-internal-topics",
                "--input-topic two --to-earliest --dry-run --delete-internal-topic to-reset-words-repartition",
            )
        ),
        "--reset-offsets --group kept --group to-reset --input-topic two --to-earliest --dry-run",
        "--reset-offsets --group kept --group to-reset --input-topic two --to-earliest --dry-run --export",
        "--reset-offsets --group kept --group to-reset --from-file '{file:two,0,1}' --dry-run",
        "--reset-offsets --group unknown --from-file '{file:two,0,1}' --dry-run",
        "--reset-offsets --group live --from-file '{file:two,0,1}' --execute",
        "--reset-offsets --group to-reset --from-file '{file:two,0,2\\ntwo,1,3}' --execute",
        "--describe --group to-reset",
        "--reset-offsets --group unknown --input-topic two --to-earliest --dry-run",
        "--reset-offsets --group unknown --input-topic two --to-earliest --execute",
        "--reset-offsets --group live --input-topic two --to-earliest --execute",
        "--reset-offsets --input-topic two --to-earliest --dry-run",
        "--reset-offsets --all-groups --input-topic two --to-earliest --dry-run",
        "--reset-offsets --group to-reset --input-topic two --to-latest --execute --delete-internal-topic no-such",
        "--describe --group to-reset",
        "--reset-offsets --group to-reset --input-topic two --to-latest --execute --delete-internal-topic other",
        Step("topics", "--list", alike=sorted_lines),
        "--reset-offsets --group to-reset --input-topic two --to-earliest --execute "
        "--delete-internal-topic to-reset-words-repartition",
        Step("topics", "--list", alike=sorted_lines),
        "--reset-offsets --group to-reset --input-topic two --to-current --execute "
        "--delete-internal-topic to-reset-words-repartition --delete-internal-topic to-reset-counts-changelog",
        Step("topics", "--list", alike=sorted_lines),
        "--reset-offsets --group kept --all-input-topics --to-latest --execute --delete-all-internal-topics",
        "--reset-offsets --group to-reset --all-input-topics --to-latest --execute --delete-all-internal-topics",
        Step("topics", "--list", alike=sorted_lines),
        "--describe --group to-reset --verbose",
        "--reset-offsets --group kept --input-topic two:1 --shift-by -2 --execute --export",
        "--describe --group kept",
        UNREACHABLE + " --reset-offsets --group left --input-topic two --to-earliest --dry-run",
    ),
]
DELETIONS = _sorted(
    "--delete-offsets --group left --input-topic two:0",
    "--delete-offsets --group left --input-topic two:0",
    "--delete-offsets --group left --input-topic two",
    "--delete-offsets --group left --input-topic one",
    "--delete-offsets --group left --input-topic unknown " + QUICK,
    "--delete-offsets --group left --input-topic left-words-repartition",
    "--delete-offsets --group left --all-input-topics",
    "--reset-offsets --group left --input-topic two --to-latest --dry-run",
    "--reset-offsets --group left --all-input-topics --to-latest --dry-run",
    "--reset-offsets --group left --input-topic two --shift-by 1 --dry-run",
    "--reset-offsets --group left --input-topic two --to-current --dry-run",
    "--delete-offsets --group kept --all-input-topics",
    "--delete-offsets --group unknown --input-topic two",
    "--delete-offsets --group live --input-topic two",
    "--delete-offsets --group left",
    "--delete-offsets --input-topic two",
    "--delete-offsets --all-groups --input-topic two",
    "--delete-offsets --group left --group live --input-topic two",
    UNREACHABLE + " --delete-offsets --group left --input-topic two",
    "--describe --group left",
    "--delete --group to-delete --delete-all-internal-topics",
    "--delete --group to-delete",
    "--delete --group unknown --group left",
    "--delete --group live",
    "--delete --group waits --group kept",
    "--delete",
    "--delete --group live --input-topic two",
    "--delete --group live --delete-internal-topic live-words-repartition",
    "--delete --group live --all-groups",
    UNREACHABLE + " --delete --group live",
    "--delete --all-groups --delete-all-internal-topics",
    Step("topics", "--list", alike=sorted_lines),
    "--list",
)
STEPS = [*LISTS, *DESCRIPTIONS, *FILES, *RESETS, *DELETIONS]
STEPS += [
    Step("streams-groups", each)
    for each in (
        "--",
        "{nowhere}",
    )
]
IN_OUR_WORDS = {
    "",
    "--",
    "--delete",
    "--delete --group live --delete-internal-topic live-words-repartition",
    "--delete --group live --input-topic two",
    "--delete-offsets --all-groups --input-topic two",
    "--delete-offsets --group left",
    "--delete-offsets --group left --group live --input-topic two",
    "--delete-offsets --input-topic two",
    "--describe",
    "--describe --group left --delete-all-internal-topics",
    "--describe --group left --dry-run",
    "--describe --group left --members --offsets",
    "--describe --group left --members --state",
    "--describe --group left --state Stable",
    "--describe --group live --topology --members",
    "--describe --group live --topology --state",
    "--delete --group left --topology",
    "--group live",
    "--list --describe",
    "--list --dry-run",
    "--list --members",
    "--list --state PreparingRebalance",
    "--list --state nothing",
    "--list --topology",
    "--list --verbose",
    "--reset-offsets --group to-reset --from-file '{file:two,0,1\\ntwo,1,2}'",
    "--reset-offsets --group to-reset --from-file '{file:two,0,1}' --to-earliest --dry-run",
    "--reset-offsets --group to-reset --input-topic two --dry-run",
    "--reset-offsets --group to-reset --input-topic two --to-earliest",
    "--reset-offsets --group to-reset --input-topic two --to-earliest --dry-run --delete-all-internal-topics",
    "--reset-offsets --group to-reset --input-topic two --to-earliest --dry-run --delete-internal-topic to-reset-words-repartition",  # noqa: E501
    "--reset-offsets --group to-reset --input-topic two --to-earliest --dry-run --execute",
    "--reset-offsets --group to-reset --input-topic two --to-earliest --members --dry-run",
    "--reset-offsets --group to-reset --input-topic two --to-earliest --to-latest --dry-run",
    "--reset-offsets --group to-reset --input-topic two:x --to-latest --dry-run",
    "--reset-offsets --group to-reset --to-earliest --dry-run",
    "--reset-offsets --input-topic two --to-earliest --dry-run",
    "{nowhere}",
}

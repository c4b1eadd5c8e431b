"""The rules for what counts as a difference. Rule: where Kafka answers UNKNOWN_SERVER_ERROR ("stumbles" below), any
other error is accepted, and so is a message where Kafka gives none. Every other intended difference stands here with
its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from interop.answers.script import differences
from interop.differential.play import Outcome
from interop.differential.steps import Step
from pykafka_broker.broker.requests.routes import ROUTES
from pykafka_broker.protocol.api_keys import SPECS


class OnPurpose(NamedTuple):
    """An intended difference: a pattern of lines that `found` yields, which begin with the API's name, and a reason."""

    pattern: str
    reason: str


STUMBLED = -1  # UNKNOWN_SERVER_ERROR
ON_PURPOSE = [
    OnPurpose(
        rf"({'|'.join(SPECS[key].name for key in SPECS.keys() - ROUTES.keys())}) ",
        "what is not for clients is refused (UNSUPPORTED_VERSION), not cut off",
    ),
]
# A line that matches ends the sequence: the answers that follow depend on chance.
CHANCE = re.compile(
    # Which member becomes a group's leader when the old one is gone comes from a hash table of random ids.
    r"JoinGroup v\d+\.(leader|members)\b"
    # Two waiting members are answered in one step; the leader's list, in the order of that table, has named them.
    r'|JoinGroup v\d+\.member_id: Kafka "<member \d+>", found "<member \d+>"'
    # A JoinGroup with an unknown id that an empty group of a newer protocol refuses: Kafka describes it as it was,
    # and takes offsets and heartbeats as if there were none.
    r"|OffsetCommit v\d+\.topics\[\d+\]\.partitions\[\d+\]\.error_code: Kafka 69, found 25"
    r"|(Streams|Consumer)GroupHeartbeat v\d+\.error_code: Kafka 69, found 25"
)
# The same, once a JoinGroup of the sequence was answered with that error. 0: what a member of the consumer protocol
# gets beside classic ones depends on the ids that the broker made up for those, with Kafka from run to run. 25: see
# above; a member that joins then begins a group anew.
CHANCE_AFTER_JOIN = {
    0: re.compile(r"ConsumerGroup(Heartbeat|Describe) v\d+\..*\bassignment\b.*\.partitions\b"),
    25: re.compile(
        r"ConsumerGroupHeartbeat v\d+\.member_epoch: Kafka 2, found ([3-9]|\d\d)"
        r"|StreamsGroup(Heartbeat|Describe) v\d+\."
        r"|OffsetDelete v\d+\.error_code: Kafka 69, found 0"
        r"|DeleteGroups v\d+\.results\[\d+\]\.error_code: Kafka 69, found 0"
        r"|ShareGroupHeartbeat v\d+\.error_code: Kafka 0, found 69"
    ),
}
# The same, once members of the sequence have voted for different assignors. Of as many votes Kafka takes the one whose
# place in a hash table comes first, and looks again at each heartbeat with a table in which the member's own vote was
# put anew, behind one of the same place: each heartbeat of the member that lost then begins an epoch.
VOTED = re.compile(r"(ConsumerGroup(Heartbeat|Describe)|OffsetCommit|OffsetFetch) v\d+\.")
# The same, once Kafka has refused the heartbeat of another member under a static member's instance id: its streams
# group begins an epoch with the next heartbeat although nothing has changed.
FENCED, AFTER_FENCED = 82, re.compile(r"(StreamsGroup(Heartbeat|Describe)|OffsetCommit|OffsetFetch) v\d+\.")
# The same, once records of the sequence were deleted: a share fetch of Kafka's that would hand out a record which has
# gone from the log comes back empty, and the next one brings the records that follow. Here the first one does.
GONE, AFTER_GONE = "DeleteRecords", re.compile(r"ShareFetch v\d+\.responses: Kafka \[\], found ")
# Where Kafka stumbles it may answer requests that wait here: a JoinGroup with an instance id and a member id that was
# given out without one; joins into a group that it began to convert although a member does not fit.
WAITS = re.compile(r'\w+ v\d+: Kafka .*, found "parked"$')
# Kafka fills a fetch's limit with a piece of a batch; here the next partition may have what is left of it, or a limit
# that is too small for a batch and not 0, and then no list of aborted transactions.
# Where Kafka stumbles over an acknowledgement in a share fetch it delivers nothing. Here the records come, and the
# member has acquired them.
DELIVERED = re.compile(r"ShareFetch v\d+\.")
SMALL, LEFT_OVER = (
    1000,
    re.compile(
        r"Fetch v\d+\.responses\[\d+\]\.partitions\[\d+\]\.(records: Kafka \[\], found"
        r"|aborted_transactions: Kafka \[\], found null$)"
    ),
)
# Records that a share fetch releases come with its answer or the next one, as fast as Kafka writes.
RELEASE, GIVEN_BACK = 2, re.compile(r"ShareFetch v\d+\.responses\b")
# Kafka asks its coordinator about several producers at once, and answers all of them with the error code for the first
# one's version. So this is a real difference only where one sequence plays at a time.
IN_WORDS_OF_OTHERS = re.compile(r"(Produce|TxnOffsetCommit) v\d+\..*\.error_code: Kafka (120, found 48|48, found 120)$")
# Differences that the makers of sequences keep clear of:
# - The header of an uncompressed batch is believed; Kafka looks at every record of it, and writes the greatest
#   timestamp anew.
# - A topic or partition that is named twice in Produce, Fetch, OffsetCommit, OffsetDelete, ShareFetch or
#   ShareAcknowledge is answered twice; no client does it. Nor do brokers in what they ask of each other.
# - JoinGroup with a protocol named twice loses the protocol with Kafka, which then never answers.
# - Kafka looks for a fetch session whose number is as great as can be in a part of its cache that there is not.
# - A consumer with partitions that joins anew under another instance id keeps them; with Kafka nobody has them again.
# - To negative limits of a fetch or a share fetch, to unknown isolation levels and to null records Kafka answers
#   UNKNOWN_SERVER_ERROR or nothing at all, and to AlterConfigs that names a resource twice, AddPartitionsToTxn of no
#   transactions and DescribeUserScramCredentials of all users without the right to see them nothing either.
# - A group whose only commit was refused stays with Kafka, empty and in memory, until the broker stops.
# - A regular expression is resolved within the heartbeat that brings it, not some time later.
# - A topic that Metadata creates is in the same answer, where Kafka says UNKNOWN_TOPIC_OR_PARTITION at first.
# - This broker serves Produce v0-v2; Kafka 4 only says that it does.
# - Which of several partitions of a share session gets what the limits leave depends on how far Kafka has looked into
#   each; a topic that there is not, or that the group does not read, makes it fail with UNKNOWN_SERVER_ERROR, or not.
# - Where a share group has read, Kafka notices that its offsets were altered or deleted with its next write.
# - Where a log starts within a batch of an open transaction, Kafka's last stable offset is that batch's first one,
#   below the start: consumers that reset to the end get it, and are out of range. Here it is the start.
# - Kafka looks for a time in the first segment that could have it, and in no other: after DeleteRecords that is one
#   which is no part of the log any more, until the next look at what is to be deleted. Here records are found.
# - Kafka does not answer DescribeShareGroupOffsets for a partition that there is not.
# - AlterShareGroupOffsets of partitions that there are not, and of no others, changes nothing. With Kafka partitions of
#   that topic begin at offset 0 from then on, whatever the group's config says; one that names a negative partition
#   beside others leaves the group without the topic until Kafka tries again, after half a minute.
# - WriteTxnMarkers for a producer id below -1 under an epoch below -1 is refused; Kafka writes a marker of nobody.
# Also forgiven: Kafka lists aborted transactions that begin after the records in the answer.
_EXCUSED = [re.compile(entry.pattern) for entry in ON_PURPOSE]


def forgiven(ours: Any, theirs: Any) -> Any:
    """Return our answer, with Kafka's in its place wherever Kafka stumbled and our answer has an error.

    Kafka's list of aborted transactions replaces ours if it contains ours.
    """
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if theirs.get("error_code") == STUMBLED and has_error(ours):
            return theirs
        aborted, listed = ours.get("aborted_transactions"), theirs.get("aborted_transactions")
        if aborted is not None and listed and all(one in listed for one in aborted):
            ours = {**ours, "aborted_transactions": listed}
        return {name: forgiven(value, theirs.get(name)) for name, value in ours.items()}
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [forgiven(one, other) for one, other in zip(ours, theirs, strict=True)]
    return ours


def has_error(answer: Any) -> bool:
    """Return whether an error code other than 0 stands anywhere in the answer."""
    if isinstance(answer, list):
        return any(map(has_error, answer))
    return isinstance(answer, dict) and any(
        bool(value) if name.endswith("error_code") else has_error(value) for name, value in answer.items()
    )


def by_subject(answer: Any) -> Any:
    """Return the answer with results sorted by what they are about, so that those of one resource are compared."""
    if isinstance(answer, dict):
        return {name: by_subject(value) for name, value in answer.items()}
    if not isinstance(answer, list):
        return answer
    results = all(isinstance(item, dict) and "error_code" in item for item in answer)
    return sorted(map(by_subject, answer), key=lambda item: repr(_subject(item)) if results else "")


def _subject(item: Any) -> Any:
    if isinstance(item, list):
        return list(map(_subject, item))
    if not isinstance(item, dict):
        return item
    return {name: _subject(of) for name, of in item.items() if not name.endswith(("error_code", "error_message"))}


def found(steps: dict[str, Step], ours: Outcome, theirs: Outcome) -> Iterator[str]:
    """Yield a line for each difference. steps: the requests that were answered, by connection."""
    for on in sorted(ours.keys() | theirs.keys()):
        api = steps[on].api if on in steps else on
        answer, expected = by_subject(ours.get(on)), by_subject(theirs.get(on))
        for line in differences(
            answer if _has_delivered(answer) else forgiven(answer, expected),
            expected,
            f"{api} v{steps[on].version}" if on in steps else api,
        ):
            if not any(pattern.match(line) for pattern in _EXCUSED):
                yield line


class Chance:
    """The check whether a sequence ends early, because chance decides the answers that follow."""

    def __init__(self, beside_others: bool = False) -> None:
        """beside_others: whether other sequences play on the same brokers at the same time."""
        self._beside_others = beside_others
        self._joins: set[int] = set()
        self._votes: set[str] = set()
        self._fenced = self._has_deleted = False

    def is_it(self, steps: dict[str, Step], theirs: Outcome, lines: list[str]) -> bool:
        """Return whether chance explains one of the differences. Call it with every outcome: earlier ones count."""
        for on, answer in theirs.items():
            if on not in steps or not isinstance(answer, dict):
                continue
            if steps[on].api == "JoinGroup":
                self._joins.add(answer["error_code"])
            if steps[on].api == "StreamsGroupHeartbeat" and answer["error_code"] == FENCED:
                self._fenced = True
        heartbeats = (step.fields for step in steps.values() if step.api == "ConsumerGroupHeartbeat")
        self._votes |= {fields["server_assignor"] for fields in heartbeats if fields.get("server_assignor") is not None}
        self._has_deleted |= any(step.api == GONE for step in steps.values())
        patterns = [CHANCE, *(pattern for code, pattern in CHANCE_AFTER_JOIN.items() if code in self._joins)]
        for is_one, pattern in (
            (self._beside_others, IN_WORDS_OF_OTHERS),
            (len(self._votes) > 1, VOTED),
            (self._fenced, AFTER_FENCED),
            (self._has_deleted, AFTER_GONE),
            (any(map(_has_stumbled, theirs.values())), WAITS),
            (any(map(_has_stumbled, theirs.values())), DELIVERED),
            (any(map(_gives_back, steps.values())), GIVEN_BACK),
            (any(step.fields.get("max_bytes", SMALL) < SMALL for step in steps.values()), LEFT_OVER),
        ):
            patterns += [pattern] * is_one
        return any(pattern.match(line) for pattern in patterns for line in lines)


def _has_delivered(answer: Any) -> bool:
    """Return whether the answer is one to a share fetch that gives records to a member."""
    topics = answer.get("responses") or () if isinstance(answer, dict) else ()
    return any(each.get("acquired_records") for topic in topics for each in topic.get("partitions", ()))


def _has_stumbled(answer: Any) -> bool:
    return isinstance(answer, dict) and bool(answer.get("error_code") == STUMBLED)


def _gives_back(step: Step) -> bool:
    return step.api == "ShareFetch" and any(
        RELEASE in batch["acknowledge_types"]
        for topic in step.fields["topics"]
        for partition in topic["partitions"]
        for batch in partition.get("acknowledgement_batches", ())
    )


def class_of(line: str) -> str:
    """Return the kind of a difference: its line without versions, places in lists, ids and names."""
    path, _, values = line.partition(": ")
    path = re.sub(r" v-?\d+|\[\d+\]", "", path)
    values = re.sub(r'<[^>]*>|§[^"]*', "…", values)
    return f"{path}: {values[:160]}"

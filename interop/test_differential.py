"""Random requests, and answers as Kafka gives them: as recorded, and where its jars are, as it gives them now."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest

from interop.differential.compare import Chance, forgiven, found
from interop.differential.granted import Granted
from interop.differential.hunt import Hunt
from interop.differential.making import AREAS, sequence
from interop.differential.making.acls import PREPARER
from interop.differential.making.edges import REQUESTS_KEPT_CLEAR_OF, stand_in
from interop.differential.pair import CONFIG, Pair
from interop.differential.recording import RECORDED, RIGHTS, Recording, differences, read
from interop.differential.steps import Step, prefix_of, step_of, to_message
from interop.differential.turns import Turns, is_for_all
from interop.differential.warm import offered, warm_up
from interop.differential.world import World
from interop.raw import RawClient
from interop.rights import AUTHORIZER, STRANGER, open_up
from interop.targets import Target, start
from interop.waiting import eventually
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from pykafka_broker.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from pykafka_broker.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from pykafka_broker.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from pykafka_broker.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember

ALL = [one for path in sorted(RECORDED.glob("*.json")) if path != RIGHTS for one in read(path)]
OF_A_STRANGER = read(RIGHTS)
SEED, STEPS = 20_261_121, 400
A_NIGHTS_STEPS, JOBS_OF_A_NIGHT = 100_000, 4


pytestmark = pytest.mark.one_broker("its answers are compared with those of one")


@pytest.fixture(scope="module")
def usual_broker(target_name: str) -> Iterator[Target]:
    """A broker with the settings under which the answers were recorded."""
    with start(target_name, CONFIG) as broker:
        warm_up(broker.bootstrap_servers)
        yield broker


@pytest.mark.ours_only
@pytest.mark.parametrize(("number", "recording"), [*enumerate(ALL)], ids=[one.name for one in ALL])
def test_answers_are_those_that_kafka_gave(number: int, recording: Recording, usual_broker: Target) -> None:
    found = list(differences(recording, usual_broker.bootstrap_servers, prefix_of(number)))
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def guarded_broker() -> Iterator[Target]:
    """A broker with an authorizer that allows everything to the preparing client."""
    with start("pykafka", CONFIG | AUTHORIZER) as broker:
        warm_up(broker.bootstrap_servers)
        open_up(broker.bootstrap_servers)
        yield broker


@pytest.mark.ours_only
@pytest.mark.parametrize(("number", "recording"), [*enumerate(OF_A_STRANGER)], ids=[one.name for one in OF_A_STRANGER])
def test_answers_to_a_client_with_few_rights_are_those_that_kafka_gave(
    number: int, recording: Recording, guarded_broker: Target
) -> None:
    found = list(differences(recording, guarded_broker.bootstrap_servers, prefix_of(number), STRANGER))
    assert not found, "\n".join(found)


@pytest.mark.ours_only
def test_a_difference_is_found_and_made_small(usual_broker: Target) -> None:
    """A difference between two brokers is found and reduced to the one step that shows it.

    By default one of the brokers makes two partitions, and the other makes one.
    """
    with start("pykafka", CONFIG | {"num.partitions": "2"}) as other:
        pair = Pair(usual_broker.bootstrap_servers, other.bootstrap_servers, settles=False)
        versions = offered(other.bootstrap_servers)
        created = [{"name": "§d", "num_partitions": -1, "replication_factor": -1}]
        shows = Step("CreateTopics", 7, {"topics": created, "timeout_ms": 10_000})
        found = pair.examined([*sequence(1, versions, ["log"], 12), shows, *sequence(2, versions, ["log"], 12)])
    assert found is not None
    assert found.kind == "CreateTopics.topics.num_partitions: Kafka 2, found 1"
    assert found.steps == [shows]


def test_a_seed_is_a_sequence_and_a_sequence_is_json() -> None:
    versions = {spec.name: (spec.min_version, spec.max_version) for spec in SPECS.values()}
    for seed in range(20):
        steps = sequence(seed, versions)
        assert steps == sequence(seed, versions)
        assert [step_of(json.loads(json.dumps(step.to_json()))) for step in steps] == steps


def test_odd_values_come_between_the_steps_of_a_seed() -> None:
    """Steps with odd values come between a seed's usual steps; they can be sent, and set fields that are else unset."""
    versions = {spec.name: (spec.min_version, spec.stable_max_version) for spec in SPECS.values()}
    added = []
    for seed in range(40):
        usual, odd = (sequence(seed, versions, at_edges=at_edges) for at_edges in (False, True))
        assert odd == sequence(seed, versions, at_edges=True)
        rest = iter(odd)
        assert all(step in rest for step in usual)
        added += [step for step in odd if step not in usual]
    assert len(added) > 100
    for step in added:
        to_message(step, "d-", stand_in).encode(step.version)
    assert {("Fetch", "rack_id"), ("LeaveGroup", "members")} & {(one.api, name) for one in added for name in one.fields}


def test_requests_that_kafka_never_answers_are_kept_clear_of() -> None:
    """A request that names a resource or a protocol twice is kept clear of: Kafka never answers it."""
    resource = {"resource_type": 2, "resource_name": "§a", "configs": []}
    for api, fields, is_kept in (
        ("JoinGroup", {"protocols": [{"name": "range"}] * 2}, True),
        ("JoinGroup", {"protocols": [{"name": "range"}, {"name": "sticky"}]}, False),
        ("AlterConfigs", {"resources": [resource, resource]}, True),
        ("AlterConfigs", {"resources": [resource, resource | {"resource_name": "§b"}]}, False),
    ):
        assert bool(REQUESTS_KEPT_CLEAR_OF.match(f"{api} {fields}")) is is_kept, (api, fields)


@pytest.mark.parametrize("area", AREAS)
def test_steps_name_fields_that_their_messages_have(area: str) -> None:
    versions = {spec.name: (spec.min_version, spec.max_version) for spec in SPECS.values()}
    for seed in range(60):
        for step in sequence(seed, versions, [area]):
            to_message(step, "d-", lambda _: 0)


def test_what_changes_something_for_all_plays_alone() -> None:
    turns, entered, leave = Turns(), {name: Event() for name in ("one", "alone", "late")}, Event()

    def play(name: str, alone: bool) -> None:
        with turns.taken(alone):
            entered[name].set()
            assert leave.wait(10)

    playing = [Thread(target=play, args=("one", False)), Thread(target=play, args=("alone", True))]
    playing[0].start()
    assert entered["one"].wait(10)
    with turns.taken(alone=False):
        playing[1].start()
        eventually(lambda: turns.want_alone, 1)
        playing.append(Thread(target=play, args=("late", False)))
        playing[2].start()
        assert not entered["late"].wait(0.05), "it came after the one that wants to be alone"
        assert not entered["alone"].is_set()
    leave.set()
    for thread in playing:
        thread.join(10)
    assert all(event.is_set() for event in entered.values())


def test_a_sequence_tells_whether_others_would_see_what_it_does() -> None:
    def altered(kind: int) -> Step:
        return Step("IncrementalAlterConfigs", 1, {"resources": [{"resource_type": kind, "configs": []}]})

    assert is_for_all([altered(2), altered(4)])
    assert is_for_all([Step("OffsetCommit", 8, {"group_id": ""})])
    assert is_for_all([Step("CreateAcls", 3, {"creations": []})])
    assert not is_for_all([Step("CreateAcls", 3, {"creations": []}, PREPARER)])
    assert not is_for_all([altered(2), Step("OffsetCommit", 8, {"group_id": "§g"})])


def test_what_follows_from_chance_is_told_by_what_came_before_it() -> None:
    joined, refused = {"m": {"error_code": 0}}, {"m": {"error_code": 25}}
    join, heartbeat = {"m": Step("JoinGroup", 9)}, {"main": Step("ConsumerGroupHeartbeat", 1)}
    shares = ["ConsumerGroupHeartbeat v1.assignment.topic_partitions[0].partitions: Kafka 2, found 1"]
    epochs = ["ConsumerGroupHeartbeat v1.member_epoch: Kafka 2, found 3"]
    for outcome, by_chance, counts in ((joined, shares, epochs), (refused, epochs, shares)):
        chance = Chance()
        assert not chance.is_it(heartbeat, {}, by_chance)
        assert not chance.is_it(join, outcome, [])
        assert chance.is_it(heartbeat, {}, by_chance)
        assert not chance.is_it(heartbeat, {}, counts)


def test_a_share_fetch_may_be_empty_once_records_are_deleted() -> None:
    fetch, lines = {"main": Step("ShareFetch", 2, {"topics": []})}, ['ShareFetch v2.responses: Kafka [], found [{"']
    chance = Chance()
    assert not chance.is_it(fetch, {}, lines)
    assert not chance.is_it({"main": Step("DeleteRecords", 2)}, {}, [])
    assert chance.is_it(fetch, {}, lines)


def test_results_are_paired_by_what_they_are_about() -> None:
    def outcome(**codes: int) -> dict[str, Any]:
        results = [{"error_code": code, "error_message": None, "name": name} for name, code in codes.items()]
        return {"main": {"responses": sorted(results, key=repr)}}

    steps = {"main": Step("IncrementalAlterConfigs", 1)}
    assert [*found(steps, outcome(one=0, two=42), outcome(one=-1, two=0))] == [
        "IncrementalAlterConfigs v1.responses[0].error_code: Kafka -1, found 0",
        "IncrementalAlterConfigs v1.responses[1].error_code: Kafka 0, found 42",
    ]
    assert not [*found(steps, outcome(one=42, two=0), outcome(one=-1, two=0))]


def test_a_group_that_refused_a_classic_member_may_be_missing_with_kafka() -> None:
    for line in (
        "OffsetDelete v0.error_code: Kafka 69, found 0",
        "ShareGroupHeartbeat v1.error_code: Kafka 0, found 69",
    ):
        chance = Chance()
        assert not chance.is_it({}, {}, [line])
        assert not chance.is_it({"m": Step("JoinGroup", 9)}, {"m": {"error_code": 25}}, [])
        assert chance.is_it({}, {}, [line])


def test_ids_that_only_a_list_has_named_may_be_exchanged_and_others_not() -> None:
    line = 'JoinGroup v2.member_id: Kafka "<{0} 1>", found "<{0} 2>"'
    assert Chance().is_it({}, {}, [line.format("member")])
    assert not Chance().is_it({}, {}, [line.format("member_id")])


def test_where_kafka_stumbles_a_request_may_wait() -> None:
    lines = ['JoinGroup v8: Kafka {"error_code": 27, "members": []}, found "parked"']
    assert Chance().is_it({}, {"m": {"error_code": 27}, "main": {"error_code": -1}}, lines)
    assert not Chance().is_it({}, {"m": {"error_code": 27}, "main": {"error_code": 0}}, lines)


def test_a_sequence_ends_where_records_are_given_and_kafka_stumbles() -> None:
    steps = {"share": Step("ShareFetch", 2, {"topics": []})}
    refused = {"partition_index": 0, "acknowledge_error_code": 121, "acquired_records": []}
    stumbled = {"share": {"error_code": -1, "responses": []}}
    for given, ends in (([], False), ([[0, 1, 2]], True)):
        partitions = [refused, {"partition_index": 1, "acquired_records": given}]
        ours = {"share": {"error_code": 0, "responses": [{"partitions": partitions}]}}
        lines = list(found(steps, ours, stumbled))
        assert bool(lines) is ends
        assert Chance().is_it(steps, stumbled, lines) is ends


def test_which_answer_has_what_a_share_fetch_gives_back_is_chance() -> None:
    def fetch_with(kind: int) -> dict[str, Step]:
        batch = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [kind]}
        partitions = [{"partition_index": 0, "acknowledgement_batches": [batch]}, {"partition_index": 1}]
        return {"share": Step("ShareFetch", 2, {"topics": [{"partitions": partitions}]})}

    lines = ["ShareFetch v2.responses: Kafka [], found [...]"]
    assert Chance().is_it(fetch_with(2), {}, lines)
    assert not Chance().is_it(fetch_with(1), {}, lines)


def test_what_a_small_limit_leaves_may_go_to_another_partition() -> None:
    for lines in (
        ["Fetch v18.responses[1].partitions[0].records: Kafka [], found [...]"],
        ["Fetch v18.responses[0].partitions[1].aborted_transactions: Kafka [], found null"],
    ):
        assert Chance().is_it({"main": Step("Fetch", 18, {"max_bytes": 200})}, {}, lines)
        for fields in ({"max_bytes": 1_000_000}, {}):
            assert not Chance().is_it({"main": Step("Fetch", 18, fields)}, {}, lines)


def test_whose_words_tell_of_a_transaction_is_chance_beside_other_sequences_alone() -> None:
    lines = ["Produce v9.responses[0].partition_responses[0].error_code: Kafka 120, found 48"]
    assert Chance(beside_others=True).is_it({}, {}, lines)
    assert not Chance().is_it({}, {}, lines)
    assert not Chance(beside_others=True).is_it({}, {}, [lines[0].replace("48", "47")])


def test_where_kafka_stumbles_the_error_of_an_acknowledgement_will_do() -> None:
    stumbled = {"error_code": -1, "responses": []}
    for code, as_kafka in ((121, True), (0, False)):
        ours = {"error_code": 0, "responses": [{"partitions": [{"acknowledge_error_code": code}]}]}
        assert (forgiven(ours, stumbled) == stumbled) is as_kafka


@pytest.mark.java
@pytest.mark.ours_only
def test_answers_are_those_that_kafka_gives(usual_broker: Target, slow: bool) -> None:
    """Random sequences of requests get the answers that Kafka gives.

    The sequences are the same each time; --slow runs new ones for a night (`python -m interop.differential` does so
    without pytest). Some further sequences have odd values between their steps.
    """
    with ExitStack() as stack:
        pairs = [started(stack, usual_broker.bootstrap_servers)]
        pairs += [started(stack) for _ in range(JOBS_OF_A_NIGHT - 1 if slow else 0)]
        told: list[str] = []
        hunt = Hunt(pairs, offered(*pairs[0].addresses), say=told.append)
        seed = int(f"{datetime.now(UTC):%Y%m%d}0000")
        found = hunt.run(seed, A_NIGHTS_STEPS) if slow else hunt.run(SEED, STEPS)
        odd = Hunt(pairs, offered(*pairs[0].addresses), say=told.append, at_edges=True)
        found += odd.run(SEED, STEPS if slow else STEPS // 2)
    assert not found, "\n".join(told)
    assert hunt.steps >= (A_NIGHTS_STEPS if slow else STEPS)


@pytest.mark.whole
@pytest.mark.java
@pytest.mark.ours_only
def test_answers_to_a_client_whose_rights_change_are_those_that_kafka_gives(slow: bool) -> None:
    told: list[str] = []
    with (
        start("pykafka", CONFIG | AUTHORIZER) as ours,
        start("kafka", CONFIG | AUTHORIZER) as kafka,
    ):
        pair = Pair(ours.bootstrap_servers, kafka.bootstrap_servers, stranger=STRANGER)
        for address in pair.addresses:
            warm_up(address)
            open_up(address)
        hunt = Hunt([pair], offered(*pair.addresses), say=told.append, rights=True)
        found = hunt.run(SEED, STEPS * 10 if slow else STEPS // 2)
    assert not found, "\n".join(told)


def started(stack: ExitStack, ours: str = "") -> Pair:
    """Start a real Kafka beside our broker at that address, or beside a new one; return both."""
    ours = ours or stack.enter_context(start("pykafka", CONFIG)).bootstrap_servers
    kafka = stack.enter_context(start("kafka", CONFIG)).bootstrap_servers
    for address in (ours, kafka):
        warm_up(address)
    return Pair(ours, kafka)


@pytest.mark.ours_only
def test_acls_are_known_when_the_broker_tells_them(guarded_broker: Target) -> None:
    acl = AclCreation(2, "t", 3, "User:x", STRANGER, 3, 3)
    filters = [DeleteAclsFilter(2, "t", 3, "User:x", STRANGER, 1, 1)]
    with RawClient(guarded_broker.bootstrap_servers) as client:
        granted, taken = Granted(), Granted()
        granted.learn_created(CreateAclsRequest([acl]), CreateAclsResponse(results=[AclCreationResult()]))
        taken.learn_deleted(
            DeleteAclsResponse(
                filter_results=[
                    DeleteAclsFilterResult(
                        matching_acls=[
                            DeleteAclsMatchingAcl(0, None, *(getattr(acl, name) for name in AclCreation.__match_args__))
                        ]
                    )
                ]
            )
        )
        assert (granted.is_known(client), taken.is_known(client)) == (False, True)
        client.call(CreateAclsRequest([acl]), 3)
        assert (granted.is_known(client), taken.is_known(client)) == (True, False)
        client.call(DeleteAclsRequest(filters), 3)
        assert (granted.is_known(client), taken.is_known(client)) == (False, True)


def test_members_are_named_by_what_is_told_of_them_and_not_by_the_order_of_their_ids() -> None:
    members = [DescribedGroupMember(f"x-{uuid4()}", instance) for instance in (None, "o")]
    found = [
        World("d0000001-").plain(DescribedGroup(members=several, group_id="g")) for several in (members, members[::-1])
    ]
    assert found[0] == found[1]
    assert {one["member_id"] for one in found[0]["members"]} == {"<member 0>", "<member 1>"}


def test_votes_for_two_assignors_end_a_sequence_where_epochs_differ() -> None:
    def heartbeat(assignor: str | None) -> dict[str, Step]:
        return {"m": Step("ConsumerGroupHeartbeat", 1, {"server_assignor": assignor}, on="m")}

    lines = ["ConsumerGroupHeartbeat v1.member_epoch: Kafka 7, found 6"]
    chance = Chance()
    assert not chance.is_it(heartbeat("range"), {}, lines)
    assert not chance.is_it(heartbeat(None), {}, lines)
    assert chance.is_it(heartbeat("uniform"), {}, lines)
    assert not chance.is_it(heartbeat("uniform"), {}, ["ConsumerGroupHeartbeat v1: Kafka null, found 1", "Fetch v1.x"])


def test_a_fenced_static_member_of_a_streams_group_ends_a_sequence_where_epochs_differ() -> None:
    steps = {"o": Step("StreamsGroupHeartbeat", 0, {}, on="o")}
    lines = ["StreamsGroupHeartbeat v0.active_tasks: Kafka null, found []"]
    chance = Chance()
    assert not chance.is_it(steps, {"o": {"error_code": 110}}, lines)
    assert not chance.is_it(steps, {"o": {"error_code": 82}}, [])
    assert chance.is_it(steps, {"o": {"error_code": 0}}, lines)

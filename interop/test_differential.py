"""Random requests, and answers as Kafka gives them: as recorded, and where its jars are, as it gives them now."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from interop.differential.hunt import Hunt
from interop.differential.making import sequence
from interop.differential.pair import CONFIG, Pair
from interop.differential.recording import RECORDED, Recording, differences, read
from interop.differential.steps import Step, prefix_of, step_of
from interop.differential.warm import offered, warm_up
from interop.rights import AUTHORIZER, STRANGER, open_up
from interop.targets import Target, start
from pykafka_broker.protocol.api_keys import SPECS

ALL = [one for path in sorted(RECORDED.glob("*.json")) for one in read(path)]
SEED, STEPS = 20_261_121, 400
A_NIGHTS_STEPS, JOBS_OF_A_NIGHT = 100_000, 4


pytestmark = pytest.mark.one_broker("its answers are compared with those of one")


@pytest.fixture(scope="module")
def usual_broker(target_name: str) -> Iterator[Target]:
    """With the settings under which the answers were recorded."""
    with start(target_name, CONFIG) as broker:
        warm_up(broker.bootstrap_servers)
        yield broker


@pytest.mark.ours_only
@pytest.mark.parametrize(("number", "recording"), [*enumerate(ALL)], ids=[one.name for one in ALL])
def test_answers_are_those_that_kafka_gave(number: int, recording: Recording, usual_broker: Target) -> None:
    found = list(differences(recording, usual_broker.bootstrap_servers, prefix_of(number)))
    assert not found, "\n".join(found)


@pytest.mark.ours_only
def test_a_difference_is_found_and_made_small(usual_broker: Target) -> None:
    """Between two brokers of which one makes two partitions where it is not told how many."""
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


@pytest.mark.java
@pytest.mark.ours_only
def test_answers_are_those_that_kafka_gives(usual_broker: Target, slow: bool) -> None:
    """The same sequences each time; with --slow a night's run of new ones (`python -m interop.differential` says how
    to have it without pytest)."""
    with ExitStack() as stack:
        pairs = [started(stack, usual_broker.bootstrap_servers)]
        pairs += [started(stack) for _ in range(JOBS_OF_A_NIGHT - 1 if slow else 0)]
        told: list[str] = []
        hunt = Hunt(pairs, offered(*pairs[0].addresses), say=told.append)
        seed = int(f"{datetime.now(UTC):%Y%m%d}0000")
        found = hunt.run(seed, A_NIGHTS_STEPS) if slow else hunt.run(SEED, STEPS)
    assert not found, "\n".join(told)
    assert hunt.steps >= (A_NIGHTS_STEPS if slow else STEPS)


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
    """A real Kafka beside this broker of ours, or beside a new one."""
    ours = ours or stack.enter_context(start("pykafka", CONFIG)).bootstrap_servers
    kafka = stack.enter_context(start("kafka", CONFIG)).bootstrap_servers
    for address in (ours, kafka):
        warm_up(address)
    return Pair(ours, kafka)

"""Random requests, and answers as Kafka gives them: as recorded, and where its jars are, as it gives them now."""

from collections.abc import Iterator

import pytest

from interop.differential.making import sequence
from interop.differential.pair import CONFIG, Pair
from interop.differential.recording import RECORDED, Recording, differences, read
from interop.differential.warm import offered, warm_up
from interop.targets import Target, start

ALL = [one for path in sorted(RECORDED.glob("*.json")) for one in read(path)]
SEED, STEPS, MANY_STEPS = 20_261_121, 400, 10_000


@pytest.fixture(scope="module")
def usual_broker(target_name: str) -> Iterator[Target]:
    """With the settings under which the answers were recorded."""
    with start(target_name, CONFIG) as broker:
        warm_up(broker.bootstrap_servers)
        yield broker


@pytest.mark.ours_only
@pytest.mark.parametrize(("number", "recording"), enumerate(ALL), ids=[one.name for one in ALL])
def test_answers_are_those_that_kafka_gave(number: int, recording: Recording, usual_broker: Target) -> None:
    found = list(differences(recording, usual_broker.bootstrap_servers, f"d{number:05d}-"))
    assert not found, "\n".join(found)


@pytest.mark.java
@pytest.mark.ours_only
def test_answers_are_those_that_kafka_gives(usual_broker: Target, slow: bool) -> None:
    """Sequences that nobody has seen before would be found by `python -m interop.differential`; these are the same
    each time."""
    with start("kafka", CONFIG) as kafka:
        warm_up(kafka.bootstrap_servers)
        pair = Pair(usual_broker.bootstrap_servers, kafka.bootstrap_servers)
        versions = offered(usual_broker.bootstrap_servers, kafka.bootstrap_servers)
        seed = SEED
        while pair.steps_played < (MANY_STEPS if slow else STEPS):
            found = pair.examined(sequence(seed, versions))
            assert found is None, f"seed {seed}: {found.kind}\n{found.script()}"
            seed += 1

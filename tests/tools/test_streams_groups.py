"""`streams-groups` as JSON."""

import asyncio

import pytest

from interop.tools.streams_members import StreamsMember, settle
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.groups import list_groups
from pykafka_broker.testing import KafkaBroker
from tests.tools.asking import Asked
from tests.tools.test_get_offsets import send


async def _come(bootstrap: str, member: StreamsMember) -> None:
    async with Client(bootstrap) as client:
        await settle(client, [member])
        await member.commit(client, {("a", 0): 1})


async def _go(bootstrap: str, member: StreamsMember) -> None:
    async with Client(bootstrap) as client:
        await member.leave(client)


def test_streams_groups_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"group.streams.initial.rebalance.delay.ms": "0"}) as broker:
        broker.create_topic("a", 1)
        send(broker, "a", 3)
        member = StreamsMember("g", "m", ["a"])
        asyncio.run(_come(broker.bootstrap_servers, member))
        asked = Asked(broker, capsys)
        of_group = ("streams-groups", "--group", "g")
        assert asked("streams-groups", "--list") == [{"group_id": "g", "state": "Stable"}]
        (told,) = asked(*of_group, "--describe", "--members")
        both = [{"subtopology": "0", "partitions": [0]}, {"subtopology": "1", "partitions": [0]}]
        assert (told["member_id"], told["assignment"]) == ("m", {"active": both})
        before, between = asked(*of_group, "--describe")
        assert (before["topic"], before["current_offset"], before["log_end_offset"], before["lag"]) == ("a", 1, 3, 2)
        assert (between["topic"], between["current_offset"], between["lag"]) == ("g-words-repartition", None, 0)
        asyncio.run(_go(broker.bootstrap_servers, member))
        (state,) = asked(*of_group, "--describe", "--state")
        assert (state["state"], state["member_count"]) == ("Empty", 0)
        (reset,) = asked(*of_group, "--reset-offsets", "--to-latest", "--all-input-topics", "--execute")
        assert reset == {"group_id": "g", "topic": "a", "partition": 0, "new_offset": 3}
        (gone,) = asked(*of_group, "--delete-offsets", "--input-topic", "a")
        assert gone == {"topic": "a", "partition": 0, "error": None}
        assert asked(*of_group, "--delete", "--delete-all-internal-topics") == [{"group_id": "g", "deleted": True}]
        assert asked("topics", "--list", "--exclude-internal") == ["a"]


def test_a_group_that_is_not_ready_is_asked_for_with_a_score(capsys: pytest.CaptureFixture[str]) -> None:
    """As in Kafka, whose tool therefore can't ask for it."""

    async def ask(bootstrap: str) -> list[list[str]]:
        async with Client(bootstrap) as client:
            await settle(client, [StreamsMember("g", "m", ["missing"], ready=False)])
            return [
                [each.group_id for each in await list_groups(client, [state])] for state in ("NOT_READY", "NotReady")
            ]

    with KafkaBroker(config={"group.streams.initial.rebalance.delay.ms": "0"}) as broker:
        assert asyncio.run(ask(broker.bootstrap_servers)) == [["g"], []]
        assert Asked(broker, capsys)("streams-groups", "--list", "--state", "NotReady") == []

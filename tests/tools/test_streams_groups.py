"""`streams-groups` as JSON."""

import asyncio

import pytest

from interop.tools.streams_members import StreamsMember, settle
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.groups import list_groups
from pykafka_broker.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools import streams_groups
from pykafka_broker.tools.frame import main
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
    with KafkaBroker(config={"group.streams.initial.rebalance.delay.ms": "0"}, in_process=True) as broker:
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
    """The state filter NOT_READY finds the group and NotReady does not, as in Kafka, whose tool sends NotReady."""

    async def ask(bootstrap: str) -> list[list[str]]:
        async with Client(bootstrap) as client:
            await settle(client, [StreamsMember("g", "m", ["missing"], ready=False)])
            return [
                [each.group_id for each in await list_groups(client, [state])] for state in ("NOT_READY", "NotReady")
            ]

    with KafkaBroker(config={"group.streams.initial.rebalance.delay.ms": "0"}, in_process=True) as broker:
        assert asyncio.run(ask(broker.bootstrap_servers)) == [["g"], []]
        assert Asked(broker, capsys)("streams-groups", "--list", "--state", "NotReady") == []


TOPOLOGY = TopologyDescription(
    [
        TopologyDescriptionSubtopology(
            "0",
            [
                TopologyDescriptionNode("KSTREAM-SOURCE-0", 1, ["lines", "others"], successors=["KSTREAM-MAP-1", "Z"]),
                TopologyDescriptionNode("KSTREAM-MAP-1", 2, stores=["counts", "second"], successors=["KSTREAM-SINK-2"]),
                TopologyDescriptionNode("KSTREAM-SINK-2", 3, sink_topic="out"),
                TopologyDescriptionNode("Z", 2),
                TopologyDescriptionNode("dynamic", 3),
            ],
        ),
        TopologyDescriptionSubtopology(
            "1", [TopologyDescriptionNode("B", 1, ["x"]), TopologyDescriptionNode("A", 1, ["y"])]
        ),
    ],
    [
        TopologyDescriptionGlobalStore(
            TopologyDescriptionNode("GS", 1, ["g"], successors=["GP"]), TopologyDescriptionNode("GP", 2, stores=["s"])
        )
    ],
)
# What the script of 4.4.0 printed of it, asked of a broker that has a description.
PRINTED = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0 (topics: [lines, others])
      --> KSTREAM-MAP-1, Z
    Processor: KSTREAM-MAP-1 (stores: [counts, second])
      --> KSTREAM-SINK-2
      <-- KSTREAM-SOURCE-0
    Sink: KSTREAM-SINK-2 (topic: out)
      <-- KSTREAM-MAP-1
    Processor: Z (stores: [])
      --> none
      <-- KSTREAM-SOURCE-0
    Sink: dynamic (topic: null)
      <-- none

   Sub-topology: 1
    Source: B (topics: [x])
      --> none
    Source: A (topics: [y])
      --> none

   Sub-topology: 2 for global store (will not generate tasks)
    Source: GS (topics: [g])
      --> GP
    Processor: GP (stores: [s])
      --> none
      <-- GS


"""
_UNKNOWN_KIND = TopologyDescription([TopologyDescriptionSubtopology("0", [TopologyDescriptionNode("S", 9)])], [])
_NOT_FETCHED = """
Error: The broker failed to fetch the topology description for streams group 'g'. See the broker logs for details.
"""
_FAILED = "\nError: Executing streams group command failed due to java.lang.IllegalStateException: "


@pytest.mark.parametrize(
    ("status", "topology", "printed"),
    [
        (3, TOPOLOGY, PRINTED),
        (3, TopologyDescription([], []), "Topologies:\n\n"),
        (3, None, f"{_FAILED}Topology description is missing despite status AVAILABLE\n"),
        (3, _UNKNOWN_KIND, f"{_FAILED}Unknown topology node type: 9\n"),
        (2, None, _NOT_FETCHED),
        (1, None, "\nError: No topology description is stored for streams group 'g'.\n"),
        (0, None, "\nError: No topology description is available for streams group 'g' (status: NOT_REQUESTED).\n"),
        (7, None, f"{_FAILED}Unknown topology description status 7\n"),
    ],
)
def test_the_description_of_a_topology(
    status: int,
    topology: TopologyDescription | None,
    printed: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def described(client: Client, group_id: str, *, with_topology: bool) -> DescribedGroup:
        assert with_topology
        return DescribedGroup(group_id=group_id, topology_description=topology, topology_description_status=status)

    monkeypatch.setattr(streams_groups, "describe_streams_group", described)
    asked = ["--bootstrap-server", "localhost:1", "--describe", "--topology", "--group", "g"]
    assert main("streams-groups", asked) == int(not printed.startswith("Topologies"))
    assert capsys.readouterr().out == printed

"""The small tools that describe a cluster: as JSON, with older brokers, and what no table shows."""

import json
from pathlib import Path

import pytest

from pykafka_broker.cli.commands import is_tool
from pykafka_broker.client.errors import ClientError
from pykafka_broker.config.properties import format_properties
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.tools.frame import main
from pykafka_broker.tools.reassign_partitions import _broker_list
from tests.tools.asking import Asked


def test_each_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        asked = Asked(broker, capsys)
        (metadata,) = [each for each in asked("features", "describe") if each["feature"] == "metadata.version"]
        assert (metadata["supported_min_version"], metadata["finalized_version_level"]) == (7, 33)
        (refused,) = asked("features", "upgrade", "--feature", "no.such=1", status=1)
        assert refused["error"].endswith("does not support this feature.")
        assert asked("client-metrics", "--alter", "--name", "m", "--interval", "500") == {"name": "m", "altered": True}
        assert asked("client-metrics", "--list") == ["m"]
        (subscription,) = asked("client-metrics", "--describe")
        assert subscription["configs"]["interval.ms"] == "500"
        assert asked("groups", "--list") == []
        (node,) = asked("broker-api-versions")
        assert node["error"] is None
        assert {"api_key": 18, "name": "ApiVersions", "min_version": 0, "max_version": 5} in node["apis"]
        assert asked("metadata-quorum", "describe", "--status")["max_follower_lag"] == 0
        (leader,) = asked("metadata-quorum", "describe", "--replication")
        assert (leader["node_id"], leader["status"]) == (1, "Leader")


def test_columns_are_as_wide_as_in_kafkas_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns have Kafka's widths, which the recordings of its scripts don't show, as they leave blanks out."""
    long = "x" * 33
    blanks = " " * 28

    def lines(tool: str, *arguments: str) -> list[str]:
        assert main(tool, ["--bootstrap-server", broker.bootstrap_servers, *arguments]) == 0
        return [line.rstrip() for line in capsys.readouterr().out.splitlines() if line]

    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("orders")
        broker.create_topic(long)
        reset = ("--reset-offsets", "--to-earliest", "--execute", "--topic", "orders", "--group")
        assert lines("consumer-groups", *reset, "g") == [
            "GROUP           TOPIC           PARTITION  NEW-OFFSET",
            "g               orders          0          0",
        ]
        assert lines("consumer-groups", *reset, long, "--topic", long) == [
            f"GROUP{blanks} TOPIC{blanks} PARTITION  NEW-OFFSET",
            f"{long} orders{blanks[1:]} 0          0",
            f"{long} {long} 0          0",
        ]
        assert lines("consumer-groups", "--delete-offsets", "--group", "g", "--topic", "orders")[1:] == [
            "TOPIC           PARTITION  STATUS",
            "orders          0          Successful",
        ]
        assert lines("groups", "--list") == [
            f"GROUP{blanks} TYPE{blanks}  PROTOCOL",
            *(f"{group:<33} Classic" for group in ("g", long)),
        ]
        assert lines("features", "describe")[1].partition("Epoch")[0] == (
            "Feature: group.version                             SupportedMinVersion: 0                "
            "SupportedMaxVersion: 1                FinalizedVersionLevel: 1                "
        )
        assert lines("share-groups", *reset, "s") == [
            "GROUP           TOPIC           PARTITION  NEW-OFFSET",
            "s               orders          0          0",
        ]
        assert lines("share-groups", "--delete-offsets", "--group", "s", "--topic", "orders") == [
            "TOPIC           STATUS",
            "orders          Successful",
        ]


def test_cluster_is_the_tool_with_a_word_behind(capsys: pytest.CaptureFixture[str]) -> None:
    """A word behind `cluster` calls Kafka's tool; flags alone start brokers."""
    assert is_tool(["cluster", "api-versions"])
    assert not is_tool(["cluster"])
    assert not is_tool(["cluster", "--brokers", "3"])
    with KafkaBroker(in_process=True) as broker:
        at = ["--bootstrap-server", broker.bootstrap_servers]
        assert main("cluster", ["cluster-id", *at, "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["cluster_id"]) == 22
        assert main("cluster", ["api-versions", *at]) == main("broker-api-versions", at) == 0
        told = capsys.readouterr().out
        assert told == told[: len(told) // 2] * 2


def test_nodes_of_a_cluster_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"broker.rack": "r"}, in_process=True) as broker:
        at = ["--bootstrap-server", broker.bootstrap_servers, "--json"]
        where = {"id": 1, "host": "127.0.0.1", "port": broker.port, "rack": "r"}
        assert main("cluster", ["list-endpoints", *at]) == 0
        assert json.loads(capsys.readouterr().out) == [where | {"state": "unfenced", "endpoint_type": "broker"}]
        assert main("cluster", ["list-endpoints", *at, "--include-fenced-brokers"]) == 0
        assert json.loads(capsys.readouterr().out) == [where | {"state": "unfenced", "endpoint_type": "broker"}]
        assert main("cluster", ["unregister", *at, "--id", "9"]) == 1
        assert "Broker ID 9 is not currently registered" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "kind"), [("unregister", "broker"), ("unregister-controller", "controller")])
def test_a_cluster_that_can_unregister_no_node(command: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(emulate="2.7", in_process=True) as broker:
        arguments = [command, "--bootstrap-server", broker.bootstrap_servers, "--id", "9"]
        assert main("cluster", arguments) == 0
        said = capsys.readouterr().out
        assert said == f"The target cluster does not support the {kind} unregistration API.\n"
        assert main("cluster", [*arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["unregistered"] is False
        assert main("cluster", ["list-endpoints", *arguments[1:3], "--include-fenced-brokers"]) == 0
        assert capsys.readouterr().out == "The node does not support DESCRIBE_CLUSTER\n"


def test_json_may_be_asked_for_behind_the_word(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(in_process=True) as broker:
        assert main("features", ["--bootstrap-server", broker.bootstrap_servers, "describe", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("release", ["0.11", "2.8", "3.7"])
def test_older_brokers_are_asked_in_their_versions(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaBroker(config={"pykafka.emulate": release}, in_process=True) as broker:
        asked = Asked(broker, capsys)
        assert asked("groups", "--list") == []
        assert asked("broker-api-versions")[0]["error"] is None
        assert isinstance(asked("features", "describe"), list)


CONTROLLER = {
    "process.roles": "controller",
    "node.id": "7",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:19093",
}


@pytest.mark.parametrize(
    ("advertised", "endpoint"), [("CONTROLLER://kafka.example:9093", "kafka.example:9093"), ("", "localhost:19093")]
)
def test_a_controller_is_added_by_its_own_file(
    advertised: str, endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=7\ndirectory.id=vzdFkeVGTZq3yR5zXE_fdg\n")
    file = tmp_path / "controller.properties"
    own = {"advertised.listeners": advertised, "metadata.log.dir": str(tmp_path)}
    file.write_text(format_properties(CONTROLLER | own))
    where = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(file)]
    assert main("metadata-quorum", [*where, "add-controller", "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        "DRY RUN of adding controller 7 with directory id vzdFkeVGTZq3yR5zXE_fdg "
        f"and endpoints: CONTROLLER://{endpoint}\n"
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("process.roles=broker\nnode.id=1", "process.roles did not contain 'controller'"),
        ("process.roles=controller\nnode.id=x", "node.id not found"),
        ("process.roles=controller\nnode.id=1\nlog.dirs=/no/such/folder", "cannot read /no/such/folder"),
    ],
)
def test_a_file_that_is_of_no_controller(
    settings: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.properties"
    file.write_text(settings)
    arguments = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(file), "add-controller"]
    assert main("metadata-quorum", arguments) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("text", "taken"), [("+5", True), ("-1", True), ("99999999999", False), (" 5", False)])
def test_an_interval_is_an_integer_of_java(text: str, taken: bool, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--alter", "--name", "m", "--interval", text]
    assert main("client-metrics", arguments) == 1
    assert ("Invalid interval value" not in capsys.readouterr().err) == taken  # an address is missing, too


@pytest.mark.parametrize(("text", "brokers"), [("-1", [-1]), ("0,+1", [0, 1]), ("0,", [0])])
def test_a_list_of_brokers_has_integers_of_java(text: str, brokers: list[int]) -> None:
    assert _broker_list(text) == brokers
    with pytest.raises(ClientError, match='For input string: " 1"'):
        _broker_list("0, 1")

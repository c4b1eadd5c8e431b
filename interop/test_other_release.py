"""The other release of Kafka beside this broker: in one cluster with both and ours, and on the same data directory.

The answers of both stand in `tests/broker/api/newest_release.json`; here their programs meet.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
from functools import partial
from pathlib import Path

import pytest

from interop import exchanged
from interop.cluster_clients import create, leaders
from interop.cluster_load import PATIENCE_S, Load
from interop.java_tools import JavaTools
from interop.kafka_cluster import OTHER, OURS, THEIRS, KafkaCluster, Kind, Node
from interop.raw import RawClient
from interop.real_kafka import RealKafka
from interop.waiting import eventually
from pykafka_broker.cluster.records import decode_record
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.runtime import uvarint
from pykafka_broker.protocol.stored.register_broker_record import RegisterBrokerRecord
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records
from pykafka_broker.releases.release import OWN_VERSION
from pykafka_broker.testing import KafkaBroker
from tests.releases.other import NEWEST_VERSION, OTHER_VERSION, emulated, name_of, number

pytestmark = [pytest.mark.java, pytest.mark.ours_only, pytest.mark.slow]


def _sorted_leaders(address: str) -> list[int]:
    return sorted(leaders(address, "t"))


@pytest.mark.parametrize("controller", [THEIRS, OTHER, OURS], ids=lambda kind: kind.value)
def test_one_broker_of_each_in_a_cluster_at_metadata_version_4_3(controller: Kind, tmp_path: Path) -> None:
    brokers = [OURS, THEIRS, OTHER]
    with KafkaCluster(tmp_path, controllers=[controller], brokers=brokers) as cluster:
        create(cluster.bootstrap_servers, "t", 3, 3, min_insync_replicas="2")
        for node in cluster.brokers:
            eventually(partial(_sorted_leaders, node.address), [1, 2, 3], PATIENCE_S)
        with Load(cluster.bootstrap_servers, "t", 3) as load:
            for node in cluster.brokers:
                load.wait_for(50)
                node.restart()
                cluster.make_whole()
            load.wait_for(50)
        load.check()


def _is_answered(address: str, body: bytes, *, api_key: int, version: int) -> bool:
    """Send a request with a flexible header; return whether it is answered rather than the connection closed."""
    host, port = address.rsplit(":", 1)
    frame = struct.pack(">hhih", api_key, version, 1, -1) + b"\0" + body
    with socket.create_connection((host, int(port)), PATIENCE_S) as s:
        s.sendall(struct.pack(">i", len(frame)) + frame)
        with contextlib.suppress(ConnectionError):
            return bool(s.recv(1))
    return False


def test_the_tools_of_the_other_release_run_in_one_jvm() -> None:
    with KafkaBroker(emulate=emulated(OTHER_VERSION)) as broker, JavaTools(OTHER_VERSION) as tools:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        topic = ("--entity-type", "topics", "--entity-name", "t")
        assert tools.run("kafka-topics", *at, "--create", "--topic", "t").out == "Created topic t.\n"
        assert tools.run("kafka-configs", *at, "--alter", *topic, "--add-config", "segment.ms=9999").status == 0
        assert "segment.ms=9999 " in tools.run("kafka-configs", *at, "--describe", *topic).out
        missing = tools.run("kafka-topics", *at, "--describe", "--topic", "missing")
        assert (missing.status, missing.out.count("does not exist")) == (1, 1)


def test_the_newest_tool_tells_the_versions_of_apis() -> None:
    with KafkaBroker(emulate=emulated(NEWEST_VERSION)) as broker, JavaTools(NEWEST_VERSION) as tools:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        told = tools.run("kafka-cluster", "api-versions", *at)
        assert "\tUnregisterController(94): 0 [usable: 0]" in told.out
        assert told.out == tools.run("kafka-broker-api-versions", *at).out


LEVELS = [
    "upgrade --dry-run --release-version {newer}",
    "upgrade --release-version {newer}",
    "describe",
    "downgrade --dry-run --release-version {older}",
    "downgrade --release-version {older}",
    "downgrade --metadata {newer}-IV0",
    "downgrade --metadata {older} --unsafe",
    "downgrade --feature share.version=1",
    "describe",
    "upgrade --release-version {newer}",
    "describe",
]


def test_features_go_up_to_the_newer_release_and_back_where_kafka_lets_them(tmp_path: Path) -> None:
    older = min(OWN_VERSION, OTHER_VERSION, key=number)
    with JavaTools(NEWEST_VERSION) as tools:

        def answers(address: str) -> list[tuple[str, int, str, str]]:
            found = []
            for line in LEVELS:
                words = line.format(newer=name_of(NEWEST_VERSION), older=name_of(older)).split()
                said = tools.run("kafka-features", "--bootstrap-server", address, *words)
                out = re.sub(r"Epoch: \d+", "", said.out)
                found.append((line, said.status, out, said.err))
            return found

        theirs, ours = (RealKafka(directory=tmp_path / name, release=NEWEST_VERSION) for name in ("theirs", "for ours"))
        for kafka in (theirs, ours):
            kafka.format("-r", name_of(older))
        with theirs:
            wanted = answers(theirs.bootstrap_servers)
        assert [status for _, status, _, _ in wanted] == [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
        with KafkaBroker(data_dir=ours.data_dir, emulate=emulated(NEWEST_VERSION)) as broker:
            assert answers(broker.bootstrap_servers) == wanted


class ClusterOf36(KafkaCluster):
    """A cluster whose metadata begins at the level of release 3.6, which knows no log directories of brokers."""

    def _format(self) -> None:
        for node in self.controllers:
            node.format("--release-version", "3.6")
        for node in self.brokers:
            node.format()


def _directories_of_brokers(controller: Node) -> dict[int, int]:
    """Return how many log directories each broker has told, by its last registration in the metadata log."""
    told = {}
    log = next(controller.directory.rglob(f"__cluster_metadata-0/{0:020d}.log")).read_bytes()
    for header, batch in iter_batches(log):
        for record in () if header.is_control else iter_records(batch, header):
            registered = decode_record(record.value or b"")
            if isinstance(registered, RegisterBrokerRecord):
                told[registered.broker_id] = len(registered.log_dirs)
    return told


@pytest.mark.parametrize("controller", [THEIRS, OURS], ids=lambda kind: kind.value)
def test_brokers_tell_their_directories_once_the_metadata_has_them(controller: Kind, tmp_path: Path) -> None:
    with (
        ClusterOf36(tmp_path, controllers=[controller], brokers=[THEIRS, OURS]) as cluster,
        RawClient(cluster.bootstrap_servers) as client,
    ):
        told = partial(_directories_of_brokers, cluster.controllers[0])
        assert told() == {1: 0, 2: 0}
        raised = UpdateFeaturesRequest(10_000, [FeatureUpdateKey("metadata.version", 20, upgrade_type=1)])
        assert client.call(raised, 1).error_code == 0
        eventually(told, {1: 1, 2: 1}, PATIENCE_S)


def test_tagged_fields_and_array_elements_are_bounded_alike() -> None:
    with RealKafka(release=NEWEST_VERSION) as kafka, KafkaBroker(emulate=emulated(NEWEST_VERSION)) as broker:
        for address in (kafka.bootstrap_servers, broker.bootstrap_servers):
            for count in (10_000, 10_001):
                tags = uvarint(count) + b"".join(uvarint(1000 + tag) + b"\0" for tag in range(count))
                assert _is_answered(address, tags, api_key=ApiKey.LIST_GROUPS, version=3) is (count == 10_000)
            groups = uvarint(1_000_002) + b"\x01" * 1_000_001 + b"\0"
            assert not _is_answered(address, groups, api_key=ApiKey.DELETE_GROUPS, version=2)


def test_a_directory_of_the_other_release_to_ours_and_back(tmp_path: Path) -> None:
    written = exchanged.Written()
    with RealKafka(exchanged.QUICK, directory=tmp_path, release=OTHER_VERSION) as kafka:
        exchanged.create(kafka.bootstrap_servers, written)
        exchanged.write(kafka.bootstrap_servers, written)
    with KafkaBroker(exchanged.QUICK, data_dir=tmp_path / "logs", emulate=emulated(OTHER_VERSION)) as ours:
        exchanged.check(ours.bootstrap_servers, written)
        exchanged.write(ours.bootstrap_servers, written)
    with RealKafka(exchanged.QUICK, directory=tmp_path, release=OTHER_VERSION) as kafka:
        exchanged.check(kafka.bootstrap_servers, written)


def test_a_directory_that_ours_begins_as_the_other_release_is_one_of_it(tmp_path: Path) -> None:
    written = exchanged.Written()
    with KafkaBroker(exchanged.QUICK, data_dir=tmp_path / "logs", emulate=emulated(OTHER_VERSION)) as ours:
        exchanged.create(ours.bootstrap_servers, written)
        exchanged.write(ours.bootstrap_servers, written)
    with RealKafka(exchanged.QUICK, directory=tmp_path, release=OTHER_VERSION) as kafka:
        exchanged.check(kafka.bootstrap_servers, written)

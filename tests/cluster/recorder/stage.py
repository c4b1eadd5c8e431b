"""A controller's process among brokers that are played: its answers, and its records in the metadata log.

Rule: nothing here knows what should come out; each request becomes a line with the answer and the new records.
"""

from __future__ import annotations

import json
import shutil
import struct
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interop.kafka_cluster import THEIRS, Kind, Node
from interop.raw import RawClient
from interop.real_kafka import CLUSTER_ID, free_port
from interop.waiting import eventually
from pykafka_broker.cluster.features import SUPPORTED
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage, PartitionImage
from pykafka_broker.cluster.records import RecordType, decode_record
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages import alter_partition_request
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.header import iter_batches
from pykafka_broker.records.record import iter_records

MARKERS = (RecordType.BEGIN_TRANSACTION, RecordType.END_TRANSACTION)
RELEASE = "release"  # among the settings: whose level of metadata.version
SESSION_S = 6.0  # a stage on a busy machine may be silent for some seconds
BEAT_S = 0.4
SETTLED_S = 0.05  # records that follow from a request after its answer are written by then


def directory(broker_id: int, number: int = 0) -> bytes:
    return bytes([0xD0, broker_id, number]) + bytes(13)


class Stage:
    """A controller and its brokers. `lines` are the steps so far; unfenced brokers send heartbeats between requests."""

    def __init__(self, section: str, settings: Mapping[str, str], lines: list[str], kind: Kind = THEIRS) -> None:
        port = free_port()
        self._directory = Path(tempfile.mkdtemp(prefix="played-brokers-"))
        config = {
            "process.roles": "controller",
            "node.id": "100",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"100@127.0.0.1:{port}",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "log.dirs": str(self._directory / "node" / "data"),
            "metadata.max.idle.interval.ms": "0",
            "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
            "leader.imbalance.check.interval.seconds": "3600",
            **{key: value for key, value in settings.items() if key != RELEASE},
        }
        self.node = Node(kind, "controller", 100, port, self._directory / "node", config)
        self.node.format(*(["--release-version", settings[RELEASE]] if RELEASE in settings else []))
        self.section = section
        self.lines = lines
        self.epochs: dict[int, int] = {}
        self.image = MetadataImage()
        self._seen = 0
        self._incarnation = 0
        self._beaten = 0.0

    def __enter__(self) -> Stage:
        self.node.start()
        self.client = RawClient(self.node.address)
        eventually(self._has_begun, True)
        time.sleep(0.5)  # the controller's own registration follows, with newer levels
        self._write("begin", None, 0, None)
        return self

    def __exit__(self, *_: Any) -> None:
        self.client.close()
        self.node.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _has_begun(self) -> bool:
        """Return whether the first records of the metadata are written; the leader's control record comes before."""
        return any(not header.is_control for path in self._segments() for header, _ in iter_batches(path.read_bytes()))

    def ask(self, what: str, request: Message, version: int | None = None) -> Any:
        """Send a request; keep it, its answer and the new records as a line named `what`."""
        version = SPECS[request.API_KEY].stable_max_version if version is None else version
        self._keep_alive()
        answer = self.client.call(request, version)
        time.sleep(SETTLED_S)
        self._write(what, request, version, answer)
        return answer

    def _write(self, what: str, request: Message | None, version: int, answer: Message | None) -> None:
        line: dict[str, Any] = {"section": self.section, "what": what}
        for topic in getattr(answer, "topics", ()) if isinstance(request, CreateTopicsRequest) else ():
            topic.configs = []  # the configs are many, and the scripts are not about them
        if request is not None and answer is not None:
            line["api"] = ApiKey(request.API_KEY).name
            line["version"] = version
            line["request"] = request.encode(version).hex()
            line["answer"] = answer.encode(version).hex()
        line["records"] = [value.hex() for value in self._new_records()]
        self.lines.append(json.dumps(line))

    def _segments(self) -> list[Path]:
        return sorted((self.node.directory / "data" / "__cluster_metadata-0").glob("*.log"))

    def _new_records(self) -> list[bytes]:
        """Return the records that the log has got since the last look."""
        found: list[bytes] = []
        end = self._seen
        for path in self._segments():
            for header, batch in iter_batches(path.read_bytes()):
                if header.base_offset >= self._seen and not header.is_control:
                    found += [bytes(record.value or b"") for record in iter_records(batch, header)]
                end = max(end, header.base_offset + header.last_offset_delta + 1)
        self._seen = end
        for value in found:
            record = decode_record(value)
            if record.API_KEY not in MARKERS:
                self.image.apply(record, MetadataDelta())
        return found

    def _keep_alive(self, but: int = -1) -> None:
        if time.monotonic() - self._beaten < BEAT_S:
            return
        for broker in self.image.brokers.values():
            if not broker.fenced and not broker.in_controlled_shutdown and broker.id != but:
                beat = BrokerHeartbeatRequest(broker.id, broker.epoch, self._seen - 1)
                answer = self.client.call(beat, 1)
                assert answer.error_code == 0, f"broker {broker.id} is not alive any more: {answer}"
        self._beaten = time.monotonic()

    # -- what brokers do

    def expire(self, broker_id: int) -> None:
        """Send no heartbeat of a broker until its session is over."""
        self._pass(SESSION_S * 1.5, but=broker_id)
        self._write(f"expire {broker_id}", None, 0, None)

    def wait(self, seconds: float) -> None:
        """Let time pass without a request."""
        self._pass(seconds)
        self._write("wait", None, 0, None)

    def _pass(self, seconds: float, but: int = -1) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._keep_alive(but)
            time.sleep(BEAT_S / 2)

    def join(self, broker_id: int, rack: str | None = None, directories: int = 1, previous: int = -1) -> None:
        self.register(broker_id, rack, directories, previous)
        self.unfence(broker_id)

    def register(
        self,
        broker_id: int,
        rack: str | None = None,
        directories: int = 1,
        previous: int = -1,
        features: Mapping[str, tuple[int, int]] = SUPPORTED,
    ) -> None:
        self._incarnation += 1
        answer = self.ask(
            f"register {broker_id}",
            BrokerRegistrationRequest(
                broker_id,
                CLUSTER_ID,
                struct.pack(">qq", broker_id, self._incarnation),
                [Listener("PLAINTEXT", "127.0.0.1", 9000 + broker_id, 0)],
                [Feature(name, lowest, highest) for name, (lowest, highest) in features.items()],
                rack,
                False,
                [directory(broker_id, number) for number in range(directories)],
                previous,
            ),
        )
        self.epochs[broker_id] = answer.broker_epoch

    def beat(self, what: str, broker_id: int, **fields: Any) -> Any:
        request = BrokerHeartbeatRequest(broker_id, self.epochs[broker_id], self._seen - 1, **fields)
        return self.ask(f"{what} {broker_id}", request)

    def unfence(self, broker_id: int) -> None:
        self.beat("unfence", broker_id)

    def fence(self, broker_id: int) -> None:
        self.beat("fence", broker_id, want_fence=True)

    def shut_down(self, broker_id: int) -> None:
        self.beat("shut down", broker_id, want_shut_down=True)

    def lose(self, broker_id: int, *numbers: int) -> None:
        self.beat("lose", broker_id, offline_log_dirs=[directory(broker_id, number) for number in numbers])

    # -- topics

    def create(self, name: str, *assignments: list[int], **configs: str) -> Any:
        """Create a topic with these replicas in its partitions."""
        topic = CreatableTopic(
            name,
            -1,
            -1,
            [CreatableReplicaAssignment(number, replicas) for number, replicas in enumerate(assignments)],
            [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()],
        )
        return self.creation(f"create {name}", topic)

    def creation(self, what: str, topic: CreatableTopic) -> Any:
        return self.ask(what, CreateTopicsRequest([topic]))

    def partition(self, name: str, partition: int = 0) -> PartitionImage:
        return self.image.topics[name].partitions[partition]

    def alter(
        self,
        what: str,
        name: str,
        isr: list[int],
        *,
        leader: int | None = None,
        number: int = 0,
        version: int = 3,
        broker_epoch: int | None = None,
        epochs: dict[int, int] | None = None,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        recovery_state: int | None = None,
    ) -> Any:
        """Send AlterPartition as the leader, or as `leader`.

        Epochs are off by the given numbers; `epochs` are epochs of brokers.
        """
        partition = self.partition(name, number)
        sender = partition.leader if leader is None else leader
        known = self.epochs | (epochs or {})
        wanted = alter_partition_request.PartitionData(
            number,
            partition.leader_epoch + leader_epoch,
            isr if version < 3 else [],
            [alter_partition_request.BrokerState(broker, known.get(broker, -1)) for broker in isr]
            if version >= 3
            else [],
            partition.leader_recovery_state if recovery_state is None else recovery_state,
            partition.partition_epoch + partition_epoch,
        )
        topic = alter_partition_request.TopicData(topic_id=self.image.topics[name].id, partitions=[wanted])
        epoch = known.get(sender, -1) if broker_epoch is None else broker_epoch
        return self.ask(what, alter_partition_request.AlterPartitionRequest(sender, epoch, [topic]), version)

    def reassign(self, what: str, name: str, replicas: list[int] | None, number: int = 0, **fields: Any) -> Any:
        wanted = ReassignableTopic(name, [ReassignablePartition(number, replicas)])
        return self.ask(what, AlterPartitionReassignmentsRequest(topics=[wanted], **fields))

    def elect(self, what: str, kind: int, *partitions: tuple[str, int]) -> Any:
        topics = [TopicPartitions(name, [number]) for name, number in partitions]
        return self.ask(what, ElectLeadersRequest(kind, topics))

    def assign(self, what: str, broker_id: int, *places: tuple[bytes, str, int], epoch: int | None = None) -> Any:
        directories = [
            DirectoryData(place, [TopicData(self.topic_id(name), [PartitionData(number)])])
            for place, name, number in places
        ]
        own = self.epochs.get(broker_id, -1) if epoch is None else epoch
        return self.ask(what, AssignReplicasToDirsRequest(broker_id, own, directories))

    def topic_id(self, name: str) -> bytes:
        topic = self.image.topics.get(name)
        return topic.id if topic is not None else b"?" * 16

    def configure(self, what: str, kind: int, name: str, key: str, value: str | None) -> Any:
        operation = 0 if value is not None else 1
        resource = AlterConfigsResource(kind, name, [AlterableConfig(key, operation, value)])
        return self.ask(what, IncrementalAlterConfigsRequest([resource]))

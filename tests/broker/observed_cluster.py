"""A broker whose controller is played by the test and decides only what the tests need."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply, new_router
from pykafka_broker.broker.setup import Setup
from pykafka_broker.clock import Clock
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.checkpoints import UNASSIGNED
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from pykafka_broker.protocol.messages.alter_configs_request import AlterConfigsRequest
from pykafka_broker.protocol.messages.alter_configs_response import AlterConfigsResourceResponse as Replaced
from pykafka_broker.protocol.messages.alter_configs_response import AlterConfigsResponse
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from pykafka_broker.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from pykafka_broker.protocol.messages.envelope_request import EnvelopeRequest
from pykafka_broker.protocol.messages.envelope_response import EnvelopeResponse
from pykafka_broker.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from pykafka_broker.protocol.stored.remove_topic_record import RemoveTopicRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from pykafka_broker.server.listeners import Listener
from tests.broker.api.real_broker import UnsyncedFileSystem
from tests.broker.frames import decoded, framed
from tests.cluster.raft.quorum import CLUSTER_ID, NOW, Network, Voter

NODE = 7


class TestController(Voter):
    """The active controller, voter 1. `told` are the directories that it was told of."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__(1)
        self.lead(1)
        self.append(FeatureLevelRecord("metadata.version", 30))
        self.broker_epoch = -1
        self.registrations: list[BrokerRegistrationRequest] = []
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.forwarded: list[Any] = []
        self.told: dict[tuple[bytes, int], bytes] = {}
        self.replicas: dict[bytes, tuple[int, ...]] = {}
        self.registration_errors: list[ErrorCode] = []
        self.topics = itertools.count(1)
        self.throttle_ms = 0  # of creations
        self.next_producer_id = 0

    def answer(self, request: Any) -> Message:
        kinds: dict[type[Any], Callable[[Any], Message]] = {
            BrokerRegistrationRequest: self._register,
            BrokerHeartbeatRequest: self._heartbeat,
            EnvelopeRequest: self._open,
            CreateTopicsRequest: self._create,
            AlterConfigsRequest: self._replace,
            IncrementalAlterConfigsRequest: self._alter,
            AllocateProducerIdsRequest: self._allocate,
            AssignReplicasToDirsRequest: self._assign,
        }
        decide = kinds.get(type(request))
        return super().answer(request) if decide is None else decide(request)

    def _register(self, request: BrokerRegistrationRequest) -> Message:
        self.registrations.append(request)
        if self.registration_errors:
            return BrokerRegistrationResponse(error_code=self.registration_errors.pop(0))
        self.broker_epoch = self.end
        ends = [BrokerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners]
        record = RegisterBrokerRecord(NODE, broker_epoch=self.end, end_points=ends, fenced=True)
        self.append(record)
        return BrokerRegistrationResponse(broker_epoch=self.broker_epoch)

    def _heartbeat(self, request: BrokerHeartbeatRequest) -> Message:
        self.heartbeats.append(request)
        if request.want_shut_down:
            return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True, should_shut_down=True)
        caught_up = request.current_metadata_offset >= self.broker_epoch
        if caught_up and not request.want_fence:
            self.append(BrokerRegistrationChangeRecord(NODE, self.broker_epoch, -1))
        return BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=request.want_fence or not caught_up)

    def _open(self, request: EnvelopeRequest) -> Message:
        header, body = RequestHeader.read(request.request_data, 0, 2)
        spec, version = SPECS[header.request_api_key], header.request_api_version
        inner = spec.request_class().decode(request.request_data[body:], version)
        self.forwarded.append(inner)
        answer = self.answer(inner).encode(version)
        return EnvelopeResponse(ResponseHeader(header.correlation_id).encode(1) + answer)

    def _create(self, request: CreateTopicsRequest) -> Message:
        for topic in request.topics:
            self.create(topic.name)
        return CreateTopicsResponse(self.throttle_ms, [CreatableTopicResult(topic.name) for topic in request.topics])

    def _replace(self, request: AlterConfigsRequest) -> Message:
        done = [Replaced(0, None, r.resource_type, r.resource_name) for r in request.resources]
        return AlterConfigsResponse(responses=done)

    def _alter(self, request: IncrementalAlterConfigsRequest) -> Message:
        done = [AlterConfigsResourceResponse(0, None, r.resource_type, r.resource_name) for r in request.resources]
        return IncrementalAlterConfigsResponse(responses=done)

    def create(
        self,
        name: str,
        *,
        replicas: tuple[int, ...] = (NODE,),
        directories: tuple[bytes, ...] = (),
        isr: tuple[int, ...] = (),
    ) -> bytes:
        topic_id = bytes([next(self.topics)]) * 16
        self.replicas[topic_id] = replicas
        record = PartitionRecord(0, topic_id, list(replicas), list(isr or replicas), leader=replicas[0], leader_epoch=0)
        record.directories = list(directories) or [UNASSIGNED] * len(replicas)
        self.append_versioned((TopicRecord(name, topic_id), 0), (record, 2))
        return topic_id

    def delete(self, topic_id: bytes) -> None:
        self.append(RemoveTopicRecord(topic_id))

    def _allocate(self, request: AllocateProducerIdsRequest) -> Message:
        first, self.next_producer_id = self.next_producer_id, self.next_producer_id + 1000
        return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1000)

    def _assign(self, request: AssignReplicasToDirsRequest) -> Message:
        answer = AssignReplicasToDirsResponse()
        for directory in request.directories:
            said = DirectoryData(directory.id)
            answer.directories.append(said)
            for topic in directory.topics:
                numbers = [each.partition_index for each in topic.partitions]
                said.topics.append(TopicData(topic.topic_id, [PartitionData(number) for number in numbers]))
                for number in numbers:
                    self.told[bytes(topic.topic_id), number] = bytes(directory.id)
                    replicas = self.replicas[bytes(topic.topic_id)]
                    directories = [directory.id if each == NODE else UNASSIGNED for each in replicas]
                    change = PartitionChangeRecord(number, topic.topic_id, directories=directories)
                    self.append_versioned((change, 2))
        return answer


class ObservedCluster:
    """A controller, and one broker of ours."""

    def __init__(self, directory: Path, log_dirs: int = 1, **settings: str) -> None:
        self.controller = TestController()
        self.network = Network({self.controller.address: self.controller.answer}, lambda _: self.controller.alive)
        self.clock = Clock(NOW)
        self.directories = [directory / f"data-{number}" for number in range(log_dirs)]
        self.ids = itertools.count(1000)
        self.settings = {
            "node.id": str(NODE),
            "process.roles": "broker",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller.address.port}",
            "log.dirs": ",".join(map(str, self.directories)),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self.events: list[str] = []
        self.new_broker()

    def new_broker(self) -> None:
        self.broker = Broker(
            BrokerConfig(self.settings),
            self.clock,
            new_uuid=lambda: next(self.ids).to_bytes(16, "big"),
            new_session_id=lambda: 1,
            fs=UnsyncedFileSystem(),
            setup=Setup(cluster_id=CLUSTER_ID),
            peers=self.network,
        )
        assert self.broker.startup is not None
        self.startup = self.broker.startup
        self.startup.on_unfenced = lambda: self.events.append("unfenced")
        self.startup.on_refused = self.events.append
        self.router = new_router(self.broker.services)

    def start(self, rounds: int = 40) -> None:
        self.broker.start({"PLAINTEXT": Listener("PLAINTEXT", "127.0.0.1", 9092)})
        self.run(rounds)

    def run(self, rounds: int = 40) -> None:
        for _ in range(rounds):
            self.network.bring()
            self.broker.settle()
            due = self.broker.next_deadline()
            if due is not None:
                self.clock.set(max(self.clock.now, min(due, self.clock.now + 100)))
                self.broker.on_deadline()

    def stop(self) -> None:
        left: list[bool] = []
        self.broker.leave(lambda: left.append(True))
        self.run()
        assert left
        self.broker.stop()

    def restart(self) -> None:
        self.stop()
        self.network.waiting.clear()
        self.events.clear()
        self.new_broker()
        self.start()

    def ask(self, request: Message, version: int) -> Any:
        """Send a request as a client does and return the decoded answer."""
        client = ConnectionContext(1, "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50000))
        answer = self.router.dispatch(client, framed(request, version, "me"))
        if isinstance(answer, PendingReply):
            self.run(10)
            assert answer.future.done
            answer = answer.pieces()
        return decoded(answer or [], request.API_KEY, version)

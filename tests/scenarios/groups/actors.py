"""Members of groups, as short verbs over the raw requests.

Rule: a verb sends exactly one request and fills in what an honest client would; every part can be overridden.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from pykafka_broker.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedPartitions
from pykafka_broker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from pykafka_broker.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedPartitions
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.list_groups_request import ListGroupsRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.scenarios.groups.stage import Client, Stage

SESSION_MS = 30_000
GROUP_RESOURCE = 32


def subscription(topics: list[str], version: int = 1, owned: dict[str, list[int]] | None = None) -> bytes:
    """Return the subscription that a consumer of the classic protocol sends."""
    message = ConsumerProtocolSubscription(
        topics, None, [OwnedPartitions(topic, partitions) for topic, partitions in (owned or {}).items()]
    )
    return version.to_bytes(2, "big") + message.encode(version)


def assignment(partitions: dict[str, list[int]], version: int = 1) -> bytes:
    """Return the assignment that a consumer of the classic protocol receives."""
    message = ConsumerProtocolAssignment([AssignedPartitions(topic, list_) for topic, list_ in partitions.items()])
    return version.to_bytes(2, "big") + message.encode(version)


class Actor(Client):
    """A client whose requests need no membership, with the member id and epoch that the coordinator gave."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.group = stage.group
        self.member_id = ""
        self.epoch = -1

    def commit(
        self,
        partitions: dict[tuple[str, int], int],
        *,
        version: int = 9,
        epoch: int | None = None,
        member_id: str | None = None,
        instance_id: str | None = None,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        group: str | None = None,
        topic_ids: dict[str, bytes] | None = None,
    ) -> Any:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), offset in partitions.items():
            part = OffsetCommitRequestPartition(index, offset, leader_epoch if version >= 6 else -1, -1, metadata)
            topics.setdefault(topic, []).append(part)
        request = OffsetCommitRequest(
            self.group if group is None else group,
            self.epoch if epoch is None else epoch,
            self.member_id if member_id is None else member_id,
            instance_id,
            retention_ms,
            [
                OffsetCommitRequestTopic(name, (topic_ids or {}).get(name, bytes(16)), parts)
                for name, parts in topics.items()
            ],
        )
        return self.ask(request, version)

    def fetch(
        self,
        topics: dict[str, list[int]] | None,
        *,
        version: int = 9,
        stable: bool = False,
        member_id: str | None = None,
        epoch: int = -1,
        group: str | None = None,
        topic_ids: dict[str, bytes] | None = None,
    ) -> Any:
        group_id = self.group if group is None else group
        if version < 8:
            old = None if topics is None else [OffsetFetchRequestTopic(name, parts) for name, parts in topics.items()]
            return self.ask(OffsetFetchRequest(group_id, old, [], stable), version)
        new = None
        if topics is not None:
            new = [
                OffsetFetchRequestTopics(name, (topic_ids or {}).get(name, bytes(16)), parts)
                for name, parts in topics.items()
            ]
        one = OffsetFetchRequestGroup(group_id, member_id, epoch, new)
        return self.ask(OffsetFetchRequest(groups=[one], require_stable=stable), version)

    def delete_offsets(self, topics: dict[str, list[int]], group: str | None = None) -> Any:
        wanted = [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in parts])
            for name, parts in topics.items()
        ]
        return self.ask(OffsetDeleteRequest(self.group if group is None else group, wanted), 0)

    def describe(self, *groups: str, version: int = 6, operations: bool = False) -> Any:
        return self.ask(DescribeGroupsRequest(list(groups) or [self.group], operations), version)

    def describe_consumer(self, *groups: str, version: int = 1, operations: bool = False) -> Any:
        return self.ask(ConsumerGroupDescribeRequest(list(groups) or [self.group], operations), version)

    def list_groups(self, states: list[str] | None = None, types: list[str] | None = None, version: int = 5) -> None:
        """List groups, and record this scenario's groups alone."""
        self.send(ListGroupsRequest(states or [], types or []), version)
        answer = self.wire.receive()
        answer.groups = sorted(
            (one for one in answer.groups if one.group_id.startswith(self.stage.world.name)),
            key=lambda one: one.group_id,
        )
        self.stage.note(self.name, f"{self._asked.pop(0)} {states or []} {types or []}", answer)

    def delete_groups(self, *groups: str, version: int = 2) -> Any:
        return self.ask(DeleteGroupsRequest(list(groups) or [self.group]), version)

    def drop_topic(self, suffix: str) -> None:
        """Delete a topic of the scenario."""
        name = f"{self.stage.world.name}-{suffix}"
        self.wire.send(DeleteTopicsRequest([DeleteTopicState(name)], [], 10_000), 6)
        self.wire.receive()
        self.stage.lines.append(f"-- {suffix} is deleted")
        self.stage.world.settle()

    def configure_group(self, **configs: object) -> Any:
        """Set configs of the group; underscores stand for dots."""
        altered = [AlterableConfig(name.replace("_", "."), 0, str(value)) for name, value in configs.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, self.group, altered)])
        answer = self.ask(request, 1)
        self.stage.world.settle()
        return answer


class ClassicMember(Actor):
    """A member of the classic protocol."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        instance_id: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = SESSION_MS,
        version: int = 9,
        group: str | None = None,
    ) -> None:
        super().__init__(stage, name)
        self.group = stage.group if group is None else group
        self.instance_id = instance_id
        self.protocols = protocols or {"range": name.encode()}
        self.protocol_type = protocol_type
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.version = version

    def send_join(self, member_id: str | None = None) -> None:
        request = JoinGroupRequest(
            self.group,
            self.session_ms,
            self.rebalance_ms,
            self.member_id if member_id is None else member_id,
            self.instance_id,
            self.protocol_type,
            [JoinGroupRequestProtocol(name, metadata) for name, metadata in self.protocols.items()],
        )
        self.send(request, self.version)

    def joined(self) -> Any:
        """Return the answer to a join, and keep its member id and generation."""
        answer = self.receive()
        if answer.member_id:
            self.member_id = answer.member_id
        if answer.error_code == 0:
            self.epoch = answer.generation_id
        return answer

    def join(self, member_id: str | None = None) -> Any:
        self.send_join(member_id)
        return self.joined()

    def enter(self) -> Any:
        """Join for a member id, then send a second join with it, whose answer is still to be received."""
        self.join()
        self.send_join()

    def send_sync(
        self, shares: dict[str, bytes] | None = None, *, version: int = 5, epoch: int | None = None, **over: Any
    ) -> None:
        fields: dict[str, Any] = {
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type if version >= 5 else None,
            "protocol_name": next(iter(self.protocols)) if version >= 5 else None,
        }
        fields |= over
        request = SyncGroupRequest(
            self.group,
            self.epoch if epoch is None else epoch,
            self.member_id,
            assignments=[SyncGroupRequestAssignment(member, share) for member, share in (shares or {}).items()],
            **fields,
        )
        self.send(request, version)

    def sync(self, shares: dict[str, bytes] | None = None, **over: Any) -> Any:
        self.send_sync(shares, **over)
        return self.receive()

    def heartbeat(
        self, *, version: int = 4, epoch: int | None = None, member_id: str | None = None, **over: Any
    ) -> Any:
        request = HeartbeatRequest(
            self.group,
            self.epoch if epoch is None else epoch,
            self.member_id if member_id is None else member_id,
            over.get("instance_id", self.instance_id),
        )
        return self.ask(request, version)

    def leave(self, *members: tuple[str, str | None], version: int = 5) -> Any:
        if version < 3:
            return self.ask(LeaveGroupRequest(self.group, self.member_id), version)
        leaving = members or ((self.member_id, self.instance_id),)
        identities = [MemberIdentity(member_id, instance_id) for member_id, instance_id in leaving]
        return self.ask(LeaveGroupRequest(self.group, members=identities), version)


def joined_pair(stage: Stage, **fields: Any) -> tuple[ClassicMember, ClassicMember]:
    """Return two members that have joined; the first one is the leader."""
    one, two = ClassicMember(stage, "one", **fields), ClassicMember(stage, "two", **fields)
    one.enter()
    one.joined()
    two.enter()
    one.send_join()
    one.joined()
    two.joined()
    return one, two


def stable_pair(stage: Stage, **fields: Any) -> tuple[ClassicMember, ClassicMember]:
    """Return two members with their assignments; the first one is the leader."""
    one, two = joined_pair(stage, **fields)
    two.send_sync()
    one.sync({one.member_id: b"half", two.member_id: b"other"})
    two.receive()
    return one, two


class ConsumerMember(Actor):
    """A member of the consumer protocol (KIP-848)."""

    def __init__(self, stage: Stage, name: str, *, instance_id: str | None = None, version: int = 1) -> None:
        super().__init__(stage, name)
        self.member_id = name  # clients choose their own
        self.instance_id = instance_id
        self.version = version
        self.epoch = 0

    def beat(self, epoch: int | None = None, owned: dict[str, list[int]] | None = None, **fields: Any) -> Any:
        """Send a heartbeat. owned: the partitions that the member has, by topic name."""
        partitions = None
        if owned is not None:
            partitions = [TopicPartitions(self.stage.topic_id(name), parts) for name, parts in owned.items()]
        fields.setdefault("member_id", self.member_id)
        fields.setdefault("instance_id", self.instance_id)
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.group),
            member_epoch=self.epoch if epoch is None else epoch,
            topic_partitions=partitions,
            **fields,
        )
        answer = self.ask(request, self.version)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        return answer

    def join(self, *topics: str, **fields: Any) -> Any:
        fields.setdefault("rebalance_timeout_ms", SESSION_MS)
        if "subscribed_topic_regex" not in fields:
            fields.setdefault("subscribed_topic_names", list(topics))
        return self.beat(0, owned={}, **fields)


def owned(member: ConsumerMember, topic: str, *partitions: int) -> None:
    """Send a heartbeat that says which partitions of a topic the member has."""
    member.beat(owned={topic: list(partitions)} if partitions else {})

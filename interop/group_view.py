"""A group seen from outside, by plain requests. Rule: one connection a look, no retries; where the coordinator is not
ready, the group looks empty. Clients that are asked while their broker restarts would answer for themselves.
"""

from interop.raw import RawClient, coordinator_of, leader_of
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from pykafka_broker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from pykafka_broker.protocol.messages.describe_groups_request import DescribeGroupsRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup

LATEST = -1


def shares(bootstrap: str, group: str) -> dict[str, int]:
    """Return the number of partitions by member id."""
    with RawClient(coordinator_of(bootstrap, group)) as client:
        [found] = client.call(ConsumerGroupDescribeRequest([group]), 0).groups
        if found.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            return {m.member_id: sum(len(t.partitions) for t in m.assignment.topic_partitions) for m in found.members}
        [classic] = client.call(DescribeGroupsRequest([group]), 5).groups
    return {member.member_id: _partitions(bytes(member.member_assignment)) for member in classic.members}


def _partitions(assignment: bytes) -> int:
    """Return how many partitions an assignment has; 0 while the group rebalances."""
    if not assignment:
        return 0
    decoded, _ = ConsumerProtocolAssignment.read(assignment, 2, int.from_bytes(assignment[:2], "big"))
    return sum(len(topic.partitions) for topic in decoded.assigned_partitions)


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """Return offsets by partition, of a group that reads one topic."""
    with RawClient(coordinator_of(bootstrap, group)) as client:
        [found] = client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 8).groups
    return {place.partition_index: place.committed_offset for topic in found.topics for place in topic.partitions}


def log_ends(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """Return by partition the offset that its next record gets."""
    return {number: _log_end(leader_of(bootstrap, topic, number), topic, number) for number in range(partitions)}


def _log_end(leader: str, topic: str, number: int) -> int:
    asked = [ListOffsetsPartition(number, timestamp=LATEST)]
    with RawClient(leader) as client:
        [found] = client.call(ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, asked)]), 7).topics
    return int(found.partitions[0].offset)

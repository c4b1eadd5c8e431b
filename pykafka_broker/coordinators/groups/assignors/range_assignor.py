"""`range`: of each topic a member gets one run of neighbouring partitions.

Rule: members are in order of instance id, then of member id, so that topics with as many partitions are cut alike:
partition n of one lands where partition n of the other does. Where partitions can't be shared out evenly, the first
members get one more.
"""

from __future__ import annotations

from pykafka_broker.coordinators.groups.assignors.spec import Assignment, GroupSpec


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """The `range` assignor of Kafka's group coordinator."""
    # Static members come first: their names outlive a restart.
    in_order = sorted(
        group.members.items(), key=lambda item: (item[1].instance_id is None, item[1].instance_id or "", item[0])
    )
    result: dict[str, Assignment] = {member_id: {} for member_id in group.members}
    for topic_id, count in group.partitions.items():
        readers = [member_id for member_id, member in in_order if topic_id in member.topics]
        if not readers:
            continue
        share, extra = divmod(count, len(readers))
        start = 0
        for number, member_id in enumerate(readers):
            end = start + share + (number < extra)
            if end > start:
                result[member_id][topic_id] = set(range(start, end))
            start = end
    return result

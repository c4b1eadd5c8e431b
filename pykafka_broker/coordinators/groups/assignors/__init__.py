"""Server-side assignors of consumer groups (KIP-848), by the names that members and `group.consumer.assignors` use."""

from pykafka_broker.coordinators.groups.assignors.range_assignor import assign_range
from pykafka_broker.coordinators.groups.assignors.spec import Assignment, Assignor, GroupSpec, MemberSpec
from pykafka_broker.coordinators.groups.assignors.uniform_assignor import assign_uniform

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "GroupSpec", "MemberSpec"]

"""A node of a cluster: what it knows of the others, and what keeps it from them."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.testing.answers import ClusterState, PartitionState
from pykafka_broker.testing.control_client import in_path, told_to_the_test
from pykafka_broker.testing.handle import Handle

__tracebackhide__ = told_to_the_test


class Membership(Handle):
    """A broker among others."""

    def cluster(self) -> ClusterState:
        """The cluster's id, who leads its metadata, and its brokers."""
        found: ClusterState = self.control.call("GET", "/cluster")
        return found

    def partition(self, topic: str, partition: int = 0) -> PartitionState:
        """Return leader, leader epoch, replicas and those in sync of a partition; of the leader also log_start_offset
        and high_watermark, the bounds of what consumers may read.
        """
        found: PartitionState = self.control.call("GET", f"/topics/{in_path(topic)}/partitions/{partition}")
        return found

    def coordinator(self, group: str | None = None, transactional_id: str | None = None) -> int:
        """Return the id of the broker that coordinates a group, or the transactions of a transactional id."""
        query = {"group": group, "transactional_id": transactional_id}
        return int(self.control.call("GET", "/coordinator", query=query)["node_id"])

    def move_leader(self, topic: str, leader: int, partition: int = 0) -> PartitionState:
        """Make one of the replicas in sync the leader; for the node that leads the metadata."""
        body = {"topic": topic, "partition": partition, "leader": leader}
        found: PartitionState = self.control.call("POST", "/incidents/leader", body)
        return found

    def reset_settings(self, keep: Iterable[str] = ()) -> ClusterState:
        """Take back the dynamic configs of brokers and groups, quotas, ACLs and users that the cluster did not have at
        its first start, except for those named in `keep`; for the node that leads the metadata.
        """
        found: ClusterState = self.control.call("POST", "/cluster/settings/reset", {"keep": list(keep)})
        return found

    def cut_off(self, nodes: Iterable[int]) -> None:
        """Lose the connections that this node has made to those nodes, and make no more, until `rejoin`."""
        self.control.call("POST", "/incidents/network", {"nodes": list(nodes)})

    def rejoin(self) -> None:
        """Let this node reach all others again."""
        self.control.call("DELETE", "/incidents/network")

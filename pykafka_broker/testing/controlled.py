"""What a test may ask of a broker whose control API is open, as methods.

Rule: a method is one operation of the control API with the same name and parameters, and says no more than it; what
the broker refuses is `ControlError`. The blocks come from the rooms below: data, state, waits, and objects for time and
faults.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pykafka_broker.testing.answers import ClusterState, LogSize, PartitionState, Snapshot
from pykafka_broker.testing.client_settings import client_settings
from pykafka_broker.testing.control_client import ControlClient, in_path, told_to_the_test
from pykafka_broker.testing.data import Handle, Waits
from pykafka_broker.testing.traffic import Traffic

# -- time


__tracebackhide__ = told_to_the_test

_LONG_S = 600.0


class BrokerClock(Handle):
    """What time it is for the broker. Everything that it does by time follows this clock."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    @property
    def control(self) -> ControlClient:
        return self._control

    def __repr__(self) -> str:
        return f"<Clock of {self._control.url}>"

    def now(self) -> int:
        """The time that a record would get now, in epoch milliseconds."""
        return int(self._control.call("GET", "/clock")["now_ms"])

    @property
    def frozen(self) -> bool:
        """Whether it stands."""
        return bool(self._control.call("GET", "/clock")["frozen"])

    def advance(
        self,
        by: timedelta | None = None,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> int:
        """Move the clock on. All that falls due on the way has been done when this returns, each at its own time.
        Returns the new time.
        """
        whole = timedelta(days, seconds, 0, milliseconds, minutes, hours, weeks)
        if by is not None:
            if not isinstance(by, timedelta):
                raise TypeError(f"advance({by!r}) of what? advance(seconds={by!r}), or a timedelta")
            whole += by
        elif not whole:
            raise TypeError("advance by how much? advance(minutes=10), or a timedelta")
        return self._moved("advance", {"ms": round(whole / timedelta(milliseconds=1))})

    def freeze(self) -> int:
        """Let it stand. Returns the time at which it does."""
        return self._moved("freeze")

    def resume(self) -> int:
        """Let it run on from where it stands."""
        return self._moved("resume")

    def set(self, now: datetime | int) -> int:
        """It is that time: a datetime, or epoch milliseconds. Forwards it is as if that time went by; backwards only
        the timestamps of records go back.
        """
        now_ms = round(now.timestamp() * 1000) if isinstance(now, datetime) else now
        return self._moved("set", {"now_ms": now_ms})

    def _moved(self, how: str, body: dict[str, Any] | None = None) -> int:
        return int(self._control.call("POST", f"/clock/{how}", body, timeout_s=_LONG_S)["now_ms"])


class HasClock(Handle):
    """A broker whose time can be moved."""

    @property
    def clock(self) -> BrokerClock:
        """The broker's clock: `broker.clock.advance(minutes=10)`."""
        return BrokerClock(self.control)


# -- state


class WholeState(Handle):
    """What a test may do with all that there is at once."""

    def reset(self, keep: Iterable[str] = ()) -> None:
        """Back to what the broker was before its first client: no topics, records, groups, offsets, transactions,
        dynamic configs, quotas and faults, the clock at the time that it is. Clients stay connected. What is named in
        `keep` stays: topics (without their records), configs, quotas, acls, users, clock. Snapshots stay always.
        """
        if isinstance(keep, str):
            raise TypeError(f"keep must be a list of names: keep=[{keep!r}]")
        self.control.call("POST", "/reset", {"keep": list(keep)}, timeout_s=_LONG_S)

    def snapshot(self, name: str) -> Snapshot:
        """Keep the whole state under a name, transactions that are open included. Returns name and size_bytes."""
        taken: Snapshot = self.control.call("POST", _path(name), timeout_s=_LONG_S)
        return taken

    def restore(self, name: str) -> None:
        """All is again as it was when that snapshot was taken. Clients stay connected. It can be restored again."""
        self.control.call("POST", f"{_path(name)}/restore", timeout_s=_LONG_S)

    def snapshots(self) -> list[Snapshot]:
        """Name and size_bytes of each snapshot."""
        found: list[Snapshot] = self.control.call("GET", "/snapshots")
        return found

    def delete_snapshot(self, name: str) -> None:
        """Forget a snapshot."""
        self.control.call("DELETE", _path(name))


def _path(name: str) -> str:
    return f"/snapshots/{in_path(name)}"


# -- incidents


class Incidents(Handle):
    """A broker to which something happens."""

    def bump_leader_epoch(self, topic: str, partition: int = 0) -> int:
        """Elect the partition's leader anew, so that its leader epoch grows; returns that."""
        body = {"topic": topic, "partition": partition}
        return int(self.control.call("POST", "/incidents/leader-epoch", body)["leader_epoch"])

    def move_coordinator(
        self, group: str | None = None, transactional_id: str | None = None, away_ms: int = 100
    ) -> None:
        """Take the coordinator of a group or transactional id away for a time of the broker's clock, and bring it back;
        while the clock is frozen this does not wait for that.
        """
        body = {"group": group, "transactional_id": transactional_id, "away_ms": away_ms}
        self.control.call("POST", "/incidents/coordinator", body)

    def expire_member(self, group: str, member: str) -> None:
        """End the session of a member (its member id, group.instance.id or client id)."""
        self.control.call("POST", "/incidents/member", {"group": group, "member": member})

    def compact(self, topic: str) -> list[LogSize]:
        """Compact a topic now, all that it holds; returns what its partitions hold afterwards."""
        found: list[LogSize] = self.control.call("POST", "/incidents/compaction", {"topic": topic})
        return found

    def apply_retention(self, topic: str) -> list[LogSize]:
        """Delete what retention lets go, now; returns what the topic's partitions hold afterwards."""
        found: list[LogSize] = self.control.call("POST", "/incidents/retention", {"topic": topic})
        return found

    def fill_disk(self) -> None:
        """Let no more be written to any disk, until `free_disk`."""
        self.control.call("POST", "/incidents/full-disk")

    def free_disk(self) -> None:
        """Let the disks have room again."""
        self.control.call("DELETE", "/incidents/full-disk")

    def pause(self) -> None:
        """Answer no client any more, as if the process were stopped, until `unpause`."""
        self.control.call("POST", "/incidents/pause")

    def unpause(self) -> None:
        """Go on where `pause` has stopped."""
        self.control.call("DELETE", "/incidents/pause")


# -- nodes of a cluster


class ClusterNode(Handle):
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


# -- the broker


class Controlled(Waits, WholeState, HasClock, Traffic, Incidents, ClusterNode):
    """A broker that is reached by its control API."""

    @property
    def control_url(self) -> str:
        """Where the control API is, for other languages; `/openapi.json` there describes it."""
        return self.control.url

    @property
    def bootstrap_servers(self) -> str:
        """The address for a client's setting of that name."""
        raise NotImplementedError

    @property
    def listeners(self) -> dict[str, str]:
        """The addresses that it listens on, by the name of the listener."""
        return dict(self.control.call("GET", "/broker")["listeners"])

    def get_bootstrap_server(self) -> str:
        """The same by the name that testcontainers' KafkaContainer has for it."""
        return self.bootstrap_servers

    def client_config(self, client: str) -> dict[str, Any]:
        """What a client needs to reach the broker: "confluent", "kafka-python", "aiokafka", "java" or "spark".

        Producer(broker.client_config("confluent"))
        KafkaConsumer("topic", **broker.client_config("kafka-python"))
        spark.readStream.format("kafka").options(**broker.client_config("spark"))
        """
        return client_settings(client, self.bootstrap_servers)

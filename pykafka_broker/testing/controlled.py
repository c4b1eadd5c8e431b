"""Operations on a broker with an open control API, as methods.

Rule: a method is one operation of the control API with the same name and parameters, and says no more than it; a
refusal is `ControlError`. The methods are in mixins: data and waits in `data`, requests and faults in `traffic`, the
rest here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pykafka_broker.testing.answers import ClusterState, LogSize, PartitionState, Snapshot
from pykafka_broker.testing.arguments import epoch_ms
from pykafka_broker.testing.client_settings import client_settings
from pykafka_broker.testing.control_client import in_path, told_to_the_test
from pykafka_broker.testing.data import BrokerPart, Data, Handle, Waits
from pykafka_broker.testing.history import Checks
from pykafka_broker.testing.traffic import Traffic

# -- time


__tracebackhide__ = told_to_the_test

_LONG_S = 600.0


class BrokerClock(BrokerPart):
    """The broker's clock. Everything timed in the broker follows the clock."""

    def __repr__(self) -> str:
        return f"<Clock of {self.control.url}>"

    def now(self) -> int:
        """Return the timestamp of a record written now, in epoch milliseconds."""
        return int(self.control.call("GET", "/clock")["now_ms"])

    @property
    def frozen(self) -> bool:
        """Whether the clock stands."""
        return bool(self.control.call("GET", "/clock")["frozen"])

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
        """Move the clock on; all events on the way happen, each at the right time, before the call returns.

        Args:
            by: the time to add, beside weeks, days, hours, minutes, seconds and milliseconds.

        Returns:
            The new time in epoch milliseconds.

        Raises:
            TypeError: no time is given, or `by` is no timedelta.
        """
        whole = timedelta(days, seconds, 0, milliseconds, minutes, hours, weeks)
        if by is not None:
            if not isinstance(by, timedelta):
                raise TypeError(
                    f"advance() takes a timedelta or a unit, such as advance(seconds={by!r}), not {by!r} alone"
                )
            whole += by
        elif not whole:
            raise TypeError("advance() needs a time, such as advance(minutes=10), or a timedelta")
        return self._moved("advance", {"ms": round(whole / timedelta(milliseconds=1))})

    def freeze(self) -> int:
        """Stop the clock and return the time."""
        return self._moved("freeze")

    def resume(self) -> int:
        """Let the clock run on and return the time."""
        return self._moved("resume")

    def set(self, now: datetime | int) -> int:
        """Set the clock and return the time. Forwards is like `advance`; backwards changes only the timestamps of
        records.

        Args:
            now: a datetime with a time zone, or epoch milliseconds.

        Raises:
            TypeError: `now` is neither.
            ValueError: `now` are seconds, or a datetime without a time zone.
        """
        if not isinstance(now, (datetime, int)):
            raise TypeError(f"set() takes a datetime or epoch milliseconds, not {now!r}")
        return self._moved("set", {"now_ms": epoch_ms("now", now)})

    def _moved(self, how: str, body: dict[str, Any] | None = None) -> int:
        return int(self.control.call("POST", f"/clock/{how}", body, timeout_s=_LONG_S)["now_ms"])


# -- state


class WholeState(Handle):
    """The whole state of a broker: clock, reset, snapshots."""

    @property
    def clock(self) -> BrokerClock:
        """The broker's clock: `broker.clock.advance(minutes=10)`."""
        return BrokerClock(self.control)

    def reset(self, keep: Iterable[str] = ()) -> None:
        """Reset the broker to the state before the first client; clients stay connected.

        Topics, records, groups, offsets, transactions, dynamic configs, quotas and faults are removed, and the clock
        shows the real time. Snapshots always stay.

        Args:
            keep: the things to keep: topics (without their records), configs, quotas, acls, users, clock.

        Raises:
            TypeError: `keep` is a text instead of a list.
        """
        self.control.call("POST", "/reset", {"keep": names_to_keep(keep)}, timeout_s=_LONG_S)

    def snapshot(self, name: str) -> Snapshot:
        """Keep the whole state under a name, open transactions included. Returns name and size_bytes."""
        return self._answer(Snapshot, "POST", _path(name), timeout_s=_LONG_S)

    def restore(self, name: str) -> None:
        """Restore the state of a snapshot. Clients stay connected. A snapshot can be restored again."""
        self.control.call("POST", f"{_path(name)}/restore", timeout_s=_LONG_S)

    def snapshots(self) -> list[Snapshot]:
        """Return name and size_bytes of each snapshot."""
        return self._answer(list[Snapshot], "GET", "/snapshots")

    def delete_snapshot(self, name: str) -> None:
        """Forget a snapshot."""
        self.control.call("DELETE", _path(name))


def _path(name: str) -> str:
    return f"/snapshots/{in_path(name)}"


def names_to_keep(keep: Iterable[str]) -> list[str]:
    """Return the names as a list. Raises TypeError for a text."""
    if isinstance(keep, str):
        raise TypeError(f"keep must be a list of names: keep=[{keep!r}]")
    return list(keep)


# -- incidents


class Incidents(Data):
    """Incidents of a broker."""

    def bump_leader_epoch(self, topic: str, partition: int = 0) -> int:
        """Elect the leader of the partition again, so the leader epoch grows; returns the new epoch."""
        body = {"topic": topic, "partition": partition}
        return int(self.control.call("POST", "/incidents/leader-epoch", body)["leader_epoch"])

    def move_coordinator(
        self, group: str | None = None, transactional_id: str | None = None, away_ms: int = 100
    ) -> None:
        """Take the coordinator away for some time, and bring the coordinator back.

        While the clock is frozen, the call does not wait for that.

        Args:
            group: the coordinator's group, None for a transactional id.
            transactional_id: the coordinator's transactional id, None for a group.
            away_ms: how long the coordinator is away, by the broker's clock.
        """
        body = {"group": group, "transactional_id": transactional_id, "away_ms": away_ms}
        self.control.call("POST", "/incidents/coordinator", body)

    def expire_member(self, group: str, member: str) -> None:
        """End the session of a member.

        Args:
            member: a member id, `group.instance.id` or client id.
        """
        body = {"group": group, "member": member}
        self._at_coordinator(lambda node: node.control.call("POST", "/incidents/member", body), group)

    def compact(self, topic: str) -> list[LogSize]:
        """Compact a topic now, up to the end of the log; returns the logs' sizes afterwards."""
        return self._answer(list[LogSize], "POST", "/incidents/compaction", {"topic": topic}, timeout_s=_LONG_S)

    def apply_retention(self, topic: str) -> list[LogSize]:
        """Apply a topic's retention now; returns the logs' sizes afterwards."""
        return self._answer(list[LogSize], "POST", "/incidents/retention", {"topic": topic})

    def fill_disk(self) -> None:
        """Refuse all writes to any disk, until `free_disk`."""
        self.control.call("POST", "/incidents/full-disk")

    def free_disk(self) -> None:
        """Free space on the disks."""
        self.control.call("DELETE", "/incidents/full-disk")

    def break_disk(self) -> None:
        """Fail all writes to any disk with an I/O error: directories go offline, and the broker ends without another
        directory. `restart` repairs the disks.
        """
        self.control.call("POST", "/incidents/broken-disk")

    def pause(self) -> None:
        """Stop to answer clients, like a stopped process, until `unpause`."""
        self.control.call("POST", "/incidents/pause")

    def unpause(self) -> None:
        """Continue after `pause`."""
        self.control.call("DELETE", "/incidents/pause")


# -- nodes of a cluster


class NodeControl(Handle):
    """A node of a cluster: the view of the other nodes, and the network."""

    def cluster(self) -> ClusterState:
        """Return the cluster's id, the leader of the metadata, and the brokers."""
        return self._answer(ClusterState, "GET", "/cluster")

    def partition(self, topic: str, partition: int = 0) -> PartitionState:
        """Return leader, leader epoch, replicas and replicas in sync of a partition.

        The leader also tells log_start_offset and high_watermark, the bounds for consumers.

        Raises:
            ControlError: the partition does not exist.
        """
        return self._answer(PartitionState, "GET", f"/topics/{in_path(topic)}/partitions/{partition}")

    def coordinator(self, group: str | None = None, transactional_id: str | None = None) -> int:
        """Return the id of a group's or transactional id's coordinator.

        Args:
            group: the group, None for a transactional id.
            transactional_id: the transactional id, None for a group.
        """
        query = {"group": group, "transactional_id": transactional_id}
        return int(self.control.call("GET", "/coordinator", query=query)["node_id"])

    def move_leader(self, topic: str, leader: int, partition: int = 0) -> PartitionState:
        """Make a replica in sync the leader; for the leader of the metadata.

        Args:
            leader: the id of the broker that shall lead.
        """
        body = {"topic": topic, "partition": partition, "leader": leader}
        return self._answer(PartitionState, "POST", "/incidents/leader", body)

    def reset_settings(self, keep: Iterable[str] = ()) -> ClusterState:
        """Restore the dynamic settings of the cluster's first start; for the leader of the metadata.

        Settings are configs of brokers and groups, quotas, ACLs and users.

        Args:
            keep: the settings to keep.

        Raises:
            TypeError: `keep` is a text instead of a list.
        """
        return self._answer(ClusterState, "POST", "/cluster/settings/reset", {"keep": names_to_keep(keep)})

    def cut_off(self, nodes: Iterable[int]) -> None:
        """Break the connections from the node to other nodes, until `rejoin`."""
        self.control.call("POST", "/incidents/network", {"nodes": list(nodes)})

    def rejoin(self) -> None:
        """Let the node reach all others again."""
        self.control.call("DELETE", "/incidents/network")


# -- the broker


class Controlled(Checks, Waits, WholeState, Traffic, Incidents, NodeControl):
    """A broker behind a control API."""

    @property
    def control_url(self) -> str:
        """The address of the control API, for other languages; see `/openapi.json` for a description."""
        return self.control.url

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's `bootstrap.servers`."""
        raise NotImplementedError

    @property
    def schema_registry_url(self) -> str:
        """The address of the schema registry, for a serializer's `schema.registry.url`. Raises BrokerError."""
        raise NotImplementedError

    @property
    def listeners(self) -> dict[str, str]:
        """The addresses of the broker by name of the listener."""
        return dict(self.control.call("GET", "/broker")["listeners"])

    def get_bootstrap_server(self) -> str:
        """Return `bootstrap_servers`, under the name in testcontainers' KafkaContainer."""
        return self.bootstrap_servers

    def client_config(self, client: str) -> dict[str, Any]:
        """Return the settings of a client: "confluent", "kafka-python", "aiokafka", "java", "spark" or
        "schema-registry".

        Producer(broker.client_config("confluent"))
        KafkaConsumer("topic", **broker.client_config("kafka-python"))
        spark.readStream.format("kafka").options(**broker.client_config("spark"))
        """
        if client == "schema-registry":
            return {"url": self.schema_registry_url}
        return client_settings(client, self.bootstrap_servers)

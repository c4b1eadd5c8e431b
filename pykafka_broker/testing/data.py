"""Topics, records and groups of a broker, without a client."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pykafka_broker.testing.answers import CommittedPartition, ConfigValue, Group, GroupSummary, Topic
from pykafka_broker.testing.control_client import in_path, told_to_the_test
from pykafka_broker.testing.handle import Handle
from pykafka_broker.testing.record import Record, RecordLike, from_answer, said, several, to_request

__tracebackhide__ = told_to_the_test

AT_ONCE = 1_000  # records in one call
_PART_CHARACTERS = 4 << 20
_LONG_S = 600.0


class Data(Handle):
    """What a test may ask of topics, records and groups."""

    # -- topics

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        *,
        replication_factor: int | None = None,
        exist_ok: bool = False,
    ) -> Topic:
        """Make a topic of one partition, or of as many as are named; `config` are Kafka's topic configs. With
        `exist_ok` the topic may be there already, with the partitions and configs that are named. Returns name,
        topic_id, partitions and config. Raises ControlError where Kafka refuses it.
        """
        body = {
            "name": name,
            "partitions": partitions,
            "config": None if config is None else dict(config),
            "replication_factor": replication_factor,
            "exist_ok": exist_ok,
        }
        topic: Topic = self.control.call("POST", "/topics", body)
        return topic

    def alter_config(self, topic: str, config: Mapping[str, ConfigValue | None]) -> Topic:
        """Set configs of a topic; None takes one back to its default. Returns the topic."""
        path = f"/topics/{in_path(topic)}/config"
        changed: Topic = self.control.call("POST", path, {"config": dict(config)})
        return changed

    def add_partitions(self, topic: str, *, total: int) -> Topic:
        """Add partitions to a topic, so that it has `total` of them. Returns the topic."""
        grown: Topic = self.control.call("POST", f"/topics/{in_path(topic)}/partitions", {"total": total})
        return grown

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with its records."""
        self.control.call("DELETE", f"/topics/{in_path(topic)}")

    def topics(self, internal: bool = False) -> list[Topic]:
        """All topics; with `internal` also Kafka's own."""
        topics: list[Topic] = self.control.call("GET", "/topics", query={"internal": internal})
        return topics

    def topic(self, topic: str) -> Topic:
        """One topic."""
        found: Topic = self.control.call("GET", f"/topics/{in_path(topic)}")
        return found

    # -- records

    def produce(self, topic: str, records: Iterable[RecordLike]) -> list[tuple[int, int]]:
        """Write records and return partition and offset of each, once they are committed.

        A record is a value, or a pair of key and value, or a dict with `value` or `key`, and perhaps `headers`,
        `timestamp` (epoch milliseconds) and `partition`, or a `NewRecord` with these fields. Keys and values are text,
        bytes or what JSON can say, None for none.
        """
        return self._write(topic, list(map(to_request, several(f"produce({topic!r}", records))))

    def _write(self, topic: str, requests: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
        """Write records as the control API takes them (`NewRecord` in its `/openapi.json`)."""
        written: list[tuple[int, int]] = []
        for start in range(0, len(requests), AT_ONCE):
            written += self._write_part(topic, requests[start : start + AT_ONCE])
        return written

    def _write_part(
        self, topic: str, requests: Sequence[Mapping[str, Any]], producer: Mapping[str, Any] | None = None
    ) -> list[tuple[int, int]]:
        """Write records in one call, which may be repeated if it names a producer."""
        body = {"records": requests, "producer": producer}
        answer = self.control.call("POST", f"/topics/{in_path(topic)}/records", body)
        return [(each["partition"], each["offset"]) for each in answer]

    def records(
        self,
        topic: str,
        partition: int | None = None,
        from_offset: int = 0,
        isolation_level: str = "read_committed",
        limit: int | None = None,
        key: str | bytes | None = None,
    ) -> list[Record]:
        """The records of a topic, or of one partition, each from that offset on; at most `limit` of them; with a `key`
        those of that key. No group and no offset is touched. With `isolation_level="read_uncommitted"` records of open
        and aborted transactions are among them and say so (`record.transaction`).
        """
        if partition is None:
            numbers: Iterable[int] = range(self.topic(topic)["partitions"])
        else:
            numbers = (partition,)
        query = {"isolation_level": isolation_level, **({} if key is None else said("key", key))}
        found: list[Record] = []
        for number in numbers:
            offset, more = from_offset, True
            while more and (limit is None or len(found) < limit):
                most = AT_ONCE if limit is None else min(limit - len(found), AT_ONCE)
                asked = {"partition": number, "from_offset": offset, "limit": most, **query}
                page = self.control.call("GET", f"/topics/{in_path(topic)}/records", query=asked)
                found += map(from_answer, page["records"])
                offset, more = page["next_offsets"][str(number)], page["more"]
        return found

    def delete_records(
        self, topic: str, before_offset: int | None = None, partition: int | None = None
    ) -> dict[int, int]:
        """Delete the records in front of an offset, of one partition or of all; all records where no offset is named.
        Returns the first offset that is left, by partition.
        """
        query = {"before_offset": before_offset, "partition": partition}
        left = self.control.call("DELETE", f"/topics/{in_path(topic)}/records", query=query)
        return {int(number): offset for number, offset in left.items()}

    # -- all of it

    def seed(self, source: str | os.PathLike[str] | Iterable[str]) -> dict[str, int]:
        """Make the topics, records and offsets that a file of JSON Lines names, or the lines themselves; the control
        API's `seed` says how they look. Returns how many there were of each. Raises ControlError at a line that can't
        be taken.
        """
        if isinstance(source, (str, os.PathLike)):
            with open(source, encoding="utf-8") as file:
                return self._seed(file)
        return self._seed(source)

    def _seed(self, lines: Iterable[str]) -> dict[str, int]:
        seeded = {"topics": 0, "records": 0, "offsets": 0}
        for part in _parts(lines):
            for name, count in self.control.call("POST", "/seed", part).items():
                seeded[name] += count
        return seeded

    def dump(self, path: str | os.PathLike[str] | None = None) -> str:
        """All topics, records and offsets of groups as JSON Lines, which `seed` takes; also written to `path`."""
        text: str = self.control.call("GET", "/dump", timeout_s=_LONG_S)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    # -- groups

    def groups(self) -> list[GroupSummary]:
        """All groups: group_id, type, state, protocol_type and the number of members."""
        groups: list[GroupSummary] = self.control.call("GET", "/groups")
        return groups

    def group(self, group: str) -> Group:
        """One group, with its members and its offsets."""
        found: Group = self.control.call("GET", f"/groups/{in_path(group)}")
        return found

    def lag(self, group: str) -> int:
        """How many records the group has still to read of the topics that it has committed offsets of;
        `group(...)["offsets"]` has it for each partition.
        """
        return int(self.control.call("GET", f"/groups/{in_path(group)}/lag")["lag"])

    def delete_group(self, group: str) -> None:
        """Delete a group with its committed offsets. Raises ControlError while it has members."""
        self.control.call("DELETE", f"/groups/{in_path(group)}")

    def commit(self, group: str, topic: str, offset: int, partition: int = 0, metadata: str = "") -> None:
        """Commit an offset for a group, which is made where there is none. Raises ControlError while it has members."""
        body = {"topic": topic, "offset": offset, "partition": partition, "metadata": metadata}
        self.control.call("POST", f"/groups/{in_path(group)}/offsets", body)

    def reset_offsets(
        self,
        group: str,
        topic: str | None = None,
        to: str | int | datetime.datetime = "earliest",
        partition: int | None = None,
    ) -> list[CommittedPartition]:
        """Commit new offsets for a group: "earliest", "latest", an offset, or the first offset of a time. All topics
        that the group has committed offsets of where none is named. Returns what is committed then, as
        `group(...)["offsets"]`. Raises ControlError while the group has members.
        """
        body: dict[str, Any] = {"topic": topic, "partition": partition}
        if isinstance(to, datetime.datetime):
            body["to_time"] = round(to.timestamp() * 1000)
        else:
            body["to"] = to
        found: list[CommittedPartition] = self.control.call("POST", f"/groups/{in_path(group)}/offsets/reset", body)
        return found


def _parts(lines: Iterable[str]) -> Iterator[str]:
    """Whole lines, a few megabytes at once."""
    gathered: list[str] = []
    size = 0
    for line in lines:
        gathered.append(line.rstrip("\n"))
        size += len(line)
        if size >= _PART_CHARACTERS:
            yield "\n".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield "\n".join(gathered)

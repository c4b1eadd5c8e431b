"""Topics, records and groups of a broker, without a client."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pykafka_broker.testing.control_client import in_path
from pykafka_broker.testing.handle import Handle
from pykafka_broker.testing.record import Record, from_answer, several

_AT_ONCE = 1_000  # records in one call
_PART_CHARACTERS = 4 << 20
_LONG_S = 600.0


class Data(Handle):
    """What a test may ask of topics, records and groups."""

    # -- topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str | int | float | bool] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> dict[str, Any]:
        """Make a topic; `config` are Kafka's topic configs. Returns name, topic_id, partitions and config. Raises
        ControlError where Kafka refuses it.
        """
        body = {
            "name": name,
            "partitions": partitions,
            "config": None if config is None else dict(config),
            "replication_factor": replication_factor,
        }
        topic: dict[str, Any] = self.control.call("POST", "/topics", body)
        return topic

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with its records."""
        self.control.call("DELETE", f"/topics/{in_path(topic)}")

    def topics(self, internal: bool = False) -> list[dict[str, Any]]:
        """All topics; with `internal` also Kafka's own."""
        topics: list[dict[str, Any]] = self.control.call("GET", "/topics", query={"internal": internal})
        return topics

    def topic(self, topic: str) -> dict[str, Any]:
        """One topic."""
        found: dict[str, Any] = self.control.call("GET", f"/topics/{in_path(topic)}")
        return found

    # -- records

    def produce(self, topic: str, records: Iterable[Any]) -> list[tuple[int, int]]:
        """Write records and return partition and offset of each, once they are committed.

        A record is a mapping with `value` and perhaps `key`, `headers`, `timestamp` (epoch milliseconds) and
        `partition`, or a pair of key and value, or a value alone. Keys and values are text, bytes or what JSON can say.
        """
        requests = several(topic, records)
        written: list[tuple[int, int]] = []
        for start in range(0, len(requests), _AT_ONCE):
            body = {"records": requests[start : start + _AT_ONCE]}
            answer = self.control.call("POST", f"/topics/{in_path(topic)}/records", body)
            written += [(each["partition"], each["offset"]) for each in answer]
        return written

    def records(
        self,
        topic: str,
        partition: int | None = None,
        from_offset: int = 0,
        isolation_level: str = "read_uncommitted",
        limit: int | None = None,
    ) -> list[Record]:
        """The records of a topic, or of one partition, each from that offset on; at most `limit` of them. No group and
        no offset is touched.
        """
        if partition is None:
            numbers: Iterable[int] = range(self.topic(topic)["partitions"])
        else:
            numbers = (partition,)
        found: list[Record] = []
        for number in numbers:
            offset, more = from_offset, True
            while more and (limit is None or len(found) < limit):
                page = self._page(topic, number, offset, isolation_level, None if limit is None else limit - len(found))
                found += map(from_answer, page["records"])
                offset, more = page["next_offsets"][str(number)], page["more"]
        return found

    def _page(self, topic: str, partition: int, offset: int, isolation_level: str, limit: int | None) -> dict[str, Any]:
        query = {
            "partition": partition,
            "from_offset": offset,
            "isolation_level": isolation_level,
            "limit": _AT_ONCE if limit is None else min(limit, _AT_ONCE),
        }
        page: dict[str, Any] = self.control.call("GET", f"/topics/{in_path(topic)}/records", query=query)
        return page

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

    def groups(self) -> list[dict[str, Any]]:
        """All groups: group_id, type, state, protocol_type and the number of members."""
        groups: list[dict[str, Any]] = self.control.call("GET", "/groups")
        return groups

    def group(self, group: str) -> dict[str, Any]:
        """One group, with its members and its offsets."""
        found: dict[str, Any] = self.control.call("GET", f"/groups/{in_path(group)}")
        return found

    def lag(self, group: str) -> int:
        """How many records the group has still to read of the topics that it has committed offsets of;
        `group(...)["offsets"]` has it for each partition.
        """
        return int(self.control.call("GET", f"/groups/{in_path(group)}/lag")["lag"])


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

"""Evidence made up for a test: what clients did, line by line, and the logs that it leaves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from itertools import count
from typing import Any

from pykafka_broker.control.history.checks import findings
from pykafka_broker.control.history.facts import (
    Deleted,
    Ended,
    Fact,
    Fetched,
    GroupReset,
    Joined,
    Located,
    OffsetCommitted,
    Produced,
    RecordsAcknowledged,
    RecordsAcquired,
    Registered,
)
from pykafka_broker.control.history.findings import Evidence, Finding, Forbidden
from pykafka_broker.control.history.outlines import BatchOutline, Outline

BATCH_BYTES = 100


class Story:
    """The facts and the logs of a made-up history, with one partition a topic. Each fact is 1 ms after the last one."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.logs: dict[str, list[BatchOutline]] = defaultdict(list)
        self.starts: dict[str, int] = {}
        self._crcs = count(1)

    def _common(self, client: str, address: str | None, answered: bool, error: str) -> dict[str, Any]:
        order = len(self.facts)
        who = {"client": client, "address": address or f"{client}:1"}
        return {"at": order, "until": order, "order": order, "answered": answered, "error": error, **who}

    def _note(self, fact: Any) -> Any:
        self.facts.append(fact)
        return fact

    def end(self, topic: str = "orders") -> int:
        """Return the log end offset of the topic."""
        return self.logs[topic][-1].last + 1 if self.logs[topic] else 0

    def store(self, topic: str = "orders", records: int = 1, outcome: str = "", crc: int = 0, **batch: int) -> int:
        """Put a batch into a log without a request in the history, and return its base offset."""
        base = self.end(topic)
        numbers = {"producer_id": -1, "epoch": -1, "sequence": -1, "attributes": 0, **batch}
        self.logs[topic].append(
            BatchOutline(base, base + records - 1, BATCH_BYTES, records, crc=crc, outcome=outcome, **numbers)
        )
        return base

    def produced(
        self,
        topic: str = "orders",
        *,
        client: str = "writer",
        address: str | None = None,
        records: int = 1,
        crc: int | None = None,
        stored: bool = True,
        answered: bool = True,
        error: str = "",
        outcome: str = "",
        transactional_id: str | None = None,
        acks: int = -1,
        **batch: int,
    ) -> Produced:
        """Add a batch that was sent. stored: whether it came into the log."""
        crc = next(self._crcs) if crc is None else crc
        base = self.store(topic, records, outcome, crc, **batch) if stored else -1
        told = base if answered and not error else -1
        numbers: dict[str, Any] = {name: value for name, value in batch.items() if name != "attributes"}
        return self._note(
            Produced(
                topic=topic,
                partition=0,
                offset=told,
                count=records,
                crc=crc,
                acks=acks,
                transactional_id=transactional_id,
                **numbers,
                **self._common(client, address, answered, error),
            )
        )

    def fetched(
        self,
        first: int,
        end: int,
        topic: str = "orders",
        *,
        client: str = "reader",
        address: str | None = None,
        committed_only: bool = True,
        stable: int | None = None,
        aborted: list[list[int]] | None = None,
    ) -> Fetched:
        """Add a fetch that gave a consumer the batches from the one with `first` up to `end`."""
        sent = [each for each in self.logs[topic] if each.last >= first and each.base < end]
        return self._note(
            Fetched(
                topic=topic,
                partition=0,
                position=first,
                base=sent[0].base,
                size=sum(each.size for each in sent),
                committed_only=committed_only,
                high_watermark=self.end(topic),
                last_stable_offset=self.end(topic) if stable is None else stable,
                aborted=aborted or [],
                **self._common(client, address, True, ""),
            )
        )

    def committed(
        self,
        offset: int,
        topic: str = "orders",
        *,
        group: str = "billing",
        client: str = "reader",
        address: str | None = None,
        member: str = "member-1",
        producer_id: int = -1,
        epoch: int = 0,
        error: str = "",
    ) -> OffsetCommitted:
        return self._note(
            OffsetCommitted(
                group=group,
                member=member,
                generation=1 if member else -1,
                topic=topic,
                partition=0,
                offset=offset,
                producer_id=producer_id,
                epoch=-1 if producer_id < 0 else epoch,
                **self._common(client, address, True, error),
            )
        )

    def joined(self, client: str, member: str, group: str = "billing") -> None:
        self._note(Joined(group=group, member=member, **self._common(client, None, True, "")))

    def located(self, offset: int, client: str = "reader") -> None:
        self._note(Located(topic="orders", partition=0, offset=offset, **self._common(client, None, True, "")))

    def registered(self, producer_id: int, epoch: int, transactional_id: str = "id", client: str = "writer") -> None:
        common = self._common(client, None, True, "")
        self._note(Registered(transactional_id=transactional_id, producer_id=producer_id, epoch=epoch, **common))

    def ended(
        self, producer_id: int, *, commit: bool, client: str = "writer", epoch: int = 0, name: str = "id"
    ) -> Ended:
        common = self._common(client, None, True, "")
        return self._note(Ended(transactional_id=name, producer_id=producer_id, epoch=epoch, commit=commit, **common))

    def acquired(
        self, first: int, last: int, *, member: str = "one", group: str = "workers", deliveries: int = 1
    ) -> None:
        """Add a delivery of records to a member of a share group."""
        of: dict[str, Any] = {
            "group": group,
            "member": member,
            "topic": "orders",
            "partition": 0,
            "first": first,
            "last": last,
        }
        self._note(RecordsAcquired(deliveries=deliveries, **of, **self._common(member, None, True, "")))

    def acknowledged(
        self, first: int, last: int, *types: int, member: str = "one", group: str = "workers", error: str = ""
    ) -> None:
        """Add a share group member's acknowledgement of records, by default an acceptance."""
        of: dict[str, Any] = {
            "group": group,
            "member": member,
            "topic": "orders",
            "partition": 0,
            "first": first,
            "last": last,
        }
        self._note(RecordsAcknowledged(types=list(types or (1,)), **of, **self._common(member, None, True, error)))

    def group_reset(self, group: str = "workers") -> None:
        self._note(GroupReset(group=group, **self._common("admin", None, True, "")))

    def deleted(self, topic: str = "orders") -> None:
        self.logs[topic] = []
        self._note(Deleted(topic=topic, **self._common("admin", None, True, "")))

    def evidence(self, *, whole: bool = True, compacted: bool = False, in_order: bool = True) -> Evidence:
        outlines = [
            Outline(topic, 0, self.starts.get(topic, 0), self.end(topic), compacted, list(batches))
            for topic, batches in self.logs.items()
        ]
        return Evidence(self.facts, outlines, whole=whole, in_order=in_order)

    def found(self, seen_by: str | None = None, forbid: Collection[Forbidden] = (), **options: bool) -> list[Finding]:
        return findings(self.evidence(**options), seen_by, forbid, empty_ok=True)

    def kinds(self, **options: Any) -> list[str]:
        """Return the names of all anomalies."""
        return [each.anomaly for each in self.found(**options)]

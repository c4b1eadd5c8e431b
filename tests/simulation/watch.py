"""Checks that are made all the time while a run goes on.

Rule: nothing here changes a node; a look costs production nothing, and the order of what happens in a run is the same
without it. Offsets of a log are asserted against each other, against what they were before, and against how long
records are kept; and where a majority is well for long enough, no partition stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from pykafka_broker.cluster.image import PartitionImage
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.testing.simulation.network import Network
from pykafka_broker.testing.simulation.node import QUICK_DISK_MS, SimNode
from tests.simulation.history import History
from tests.simulation.keeping import SEGMENT_BYTES

LOOK_MS = 100
STANDSTILL_MS = 10_000
_SKEW_MS = 400  # a look may come this much later, and clocks of nodes differ by it
Key = tuple[str, int]


class _Seen(NamedTuple):
    """A replica's log, as it was at the last look, in one life of its node."""

    log: PartitionLog
    start: int
    high_watermark: int
    truncations: int
    leads: bool


class Watch:
    """The regular look at all nodes."""

    def __init__(self, network: Network, nodes: Mapping[int, SimNode], history: History) -> None:
        self._network = network
        self._nodes = nodes
        self.history = history
        self._drifts = False
        self._seen: dict[tuple[int, int, Key], _Seen] = {}  # by node and its life
        self._well_since: dict[int, int] = {}
        self._ill_since: dict[int, int] = {}
        self._states: dict[Key, PartitionImage] = {}
        self._stood: dict[Key, tuple[int, int]] = {}  # the high watermark that does not move, and since when
        self._out_since: dict[tuple[Key, int], int] = {}  # replicas that are not in sync
        self._told: set[object] = set()
        self.standstill = False  # whether some partition stands still

    def begin(self, *, drifts: bool) -> None:
        """Look from now on. drifts: clocks go wrong in the run, so the age of a record can't be told."""
        self._drifts = drifts
        self._later()

    def _later(self) -> None:
        self._network.timeline.after(LOOK_MS, self._look)

    def _look(self) -> None:
        for node in self._nodes.values():
            if node.running and node.is_broker:
                for partition in node.broker.node.replicas.hosted():
                    self._look_at(node, (partition.topic, partition.index), partition.log, partition.is_leader)
        self._look_for_standstill()
        self._look_for_lost_partitions()
        self._later()

    def _violation(self, text: str, once: object = None) -> None:
        """Report a violation. once: its subject, if only the first violation about the subject is to be reported."""
        if (once or text) not in self._told:
            self._told.add(once or text)
            self.history.violation(text)

    def _look_for_lost_partitions(self) -> None:
        """Check that partitions whose creation was acknowledged are still there."""
        controller = next(node for node in self._nodes.values() if node.is_controller)
        if not controller.running:
            return
        for topic, count in self.history.counts.items():
            known = len(controller.broker.node.image.topics[topic].partitions)
            if known < count:
                self._violation(f"{topic} has {known} partitions, and {count} were acknowledged", once=("count", topic))

    # -- a log

    @contextmanager
    def noting_starts(self) -> Iterator[None]:
        """Note each raise of a log's start within the block.

        A crash, or a leader that has not heard of the raise, may take it back before the next look.
        """
        with ExitStack() as wrapped:
            for owner, name in ((PartitionLog, "raise_log_start"), (PartitionLog, "restart_at")):
                wrapped.enter_context(patch.object(owner, name, self._noting(getattr(owner, name))))
            yield

    def _noting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def raising(log: PartitionLog, offset: int, *args: Any) -> Any:
            key, starts = (log.topic, log.partition), self.history.seen_starts
            starts[key] = max(offset, starts.get(key, 0))
            return real(log, offset, *args)

        return raising

    def _look_at(self, node: SimNode, key: Key, log: PartitionLog, leads: bool) -> None:
        start, stable, high_watermark = log.log_start_offset, log.last_stable_offset, log.high_watermark
        ordered = start <= high_watermark <= log.log_end_offset and stable <= high_watermark
        if not ordered or log.recovery_point > log.log_end_offset:
            self._violation(
                f"{key} on {node.name}: start {start}, stable {stable}, high watermark {high_watermark}, "
                f"end {log.log_end_offset}, recovery point {log.recovery_point}"
            )
        if not log.segments.first.base_offset <= start:
            self._violation(f"{key} on {node.name} starts at {start}, below {log.segments.first.base_offset}")
        place = node.id, node.life, key
        before, self._seen[place] = (
            self._seen.get(place),
            _Seen(log, start, high_watermark, log.truncations, leads),
        )
        if before is None or before.log is not log:
            rare = self.history.rare
            rare["log loaded that starts inside a segment"] += before is None and log.segments.first.base_offset < start
            return
        unstable = log.producers.first_unstable_offset
        self.history.rare["transaction open at the log's start"] += unstable is not None and unstable <= start > 0
        if log.truncations == before.truncations and (start < before.start or high_watermark < before.high_watermark):
            self._violation(
                f"{key} on {node.name}: start or high watermark went back from {before[1:3]} to {start}, ..."
            )
        if start > before.start:
            self._note_start(node, key, log, before, leads)

    def _note_start(self, node: SimNode, key: Key, log: PartitionLog, before: _Seen, leads: bool) -> None:
        rare, keeping, start = self.history.rare, self.history.keeping, log.log_start_offset
        if key[0] != self.history.topic or not keeping.deletes:
            self._violation(f"{key} on {node.name} begins at {start}, and nothing is deleted")
            return
        if log.segments.first.base_offset < start:
            rare["log started inside a segment"] += 1
        if not leads and self._leads_lower(key, start):
            rare["follower's start above its leader's"] += 1
        if leads and before.leads:
            self._check_kept(node, key, log, before.start)

    def _leads_lower(self, key: Key, start: int) -> bool:
        for node in self._nodes.values():
            if node.running and node.is_broker:
                for partition in node.broker.node.replicas.hosted():
                    if (partition.topic, partition.index) == key and partition.is_leader:
                        return partition.log.log_start_offset < start
        return False

    def _check_kept(self, node: SimNode, key: Key, log: PartitionLog, before: int) -> None:
        """Check that a leader deleted records only on request, by age or by size."""
        history, keeping, start = self.history, self.history.keeping, log.log_start_offset
        if history.emptying[key] or start <= max(history.asked_starts.get(key, 0), history.told_starts.get(key, 0)):
            return
        history.rare["log start raised by retention"] += 1
        if keeping.retention_bytes is not None:
            if log.segments.size_bytes + SEGMENT_BYTES < keeping.retention_bytes:
                self._violation(f"{key} on {node.name} begins at {start}, and {log.segments.size_bytes} bytes are left")
        elif keeping.retention_ms is not None and not self._drifts:
            self._check_age(key, before, start, keeping.retention_ms)
        elif keeping.retention_ms is None:
            self._violation(f"{key} on {node.name} begins at {start}, and nobody asked for that")

    def _check_age(self, partition: PartitionKey, before: int, start: int, retention_ms: int) -> None:
        history, now = self.history, self._network.timeline.now
        young = [
            offset
            for value, offset in history.acknowledged[partition].items()
            if before <= offset < start and history.times[value] + retention_ms > now + _SKEW_MS
        ]
        if young:
            self._violation(f"{partition} begins at {start}, and {young} are not old enough")

    # -- elections

    def look_for_elections(self, controller: SimNode) -> None:
        """Count unclean elections among the controller's changes since the last look."""
        for name, topic in controller.broker.node.image.topics.items():
            for number, state in topic.partitions.items():
                before, self._states[name, number] = self._states.get((name, number)), state
                if before is not None and before is not state:
                    self._look_at_election(before, state)

    def _look_at_election(self, before: PartitionImage, state: PartitionImage) -> None:
        in_sync = {*before.isr, *before.elr}
        if state.leader >= 0 and state.leader_epoch == before.leader_epoch + 1 and state.leader not in in_sync:
            self.history.rare["unclean election"] += 1

    # -- standing still

    def _look_for_standstill(self) -> None:
        now = self._network.timeline.now
        cut = {name for pair in self._network.cut for name in pair}
        for node in self._nodes.values():
            if self._is_well(node) and node.name not in cut:
                self._well_since.setdefault(node.id, now)
                self._ill_since.pop(node.id, None)
            else:
                self._ill_since.setdefault(node.id, now)
                self._well_since.pop(node.id, None)
        controller = next(node for node in self._nodes.values() if node.is_controller)
        if now - self._well_since.get(controller.id, now) < STANDSTILL_MS:
            self._stood.clear()
            self._out_since.clear()
            return
        self.history.rare["minority away for long"] += len(self._well_since) < len(self._nodes)
        for name, topic in controller.broker.node.image.topics.items():
            for number, state in topic.partitions.items():
                self._look_at_progress((name, number), state, now)

    def _is_well(self, node: SimNode) -> bool:
        quick = node.disk_ms <= QUICK_DISK_MS and not node.disk.broken and node.name not in self._network.slow
        return node.running and not node.paused and quick

    def _look_at_progress(self, key: Key, state: PartitionImage, now: int) -> None:
        well = [each for each in state.replicas if now - self._well_since.get(each, now) >= STANDSTILL_MS]
        if len(well) <= len(state.replicas) // 2:
            self._stood.pop(key, None)
            return
        if state.leader not in well:
            is_away = now - self._ill_since.get(state.leader, now) >= STANDSTILL_MS
            if (is_away or state.leader < 0) and any(each in state.isr for each in well):
                self._violation(f"{key} is led by {state.leader}, while {well} have been well for long")
            return
        log = self._log(state.leader, key)
        if log is None or log.high_watermark >= log.log_end_offset or log.config.min_insync_replicas > len(well):
            self._stood.pop(key, None)
        else:
            stood, since = self._stood.setdefault(key, (log.high_watermark, now))
            if stood != log.high_watermark:
                self._stood[key] = log.high_watermark, now
            elif now - since >= STANDSTILL_MS:
                self.standstill = True
                self._violation(
                    f"{key} stands at {stood} of {log.log_end_offset}, while {well} have been well for long", key
                )
        for each in well:
            if each in state.isr:
                self._out_since.pop((key, each), None)
            elif now - self._out_since.setdefault((key, each), now) >= STANDSTILL_MS:
                self._violation(f"{each} has been well for long and is not in sync in {key}")

    def _log(self, node_id: int, key: Key) -> PartitionLog | None:
        node = self._nodes[node_id]
        hosted = node.broker.node.replicas.hosted()
        return next((each.log for each in hosted if (each.topic, each.index) == key), None)

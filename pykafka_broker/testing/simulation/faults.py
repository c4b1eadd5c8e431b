"""Trouble of a simulated cluster, by the seed, or one at a time.

Rule: each kind of fault is a function that begins the fault and arranges its end; the seed chooses which come, and
when. The run says which may come at once: data that was acknowledged must survive them all.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from random import Random
from typing import TYPE_CHECKING, Any

from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.data import BrokerError, WaitTimeout
from pykafka_broker.testing.simulation.network import Network
from pykafka_broker.testing.simulation.node import QUICK_DISK_MS, SimNode
from pykafka_broker.testing.simulation.timeline import Timeline
from pykafka_broker.testing.trouble import KINDS, MOVES, NO_REQUEST, Blow, check_blow

if TYPE_CHECKING:
    from pykafka_broker.testing.simulation.cluster import SimulatedCluster

Fault = Callable[["Trouble", SimNode], None]
_LOOK_MS = 20
MOST_MS = 2_500  # that a node is away
DISK_ERRORS = errno.EIO, errno.ENOSPC
WALL_MS = 1_200_000  # timestamps of two nodes may be an hour apart


class Trouble:
    """Trouble of some kinds, about every `mean_ms`, until the trouble ends.

    most_down: how many nodes may be away at once. controller: the node that knows who is in sync; by default the
    first of the nodes with a controller. may_come: asked with the number of each fault; with it each fault has a chance
    of its own, so that the others are the same without it.
    """

    def __init__(
        self,
        timeline: Timeline,
        network: Network,
        nodes: Sequence[SimNode],
        random: Random,
        kinds: Sequence[Fault],
        *,
        mean_ms: int = 450,
        most_down: int = 1,
        controller: SimNode | None = None,
        may_come: Callable[[int], bool] | None = None,
    ) -> None:
        self.timeline = timeline
        self.network = network
        self.nodes = nodes
        self.random = random
        self.came: list[str] = []
        self.numbers: list[int] = []  # of those that came
        self.once_failed = 0  # calls that have failed alone
        self._crashed: dict[int, int] = {}  # with what broker epoch
        self._kinds = kinds
        self._mean_ms = mean_ms
        self._most_down = most_down
        self._may_come = may_come
        self._drawn = 0
        self._over: list[bool] = []  # filled at the end
        self._controller = controller or next((node for node in nodes if node.is_controller), None)

    def begin(self) -> None:
        """Let faults come from now on."""
        if self._kinds and not self._over:
            self.timeline.after(self.random.randrange(2 * self._mean_ms), self._next)

    def end(self) -> None:
        """Let no further fault come; everything broken stays so."""
        self._over.append(True)

    def _next(self) -> None:
        if self._over:
            return
        number, fault = self._drawn, self
        self._drawn += 1
        if self._may_come is not None:
            fault = copy(self)
            fault.random = Random(self.random.getrandbits(64))
        kind, node = fault.random.choice(self._kinds), fault.random.choice(self.nodes)
        down = [each for each in self.nodes if not each.running or each.paused]
        may = kind in HARMLESS or len(down) < self._most_down
        if kind in UNCLEAN and {cut_power, wipe_disk} & {*self._kinds}:
            may = may and self._has_recovered()
        if node.running and not node.paused and may and (self._may_come is None or self._may_come(number)):
            self.numbers.append(number)
            self.came.append(f"{self.timeline.now}: {kind.__name__} {node.name}")
            if kind in CRASHES:
                self._crashed[node.id] = self._epoch_of(node)
            kind(fault, node)
        self.begin()

    def _epoch_of(self, node: SimNode) -> int:
        known = node.broker.node.image.brokers.get(node.id)
        return -1 if known is None else known.epoch

    def _has_recovered(self) -> bool:
        """Return whether the crashed nodes are in every ISR again: until then no other node may crash.

        Acknowledged records are on the disks of at least `min.insync.replicas` nodes, and not synced: they outlive the
        power cut of one node, not of two. And a node that was killed is not eligible to lead (KIP-966): beside a node
        with a new disk, a partition may be left without any replica that the controller elects. A controller that is
        cut off takes live nodes for dead, and may leave the node without a disk as the last in sync.
        """
        controller = self._controller
        if controller is None or not controller.running or self.network.cut:
            return False
        image = controller.broker.node.image
        whole = all(
            set(each.isr) == set(each.replicas) for topic in image.topics.values() for each in topic.partitions.values()
        )
        return whole and all(
            image.brokers[id].epoch > epoch for id, epoch in self._crashed.items() if id in image.brokers
        )

    def away_ms(self) -> int:
        """Return how long a node is away."""
        return self.random.randrange(10, MOST_MS)

    def back_when_gone(self, node: SimNode) -> None:
        """Start a node again, some time after its end."""
        if node.running and not self._over:
            self.timeline.after(_LOOK_MS, lambda: self.back_when_gone(node))
        else:
            self.back(node)

    def back(self, node: SimNode) -> None:
        """Start a node again, later."""

        def start() -> None:
            if not node.running and not self._over:
                node.start()

        self.timeline.after(self.away_ms(), start)


def kill(faults: Trouble, node: SimNode) -> None:
    node.kill()
    faults.back(node)


def stop(faults: Trouble, node: SimNode) -> None:
    """Stop a node in order, which may take its time."""
    node.stop()
    faults.back_when_gone(node)


def cut_power(faults: Trouble, node: SimNode) -> None:
    node.cut_power()
    faults.back(node)


def pause(faults: Trouble, node: SimNode) -> None:
    node.pause()
    life = node.life
    faults.timeline.after(faults.away_ms(), lambda: node.go_on() if node.life == life and node.paused else None)


def partition(faults: Trouble, node: SimNode) -> None:
    """Cut the ways between a node and some others, or all, in one direction or both."""
    others = [name for name in faults.network.hosts if name != node.name and faults.random.random() < 0.7]
    ways = faults.random.choice([(True, False), (False, True), (True, True)])
    pairs = [(node.name, other) for other in others if ways[0]] + [(other, node.name) for other in others if ways[1]]
    faults.network.separate(*pairs)
    faults.timeline.after(faults.away_ms(), faults.network.heal)


def break_connections(faults: Trouble, node: SimNode) -> None:
    faults.network.break_connections(lambda one, other: node.name in (one, other) and faults.random.random() < 0.5)


def slow_disk(faults: Trouble, node: SimNode) -> None:
    node.disk_ms = faults.random.choice([QUICK_DISK_MS, QUICK_DISK_MS, 300, 1500])


def break_disk(faults: Trouble, node: SimNode) -> None:
    """Let a directory fail or be full for a while; then the disk is mended and the node started anew."""
    life = node.life
    node.break_disk(faults.random.choice(node.directories), faults.random.choice(DISK_ERRORS))
    faults.timeline.after(faults.away_ms(), lambda: _mend(faults, node, life))


def _mend(faults: Trouble, node: SimNode, life: int) -> None:
    """Let the disks be sound again, and start the node anew. life: the node's life at the fault."""
    node.mend_disks()
    if node.life != life or not node.running:
        faults.back(node)
    elif not node.paused:
        faults.random.choice((kill, stop))(faults, node)


def wipe_disk(faults: Trouble, node: SimNode) -> None:
    """Give a broker one or several new disks in the place of old ones. A controller that is alone can't."""
    if node.settings.get("process.roles") != "broker":
        return
    node.kill()
    some = [each for each in node.directories if faults.random.random() < 0.5]
    for directory in some or node.directories:
        node.wipe_disk(directory)
    if len(some) in (0, len(node.directories)):
        node.format(node.cluster_id)
    faults.back(node)


def fail_once(faults: Trouble, node: SimNode) -> None:
    """Let a single call for some file of a partition fail: the disk itself is sound."""
    life, error = node.life, faults.random.choice(DISK_ERRORS)
    folders = [
        f"{directory}/{folder}" for directory in node.directories for folder in node.disk.list_folders(directory)
    ]
    files = [f"{folder}/{name}" for folder in folders for name in sorted(node.disk.list_directory(folder))]
    path = faults.random.choice(files)
    node.fail_once(path, error)

    def start_anew() -> None:
        faults.once_failed += path not in node.disk.once
        _mend(faults, node, life)

    faults.timeline.after(faults.away_ms(), start_anew)


def slow_down(faults: Trouble, node: SimNode) -> None:
    """Let everything from and to a node take its time, of the controller more often than of others."""
    slow = faults.random.choice([each for each in faults.nodes if each.is_controller] + [node])
    faults.network.slow[slow.name] = faults.random.choice((50, 200, 600))
    faults.timeline.after(faults.away_ms(), lambda: faults.network.hurry(slow))


def drift(faults: Trouble, node: SimNode) -> None:
    """Let the clocks of a node go too fast or too slow, and set its time of day to another."""
    node.drift(faults.random.choice((0.8, 0.95, 1, 1.05, 1.25)))
    node.wall_ahead_ms = faults.random.choice((0, 0, -WALL_MS, WALL_MS))


CRASHES = (kill, cut_power, wipe_disk)
UNCLEAN = (*CRASHES, break_disk)  # a broken disk may be mended by a kill
HARMLESS = (break_connections, slow_disk, slow_down, drift)
"""Without a loss for a node with its data on disk, and for its peers."""


# -- one at a time

_LONG_S = 3_600.0  # of virtual time
_OF_GROUPS = "__consumer_offsets"
_GONE = (BrokerError, ControlError, WaitTimeout)  # a broker that has ended meanwhile


class SimulatedBlow:
    """A single trouble of `SimulatedCluster.befall`, until `end`; `came` has it once it has come.

    A trouble that can't come when it is due comes as soon as it can; at a request it comes then or not at all.
    """

    def __init__(self, cluster: SimulatedCluster, blow: Blow) -> None:
        check_blow(blow, (*KINDS, cut_power.__name__))
        self.came: list[Blow] = []
        self._cluster = cluster
        self._blow = blow
        self._why_not = "" if blow.at is None else blow.why_not(NO_REQUEST)
        self._node = cluster.broker(blow.broker)  # raises ValueError for an unknown one
        self._undo: Callable[[], object] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def wait(self, timeout: float = 30) -> None:
        """Wait until the trouble has come. Raises WaitTimeout after the virtual seconds."""
        try:
            await self._cluster.until(lambda: self.came, timeout, "the trouble has not come")
        except WaitTimeout as error:
            raise WaitTimeout(f"{error}{self._told_why()}") from None

    def end(self) -> None:
        """Let nothing come any more, and end what has begun.

        Raises:
            WaitTimeout: the trouble could not come when it was due, or the request of `at` has not come.
            ControlError: `at` is no request.
        """
        self._task.cancel()
        self._end_what_began()
        if self._task.done() and not self._task.cancelled():
            self._task.result()  # raises what has ended it
        if why := self._told_why():
            raise WaitTimeout(f"a trouble never came{why}")

    def _told_why(self) -> str:
        return self._why_not and f": {self._why_not}"

    def _end_what_began(self) -> None:
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    async def _run(self) -> None:
        blow = self._blow
        if blow.at is None:
            await self._cluster.asked.wait()
            await self._begin()
        else:
            given: dict[str, Any] = {"nth": 1, **blow.at, "hang": True}
            held = await self._cluster.faults.add(**given)
            with suppress(*_GONE):
                await held.wait(timeout=_LONG_S)
                self._why_not = ""
                await self._begin()
            with suppress(*_GONE):
                await held.remove()
        await asyncio.sleep(blow.for_ms / 1000)
        await self._cluster.until(lambda: not (self._node.running and self._node.node.leaving))
        self._end_what_began()

    async def _begin(self) -> None:
        await asyncio.sleep(self._blow.after_ms / 1000)
        while not self.came:
            try:
                if self._blow.kind in MOVES:
                    await self._move()
                else:
                    self._strike()
            except _GONE as error:
                self._why_not = self._blow.why_not(error)
                if self._blow.at is not None:
                    return
                await asyncio.sleep(_LOOK_MS / 1000)
            else:
                self._why_not = ""
                self.came.append(self._blow)

    async def _move(self) -> None:
        """Let the broker lead a partition."""
        from pykafka_broker.broker.coordinators.coordinator_log import partition_for

        topic, partition = self._blow.topic, self._blow.partition
        if self._blow.group is not None:
            await self._cluster.coordinator(self._blow.group)  # creates the topic, where no client has asked yet
            groups = self._cluster.controller.node.broker.node.image.topics[_OF_GROUPS]
            topic, partition = _OF_GROUPS, partition_for(self._blow.group, len(groups.partitions))
        assert topic is not None
        await self._cluster.controller.move_leader(topic, self._blow.broker, partition)

    def _strike(self) -> None:
        node, network, name = self._node, self._node.node.network, self._node.host
        if not node.running:
            raise BrokerError("it was not running")
        if self._blow.kind == partition.__name__:  # from all other nodes, not from clients
            others = [each.host for each in self._cluster.nodes.values() if each is not node]
            network.separate(*((name, other) for other in others), *((other, name) for other in others))
            self._undo = lambda: network.reconnect(lambda source, target: name in (source, target))
        elif self._blow.kind == pause.__name__:
            node.pause()
            self._undo = node.unpause
        else:
            strikes = (node.kill, node.stop, node.cut_power, node.fill_disk, node.break_disk)
            {each.__name__: each for each in strikes}[self._blow.kind]()
            self._undo = self._start_again

    def _start_again(self) -> None:
        """Start the broker on a sound disk, unless it is running on one."""
        self._node.mend_disks()
        if self._node.running and self._node.node.has_lost_disks:
            self._node.kill()
        if not self._node.running:
            self._node.start()

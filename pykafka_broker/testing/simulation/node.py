"""A node of a simulated cluster: a whole `Broker` on a disk in memory, with listeners on the virtual network.

Rule: everything of the package is real but its sockets, threads, disk, clock and chance. A defect that the broker would
log and survive ends the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.setup import NO_SETUP, Setup
from pykafka_broker.cluster.formatting import FormatRequest, KnownLevels, StorageFormatter
from pykafka_broker.cluster.formatting import StorageNode as FormatNode
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.jobs import Job
from pykafka_broker.log.log_directory import LogDirectoryError
from pykafka_broker.server.listeners import Listener, listeners_of
from pykafka_broker.server.serving import BrokerShare, start_broker
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from pykafka_broker.testing.simulation.link import SimPeers
from pykafka_broker.testing.simulation.network import Network
from pykafka_broker.testing.simulation.serving import SimServer
from pykafka_broker.testing.simulation.timeline import Event, Host, Step

DATA = "/data/logs"
QUICK_DISK_MS = 8
BUSY_MS = 20
_CONFIGS = 64  # of that many nodes are kept
OnBroker = Callable[["SimNode"], None]


class SimNode(Host):
    """A node with its disk. `settings` are those of its server.properties; `on_made` sees each new broker before the
    broker starts, and `on_open` before clients are let in.
    """

    def __init__(self, network: Network, id: int, settings: Mapping[str, str], random: Random) -> None:
        super().__init__(network.timeline, f"n{id}")
        self.id = id
        self.network = network
        self.random = random
        self.settings = {"node.id": str(id), "log.dirs": DATA, **settings}
        self.directories = self.settings["log.dirs"].split(",")
        self.is_broker = "broker" in self.settings.get("process.roles", "broker")
        self.is_controller = "controller" in self.settings.get("process.roles", "controller")
        self.disk: CrashFileSystem
        self.put_disk(CrashFileSystem())
        self.disk_ms = QUICK_DISK_MS  # the longest that a job waits, and takes
        self.busy_ms = 0  # what comes within it is served in one turn; 0: each frame has a turn of its own
        self.running = self.leaving = False
        self.has_lost_disks = False  # this process
        self.on_made: OnBroker = _nothing
        self.on_open: OnBroker = _nothing
        self.server: SimServer  # of the present process
        self.violations: list[str] = []
        self.cluster_id = ""  # of the last format
        self._timer: Event | None = None
        self._timer_due = 0  # by the clock of this node
        self._connections = 0
        self._due: list[Step] = []  # of the next turn, and the connections that are ready by then
        self._ready: dict[object, list[Step]] = {}
        self._unfinished: dict[Job, list[OSError | None]] = {}  # with the outcome of those that have run
        network.hosts[self.name] = self

    # -- life

    def start(self) -> None:
        """Start a new process."""
        self.network.dark.discard(self.name)
        self.life += 1
        self.running, self.leaving = True, False
        self.has_lost_disks = bool(self.disk.broken)
        self._timer = None
        self._unfinished.clear()
        self.set_clock()
        self.broker = self.new_broker()
        self.server = SimServer(self, self.broker)
        self.on_made(self)
        try:
            self.turn(self._begin)
        except (LogDirectoryError, OSError):  # a process ends with either
            if not self.has_lost_disks:
                raise
            self.kill()

    def new_broker(self, setup: Setup = NO_SETUP, share: BrokerShare | None = None) -> Broker:
        """Make a broker and do not start it. share: files and threads instead of the disk and the jobs here."""
        broker = Broker(
            _config_of(tuple(self.settings.items())),
            self.clock,
            new_uuid=self._new_uuid,
            new_session_id=lambda: self.random.randrange(1, 1 << 31),
            submit=self.submit if share is None else share.submit,
            fs=self.disk if share is None else share.files,
            setup=setup,
            later=self.in_next_turn,
            peers=SimPeers(self.network, self),
        )
        broker.on_useless = lambda: self.soon(self.kill)
        return broker

    def _begin(self) -> None:
        listeners = listeners_of(self.broker.config)
        startup = self.broker.startup
        if startup is not None:
            startup.on_unfenced = lambda: self.open(listeners)
            startup.on_refused = self._refused
        start_broker(self.broker, listeners)
        if startup is None:
            self.open(listeners)

    def open(self, listeners: list[Listener]) -> None:
        """Let clients and other nodes in."""
        self.on_open(self)
        for listener in listeners:
            self.network.listeners[listener.host, listener.port] = self.server.listen(listener)

    def _refused(self, why: str) -> None:
        if self.has_lost_disks:
            self.soon(self.kill)  # as a process ends that can't do without
        else:
            self.violations.append(f"{self.name} is refused: {why}")

    def format(self, cluster_id: str, request: FormatRequest | None = None, known: KnownLevels | None = None) -> None:
        """Format the disk as `pykafka-broker format` does, for a node of a cluster.

        Args:
            request: as what; by default as the newest release.
            known: the levels of features of the cluster's release.
        """
        self.cluster_id = cluster_id
        config = _config_of(tuple(self.settings.items()))
        is_controller = "controller" in (config.process_roles or ())
        node = FormatNode(
            self.id,
            self.directories,
            self.directories[0],
            is_controller,
            bool(config["controller.quorum.voters"]),
            None,
            known or KnownLevels(),
        )
        formatter = StorageFormatter(
            self.disk,
            node,
            request or FormatRequest(cluster_id),
            now=self.timeline.now,
            new_uuid=self._new_uuid,
            new_salt=lambda: b"salt",
        )
        for _ in formatter.run():
            pass
        self.disk.sync_all("/data")

    def put_disk(self, disk: CrashFileSystem) -> None:
        """Put a copy of a disk into the machine, whose process does not run."""
        self.disk = disk.after_crash(keep=True)
        self.disk.now = lambda: self.clock.wall

    def _new_uuid(self) -> bytes:
        return bytes([self.random.randrange(128)]) + self.random.randbytes(15)

    def stop(self) -> None:
        """Stop in order: other nodes lead before this one goes, if they can be told."""
        self.leaving = True
        if self.broker.startup is None:
            self._end()
        else:
            self.turn(lambda: self.broker.leave(lambda: self._end_soon(self.life)))

    def _end_soon(self, life: int) -> None:
        def end() -> None:
            if self.life == life and self.running:
                self._end()

        self.timeline.after(0, end)

    def _end(self) -> None:
        """End the broker with the marker of a clean shutdown."""
        self.network.process_ended(self)
        self.broker.stop_jobs()
        while self._unfinished:
            job, has_run = self._unfinished.popitem()
            _conclude(job, has_run[0] if has_run else _outcome(job))
        self.broker.stop()
        self._ended()

    def kill(self) -> None:
        """End as with SIGKILL: the system keeps everything that was written."""
        self.network.process_ended(self)
        self._ended()
        self.disk = self.disk.after_crash(keep=True)

    def cut_power(self) -> None:
        """Cut the power: everything that was not synced may be gone, and nobody is told."""
        self.network.went_dark(self)
        self._ended()
        self.disk = self.disk.after_crash(self.random.randrange(1 << 30))

    def break_disk(self, directory: str, error: int) -> None:
        """Let a directory fail from now on, until `mend_disks`; its files stay there."""
        self.disk.broken[directory] = error
        self.has_lost_disks = True

    def fail_once(self, path: str, error: int) -> None:
        """Let the next call that needs a file fail, and no other."""
        self.disk.once.add(path)
        self.break_disk(path, error)

    def wipe_disk(self, directory: str) -> None:
        """Put an empty disk in the place of a directory; the node does not run."""
        self.disk.broken.pop(directory, None)
        self.disk.remove_tree(directory)
        self.disk.make_directory(directory)
        self.disk.sync_all("/data")

    def mend_disks(self) -> None:
        """Let all directories work again, for the next process: the present one has given them up."""
        self.disk.broken.clear()
        self.disk.once.clear()

    def make_whole(self) -> None:
        """End all faults of the machine; a process that has given up a disk ends."""
        self.disk_ms = QUICK_DISK_MS
        self.drift(1)
        self.mend_disks()
        if self.running and self.has_lost_disks:
            self.kill()
        if self.paused:
            self.go_on()

    def _ended(self) -> None:
        self.running = False
        self.end_process()
        for forgotten in (self._unfinished, self._due, self._ready):
            forgotten.clear()

    # -- turns

    def in_next_turn(self, step: Step) -> None:
        """Take a step in the next turn, together with everything that is ready by then."""
        if not self.busy_ms:
            self.soon(step)
            return
        if not self._due:
            self.soon(self._serve_ready)
        self._due.append(step)

    def on_ready(self, source: object, step: Step) -> None:
        if not self.busy_ms:
            self.soon(step)
            return
        if not self._ready:
            self.later(self.random.randrange(self.busy_ms), self._serve_ready)
        self._ready.setdefault(source, []).append(step)

    def _serve_ready(self) -> None:
        due, self._due = self._due, []
        ready, self._ready = self._ready, {}
        self.server.turns.serve(due, ready.values())

    def settle(self) -> None:
        if self.running:
            answers = self.server.turns.answers
            answers.take_steps()
            self.broker.settle()
            answers.send()
            if observers := self.server.turns.observers:
                for look in tuple(observers):
                    look()
            self._arm()
            if self.broker.node.replicas.hosted() and not self.broker.node.logs.topics_are_known:
                self.violations.append(f"{self.name} has opened partitions before it knows their topics")

    def _arm(self) -> None:
        due = self.broker.next_deadline()
        if due is None or (self._timer is not None and self._timer.step is not None and self._timer_due <= due):
            return
        self._disarm()
        if self.held and due > self.clock.now:
            return
        self._timer = self.later(due - self.clock.now, self.broker.on_deadline)
        self._timer_due = due

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def arm_anew(self) -> None:
        """Set the timer for the next deadline, after the clock was stopped, moved or released."""
        self._disarm()
        if self.running:
            self._arm()

    # -- jobs

    @property
    def is_idle(self) -> bool:
        """Return whether every job was applied."""
        return not self._unfinished

    def submit(self, job: Job) -> None:
        """Run a job beside the turns and apply it in one."""
        self._unfinished[job] = []
        life = self.life

        def run() -> None:
            if self.life == life and job in self._unfinished:
                self._unfinished[job].append(_outcome(job))
                self.later(self.random.randrange(self.disk_ms), lambda: self._apply(job))

        self.timeline.after(self.random.randrange(self.disk_ms), run)

    def _apply(self, job: Job) -> None:
        if job in self._unfinished:
            _conclude(job, self._unfinished.pop(job)[0])

    def replace(self, broker: Broker) -> None:
        """Put another broker in the place of the present one: new connections are the new broker's."""
        self.broker = broker
        self.server = SimServer(self, broker)
        self._disarm()
        self.network.process_ended(self)
        self.on_made(self)
        self.open(listeners_of(broker.config))

    # -- connections

    def next_connection(self, listener: Listener) -> ConnectionContext:
        self._connections += 1
        return ConnectionContext(self._connections, listener.name, (self.name, listener.port), ("10.0.0.1", 50000))


@lru_cache(_CONFIGS)
def _config_of(settings: tuple[tuple[str, str], ...]) -> BrokerConfig:
    """Return the configuration of settings, which are the same for every seed."""
    return BrokerConfig(dict(settings))


def _outcome(job: Job) -> OSError | None:
    try:
        job.run()
    except OSError as error:
        return error
    return None


def _conclude(job: Job, error: OSError | None) -> None:
    if error is None:
        job.apply()
    else:
        job.failed(error)


def _nothing(node: SimNode) -> None: ...

"""The controller in ZooKeeper: the one broker that shows the metadata there and reads what tools write (Kafka:
KafkaController).

Rule: every method blocks, and is called in the thread of the session; what it knows of the metadata was handed to it.
The nodes of the metadata are written by this broker alone while it holds `/controller`. Tools write into four places: a
topic or more partitions of one into `/brokers/topics`, settings into `/config`, and the rest into `/admin`. Each is
read when its watch has fired, and as a whole after an election. What is found is handed back as wishes.

A topic that only ZooKeeper has is a wish too: a tool has created it, perhaps while no broker ran. So are settings that
only ZooKeeper has. Where both have some, those of this broker count, unless a notification says that a tool came later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pykafka_broker.cluster.image import PartitionImage
from pykafka_broker.zookeeper import forms, wishes
from pykafka_broker.zookeeper.forms import ShownTopic
from pykafka_broker.zookeeper.nodes import Znodes
from pykafka_broker.zookeeper.wishes import ToolWish

_NOTIFIED_MS = 15 * 60 * 1000  # how long Kafka keeps notifications of changed settings
WATCHED = (forms.TOPICS, forms.CHANGES, forms.DELETIONS, forms.REASSIGNMENTS, forms.ELECTIONS)
Reassigned = tuple[str, int, list[int]]  # topic, partition, brokers


class Role(NamedTuple):
    """The part of a broker in ZooKeeper: registered, the controller, and elected just now."""

    registered: bool
    active: bool
    elected: bool


class ShownMetadata(NamedTuple):
    """The metadata to be shown: everything after an election (`whole`), else what has changed.

    names: all topics.
    topics: those that have changed, as they are now.
    gone: deleted topics.
    configs: the settings that have changed, by their path below /config.
    fixed: the nodes of the cluster as a whole.
    touched: nodes whose watches have fired.
    done: nodes of /admin whose wishes were obeyed.
    reassigning: what is left of the reassignment that was asked for in ZooKeeper; None without one.
    """

    whole: bool
    names: frozenset[str]
    topics: dict[str, ShownTopic]
    gone: set[str]
    configs: dict[str, dict[str, str]]
    fixed: list[tuple[str, bytes]]
    touched: set[str]
    done: list[str]
    reassigning: list[Reassigned] | None
    wall_ms: int


class Found(NamedTuple):
    """The wishes of tools, and the settings that they have written, by path below /config."""

    wishes: list[ToolWish]
    configs: dict[str, dict[str, str]]
    reassignment: list[Reassigned]


class ZooKeeperController:
    """A broker's part in ZooKeeper, and the controller's while this broker is elected."""

    def __init__(self, nodes: Znodes, release: forms.Number, broker_id: int) -> None:
        self._nodes = nodes
        self._release = release
        self._id = broker_id
        self._epoch = 0  # of this broker as the controller; 0 while another one is
        self._states: dict[str, dict[int, Any]] = {}  # partitions of topics, as they were shown
        self._seen: set[str] = set()  # notifications
        self._fixed: list[tuple[str, bytes]] = []
        self._reassigning: list[Reassigned] | None = None  # what /admin/reassign_partitions has

    def take_part(self, own_node: bytes, wall_ms: int) -> Role:
        """Register the broker, and be the controller if there is none; nodes of a session that has expired return."""
        nodes = self._nodes
        epoch, self._epoch = self._epoch, 0  # until ZooKeeper has answered
        own_path = f"{forms.IDS}/{self._id}"
        registered = nodes.make(own_path, own_node, ephemeral=True) or nodes.owns(own_path)
        if not registered:
            return Role(registered, active=False, elected=False)
        made = nodes.make(forms.CONTROLLER, forms.controller(self._release, self._id, wall_ms), ephemeral=True)
        if not made and not nodes.owns(forms.CONTROLLER):
            return Role(registered, active=False, elected=False)
        if elected := made or not epoch:
            epoch = self._next_epoch()
            self._states.clear()
            self._seen.clear()
        self._epoch = epoch
        return Role(registered, active=True, elected=elected)

    def _next_epoch(self) -> int:
        while True:
            found = self._nodes.read(forms.CONTROLLER_EPOCH, watch=False)
            if found is None and self._nodes.make(forms.CONTROLLER_EPOCH, b"1"):
                return 1
            if found is not None:
                epoch = int(found.content or 0) + 1
                if self._nodes.change(forms.CONTROLLER_EPOCH, str(epoch).encode(), found.version):
                    return epoch

    def follow(self, shown: ShownMetadata) -> Found:
        """Show what has changed, and return what tools have written."""
        found = Found([], {}, [])
        if shown.whole:
            self._reassigning = None  # asked for again, since the last step may have ended in between
            for path in forms.folders(self._release):
                self._nodes.make(path)
        touched = {*shown.touched, *WATCHED} if shown.whole else shown.touched
        if forms.CHANGES in touched:
            self._read_notifications(shown, found)
        if shown.whole:
            self._read_configs(shown, found)
        self._show(shown, found)
        self._read_wishes(shown, touched, found)
        return found

    # -- what is shown

    def _show(self, shown: ShownMetadata, found: Found) -> None:
        nodes = self._nodes
        if shown.whole or shown.fixed != self._fixed:
            self._fixed = shown.fixed
            for path, value in shown.fixed:
                nodes.put(path, value)
        for name in shown.gone:
            self._forget_topic(name)
        # Settings come first, as with Kafka: a topic that is seen, perhaps after a crash, has its own.
        for path, values in shown.configs.items():
            if path not in found.configs:
                self._show_config(path, values, quiet=shown.whole)
        for name, view in shown.topics.items():
            self._show_topic(name, view, found)
        for path in shown.done:
            nodes.remove(path)
        if self._reassigning is not None and shown.reassigning is not None:
            self._show_reassignment(shown.reassigning)

    def _forget_topic(self, name: str) -> None:
        for path in (f"{forms.TOPICS}/{name}", f"{forms.CONFIGS}/topics/{name}", f"{forms.DELETIONS}/{name}"):
            self._nodes.remove(path)
        self._states.pop(name, None)

    def _show_topic(self, name: str, view: ShownTopic, found: Found) -> None:
        nodes, path, value = self._nodes, f"{forms.TOPICS}/{name}", forms.topic(self._release, view)
        present = nodes.read(path)
        if present is None:
            nodes.make(path, value)
            nodes.make(f"{path}/partitions")
        else:
            theirs = wishes.assignment_of(present.content)
            if theirs.keys() > view.partitions.keys():
                found.wishes.append(ToolWish(path, wishes.topic_growth(name, theirs, len(view.partitions))))
            elif present.differs(value):
                nodes.change(path, value, present.version)
        states = self._states.setdefault(name, {})
        for index, partition in view.partitions.items():
            state = (partition.leader, partition.leader_epoch, partition.isr)
            if states.get(index) != state:
                self._show_state(f"{path}/partitions/{index}", partition, is_new=present is None)
                states[index] = state

    def _show_state(self, path: str, partition: PartitionImage, *, is_new: bool) -> None:
        value = forms.state(partition, self._epoch)
        if not (is_new and self._nodes.make(path) and self._nodes.make(f"{path}/state", value)):
            self._nodes.put(f"{path}/state", value, forms.state_differs)

    def _show_config(self, path: str, values: dict[str, str], *, quiet: bool) -> None:
        node, is_topic = f"{forms.CONFIGS}/{path}", path.startswith("topics/")
        present = self._nodes.read(node, watch=False)
        theirs = {} if present is None else wishes.config_of(present.content)
        values = values | {name: value for name, value in theirs.items() if forms.is_hidden(name)}
        if present is None and (values or is_topic):
            self._nodes.make(node, forms.config(values))
            quiet = quiet or is_topic  # a new topic is told of by itself
        elif present is not None and theirs != values:
            self._nodes.change(node, forms.config(values), present.version)
        else:
            return
        if not quiet:
            self._seen.add(self._nodes.append(forms.CHANGE, forms.notification(self._release, path)))

    def _show_reassignment(self, left: list[Reassigned]) -> None:
        if not left:
            self._nodes.remove(forms.REASSIGNMENTS)
            self._reassigning = None
        elif left != self._reassigning:
            listed = [{"topic": topic, "partition": index, "replicas": brokers} for topic, index, brokers in left]
            self._nodes.put(forms.REASSIGNMENTS, forms.as_json({"version": 1, "partitions": listed}))
            self._reassigning = left

    # -- what tools have written

    def _read_notifications(self, shown: ShownMetadata, found: Found) -> None:
        for name in self._nodes.children(forms.CHANGES):
            node = f"{forms.CHANGES}/{name}"
            present = self._nodes.read(node, watch=False)
            if present is None:
                continue
            path = forms.changed_path(present.content)
            # The settings of a topic that is not known yet come with the topic.
            if name not in self._seen and path and forms.is_shown(path, shown.names):
                found.configs[path] = self._config(path)
            self._seen.add(name)
            if shown.wall_ms - present.created_ms > _NOTIFIED_MS:
                self._nodes.remove(node)
                self._seen.discard(name)

    def _config(self, path: str) -> dict[str, str]:
        present = self._nodes.read(f"{forms.CONFIGS}/{path}", watch=False)
        return {} if present is None else wishes.config_of(present.content)

    def _read_configs(self, shown: ShownMetadata, found: Found) -> None:
        """Find the settings of clients, users, addresses and brokers that only ZooKeeper has."""
        for path in self._paths_of_configs():
            if not shown.configs.get(path) and path not in found.configs and (values := self._config(path)):
                found.configs[path] = values

    def _paths_of_configs(self) -> Iterator[str]:
        for folder in ("clients", "users", "brokers", "ips"):
            for name in self._nodes.children(f"{forms.CONFIGS}/{folder}"):
                yield f"{folder}/{name}"
                if folder == "users":
                    clients = self._nodes.children(f"{forms.CONFIGS}/users/{name}/clients")
                    yield from (f"users/{name}/clients/{client}" for client in clients)

    def _read_wishes(self, shown: ShownMetadata, touched: set[str], found: Found) -> None:
        deleted: set[str] = set()
        if forms.DELETIONS in touched:
            deleted = {*self._nodes.children(forms.DELETIONS)}
            for name in deleted - shown.names:
                self._forget_topic(name)
            for name in sorted(deleted & shown.names):
                found.wishes.append(ToolWish(f"{forms.DELETIONS}/{name}", wishes.topic_deletion(name)))
        if forms.TOPICS in touched:
            for name in self._nodes.children(forms.TOPICS):
                if name not in shown.names and name not in deleted:
                    self._read_new_topic(name, found)
        for path in touched:
            if path.startswith(f"{forms.TOPICS}/") and (name := path.removeprefix(f"{forms.TOPICS}/")) in shown.names:
                self._read_known_topic(name, shown, found)
        if forms.REASSIGNMENTS in touched:
            self._read_reassignment(found)
        if forms.ELECTIONS in touched and (present := self._nodes.read(forms.ELECTIONS)) is not None:
            wanted = wishes.partitions_of(present.content)
            found.wishes.append(ToolWish(forms.ELECTIONS, wishes.preferred_election(wanted)))

    def _read_new_topic(self, name: str, found: Found) -> None:
        path = f"{forms.TOPICS}/{name}"
        present = self._nodes.read(path)
        if present is not None and (assignment := wishes.assignment_of(present.content)):
            creation = wishes.topic_creation(name, assignment, self._config(f"topics/{name}"))
            found.wishes.append(ToolWish(path, creation))

    def _read_known_topic(self, name: str, shown: ShownMetadata, found: Found) -> None:
        """Read the node of a topic that a tool may have given more partitions."""
        if name in shown.topics:
            return  # shown just now
        present = self._nodes.read(f"{forms.TOPICS}/{name}")
        count = len(self._states.get(name, ()))
        theirs = {} if present is None else wishes.assignment_of(present.content)
        if len(theirs) > count:
            found.wishes.append(ToolWish(f"{forms.TOPICS}/{name}", wishes.topic_growth(name, theirs, count)))

    def _read_reassignment(self, found: Found) -> None:
        present = self._nodes.read(forms.REASSIGNMENTS)
        if present is None:
            self._reassigning = None
            return
        wanted = wishes.partitions_of(present.content)
        if wanted != self._reassigning:
            self._reassigning = wanted
            found.reassignment.extend(wanted)
            found.wishes.append(ToolWish(forms.REASSIGNMENTS, wishes.reassignment(wanted)))

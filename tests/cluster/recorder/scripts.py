"""Scripts of requests to the controller. Rule: each function is a section, named alike, on a fresh cluster."""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.cluster.features import SUPPORTED
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.cluster.recorder.placement_scripts import fenced_racks, no_racks, placement, reassignments
from tests.cluster.recorder.stage import Stage, directory

TOPIC, BROKER = 2, 4


def fencing(stage: Stage) -> None:
    for broker in (1, 2, 3):
        stage.join(broker)
    stage.create("three", [1, 2, 3], [3, 1, 2])
    stage.create("two", [1, 2], [2, 1])
    stage.create("one", [1], [2])
    stage.create("sorry", [1, 2], unclean_leader_election_enable="true")
    stage.create("min-one", [2, 1], min_insync_replicas="1")
    stage.fence(1)
    stage.fence(2)
    stage.unfence(1)
    stage.unfence(2)
    stage.alter("grow two-0", "two", [1, 2])
    stage.alter("grow two-1", "two", [1, 2], number=1)
    stage.alter("grow three-0", "three", [3, 1, 2])
    stage.alter("recovered sorry", "sorry", [1], recovery_state=0)
    stage.fence(3)
    stage.expire(2)
    stage.expire(1)
    stage.register(2)
    stage.unfence(2)
    stage.register(1)
    stage.unfence(1)
    stage.unfence(3)


def controlled_shutdown(stage: Stage) -> None:
    for broker in (1, 2, 3):
        stage.join(broker)
    stage.create("three", [1, 2, 3])
    stage.create("one", [1], [2])
    stage.create("two", [1, 2])
    stage.shut_down(1)
    stage.alter("the ISR with a broker that shuts down", "three", [2, 3, 1])
    stage.create("new", [1, 2], [2, 1])
    stage.create("stopping", [1])
    stage.creation("place among three", CreatableTopic("placed", 6, 2))
    stage.creation("place all three", CreatableTopic("placed3", 6, 3))
    stage.shut_down(2)
    stage.shut_down(1)
    stage.creation("place where one has stopped and one is about to", CreatableTopic("placed4", 6, 2))
    stage.creation("place more than there are", CreatableTopic("placed5", 6, 3))
    stage.expire(1)
    stage.register(1, previous=stage.epochs[1])
    stage.unfence(1)
    stage.join(4)
    stage.shut_down(4)  # it leads nothing
    stage.creation("place all four", CreatableTopic("placed6", 1, 4))


def directories(stage: Stage) -> None:
    stage.join(1, directories=2)
    stage.join(2)
    stage.join(3)
    stage.create("three", [1, 2, 3], [1, 3, 2], [2, 1, 3])
    stage.create("lone", [1])
    stage.create("two", [1, 2])
    stage.assign("two of them", 1, (directory(1, 0), "three", 0), (directory(1, 1), "three", 1))
    stage.assign("the same again", 1, (directory(1, 0), "three", 0))
    stage.assign("the rest", 1, (directory(1, 0), "three", 2), (directory(1, 1), "lone", 0))
    stage.assign("an old epoch", 1, (directory(1, 0), "three", 2), epoch=3)
    stage.assign("an unknown broker", 9, (directory(1, 0), "three", 2))
    stage.assign("an unknown topic", 1, (directory(1, 0), "nowhere", 2))
    stage.assign("an unknown partition", 1, (directory(1, 0), "three", 22))
    stage.assign("not a replica", 2, (directory(2, 0), "lone", 0))
    stage.assign("a reserved directory", 1, (bytes(15) + b"\x02", "three", 0))
    stage.lose(1, 0)
    stage.assign("to a lost directory", 1, (directory(1, 0), "two", 0))
    stage.assign("to an unknown directory", 1, (directory(1, 7), "three", 1))
    stage.lose(1, 0)
    stage.lose(3, 0)
    stage.assign("back again", 1, (directory(1, 1), "three", 1))
    stage.assign("of a lost replica", 1, (directory(1, 1), "two", 0), (directory(1, 1), "three", 0))
    stage.create("late", [1, 2])
    stage.assign("the only one, unknown", 1, (directory(1, 9), "lone", 0))
    stage.assign("the only one, back", 1, (directory(1, 1), "lone", 0))


def alter_partition(stage: Stage) -> None:
    for broker in (1, 2, 3, 4):
        stage.join(broker)
    stage.register(5)
    stage.create("t", [1, 2, 3], [2, 3, 1])
    stage.create("u", [1, 2])
    stage.alter("shrink", "t", [1, 2])
    stage.alter("the same", "t", [1, 2])
    stage.alter("the same in another order", "t", [2, 1])
    stage.alter("grow", "t", [1, 2, 3])
    stage.alter("shrink below the minimum", "t", [1])
    stage.alter("grow by the other", "t", [1, 3])
    stage.alter("version 2", "t", [1, 3, 2], version=2)
    stage.alter("an old broker epoch", "t", [1], broker_epoch=2)
    stage.alter("an unknown broker", "t", [1], leader=9)
    stage.alter("not the leader", "t", [1, 2], leader=2)
    stage.alter("an old leader epoch", "t", [1, 2], leader_epoch=-1)
    stage.alter("a leader epoch ahead", "t", [1, 2], leader_epoch=1)
    stage.alter("an old partition epoch", "t", [1, 2], partition_epoch=-1)
    stage.alter("a partition epoch ahead", "t", [1, 2], partition_epoch=1)
    stage.alter("empty", "t", [])
    stage.alter("without the leader", "t", [2, 3])
    stage.alter("no replica", "t", [1, 2, 3, 4])
    stage.alter("twice the same", "t", [1, 2, 2])
    stage.alter("a member's old epoch", "t", [1, 2, 3], epochs={2: 3})
    stage.alter("a member's epoch unset", "t", [1, 2], epochs={2: -1})
    stage.alter("recovering with others", "t", [1, 2], recovery_state=1)
    stage.alter("recovering alone", "t", [1], recovery_state=1)
    stage.alter("not the leader, an old leader epoch", "t", [1, 2], leader=2, leader_epoch=-1)
    stage.alter("not the leader, an old partition epoch", "t", [1, 2], leader=2, partition_epoch=-1)
    stage.alter("old leader epoch, partition epoch ahead", "t", [1, 2], leader_epoch=-1, partition_epoch=1)
    stage.alter("old partition epoch, leader epoch ahead", "t", [1, 2], leader_epoch=1, partition_epoch=-1)
    stage.alter("no replica, an old partition epoch", "t", [1, 4], partition_epoch=-1)
    stage.alter("no replica and an old epoch", "t", [1, 4], epochs={4: 2})
    stage.fence(3)
    stage.alter("a fenced member", "t", [1, 2, 3])
    stage.alter("a fenced member in version 2", "t", [1, 2, 3], version=2)
    stage.unfence(3)
    stage.fence(1)
    stage.unfence(1)
    stage.alter("the leader before", "t", [1, 2, 3], leader=1, leader_epoch=-1)
    stage.alter("grow under the new one", "t", [2, 3, 1])
    for what, epoch in (("old", 2), ("own", None)):
        stage.ask(
            f"producer ids, {what} epoch",
            AllocateProducerIdsRequest(2, stage.epochs[2] if epoch is None else epoch),
        )
    stage.ask("producer ids, unknown broker", AllocateProducerIdsRequest(9, 5))
    stage.ask("producer ids of a fenced one", AllocateProducerIdsRequest(5, stage.epochs[5]))


def elections(stage: Stage) -> None:
    for broker in (1, 2, 3, 4):
        stage.join(broker)
    stage.create("order", [1, 2, 3, 4], min_insync_replicas="3")
    stage.alter("order without the first", "order", [1, 3, 4])
    stage.fence(1)
    stage.unfence(1)
    stage.fence(3)
    stage.unfence(3)
    stage.fence(4)
    stage.unfence(4)
    stage.elect("preferred of those eligible", 0, ("order", 0))
    stage.create("t", [1, 2, 3], [2, 3, 1])
    stage.create("low", [1, 2])
    stage.create("lone", [1])
    stage.elect("preferred, not needed", 0, ("t", 0))
    stage.fence(1)
    stage.elect("preferred, not available", 0, ("t", 0))
    stage.elect("preferred of nobody", 0, ("lone", 0))
    stage.elect("unclean, not needed", 1, ("t", 0))
    stage.elect("unclean of nobody", 1, ("lone", 0))
    stage.elect("unknown type", 3, ("t", 0))
    stage.elect("unknown topic and partition", 0, ("nowhere", 0), ("t", 9))
    stage.unfence(1)
    stage.elect("preferred, not in sync", 0, ("t", 0))
    stage.alter("grow t-0", "t", [1, 2, 3])
    stage.elect("preferred", 0, ("t", 0), ("t", 1))
    stage.alter("low shrinks", "low", [2])
    stage.elect("preferred that is eligible", 0, ("low", 0))
    stage.fence(2)
    stage.fence(1)
    stage.elect("unclean, nobody there", 1, ("low", 0))
    stage.create("other", [3, 1])
    stage.fence(3)
    stage.unfence(2)
    stage.elect("unclean", 1, ("low", 0))
    stage.unfence(1)
    stage.elect("unclean of another", 1, ("other", 0))
    stage.ask("unclean of all", ElectLeadersRequest(1, None))
    stage.unfence(3)
    stage.ask("preferred of all", ElectLeadersRequest(0, None))
    stage.ask("an unknown type of all", ElectLeadersRequest(3, None))
    stage.ask("nothing", ElectLeadersRequest(0, []))
    stage.create("config", [1, 2])
    stage.expire(2)
    stage.expire(1)
    stage.register(1)
    stage.register(2)
    stage.unfence(2)
    stage.configure("may be unclean", TOPIC, "config", "unclean.leader.election.enable", "true")


def unregistration(stage: Stage) -> None:
    for broker in (1, 2, 3):
        stage.join(broker)
    stage.create("two", [1, 2], [2, 1])
    stage.create("three", [1, 2, 3])
    stage.fence(2)
    stage.ask("unregister 2", UnregisterBrokerRequest(2))
    stage.ask("unregister 9", UnregisterBrokerRequest(9))
    stage.register(2)
    stage.unfence(2)
    stage.ask("unregister 1", UnregisterBrokerRequest(1))
    stage.register(1)
    stage.unfence(1)
    stage.expire(3)
    stage.register(3, previous=1)
    stage.unfence(3)


def features(stage: Stage) -> None:
    for broker in (1, 2, 3):
        stage.join(broker)
    stage.create("t", [1, 2, 3], min_insync_replicas="3")
    stage.create("u", [1, 2])
    stage.fence(2)
    name = "eligible.leader.replicas.version"
    stage.ask("ELR off", UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(name, 0, upgrade_type=2)]))
    stage.ask("ELR on", UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(name, 1, upgrade_type=1)]))
    stage.fence(1)


def features_of_brokers(stage: Stage) -> None:
    def update(what: str, name: str, level: int, upgrade_type: int) -> None:
        updates = [FeatureUpdateKey(name, level, upgrade_type=upgrade_type)]
        stage.ask(what, UpdateFeaturesRequest(feature_updates=updates))

    stage.join(1)
    for name in ("share.version", "streams.version"):
        update(f"{name} off", name, 0, 2)
    older = {**SUPPORTED, "share.version": (0, 0)}
    del older["streams.version"]
    stage.register(2, features=older)
    update("one can't do that level", "share.version", 1, 1)
    update("one doesn't know it", "streams.version", 1, 1)
    stage.register(3, features={**older, "share.version": (0, 0)})
    update("two can't do that level", "share.version", 1, 1)
    update("down is no matter", "transaction.version", 1, 2)


def old_metadata(stage: Stage) -> None:
    for broker in (1, 2, 3):
        stage.join(broker)
    stage.create("t", [1, 2, 3], [1, 2, 3])
    stage.alter("shrink", "t", [1, 2])
    stage.alter("grow", "t", [1, 2, 3])
    stage.fence(2)
    stage.unfence(2)
    stage.alter("back", "t", [1, 3, 2])
    stage.reassign("another", "t", [3, 2])
    stage.elect("preferred", 0, ("t", 0))
    stage.fence(1)


def balance(stage: Stage) -> None:
    for broker in (1, 2):
        stage.join(broker)
    stage.create("one", [1, 2])
    stage.fence(1)
    stage.unfence(1)
    stage.create("nineteen", *[[1, 2]] * 19)
    stage.alter("in sync again", "one", [2, 1])
    stage.wait(2.5)
    for name in ("two", "three"):
        stage.create(name, [2, 1])
    stage.fence(2)
    stage.unfence(2)
    stage.alter("two is in sync", "two", [1, 2])
    stage.wait(2.5)
    stage.alter("three is in sync", "three", [1, 2])
    stage.wait(2.5)


def minimum(stage: Stage) -> None:
    for broker in (1, 2, 3):
        stage.join(broker)
    stage.create("t", [1, 2, 3])
    stage.create("two", [1, 2], min_insync_replicas="2")
    stage.fence(2)
    stage.fence(3)
    stage.configure("a topic's", TOPIC, "t", "min.insync.replicas", "1")
    stage.configure("a topic's again", TOPIC, "t", "min.insync.replicas", "1")
    stage.configure("a topic's and no more", TOPIC, "t", "min.insync.replicas", None)
    stage.configure("another key", TOPIC, "t", "retention.ms", "1000")
    stage.alter("the ISR as it is", "t", [1])
    stage.configure("the cluster's", BROKER, "", "min.insync.replicas", "1")
    stage.unfence(2)
    stage.alter("grow", "t", [1, 2])
    stage.fence(2)
    feature = FeatureUpdateKey("eligible.leader.replicas.version", 0, upgrade_type=2)
    stage.ask("no ELR", UpdateFeaturesRequest(feature_updates=[feature]))
    stage.configure("a topic's without ELR", TOPIC, "t", "min.insync.replicas", "2")
    stage.create("without", [1], min_insync_replicas="2")


def without_elr(stage: Stage) -> None:
    feature = FeatureUpdateKey("eligible.leader.replicas.version", 0, upgrade_type=2)
    stage.ask("no ELR", UpdateFeaturesRequest(feature_updates=[feature]))
    for broker in (1, 2, 3):
        stage.join(broker)
    stage.create("three", [1, 2, 3])
    stage.create("two", [1, 2], [2, 1])
    stage.create("sorry", [1, 2], unclean_leader_election_enable="true")
    stage.create("later", [1, 2])
    stage.fence(1)
    stage.fence(2)
    stage.elect("unclean, nobody there", 1, ("two", 0))
    stage.unfence(1)
    stage.elect("unclean", 1, ("two", 0))
    stage.configure("may be unclean", TOPIC, "later", "unclean.leader.election.enable", "true")
    stage.unfence(2)
    stage.unfence(1)
    stage.alter("grow three", "three", [3, 1, 2])
    stage.fence(1)
    stage.expire(3)
    stage.expire(2)
    stage.register(2)
    stage.unfence(2)
    stage.register(3)
    stage.unfence(3)


def minimum_without_a_leader(stage: Stage) -> None:
    for broker in (1, 2):
        stage.join(broker)
    stage.create("t", [1, 2])
    stage.create("u", [1, 2])
    stage.fence(2)
    stage.fence(1)
    stage.configure("a topic's", TOPIC, "t", "min.insync.replicas", "1")
    stage.configure("the cluster's", BROKER, "", "min.insync.replicas", "1")
    stage.unfence(1)
    stage.unfence(2)
    stage.elect("unclean", 1, ("t", 0))


SECTIONS: dict[str, tuple[Callable[[Stage], None], dict[str, str]]] = {
    script.__name__: (script, {"min.insync.replicas": "2"})
    for script in (
        fencing,
        controlled_shutdown,
        directories,
        alter_partition,
        elections,
        reassignments,
        unregistration,
        features,
        features_of_brokers,
        minimum,
        minimum_without_a_leader,
        placement,
        fenced_racks,
        no_racks,
        without_elr,
    )
}
SECTIONS["balance"] = (
    balance,
    {"min.insync.replicas": "1", "leader.imbalance.check.interval.seconds": "1"},
)
for release in ("3.5-IV2", "3.6-IV0", "3.6-IV1", "3.7-IV2", "3.9-IV0"):
    settings = {"min.insync.replicas": "2", "release": release}
    SECTIONS[f"old_metadata_{release}"] = (old_metadata, settings)

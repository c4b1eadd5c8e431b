"""Dead letters of share groups: what is written where, and when nothing is written.

Rule: each function is one scenario with a group of its own; read it from top to bottom. What is changed for the whole
cluster is changed back. Which start offset is stored depends on the batches of letters, and is not asked for.
"""

from __future__ import annotations

from pykafka_broker.protocol.enums import ConfigResourceType
from tests.scenarios.dead_letters.actors import COPY, CREATE, ENABLE, NAME, PREFIX, LetterMember, group_with_letters
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts
from tests.scenarios.share.actors import ACCEPT, GAP, REJECT, RELEASE
from tests.scenarios.share.stage import ShareStage

SCENARIOS = scenario = Scripts[ShareStage]()
LIMIT, LOCK = "share_delivery_count_limit", "share_record_lock_duration_ms"
LIMITED = {LIMIT: "2", LOCK: "2000"}
BROKER, TOPIC, GROUP = ConfigResourceType.BROKER, ConfigResourceType.TOPIC, ConfigResourceType.GROUP


@scenario
def rejected_records(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, 5, 3)
    for partition in range(5):
        one.produce(topic, "a", "b", partition=partition)
        one.fetch(topic, (partition,))
    one.ack({(topic, partition): [(0, 1, [REJECT])] for partition in range(5)})
    one.letters(dead, 10)
    one.offsets()


@scenario
def some_of_a_batch(s: Stage) -> None:
    topic, dead, one = group_with_letters(s)
    one.produce(topic, *"abcdefg")
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 6, [ACCEPT, REJECT, REJECT, RELEASE, REJECT, GAP, ACCEPT])]})
    one.letters(dead, 3)
    one.stored(topic)
    one.fetch()
    one.ack({(topic, 0): [(3, 3, [REJECT])]})
    one.letters(dead, 4)
    one.stored(topic)
    one.ack({(topic, 0): [(3, 3, [REJECT])]})


@scenario
def copies(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, configs={COPY: "true"})
    one.send_records(
        topic, (b"k", b"v", [("h", b"1"), ("n", None)]), (None, b"w", []), (b"l", None, []), (None, None, [])
    )
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 3, [REJECT])]})
    one.letters(dead, 4)
    one.alter_configs(GROUP, s.group, **{COPY: "false"})
    one.send_records(topic, (b"k", b"v", []))
    one.fetch()
    one.ack({(topic, 0): [(4, 4, [REJECT])]})
    one.letters(dead, 5)


@scenario
def copies_that_do_not_fit(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, configs={COPY: "true"})
    one.alter_configs(TOPIC, dead, max_message_bytes="1000")
    one.send_records(topic, (b"a", b"x" * 2000, []), (b"b", b"y", []), *((b"c", b"z" * 300, []) for _ in range(4)))
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 5, [REJECT])]})
    one.letters(dead, 6)
    one.alter_configs(TOPIC, dead, max_message_bytes="100")
    one.send_records(topic, (b"d", b"w", []))
    one.fetch()
    one.ack({(topic, 0): [(6, 6, [REJECT])]})
    one.stored(topic)
    one.letters(dead, 6)


@scenario
def copies_of_records_that_are_gone(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, configs={COPY: "true"})
    one.produce(topic, *"abcd")
    one.fetch(topic)
    one.delete_records(topic, 2)
    one.ack({(topic, 0): [(0, 3, [REJECT])]})
    one.letters(dead, 4)


@scenario
def topics_with_settings_of_their_own(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, configs={COPY: "true"})
    one.alter_configs(TOPIC, dead, compression_type="gzip", message_timestamp_type="LogAppendTime")
    one.send_records(topic, (b"k", b"v", []), (None, b"w", []))
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 0, [REJECT])]})
    one.letters(dead, 1)
    one.alter_configs(TOPIC, dead, cleanup_policy="compact")
    one.ack({(topic, 0): [(1, 1, [REJECT])]})
    one.stored(topic)
    one.letters(dead, 1)


@scenario
def too_many_deliveries(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, configs=LIMITED)
    one.produce(topic, *"abcd")
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 3, [RELEASE])]})
    one.fetch()
    one.ack({(topic, 0): [(0, 0, [RELEASE]), (1, 1, [REJECT])]})
    one.letters(dead, 2)
    s.wait(2500)
    one.letters(dead, 4)
    one.stored(topic)


@scenario
def deliveries_of_a_session_that_ends(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, configs={LIMIT: "2"})
    one.produce(topic, "a", "b")
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 1, [RELEASE])]})
    one.fetch()
    one.fetch(epoch=-1)
    one.letters(dead, 2)
    one.stored(topic)


@scenario
def no_dead_letter_topic(s: Stage) -> None:
    topic, dead, one = group_with_letters(s)
    one.configure(**{NAME: ""})
    one.produce(topic, "a")
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 0, [REJECT])]})
    one.stored(topic)
    one.letters(dead, 0)


@scenario
def topics_that_take_no_letters(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, letters=None)
    one.produce(topic, *"abcdefg")
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 0, [REJECT])]})
    one.stored(topic)
    one.create(dead)
    one.ack({(topic, 0): [(1, 1, [REJECT])]})
    one.alter_configs(TOPIC, dead, **{ENABLE: "true"})
    one.alter_configs(BROKER, "", **{PREFIX: "x."})
    one.ack({(topic, 0): [(2, 2, [REJECT])]})
    one.stored(topic)
    one.alter_configs(BROKER, "", **{PREFIX: ""})
    one.ack({(topic, 0): [(3, 3, [REJECT])]})
    one.letters(dead, 1)
    one.alter_configs(BROKER, "", **{PREFIX: None})
    one.ack({(topic, 0): [(4, 4, [REJECT])]})
    one.letters(dead, 2)
    one.stored(topic)


@scenario
def letters_of_the_topic_of_letters(s: Stage) -> None:
    _, dead, one = group_with_letters(s)
    one.resubscribe(dead)
    one.produce(dead, "a")
    one.fetch(dead)
    one.ack({(dead, 0): [(0, 0, [REJECT])]})
    one.stored(dead)
    one.letters(dead, 2)
    one.offsets()


@scenario
def topics_are_created(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, 3, letters=None)
    one.alter_configs(BROKER, "", **{CREATE: "true"})
    one.produce(topic, *"abc", partition=2)
    one.fetch(topic, (2,))
    one.ack({(topic, 2): [(0, 0, [REJECT])]})
    one.letters(dead, 1)
    one.topic_and_configs(dead)
    one.alter_configs(GROUP, s.group, **{NAME: f"x.{s.group}"})
    one.ack({(topic, 2): [(1, 1, [REJECT])]})
    one.alter_configs(GROUP, s.group, **{NAME: "dlq.not a name"})
    one.ack({(topic, 2): [(2, 2, [REJECT])]})
    one.stored(topic)
    one.alter_configs(BROKER, "", **{CREATE: None})


@scenario
def configs_of_the_group(s: Stage) -> None:
    one = LetterMember(s, "one")
    for name in ("", "dlq.", "not a name", "__x", "_x", f"dlq.{s.group}"):
        one.alter_configs(GROUP, s.group, **{NAME: name})
    for copied in ("", "x", "TRUE"):
        one.alter_configs(GROUP, s.group, **{COPY: copied})
    one.alter_configs(GROUP, s.group, **{NAME: None, COPY: None})
    for prefix in ("a b", "__", None):
        one.alter_configs(BROKER, "", **{PREFIX: prefix})
    for created in ("x", None):
        one.alter_configs(BROKER, "", **{CREATE: created})


@scenario
def records_that_a_leader_has_given_up(s: Stage) -> None:
    topic, dead, one = group_with_letters(s)
    one.produce(topic, *"abcde")
    one.leave_archiving(topic, (0, 0, 1), (1, 2, 5))
    one.fetch(topic)
    one.letters(dead, 3)
    one.stored(topic)


@scenario
def share_version_1(s: Stage) -> None:
    topic, dead, one = group_with_letters(s, configs={LOCK: "2000"})
    one.level(1)
    one.produce(topic, "a", "b")
    one.fetch(topic)
    one.ack({(topic, 0): [(0, 0, [REJECT])]})
    one.stored(topic)
    one.alter_configs(GROUP, s.group, **{NAME: dead})
    one.level(2)
    s.wait(2500)
    one.fetch(topic, epoch=0)
    one.ack({(topic, 0): [(1, 1, [REJECT])]})
    one.letters(dead, 1)

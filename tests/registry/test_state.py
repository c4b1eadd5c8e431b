"""The registry's state after the replay of its topic's records."""

from __future__ import annotations

from pykafka_broker.registry import records
from pykafka_broker.registry.records import Reference, Schema, Version, guid_of
from pykafka_broker.registry.state import RegistryState

INT, LONG = Schema("AVRO", '"int"'), Schema("AVRO", '"long"')


def keep(state: RegistryState, version: Version) -> None:
    state.replay(records.schema_key(version.subject, version.version), records.schema_value(version))


def test_versions_ids_and_uses_follow_the_records() -> None:
    state = RegistryState()
    keep(state, Version("a", 1, 1, INT))
    keep(state, Version("a", 2, 2, LONG))
    keep(state, Version("b", 1, 1, INT))
    assert state.subjects() == ["a", "b"]
    assert state.next_version("a") == 3
    assert state.id_of(".", INT) == 1
    assert state.highest_id(".") == 2
    assert [each.subject for each in state.uses(".", 1)] == ["a", "b"]


def test_a_subject_that_is_deleted_is_there_for_who_asks_for_it() -> None:
    state = RegistryState()
    keep(state, Version("a", 1, 1, INT))
    keep(state, Version("a", 2, 2, LONG))
    state.replay(records.subject_key(records.DELETE_SUBJECT, "a"), records.delete_subject_value("a", 1))
    assert [each.version for each in state.versions("a")] == [2]
    assert [each.version for each in state.versions("a", deleted=True)] == [1, 2]
    keep(state, Version(":.c:a", 1, 1, INT, deleted=True))
    state.replay(records.subject_key(records.CLEAR_SUBJECT, ":.c:"), records.clear_subject_value(":.c:"))
    assert state.subjects() == ["a"]
    state.replay(b'{"keytype":"CLEAR_SUBJECT","subject":null,"magic":0}', b'{"subject":null}')
    assert [each.version for each in state.versions("a", deleted=True)] == [2]


def test_a_tombstone_takes_all_that_is_known_of_a_version() -> None:
    state = RegistryState()
    keep(state, Version("part", 1, 1, INT))
    keep(state, Version("whole", 1, 2, LONG._replace(references=(Reference("n", "part", 1),))))
    assert [each.id for each in state.referrers("part", 1)] == [2]
    state.replay(records.schema_key("whole", 1), None)
    assert state.referrers("part", 1) == []
    assert state.schema(".", 2) is None
    assert state.highest_id(".") == 2


def test_one_schema_that_has_two_ids_is_found_by_the_one_that_is_left() -> None:
    state = RegistryState()
    keep(state, Version("a", 1, 1, INT))
    keep(state, Version("b", 1, 5, INT))
    state.replay(records.schema_key("a", 1), None)
    assert state.id_of(".", INT) == 5


def test_settings_come_and_go() -> None:
    state = RegistryState()
    state.replay(records.subject_key(records.CONFIG, None), b'{"compatibilityLevel":"FULL"}')
    state.replay(records.subject_key(records.MODE, "a"), b'{"mode":"IMPORT"}')
    assert state.configs == {None: {"compatibilityLevel": "FULL"}}
    assert state.modes == {"a": "IMPORT"}
    state.replay(records.subject_key(records.CONFIG, None), None)
    state.replay(records.subject_key(records.MODE, "a"), None)
    assert (state.configs, state.modes) == ({}, {})


def test_records_that_make_no_sense_change_nothing() -> None:
    state = RegistryState()
    for key, value in [
        (None, b"x"),
        (b"x", b"x"),
        (b'{"keytype":"NOOP","magic":0}', None),
        (b'{"keytype":"SCHEMA","subject":3,"version":1}', b"{}"),
        (records.schema_key("a", 1), b"{}"),
        (records.schema_key("a", 1), records.schema_value(Version("b", 1, 1, INT))),
        (records.subject_key(records.DELETE_SUBJECT, "a"), b'{"version":"x"}'),
    ]:
        state.replay(key, value)
    assert state.subjects() == []


def test_who_leads_the_topic_is_told_by_a_record_that_changes_nothing() -> None:
    state = RegistryState()
    state.replay(records.NOOP_KEY, None)  # as Confluent's registry writes it
    assert state.primary is None
    state.replay(records.NOOP_KEY, records.noop_value(2, 8081))
    assert state.primary == (2, 8081)
    for odd in (b'{"node":"2","port":1}', b'{"node":3}', b"[]", b'{"node":3,"port":true}', None):
        state.replay(records.NOOP_KEY, odd)
    assert state.primary == (2, 8081)
    assert state.subjects() == []


def test_the_ids_of_a_guid_follow_the_versions() -> None:
    state = RegistryState()
    keep(state, Version("a", 1, 1, INT))
    keep(state, Version("b", 1, 1, INT))
    keep(state, Version(":.c:a", 1, 7, INT))
    (guid,) = {guid_of(INT), guid_of(Schema("JSON", INT.text))}
    assert state.ids_of_guid(guid) == [(".", 1), (".c", 7)]
    state.replay(records.schema_key("a", 1), None)
    assert state.ids_of_guid(guid) == [(".", 1), (".c", 7)]
    state.replay(records.schema_key("b", 1), None)
    assert state.ids_of_guid(guid) == [(".c", 7)]

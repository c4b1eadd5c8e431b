"""The registry's compatibility levels and modes."""

from __future__ import annotations

from tests.registry.rest import Rest, of, record


def test_a_subject_has_its_own_level_or_that_of_all(rest: Rest) -> None:
    assert rest.ok("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert rest.refused("GET", "/config/mine") == (404, 40408)
    assert rest.ok("GET", "/config/mine?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    assert rest.ok("PUT", "/config", {"compatibility": "FORWARD"}) == {"compatibility": "FORWARD"}
    assert rest.ok("GET", "/config/mine?defaultToGlobal=true") == {"compatibilityLevel": "FORWARD"}
    rest.ok("PUT", "/config/mine", {"compatibility": "none"})
    assert rest.ok("GET", "/config/mine") == {"compatibilityLevel": "NONE"}
    assert rest.ok("DELETE", "/config/mine") == {"compatibilityLevel": "NONE"}
    assert rest.refused("DELETE", "/config/mine") == (404, 40401)
    assert rest.ok("DELETE", "/config") == {"compatibilityLevel": "FORWARD"}
    assert rest.ok("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    for wrong in ({"compatibility": "SIDEWARD"}, {}, {"compatibility": 3}):
        assert rest.refused("PUT", "/config", wrong) == (422, 42203)
    assert rest.refused("PUT", "/config", {"compatibility": "FULL", "colour": "red"}) == (422, 422)


def test_a_context_has_a_level_for_its_subjects(rest: Rest) -> None:
    rest.ok("PUT", "/config/:.level:", {"compatibility": "FULL"})
    assert rest.ok("GET", "/config/:.level:a?defaultToGlobal=true") == {"compatibilityLevel": "FULL"}


def test_what_is_normalized_by_config_has_one_order(rest: Rest) -> None:
    rest.ok("PUT", "/config/normal", {"compatibility": "NONE", "normalize": True})
    assert rest.register("normal", {"type": "string", "b": 1, "a": 2}) == rest.register(
        "normal", {"a": 2, "b": 1, "type": "string"}
    )


def test_nothing_is_written_where_the_mode_is_read_only(rest: Rest) -> None:
    assert rest.ok("GET", "/mode") == {"mode": "READWRITE"}
    assert rest.refused("GET", "/mode/quiet") == (404, 40409)
    rest.register("quiet", record("x"))
    assert rest.ok("PUT", "/mode/quiet", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert rest.refused("POST", "/subjects/quiet/versions", of(record())) == (422, 42205)
    assert rest.refused("DELETE", "/subjects/quiet") == (422, 42205)
    assert rest.refused("DELETE", "/subjects/quiet/versions/1") == (422, 42205)
    assert rest.refused("PUT", "/config/quiet", {"compatibility": "NONE"}) == (422, 42205)
    assert rest.refused("DELETE", "/config/quiet") == (422, 42205)
    assert rest.ok("DELETE", "/mode/quiet") == {"mode": "READONLY"}
    rest.ok("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    assert rest.refused("POST", "/subjects/quiet/versions", of(record())) == (422, 42205)
    assert rest.refused("PUT", "/config", {"compatibility": "NONE"}) == (422, 42205)
    rest.ok("DELETE", "/mode")
    rest.register("quiet", record())
    assert rest.refused("PUT", "/mode/quiet", {"mode": "SLEEPY"}) == (422, 42204)
    assert rest.refused("PUT", "/mode/quiet", {}) == (422, 42204)


def test_an_import_brings_ids_and_versions(rest: Rest) -> None:
    assert rest.refused("POST", "/subjects/moved/versions", of(record("m"), id=500)) == (422, 42205)
    rest.ok("PUT", "/mode/moved", {"mode": "IMPORT"})
    assert rest.refused("POST", "/subjects/moved/versions", of(record("m"))) == (422, 42205)
    assert rest.register("moved", record("m"), id=500, version=3) == 500
    assert rest.register("moved", record("m", "n"), id=501, version=7) == 501
    assert rest.ok("GET", "/subjects/moved/versions") == [3, 7]
    assert rest.refused("POST", "/subjects/moved/versions", of(record("o"), id=500)) == (422, 42205)
    rest.ok("PUT", "/mode/moved", {"mode": "READWRITE"})
    assert rest.refused("PUT", "/mode/moved", {"mode": "IMPORT"}) == (422, 42205)
    assert rest.ok("PUT", "/mode/moved?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    rest.ok("PUT", "/mode/moved", {"mode": "READWRITE"})


def test_a_number_that_no_id_or_version_can_be_is_none_or_refused(rest: Rest) -> None:
    schema_id = rest.register("numberless", record("n"))
    for more in ({"id": -5}, {"version": -5}):
        assert rest.register("numberless", record("n"), **more) == schema_id
    assert rest.ok("GET", "/subjects/numberless/versions") == [1]
    rest.ok("PUT", "/mode/numberless?force=true", {"mode": "IMPORT"})
    assert rest.register("numberless", record(), id=700, version=-5) == 700
    assert rest.ok("GET", "/subjects/numberless/versions") == [1, 2]
    for more in ({"id": 1 << 31}, {"id": 701, "version": 1 << 31}):
        assert rest.refused("POST", "/subjects/numberless/versions", of(record("o"), **more)) == (422, 422)
    rest.ok("DELETE", "/mode/numberless")


def test_a_schema_that_is_there_has_its_id_in_every_mode(rest: Rest) -> None:
    schema_id = rest.register("there", record("t"))
    for mode in ("READONLY", "IMPORT"):
        rest.ok("PUT", "/mode/there?force=true", {"mode": mode})
        assert rest.register("there", record("t")) == schema_id
        assert rest.refused("POST", "/subjects/there/versions", of(record("t", "u"))) == (422, 42205)
    rest.ok("DELETE", "/mode/there")


def test_an_import_begins_where_all_was_deleted(rest: Rest) -> None:
    for subject in ("swept", ":.swept:one", ":.swept:two"):
        rest.register(subject, record("s"))
        rest.register(subject, record())
        rest.ok("DELETE", f"/subjects/{subject}")
    rest.register(":.unswept:one", record("s"))
    rest.ok("DELETE", "/subjects/:.unswept:one")
    for scope in ("swept", ":.swept:"):
        assert rest.ok("PUT", f"/mode/{scope}", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    for subject in ("swept", ":.swept:one"):
        assert rest.refused("GET", f"/subjects/{subject}/versions?deleted=true") == (404, 40401)
        assert rest.register(subject, record("s"), id=900, version=1) == 900
        assert rest.ok("GET", f"/subjects/{subject}/versions?deleted=true") == [1]
    assert rest.ok("GET", "/subjects/:.unswept:one/versions?deleted=true") == [1]
    for scope in ("swept", ":.swept:"):
        rest.ok("DELETE", f"/mode/{scope}")


def test_a_version_that_is_not_the_next_is_refused(rest: Rest) -> None:
    rest.register("stepwise", record("s"))
    assert rest.refused("POST", "/subjects/stepwise/versions", of(record(), version=5)) == (422, 42201)
    assert rest.register("stepwise", record(), version=2)


def test_a_subject_may_be_another_name_of_one(rest: Rest) -> None:
    schema_id = rest.register("real", record("real"))
    rest.ok("PUT", "/config/nickname", {"alias": "real"})
    assert rest.ok("GET", "/subjects/nickname/versions/1")["subject"] == "real"
    assert rest.register("nickname", record("real")) == schema_id
    assert rest.ok("GET", "/config/nickname") == {"alias": "real"}
    assert rest.ok("GET", f"/schemas/ids/{schema_id}/subjects?subject=nickname") == ["real"]
    rest.ok("DELETE", "/config/nickname")
    rest.register(":.alias:real", record("inner"))
    rest.ok("PUT", "/config/:.alias:nickname", {"alias": "real"})
    assert rest.ok("GET", "/subjects/:.alias:nickname/versions/1")["subject"] == ":.alias:real"
    rest.ok("PUT", "/config/outside", {"alias": ":.alias:real"})
    inner = rest.ok("GET", "/subjects/:.alias:real/versions/1/schema")
    assert rest.ok("GET", "/schemas/ids/1/schema?subject=outside") == inner
    rest.ok("DELETE", "/config/outside")
    assert rest.refused("GET", "/subjects/nickname/versions") == (404, 40401)


def test_what_a_subject_does_not_say_holds_as_for_all(rest: Rest) -> None:
    rest.ok("PUT", "/config/partly", {"normalize": True})
    rest.register("partly", record("x"))
    rest.ok("PUT", "/config", {"compatibility": "NONE"})
    assert rest.register("partly", record("x", "y"))
    rest.ok("DELETE", "/config")
    assert rest.refused("POST", "/subjects/partly/versions", of(record("x", "y", "z"))) == (409, 409)


def test_a_mode_is_taken_away_with_those_below_it(rest: Rest) -> None:
    for name in (":.modes:", ":.modes:a", "elsewhere"):
        rest.ok("PUT", f"/mode/{name}", {"mode": "READONLY"})
    assert rest.ok("DELETE", "/mode/:.modes:?recursive=true") == {"mode": "READONLY"}
    assert rest.ok("DELETE", "/mode/:.modes:?recursive=true") == {"mode": None}
    assert rest.refused("GET", "/mode/:.modes:a") == (404, 40409)
    assert rest.ok("GET", "/mode/elsewhere") == {"mode": "READONLY"}


def test_an_effective_config_has_what_each_scope_says_and_always_a_level(rest: Rest) -> None:
    try:
        rest.ok("PUT", "/config", {"normalize": True})
        assert rest.ok("GET", "/config") == {"compatibilityLevel": "BACKWARD", "normalize": True}
        rest.ok("PUT", "/config/:.merged:", {"compatibility": "FULL"})
        rest.ok("PUT", "/config/:.merged:a", {"compatibilityGroup": "major"})
        assert rest.ok("GET", "/config/:.merged:a") == {"compatibilityGroup": "major"}
        told = {"compatibilityLevel": "FULL", "normalize": True, "compatibilityGroup": "major"}
        assert rest.ok("GET", "/config/:.merged:a?defaultToGlobal=true") == told
    finally:
        rest.ok("DELETE", "/config")

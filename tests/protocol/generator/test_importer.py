"""The merge of two releases, on made-up messages."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from protocol.generator.importer import import_release, load_ahead, load_schemas, merge, merge_fields, read_jars

Json = dict[str, Any]


def field(name: str, versions: str, **more: Any) -> Json:
    return {"name": name, "type": "int32", "versions": versions, **more}


def message(valid: str, *fields: Json, **more: Any) -> Json:
    return {
        "name": "MadeUpRequest",
        "type": "request",
        "apiKey": 999,
        "validVersions": valid,
        "fields": list(fields),
        **more,
    }


def merged(above: Json, below: Json) -> Json:
    key = ("clients", "MadeUpRequest")
    return merge(above, below, {key: below})


def names(fields: list[Json]) -> list[tuple[str, str]]:
    return [(one["name"], one["versions"]) for one in fields]


def test_lower_versions_are_kept_with_the_fields_that_only_they_have() -> None:
    above = message("2-5", field("A", "0+"), field("C", "4+"))
    below = message("0-4", field("A", "0+"), field("B", "0-1"), field("C", "4+"), field("D", "1"))
    result = merged(above, below)
    assert result["validVersions"] == "0-5"
    assert names(result["fields"]) == [("A", "0+"), ("B", "0-1"), ("C", "4+"), ("D", "1")]


def test_a_field_that_the_new_release_renamed_counts_only_below_it() -> None:
    above = message("2-3", field("NewName", "0+"))
    below = message("0-3", field("OldName", "0+"))
    assert names(merged(above, below)["fields"]) == [("OldName", "0-1"), ("NewName", "0+")]


def test_a_message_that_keeps_its_versions_is_taken_as_it_is() -> None:
    above = message("0-3", field("NewName", "0+"))
    assert merged(above, message("0-2", field("OldName", "0+"))) == above


def test_a_message_without_versions_stays_as_it_was() -> None:
    below = message("0-3", field("A", "0+"))
    assert merged({**message("none")}, below) == below


def test_a_preview_lowers_nothing() -> None:
    above = message("1-2", field("A", "0+"))
    assert merged(above, message("0", field("B", "0+"), latestVersionUnstable=True)) == above


def test_a_field_stays_ignorable_for_the_versions_below() -> None:
    above = message("1-2", field("A", "0+"))
    assert merged(above, message("0-2", field("A", "0+", ignorable=True)))["fields"][0]["ignorable"] is True


def test_structs_are_merged_by_field() -> None:
    inner_above = field("S", "0+", type="[]Inner", fields=[field("X", "2+")])
    inner_below = field("S", "0+", type="[]Inner", fields=[field("W", "0"), field("X", "1+")])
    result = merge_fields([inner_above], [inner_below], 2)
    assert names(result[0]["fields"]) == [("W", "0"), ("X", "1+")]


def test_a_gap_in_a_fields_versions_is_an_error() -> None:
    with pytest.raises(ValueError, match="gap"):
        merge_fields([field("A", "4-5")], [field("A", "0-1")], 2)


def jar(folder: Path, name: str, *schemas: str) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for number, schema in enumerate(schemas):
            archive.writestr(f"common/message/Schema{number}.json", schema)
    return path


NEW = """// a licence
{ "apiKey": 999, "type": "request", "name": "MadeUpRequest",
  // why
  "validVersions": "1-2", "flexibleVersions": "2+",
  "fields": [ { "name": "A", "type": "string", "versions": "0+", "about": "prose", "default": null, "tag": "0",
                "taggedVersions": "2+", "nullableVersions": "2+" } ] }"""


def test_facts_come_out_of_jars_without_prose(tmp_path: Path) -> None:
    jar(tmp_path, "kafka-clients-4.9.0.jar", NEW)
    jar(tmp_path, "other-1.0.jar", "not a schema")
    found, release = read_jars([tmp_path])
    assert release == "4.9.0"
    (read,) = found["clients", "MadeUpRequest"]["fields"]
    assert read == {
        "name": "A", "type": "string", "versions": "0+", "tag": 0,
        "taggedVersions": "2+", "nullableVersions": "2+",
    }  # fmt: skip


def test_jars_of_two_releases_are_not_mixed(tmp_path: Path) -> None:
    jar(tmp_path, "kafka-clients-4.9.0.jar", NEW)
    jar(tmp_path, "kafka-clients-4.10.0.jar", NEW.replace('"1-2"', '"1-3"'))
    with pytest.raises(ValueError, match=r"several releases: 4\.10\.0, 4\.9\.0"):
        import_release([tmp_path], tmp_path / "schemas")


def test_a_release_is_laid_over_the_schemas(tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    old = NEW.replace('"1-2"', '"0-1"').replace("MadeUp", "Gone")
    first = jar(tmp_path, "kafka-clients-3.0.0.jar", NEW.replace('"1-2"', '"0-1"'), old)
    second = jar(tmp_path, "kafka-clients-4.9.0.jar", NEW)
    schemas.mkdir()
    assert import_release([first], schemas, fresh=True) == "2 schemas of 3.0.0"
    with pytest.raises(ValueError, match="the jars have no schemas"):
        import_release([tmp_path / "nowhere.jar", schemas], schemas)
    assert len(load_schemas(schemas)) == 2
    assert import_release([second], schemas) == "1 schemas of 4.9.0"
    assert {key: value["validVersions"] for key, value in load_schemas(schemas).items()} == {
        ("clients", "MadeUpRequest"): "0-2"
    }


def test_a_release_that_is_imported_ahead_is_not_spoken_until_it_is_imported_for_good(tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    older = jar(tmp_path, "kafka-clients-4.8.0.jar", NEW)
    newer = jar(tmp_path, "kafka-clients-4.9.0.jar", NEW.replace('"1-2"', '"1-3"'), NEW.replace("MadeUp", "Fresh"))
    import_release([older], schemas, fresh=True)
    assert load_ahead(schemas) == {}
    import_release([newer], schemas, ahead=True)
    assert load_ahead(schemas) == {"Fresh": -1, "MadeUp": 2}
    import_release([newer], schemas, ahead=True)  # a patch of it brings nothing new, and changes nothing
    assert load_ahead(schemas) == {"Fresh": -1, "MadeUp": 2}
    import_release([newer], schemas)
    assert load_ahead(schemas) == {}


def test_a_version_that_was_unstable_before_a_release_is_imported_ahead_is_not_spoken(tmp_path: Path) -> None:
    unstable = NEW.replace('"validVersions"', '"latestVersionUnstable": true, "validVersions"')
    steady = unstable.replace("MadeUp", "Steady").replace("999", "998")
    older = jar(tmp_path, "kafka-clients-4.8.0.jar", unstable, steady)
    newer = jar(
        tmp_path,
        "kafka-clients-4.9.0.jar",
        NEW.replace('"1-2"', '"1-3"'),  # a version more
        steady.replace("true", "false"),  # the same versions, and the last one is stable now
        unstable.replace("MadeUp", "Fresh").replace('"1-2"', '"0"'),  # a preview, not spoken anyway
    )
    import_release([older], tmp_path, fresh=True)
    import_release([newer], tmp_path, ahead=True)
    assert load_ahead(tmp_path) == {"MadeUp": 1, "Steady": 1}

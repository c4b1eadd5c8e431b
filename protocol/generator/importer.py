"""Import of a Kafka release. Rule: facts only (names, types, versions, tags, defaults), and the union loses no version.

The schemas in `protocol/schemas` are the union of all imported releases. The fields and their order are the new
release's. The old schemas add the lower versions that the new release has dropped, and the fields of those versions. A
message without versions in the new release (`none`) stays as it was. A message that is missing there was renamed or
withdrawn, and goes. Versions that a release marks as unstable were never promised: they lower nothing.

A release may be imported ahead: before the broker does what its new versions ask for. `ahead.json` beside the schemas
then has the newest stable version of each API before the import, -1 for a new API. Clients, tools and the broker go on
with these versions; a broker that emulates the release reads and writes the newer ones.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from protocol.generator.versions import UNBOUNDED, Versions

Json = dict[str, Any]

MESSAGE_FACTS = (
    "name", "type", "apiKey", "listeners",
    "validVersions", "deprecatedVersions", "flexibleVersions", "latestVersionUnstable",
)  # fmt: skip
FIELD_FACTS = (
    "name", "type", "versions", "nullableVersions", "flexibleVersions", "tag", "taggedVersions",
    "default", "ignorable", "mapKey", "entityType", "zeroCopy",
)  # fmt: skip

AHEAD = "ahead.json"  # for APIs with versions that are not spoken yet: the newest spoken version

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_SCHEMA = re.compile(r"(message|metadata)/\w+\.json$")
_JAR = re.compile(r"kafka-([a-z-]+)-(\d+(?:\.\d+)+)\.jar$")


def import_release(jars: Iterable[Path], schemas: Path, fresh: bool = False, ahead: bool = False) -> str:
    """Merge the release in `jars` into the folder `schemas`, and return a line for the user.

    Args:
        fresh: forget the schemas in the folder.
        ahead: keep the versions that are spoken as they are; without it all versions of the release are spoken.

    Raises:
        ValueError: no jar has a schema, or there are several releases; the folder stays as it was.
    """
    old = {} if fresh else load_schemas(schemas)
    new, release = read_jars(jars)
    merged = {area_name: merge(message, old.get(area_name), old) for area_name, message in new.items()}
    held_back = newest_spoken(merged.values(), old.values(), load_ahead(schemas)) if ahead else {}
    (schemas / AHEAD).write_text(json.dumps(held_back, indent=2, sort_keys=True) + "\n")
    for path in schemas.glob("*/*.json"):
        path.unlink()
    for (area, name), message in merged.items():
        (schemas / area).mkdir(parents=True, exist_ok=True)
        (schemas / area / f"{name}.json").write_text(dump(message))
    return f"{len(merged)} schemas of {release}"


def newest_spoken(merged: Iterable[Json], old: Iterable[Json], already: dict[str, int]) -> dict[str, int]:
    """Return the newest stable version of each API before the merge, by name, where the merge brings newer stable
    ones; -1 for a new API.
    """
    before, after = _newest_stable(old), _newest_stable(merged)
    return {name: before.get(name, -1) for name in after if before.get(name, -1) < after[name]} | already


def _newest_stable(messages: Iterable[Json]) -> dict[str, int]:
    """Return the newest version of each API that the release does not mark as unstable, by name."""
    return {
        each["name"].removesuffix("Request"): Versions.parse(each["validVersions"]).high
        - bool(each.get("latestVersionUnstable"))
        for each in messages
        if each["type"] == "request"
    }


def load_ahead(schemas: Path) -> dict[str, int]:
    """Return the newest spoken version of each API with versions that are not spoken yet."""
    path = schemas / AHEAD
    held_back: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    return held_back


def load_schemas(schemas: Path) -> dict[tuple[str, str], Json]:
    """Return all committed schemas, by area (the name of a jar) and name."""
    return {(path.parent.name, path.stem): json.loads(path.read_text()) for path in sorted(schemas.glob("*/*.json"))}


def read_jars(paths: Iterable[Path]) -> tuple[dict[tuple[str, str], Json], str]:
    """Return the schemas in jars, or in the jars of folders, and the release in the names of the jars.

    Raises:
        ValueError: no jar has a schema, or the jars with schemas are of several releases.
    """
    found: dict[tuple[str, str], Json] = {}
    releases = set()
    jars = [jar for path in paths for jar in (sorted(path.glob("*.jar")) if path.is_dir() else [path])]
    for jar in jars:
        if match := _JAR.match(jar.name):
            with zipfile.ZipFile(jar) as archive:
                for name in filter(_SCHEMA.search, sorted(archive.namelist())):
                    message = json.loads(_COMMENT.sub("", archive.read(name).decode()))
                    found[match[1], message["name"]] = facts(message)
                    releases.add(match[2])
    if not found:
        raise ValueError("the jars have no schemas: give those of a Kafka release, such as kafka-clients-4.3.0.jar")
    if len(releases) > 1:
        raise ValueError(f"the jars are of several releases: {', '.join(sorted(releases))}")
    return found, releases.pop()


def facts(message: Json) -> Json:
    """Return the message without prose."""
    kept = {key: message[key] for key in MESSAGE_FACTS if key in message}
    if structs := message.get("commonStructs"):
        kept["commonStructs"] = [
            {
                "name": struct["name"],
                "versions": struct["versions"],
                "fields": list(map(_field_facts, struct["fields"])),
            }
            for struct in structs
        ]
    kept["fields"] = [_field_facts(field) for field in message.get("fields", [])]
    return kept


def _field_facts(field: Json) -> Json:
    kept = {key: field[key] for key in FIELD_FACTS if key in field}
    if "tag" in kept:
        kept["tag"] = int(kept["tag"])
    if kept.get("default", "") is None:  # for Kafka's generator null is no default: the type's counts
        del kept["default"]
    elif not isinstance(kept.get("default", ""), str):
        kept["default"] = json.dumps(kept["default"])
    if "fields" in field:
        kept["fields"] = [_field_facts(inner) for inner in field["fields"]]
    return kept


def merge(new: Json, old: Json | None, all_old: dict[tuple[str, str], Json]) -> Json:
    """Return the new release's message, with the lower versions of the old message and their fields."""
    if old is None:
        return new
    if new["validVersions"] == "none":
        return old
    versions, old_versions = Versions.parse(new["validVersions"]), Versions.parse(old["validVersions"])
    floor = versions.low
    if old_versions.low >= floor or _all_unstable(old, all_old):
        return new
    kept = dict(new)
    kept["validVersions"] = str(Versions(old_versions.low, versions.high))
    kept["fields"] = merge_fields(new["fields"], old["fields"], floor)
    if "commonStructs" in new:
        old_fields = {struct["name"]: struct["fields"] for struct in old.get("commonStructs", [])}
        kept["commonStructs"] = [
            {**struct, "fields": merge_fields(struct["fields"], old_fields.get(struct["name"], []), floor)}
            for struct in new["commonStructs"]
        ]
    return kept


def _all_unstable(message: Json, others: dict[tuple[str, str], Json]) -> bool:
    """Return whether the API has a single version, and that is unstable; the mark stands in the request."""
    requests = (other for other in others.values() if other["type"] == "request")
    request = next((other for other in requests if other.get("apiKey") == message.get("apiKey")), message)
    versions = Versions.parse(request["validVersions"])
    return bool(request.get("latestVersionUnstable")) and versions.low == versions.high


def merge_fields(new: list[Json], old: list[Json], floor: int) -> list[Json]:
    """Return the new fields in order, with the old fields of versions under `floor` after the same neighbours."""
    result = [dict(field) for field in new]
    position = 0
    for field in old:
        known = next((index for index, other in enumerate(result) if other["name"] == field["name"]), None)
        if known is not None:
            _merge_field(result[known], field, floor)
            position = known + 1
        elif lower := Versions.parse(field["versions"]).below(floor):
            result.insert(position, {**field, "versions": str(lower)})
            position += 1
    return result


def _merge_field(new: Json, old: Json, floor: int) -> None:
    versions, old_versions = Versions.parse(new["versions"]), Versions.parse(old["versions"])
    if old_versions.low < versions.low and old_versions.low < floor:
        if versions.high != UNBOUNDED and versions.low > old_versions.high + 1:
            raise ValueError(f"field {new['name']} has a gap between {old_versions} and {versions}")
        new["versions"] = str(Versions(old_versions.low, versions.high))
    if old.get("ignorable"):
        new["ignorable"] = True
    if "fields" in new and "fields" in old:
        new["fields"] = merge_fields(new["fields"], old["fields"], floor)


def dump(message: Json) -> str:
    """Return a schema with one field on each line, indented by depth."""
    head = {key: value for key, value in message.items() if key not in ("commonStructs", "fields")}
    lines = ["{"] + [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    if "commonStructs" in message:
        lines.append('  "commonStructs": [')
        structs = [_dump_field(struct, 2) for struct in message["commonStructs"]]
        lines += [",\n".join(structs), "  ],"]
    lines.append('  "fields": [')
    if message["fields"]:
        lines.append(",\n".join(_dump_field(field, 2) for field in message["fields"]))
    return "\n".join([*lines, "  ]", "}", ""])


def _dump_field(field: Json, depth: int) -> str:
    indent = "  " * depth
    flat = json.dumps({key: value for key, value in field.items() if key != "fields"})
    if "fields" not in field:
        return indent + flat
    inner = ",\n".join(_dump_field(child, depth + 1) for child in field["fields"])
    return f'{indent}{flat[:-1]}, "fields": [\n{inner}\n{indent}]}}'

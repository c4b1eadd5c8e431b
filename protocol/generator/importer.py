"""Import of a Kafka release. Rule: facts only (names, types, versions, tags, defaults), and the union loses no version.

The schemas in `protocol/schemas` are the union of all imported releases. A new release lies on top: its fields and
their order count. What it no longer supports is kept from below: lower versions, and fields which only those have. A
message whose versions it empties (`none`) stays as it was; a message that it doesn't ship at all goes, for it was
renamed or withdrawn. Versions that a release marks as unstable were never promised: they lower nothing.

A release may be imported ahead: before the broker does what its new versions ask for. `ahead.json` beside the schemas
then lists the newest version of each API that had been there before, -1 for a new API. Clients, tools and the broker
go on with these versions; what emulates the release reads and writes the newer ones.
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

AHEAD = "ahead.json"  # APIs whose newest versions are not spoken yet: name, and the newest version that is

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_JAR = re.compile(r"kafka-([a-z-]+)-(\d+(?:\.\d+)+)\.jar$")


def import_release(jars: Iterable[Path], schemas: Path, fresh: bool = False, ahead: bool = False) -> str:
    """Lay the release in `jars` over the folder `schemas`, and return a line for the user.

    Args:
        fresh: lay the release over nothing.
        ahead: keep the versions that are spoken as they are; without it all versions of the release are spoken.
    """
    below = {} if fresh else load_schemas(schemas)
    above, releases = read_jars(jars)
    merged = {area_name: merge(message, below.get(area_name), below) for area_name, message in above.items()}
    held_back = newest_spoken(merged.values(), below.values(), load_ahead(schemas)) if ahead else {}
    (schemas / AHEAD).write_text(dump_ahead(held_back))
    for path in schemas.glob("*/*.json"):
        path.unlink()
    for (area, name), message in merged.items():
        (schemas / area).mkdir(parents=True, exist_ok=True)
        (schemas / area / f"{name}.json").write_text(dump(message))
    return f"{len(merged)} schemas of {', '.join(sorted(releases))}"


def newest_spoken(merged: Iterable[Json], below: Iterable[Json], already: dict[str, int]) -> dict[str, int]:
    """Return the newest version of each API before a release that brought newer ones, by name; -1 for a new API."""
    before = {message["name"]: Versions.parse(message["validVersions"]).high for message in below}
    newest = {m["name"]: Versions.parse(m["validVersions"]).high for m in merged if m["type"] == "request"}
    spoken = {
        name.removesuffix("Request"): before.get(name, -1)
        for name, high in sorted(newest.items())
        if before.get(name, -1) < high
    }
    return spoken | already


def load_ahead(schemas: Path) -> dict[str, int]:
    """Return the newest version that is spoken of each API with versions that are not."""
    path = schemas / AHEAD
    held_back: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    return held_back


def dump_ahead(held_back: dict[str, int]) -> str:
    return json.dumps(dict(sorted(held_back.items())), indent=2) + "\n"


def load_schemas(schemas: Path) -> dict[tuple[str, str], Json]:
    """Return all committed schemas, by area (the name of a jar) and name."""
    return {(path.parent.name, path.stem): json.loads(path.read_text()) for path in sorted(schemas.glob("*/*.json"))}


def read_jars(paths: Iterable[Path]) -> tuple[dict[tuple[str, str], Json], set[str]]:
    """Return the schemas in jars, or in the jars of folders, and the releases in the names of the jars."""
    found: dict[tuple[str, str], Json] = {}
    releases = set()
    jars = [jar for path in paths for jar in (sorted(path.glob("*.jar")) if path.is_dir() else [path])]
    for jar in jars:
        if match := _JAR.match(jar.name):
            for text in _json_resources(jar):
                message = json.loads(_COMMENT.sub("", text))
                found[match[1], message["name"]] = facts(message)
                releases.add(match[2])
    return found, releases


def _json_resources(jar: Path) -> list[str]:
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.search(r"(message|metadata)/\w+\.json$", name)]
        return [archive.read(name).decode() for name in sorted(names)]


def facts(message: Json) -> Json:
    """The message without prose."""
    kept = {key: message[key] for key in MESSAGE_FACTS if key in message}
    if structs := message.get("commonStructs"):
        kept["commonStructs"] = [
            {
                "name": struct["name"],
                "versions": struct["versions"],
                "fields": [_field_facts(field) for field in struct["fields"]],
            }
            for struct in structs
        ]
    kept["fields"] = [_field_facts(field) for field in message.get("fields", [])]
    return kept


def _field_facts(field: Json) -> Json:
    kept = {key: field[key] for key in FIELD_FACTS if key in field}
    if "tag" in kept:
        kept["tag"] = int(kept["tag"])
    if kept.get("default", "") is None:  # which Kafka's own generator takes for none: the default of the type
        del kept["default"]
    if "default" in kept:
        kept["default"] = kept["default"] if isinstance(kept["default"], str) else json.dumps(kept["default"])
    if "fields" in field:
        kept["fields"] = [_field_facts(inner) for inner in field["fields"]]
    return kept


def merge(above: Json, below: Json | None, all_below: dict[tuple[str, str], Json]) -> Json:
    """Return the newer release's message, with the fields of older versions."""
    if below is None:
        return above
    if above["validVersions"] == "none":
        return below
    new, old = Versions.parse(above["validVersions"]), Versions.parse(below["validVersions"])
    if old.low >= new.low or _all_unstable(below, all_below):
        return above
    kept = dict(above)
    kept["validVersions"] = str(Versions(old.low, new.high))
    kept["fields"] = merge_fields(above["fields"], below["fields"], new.low)
    if "commonStructs" in above:
        olds = {struct["name"]: struct for struct in below.get("commonStructs", [])}
        kept["commonStructs"] = [
            {
                **struct,
                "fields": merge_fields(struct["fields"], olds.get(struct["name"], {"fields": []})["fields"], new.low),
            }
            for struct in above["commonStructs"]
        ]
    return kept


def _all_unstable(message: Json, others: dict[tuple[str, str], Json]) -> bool:
    """Return whether every version of the API was a preview; the mark stands in the request."""
    request = next(
        (m for m in others.values() if m["type"] == "request" and m.get("apiKey") == message.get("apiKey")), message
    )
    versions = Versions.parse(request["validVersions"])
    return bool(request.get("latestVersionUnstable")) and versions.low == versions.high


def merge_fields(above: list[Json], below: list[Json], floor: int) -> list[Json]:
    """Return the fields of `above` in order, with the fields of versions under `floor` at their places in `below`."""
    result = [dict(field) for field in above]
    position = 0
    for field in below:
        known = next((index for index, other in enumerate(result) if other["name"] == field["name"]), None)
        if known is not None:
            _merge_field(result[known], field, floor)
            position = known + 1
        elif lower := Versions.parse(field["versions"]).below(floor):
            result.insert(position, {**field, "versions": str(lower)})
            position += 1
    return result


def _merge_field(above: Json, below: Json, floor: int) -> None:
    old, new = Versions.parse(below["versions"]), Versions.parse(above["versions"])
    if old.low < new.low and old.low < floor:
        if new.high != UNBOUNDED and new.low > old.high + 1:
            raise ValueError(f"field {above['name']} has a gap between {old} and {new}")
        above["versions"] = str(Versions(old.low, new.high))
    if below.get("ignorable"):
        above["ignorable"] = True
    if "fields" in above and "fields" in below:
        above["fields"] = merge_fields(above["fields"], below["fields"], floor)


def dump(message: Json) -> str:
    """Return a schema with a field a line, indented by depth: small to read and to compare."""
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

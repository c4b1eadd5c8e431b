"""Records what a Kafka release says of its configs.

Rule: facts only, and nothing is edited by hand afterwards; what this broker makes of a key stands in `effects.py`.

    record.py definitions JAR_DIRECTORY CONFIGS_JSON    data.json: names, types, defaults, limits, update modes,
    synonyms; and verdicts.json
    record.py verdicts JAR_DIRECTORY    verdicts.json: Kafka's word on sample values of each kind of key
    record.py newer JAR_DIRECTORY 4.4    data.json: the keys that came with this release, marked with it
    record.py described JAR_DIRECTORY BOOTSTRAP PROPERTIES [FILE]    described.json, or another file: the answers of a
    fresh running broker
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE.parents[2] / "pykafka_broker" / "config" / "data.json"
VERDICTS = HERE.parent / "verdicts.json"
DESCRIBED = HERE.parent / "described.json"
MAX_OF_TYPE = {"SHORT": 2**15 - 1, "INT": 2**31 - 1, "LONG": 2**63 - 1}
RULES = {
    "ControllerQuorumVotersValidator": "quorum-voters",
    "ControllerQuorumBootstrapServersValidator": "bootstrap-servers",
    "ThrottledReplicaListValidator": "throttled-replicas",
    "NonEmptyString": "non-empty",
    "LambdaValidator": "gzip-level",
    "Validator": "offset-reset",
}
# Keys of releases before 4.0 that the list of 3.9 no longer has, but old server.properties files do.
OLDER_KEYS = {"port": {"type": "INT", "default": "9092", "removed": True}}
# Keys that can only be set at run time (DynamicConfig.Broker); no list shows them unless they are.
DYNAMIC_ONLY = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


def definition(name: str, fact: dict[str, Any], modes: dict[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": fact["type"], "default": fact["default"]}
    for limit in ("min", "max"):
        if fact.get(limit) is not None and fact[limit] != MAX_OF_TYPE.get(fact["type"]):
            entry[limit] = fact[limit]
    if fact.get("allowed"):
        entry["allowed"] = fact["allowed"]
    validator = fact.get("validator")
    if validator == "CaseInsensitiveValidString":
        entry["allowed"] = fact["text"].partition("[")[2].rstrip("]").split(", ")
        entry["rule"] = "any-case"
    if validator == "ValidList":
        entry["rule"] = "list" if fact["allow_empty"] else "non-empty-list"
    if validator in RULES:
        entry["rule"] = RULES[validator]
    if name in modes:
        entry["mode"] = modes[name]
    if fact.get("internal"):
        entry["internal"] = True
    return entry


def collect(dump: dict[str, Any], facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = {}
    for scope, keys in dump["keys"].items():
        modes = dump["modes"] if scope == "broker" else {}
        data[scope] = {name: definition(name, fact, modes) for name, fact in keys.items()}
        for name, fact in facts.get(scope, {}).items():
            if fact.get("removed_in_4"):
                # the page of an old release ran its columns together in one place
                default = fact["default"].split()[0] if fact["default"] else None
                data[scope][name] = {"type": fact["type"], "default": default, "removed": True}
    data["broker"].update(OLDER_KEYS)
    for name in DYNAMIC_ONLY:
        fact = {"type": "LONG", "default": None, "min": 0, "internal": True}
        data["broker"][name] = definition(name, fact, dump["modes"])
    for name, synonyms in dump["topic_synonyms"].items():
        data["topic"][name]["synonyms"] = synonyms
    for name, synonym in dump["group_synonyms"].items():
        data["group"][name]["synonyms"] = [[synonym, 1]]
    return data


def verdicts(dump: dict[str, Any], data: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rows of one key for each combination of type, limits and rule."""
    seen: set[str] = set()
    out: dict[str, dict[str, Any]] = {}
    for scope, keys in dump["verdicts"].items():
        for name, rows in keys.items():
            entry = data[scope][name]
            if entry.get("rule") == "repeatable-list":
                continue  # the broker takes repeated values out before Kafka's class sees them
            kind = json.dumps([entry["type"], *(entry.get(k) for k in ("min", "max", "allowed", "rule"))])
            if rows and kind not in seen:
                seen.add(kind)
                out.setdefault(scope, {})[name] = rows
    return out


def one_line_each(table: dict[str, dict[str, Any]]) -> str:
    scopes = []
    for scope, keys in table.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(keys[name])}" for name in sorted(keys))
        scopes.append(f" {json.dumps(scope)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(scopes) + "\n}\n"


def java(jars: str, program: str, *arguments: str) -> Any:
    command = ["java", "-cp", f"{jars}/*", str(HERE / program), *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def definitions(jars: str, configs_json: str) -> None:
    dump = java(jars, "DumpConfigs.java")
    data = collect(dump, json.loads(Path(configs_json).read_text()))
    DATA.write_text(one_line_each(data))
    VERDICTS.write_text(one_line_each(verdicts(dump, data)))


def values(jars: str) -> None:
    """Record what the release says of values, of keys that are known already."""
    VERDICTS.write_text(one_line_each(verdicts(java(jars, "DumpConfigs.java"), json.loads(DATA.read_bytes()))))


def newer(jars: str, release: str) -> None:
    """Add the keys of a release that is newer than the one this broker is."""
    data = json.loads(DATA.read_bytes())
    for scope, keys in collect(java(jars, "DumpConfigs.java"), {}).items():
        known = {name for name, entry in data[scope].items() if entry.get("since") != release}
        data[scope] |= {name: entry | {"since": release} for name, entry in keys.items() if name not in known}
    DATA.write_text(one_line_each(data))


def described(jars: str, bootstrap: str, properties: str, file: str = str(DESCRIBED)) -> None:
    answers = java(jars, "DescribeConfigs.java", bootstrap, properties)
    static = answers.pop("static")
    table = {"static": static}
    for resource, answer in answers.items():
        table[resource] = {"set": answer["set"]} | answer["entries"]
    text = one_line_each(table).replace(static["log.dirs"], "/data")
    Path(file).write_text(text)


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {
        "definitions": definitions,
        "verdicts": values,
        "newer": newer,
        "described": described,
    }
    commands[sys.argv[1]](*sys.argv[2:])

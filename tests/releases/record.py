"""Records what each release of Kafka says of itself, into `pykafka_broker/releases/data.json`.

Rule: facts only, and nothing is edited by hand afterwards. Ranges of versions come from a list of them; error codes
and config keys are what the release itself prints, from its own jars, which Maven fetches. What a release has in common
with the one before it is not repeated.

    python -m tests.releases.record RELEASES_JSON FOLDER    the folder keeps the jars and what they printed
    python -m tests.releases.record add 4.4.0               one more release: started, and asked for versions and levels
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from interop.jars import KAFKA_VERSION, release_jars
from interop.java import java_command
from interop.raw import RawClient
from interop.real_kafka import RealKafka
from interop.toolchains import java_classes
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest

DATA = Path(__file__).parents[2] / "pykafka_broker" / "releases" / "data.json"
PAGES = {
    "broker": ("kafka.server.KafkaConfig",),
    "topic": ("kafka.log.LogConfig", "org.apache.kafka.storage.internals.log.LogConfig"),
    "errors": ("org.apache.kafka.common.protocol.Errors",),
}
_POM = """<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_{scala}</artifactId>
<version>{release}</version></dependency></dependencies></project>"""
# Releases that do not answer ApiVersions: what their request parsers take, and their last error code.
OLDEST: dict[str, tuple[dict[str, list[int]], int]] = {
    "0.8.2.2": (
        {"0": [0, 0], "1": [0, 0], "2": [0, 0], "3": [0, 0], "4": [0, 0], "5": [0, 0], "6": [0, 0], "7": [0, 0],
         "8": [0, 1], "9": [0, 1], "10": [0, 0]},
        22,
    ),
    "0.9.0.1": (
        {"0": [0, 1], "1": [0, 1], "2": [0, 0], "3": [0, 0], "4": [0, 0], "5": [0, 0], "6": [0, 1], "7": [0, 1],
         "8": [0, 2], "9": [0, 1], "10": [0, 0], "11": [0, 0], "12": [0, 0], "13": [0, 0], "14": [0, 0],
         "15": [0, 0], "16": [0, 0]},
        31,
    ),
}  # fmt: skip
# What a fresh broker of KRaft answers: lowest and highest level, and the one in force. Before 3.3 there was none to
# speak of.
FEATURES: dict[str, dict[str, list[int]]] = {
    **{
        release: {"metadata.version": [1, level, level]}
        for release, level in {"3.3.2": 7, "3.4.1": 8, "3.5.2": 11, "3.6.2": 14, "3.7.2": 19, "3.8.1": 20}.items()
    },
    "3.9.2": {"kraft.version": [0, 1, 0], "metadata.version": [1, 21, 21]},
    "4.0.1": {
        "group.version": [0, 1, 1],
        "kraft.version": [0, 1, 0],
        "metadata.version": [7, 25, 25],
        "transaction.version": [0, 2, 2],
        "eligible.leader.replicas.version": [0, 1, 0],
    },
    "4.1.2": {
        "group.version": [0, 1, 1],
        "kraft.version": [0, 1, 0],
        "metadata.version": [7, 27, 27],
        "share.version": [0, 1, 0],
        "transaction.version": [0, 2, 2],
        "eligible.leader.replicas.version": [0, 1, 1],
    },
    "4.2.1": {
        "group.version": [0, 1, 1],
        "kraft.version": [0, 1, 0],
        "metadata.version": [7, 29, 29],
        "share.version": [0, 1, 1],
        "streams.version": [0, 1, 1],
        "transaction.version": [0, 2, 2],
        "eligible.leader.replicas.version": [0, 1, 1],
    },
    "4.3.1": {
        "group.version": [0, 1, 1],
        "kraft.version": [0, 1, 0],
        "share.version": [0, 1, 1],
        "metadata.version": [7, 30, 30],
        "eligible.leader.replicas.version": [0, 1, 1],
        "transaction.version": [0, 2, 2],
        "streams.version": [0, 1, 1],
    },
}


# Offered from version 0 on, for librdkafka, which asks for compression by it; a request below 3 closes its connection.
SERVED_FROM = {"0": 3}


def number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.partition("-")[0].split(".")))  # a candidate counts as its release


def fetch(release: str, folder: Path) -> None:
    """Fetch the release's jars and have the release print its pages."""
    folder.mkdir(parents=True, exist_ok=True)
    scala = "2.11" if number(release) < (2, 5) else "2.13"
    (folder / "pom.xml").write_text(_POM.format(scala=scala, release=release))
    maven = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies"]
    subprocess.run([*maven, f"-DoutputDirectory={folder / 'jars'}"], check=True)
    print_pages(folder / "jars", folder)


def print_pages(jars: Path, folder: Path) -> None:
    """Have the classes in the jars print their pages into the folder."""
    for page, classes in PAGES.items():
        for name in classes:
            done = subprocess.run(java_command("-cp", f"{jars}/*", name), capture_output=True, check=False)
            if done.returncode == 0:
                (folder / f"{page}.html").write_bytes(done.stdout)


def definitions(page: str) -> dict[str, list[str | None]]:
    """Return type and default of every key on a page.

    A page is a table before 2.4, a list with lists in 2.4, and a list of tables since.
    """
    if "<li><b>Type</b>" in page:
        found = {}
        for name, part in re.findall(r"<li><b>([a-z][a-z0-9.]+)</b>:(.*?)</ul></li>", page, re.S):
            facts = dict(re.findall(r"<li><b>(\w+)</b>: (.*?)</li>", part, re.S))
            found[name] = (facts["Type"], facts.get("Default", ""))
    elif "<h4>" not in page:
        rows = [re.findall(r"<td>(.*?)</td>", row, re.S) for row in page.split("<tr>")]
        found = {row[0]: (row[2], row[3]) for row in rows if len(row) >= 4}
    else:
        found = {}
        for part in page.split("<h4>")[1:]:
            [name] = re.findall(r">([^<>]+)</a></h4>", part)
            facts = dict(re.findall(r"<th>(\w+):</th><td>(.*?)</td>", part, re.S))
            found[name] = (facts["Type"], facts.get("Default", ""))
    return {name: [kind.strip(), default_text(default)] for name, (kind, default) in found.items()}


def default_text(cell: str) -> str | None:
    """Return a default as text, without a meaning in brackets behind a number; None for null."""
    text = html.unescape(re.sub(r"<[^>]*>", "", cell)).strip().strip('"')
    text = re.sub(r"^(-?\d+) \(.*\)$", r"\1", text)
    return None if text == "null" else text


def last_error(page: str) -> int:
    codes = sorted(int(code) for code in re.findall(r"<td>(-?\d+)</td><td>(?:True|False)", page))
    assert codes == list(range(-1, codes[-1] + 1))
    return codes[-1]


def changes(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the entries that are new or changed, and None for each entry that is gone."""
    gone = dict.fromkeys(before.keys() - now.keys())
    return {name: value for name, value in sorted((now | gone).items()) if before.get(name, ()) != value}


def main(ranges_path: str, folder: str) -> None:
    ranges = {release: apis for release, (apis, _) in OLDEST.items()} | json.loads(Path(ranges_path).read_bytes())
    before: dict[str, dict[str, Any]] = {"apis": {}, "broker": {}, "topic": {}}
    out = {}
    for release in sorted(ranges, key=number):
        at = Path(folder) / release
        if release == "0.8.2.2":  # it has no list of its keys, nor a request that would show them
            at = Path(folder) / "0.9.0.1"
        if not (at / "broker.html").exists():
            fetch(at.name, at)
        now = {
            "apis": ranges[release],
            "broker": definitions((at / "broker.html").read_text()),
            "topic": definitions((at / "topic.html").read_text()),
        }
        error = OLDEST[release][1] if release in OLDEST else last_error((at / "errors.html").read_text())
        out[release] = {"last_error": error} | {part: changes(now[part], before[part]) for part in now}
        if release in FEATURES:
            out[release]["features"] = FEATURES[release]
        before = now
    write(out)


def write(recorded: dict[str, Any]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(facts, separators=(',', ':'))}" for name, facts in recorded.items()]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def add(release: str) -> None:
    """Record one more release, the newest, behind those that are recorded; a second run records it anew."""
    recorded = {name: facts for name, facts in json.loads(DATA.read_bytes()).items() if number(name) < number(release)}
    before = facts_of(recorded, next(reversed(recorded)))
    with tempfile.TemporaryDirectory() as folder:
        print_pages(release_jars(release), Path(folder))
        pages = {page: (Path(folder) / f"{page}.html").read_text() for page in PAGES}
    apis, features = asked(release)
    now: dict[str, dict[str, Any]] = {"apis": apis} | {part: definitions(pages[part]) for part in ("broker", "topic")}
    facts = {part: changes(now[part], before[part]) for part in ("apis", "broker", "topic")}
    recorded[release] = {
        "last_error": last_error(pages["errors"]),
        **facts,
        "features": features,
    }
    write(recorded)


def facts_of(recorded: dict[str, Any], release: str) -> dict[str, dict[str, Any]]:
    """Return all APIs, config keys and features of a recorded release, with those that older releases had too."""
    found: dict[str, dict[str, Any]] = {"apis": {}, "broker": {}, "topic": {}}
    for version, facts in recorded.items():
        for part, known in found.items():
            known |= facts[part]
        if version == release:
            break
    held = {part: {name: fact for name, fact in known.items() if fact is not None} for part, known in found.items()}
    return held | {"features": recorded[release].get("features", {})}


def asked(release: str) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Return what a fresh broker of the release answers: ranges of versions, and levels of features.

    It has a receiver of clients' metrics, without which a Kafka does not offer the APIs of telemetry.
    """
    receiver, plugins = {"metric.reporters": "TelemetryReceiver"}, java_classes("TelemetryReceiver", KAFKA_VERSION)
    with RealKafka(receiver, release=release, plugins=plugins) as kafka, RawClient(kafka.bootstrap_servers) as client:
        answer = client.call(ApiVersionsRequest("recorder", "1"), 4)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return (
        {
            str(each.api_key): [max(each.min_version, SERVED_FROM.get(str(each.api_key), 0)), each.max_version]
            for each in answer.api_keys
        },
        {
            each.name: [each.min_version, each.max_version, levels.get(each.name, 0)]
            for each in answer.supported_features
        },
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["add", release]:
            add(release)
        case [ranges_path, folder]:
            main(ranges_path, folder)
        case _:
            sys.exit(__doc__)

"""A data directory changes hands between Apache Kafka and this broker, there and back, after clean stops and after
kill -9: each serves what the other wrote, and Kafka's dump tool has nothing to complain of in any file. So do two
directories of a dynamic quorum, whose metadata log this broker cuts down to a snapshot.
"""

import re
from itertools import groupby
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from interop import exchanged
from interop.java_tools import JavaTools
from interop.real_kafka import RealKafka
from interop.waiting import eventually
from pykafka_broker.testing import KafkaBroker

pytestmark = [pytest.mark.java, pytest.mark.ours_only]

DECODERS = {
    "__consumer_offsets": ["--offsets-decoder"],
    "__transaction_state": ["--transaction-log-decoder"],
    "__cluster_metadata": ["--cluster-metadata-decoder"],
}
# What the tool says of any file; of compacted ones, that there are gaps between their offsets, and of a log that was
# trimmed, that it does not begin at zero.
GAPS = ("SLF4J", "Non-consecutive offsets in ")
EXPECTED = {"": ("SLF4J",), "compacted": (*GAPS, "  "), "__cluster_metadata": (*GAPS, "  -1 is followed by ")}
COMPLAINT = re.compile(
    r"isvalid: false|mismatch|out of order|corrupt|could not|error|exception|invalid|unable|not found|skip",
    re.IGNORECASE,
)


def ours(directory: Path) -> KafkaBroker:
    return KafkaBroker(exchanged.QUICK, data_dir=directory / "logs")


def kafka(directory: Path) -> RealKafka:
    return RealKafka(exchanged.QUICK, directory=directory)


def test_ours_to_kafka_and_back_twice(tmp_path: Path, java: JavaTools) -> None:
    """Two hand-overs are clean, and two come after kill -9: Kafka recovers our files, and we recover Kafka's."""
    written = exchanged.Written()
    with ours(tmp_path) as broker:
        exchanged.create(broker.bootstrap_servers, written)
        exchanged.write(broker.bootstrap_servers, written)
    with kafka(tmp_path) as broker:
        go_on(broker.bootstrap_servers, written)
    with ours(tmp_path) as broker:
        go_on(broker.bootstrap_servers, written)
        kill(broker, written, tmp_path / "logs")
    with kafka(tmp_path) as broker:
        go_on(broker.bootstrap_servers, written)
        kill(broker, written, tmp_path / "logs")
    with ours(tmp_path) as broker:
        exchanged.check(broker.bootstrap_servers, written)  # compaction is done then
    dump_everything(java, tmp_path / "logs")


def test_a_dynamic_quorum_with_two_directories(tmp_path: Path, java: JavaTools) -> None:
    """A dynamic quorum (KIP-853) with two directories (KIP-858) and a trimmed metadata log changes hands."""
    first, second = tmp_path / "logs", tmp_path / "more"
    config = {**exchanged.QUICK, "log.dirs": f"{first},{second}"}
    written = exchanged.Written()
    with RealKafka(config, directory=tmp_path, standalone=True) as broker:
        exchanged.create(broker.bootstrap_servers, written)
        exchanged.write(broker.bootstrap_servers, written)
    trimming = {"metadata.log.max.record.bytes.between.snapshots": "200", "metadata.max.retention.bytes": "0"}
    with KafkaBroker({**config, **trimming, "log.segment.delete.delay.ms": "0"}) as ours:
        go_on(ours.bootstrap_servers, written)
        moved = move_one(ours.bootstrap_servers, first, second)
        kill(ours, written, first, second)
    metadata = first / "__cluster_metadata-0"
    logs, snapshots = sorted(metadata.glob("*.log")), sorted(metadata.glob("*.checkpoint"))
    assert int(logs[0].stem) > 0
    assert len(snapshots) == 1
    dump(java, "__cluster_metadata", logs, "--deep-iteration", "--cluster-metadata-decoder")
    dump(java, "__cluster_metadata", snapshots, "--cluster-metadata-decoder")
    with RealKafka(config, directory=tmp_path, standalone=True) as broker:
        go_on(broker.bootstrap_servers, written)
        assert log_dirs(broker.bootstrap_servers)[moved] == str(second)
        kill(broker, written, first, second)
    with KafkaBroker(config) as ours:
        exchanged.check(ours.bootstrap_servers, written)
        assert log_dirs(ours.bootstrap_servers)[moved] == str(second)


def log_dirs(bootstrap: str) -> dict[tuple[str, int], str]:
    """Return the directory of each partition; a copy that is being made does not count."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        (answer,) = admin.describe_log_dirs()
    finally:
        admin.close()
    return {
        (topic["name"], partition["partition_index"]): directory["log_dir"]
        for directory in answer["log_dirs"]
        for topic in directory["topics"]
        for partition in topic["partitions"]
        if not partition["is_future_key"]
    }


def move_one(bootstrap: str, source: Path, target: Path) -> tuple[str, int]:
    """Move a partition from one directory to the other; return its topic and number."""
    places = log_dirs(bootstrap)
    moved = next(key for key, place in places.items() if key[0].startswith("codec-") and place == str(source))
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.alter_replica_log_dirs({(*moved, 1): str(target)})
    finally:
        admin.close()
    eventually(lambda: log_dirs(bootstrap)[moved], str(target))
    return moved


def go_on(bootstrap: str, written: exchanged.Written) -> None:
    """Check that the records of earlier rounds are there, and write a further round."""
    exchanged.check(bootstrap, written)
    exchanged.write(bootstrap, written)


def kill(broker: RealKafka | KafkaBroker, written: exchanged.Written, *directories: Path) -> None:
    """Kill a broker that has written down where its trimmed partitions begin."""
    eventually(lambda: exchanged.is_checkpointed(directories, written), True)
    broker.kill()


def dump_everything(java: JavaTools, data_dir: Path) -> None:
    """Check that every kind of file is there, and that Kafka's dump tool reads each without complaint."""
    kinds: set[str] = set()
    folders = sorted(path for path in data_dir.iterdir() if path.is_dir())
    for topic, of_topic in groupby(folders, lambda folder: folder.name.rpartition("-")[0]):
        files = [file for folder in of_topic for file in sorted(folder.iterdir())]
        files = [file for file in files if file.stat().st_size or file.suffix == ".log"]
        decoder = DECODERS.get(topic, [])
        for suffixes, options in (
            ({".log"}, ["--deep-iteration", *decoder]),
            ({".index", ".timeindex"}, ["--index-sanity-check"]),
            ({".index", ".timeindex"}, ["--verify-index-only"]),
            ({".snapshot", ".txnindex"}, []),
            ({".checkpoint"}, decoder),
        ):
            kinds |= dump(java, topic, [file for file in files if file.suffix in suffixes], *options)
    assert {".log", ".index", ".timeindex", ".snapshot", ".txnindex"} <= kinds


def dump(java: JavaTools, topic: str, files: list[Path], *options: str) -> set[str]:
    if files:
        done = java.run("kafka-dump-log", *options, "--files", ",".join(map(str, files)))
        expected = EXPECTED.get(topic, EXPECTED[""])
        said = [line for line in done.err.splitlines() if not line.startswith(expected)]
        assert (done.status, said) == (0, []), f"{files}: {said}"
        complaints = [line for line in done.lines if COMPLAINT.search(line.partition(" payload: ")[0])]
        assert not complaints, f"{files}: {complaints[:5]}"
        assert done.out.count("Dumping ") == len(files)
    return {file.suffix for file in files}

"""Whose a checkpoint is. Rule: a checkpoint belongs to one job, topic and cluster, and to the output that it wrote;
offsets of another topic are only numbers, and using them would lose or double records in silence.

Looking and taking are two steps: a run that is refused for whatever reason leaves nothing behind.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from pipeline import source, tables
from pipeline.errors import CheckpointError, UnknownTopic
from pipeline.files import AnyFiles, Files
from pipeline.kafka import Kafka
from pipeline.settings import Settings

OWNER_FILE = "pipeline.json"
OUTPUT_OWNER_FILE = "_pipeline.json"  # Spark's readers leave out names that begin with _


@dataclass(frozen=True)
class Claim:
    """A checkpoint that a job may use, and the folder of the table that the job writes; empty for none."""

    path: str
    output: str
    owner: dict[str, str]
    is_new: bool

    @property
    def id(self) -> str:
        return self.owner["id"]

    def take(self, files: Files) -> None:
        """Note that checkpoint and table are this job's from now on."""
        if self.is_new:
            files.write(f"{self.path}/{OWNER_FILE}", json.dumps(self.owner) + "\n")
        self._clear(files)
        name = f"{self.output}/{OUTPUT_OWNER_FILE}"
        if self.output and not files.exists(name):
            files.write(name, json.dumps({"checkpoint": self.id}) + "\n")

    def _clear(self, files: Files) -> None:
        """Remove what a kill in the middle of the first batch's plan leaves: an unfinished file, which makes Spark 4.3
        refuse the checkpoint, as its folder is not empty before batch 0."""
        for folder in (f"{self.path}/offsets", f"{self.path}/commits"):
            names = files.names(folder)
            if all(name.startswith(".") for name in names):
                for name in names:
                    files.delete(f"{folder}/{name}")


def claim(
    files: AnyFiles, settings: Settings, kafka: Kafka, job: str, *, of: str = "", output: str = "", bronze: str = ""
) -> Claim:
    """Return a job's checkpoint, if that is the job's or nobody's, and so is the output.

    Args:
        files: where both are.
        settings: of the job.
        kafka: of the settings.
        job: its name.
        of: the table that the checkpoint is named after, beside the job.
        output: the folder of the table that the job writes.
        bronze: the table that is read, and not the topic.

    Raises:
        CheckpointError: somebody else's, or a table of another format.
        UnknownTopic: the topic, or the table that is read, is not there.
    """
    topic, options = settings.bronze_topic, settings.source
    path = settings.path(f"checkpoints/{job}{of and '-'}{of}")
    mine = {"job": job, "topic": source.name_of(options, topic), "cluster": kafka.cluster_id()}
    if bronze:
        mine["topic"] = topic = f"of the table {files.qualified(bronze)}"
        topic_id = owner_of_table(files, bronze)
    elif "subscribePattern" in options:  # each topic is remembered for the run; a checkpoint has no list of their ids
        for matching in kafka.matching(source.pattern(options)):
            kafka.remember(matching)
        topic_id = ""
    else:
        topic_id = kafka.remember(topic)
    owner = _noted(files, f"{path}/{OWNER_FILE}", "id")
    if owner is None:
        if files.exists(f"{path}/offsets") or files.exists(f"{path}/metadata"):
            raise CheckpointError(f"the checkpoint {path} was not made by this pipeline; set another data_dir")
        found = Claim(path, output, {**mine, "topic_id": topic_id, "id": uuid.uuid4().hex}, is_new=True)
    else:
        for name, value in mine.items():
            if owner.get(name) != value:
                raise CheckpointError(
                    f"the checkpoint {path} is of {name} {owner.get(name)!r}, and this is {name} {value!r}"
                )
        require_same_topic(topic, topic_id, owner.get("topic_id"), f"the checkpoint {path}", "set another data_dir")
        found = Claim(path, output, owner, is_new=False)
    if output:
        _check_output(files, found.id, output)
        tables.require_format(files, settings, output)
    return found


def _noted(files: AnyFiles, path: str, id_name: str) -> dict[str, Any] | None:
    """Return what a file says of an owner; None where there is no file. id_name: how the owner's id is called there."""
    text = files.read(path)
    if text is None:
        return None
    try:
        owner: dict[str, Any] = json.loads(text)
        owner[id_name] = str(owner[id_name])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged") from error
    return owner


def require_same_topic(topic: str, topic_id: str, known: str | None, of: str, remedy: str) -> None:
    """Refuse a topic that was made anew: names live longer than topics. A broker, or an owner, without ids has to be
    believed."""
    if topic_id and known and topic_id != known:
        raise CheckpointError(
            f"topic {topic} was deleted and made anew, and {of} has offsets of the old one: they are other records "
            f"now; to begin with the new one, {remedy}"
        )


def owner_of_table(files: AnyFiles, path: str) -> str:
    """Return the id of the checkpoint that wrote the table. Raises UnknownTopic if there is no table."""
    owner = _noted(files, f"{path}/{OUTPUT_OWNER_FILE}", "checkpoint")
    if owner is None:
        raise UnknownTopic(f"there is no table of the job bronze in {path}")
    return str(owner["checkpoint"])


def _check_output(files: AnyFiles, checkpoint_id: str, path: str) -> None:
    """Refuse a table of another checkpoint: a new one would write everything a second time."""
    owner = _noted(files, f"{path}/{OUTPUT_OWNER_FILE}", "checkpoint")
    if owner is None:
        if any(not name.startswith((".", "_")) for name in files.names(path)):
            raise CheckpointError(f"{path} holds files that this pipeline did not write")
    elif owner["checkpoint"] != checkpoint_id:
        raise CheckpointError(
            f"the table {path} was written with another checkpoint, and this one would write it again from its start: "
            "bring that checkpoint back, or remove the table"
        )

"""Whose a checkpoint is. Rule: a checkpoint belongs to one job, topic and cluster, and to the output that it wrote;
offsets of another topic are only numbers, and using them would lose or double records in silence.

Looking and taking are two steps: a run that is refused for whatever reason leaves nothing behind.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass

from pipeline import source
from pipeline.context import Context
from pipeline.errors import CheckpointError, UnknownTopic
from pipeline.files import Files

OWNER_FILE = "pipeline.json"
OUTPUT_OWNER_FILE = "_pipeline.json"  # Spark's readers leave out names that begin with _


@dataclass(frozen=True)
class Claim:
    """A checkpoint that a job may use."""

    files: Files
    path: str
    owner: dict[str, str]
    is_new: bool

    @property
    def id(self) -> str:
        return self.owner["id"]

    def take(self) -> None:
        """It is this job's from now on."""
        if self.is_new:
            self.files.write(f"{self.path}/{OWNER_FILE}", json.dumps(self.owner) + "\n")
        self._clear()

    def _clear(self) -> None:
        """Remove what a kill in the middle of the first batch's plan leaves: an unfinished file, which makes Spark 4.3
        refuse the checkpoint, as its folder is not empty before batch 0."""
        for folder in (f"{self.path}/offsets", f"{self.path}/commits"):
            names = self.files.names(folder)
            if all(name.startswith(".") for name in names):
                for name in names:
                    self.files.delete(f"{folder}/{name}")


def claim(context: Context, job: str, topic: str, path: str, *, bronze: str = "") -> Claim:
    """The checkpoint at `path`, if it is this job's or nobody's. bronze: the table that is read, and not the topic."""
    files = Files(context.spark)
    options = context.settings.source
    mine = {"job": job, "topic": source.name_of(options, topic), "cluster": context.kafka.cluster_id()}
    if bronze:
        mine["topic"] = topic = f"of the table {files.qualified(bronze)}"
        topic_id = owner_of_table(files, bronze)
    elif "subscribePattern" in options:  # each topic is remembered for the run; a checkpoint has no list of their ids
        for matching in context.kafka.matching(source.pattern(options)):
            context.kafka.remember(matching)
        topic_id = ""
    else:
        topic_id = context.kafka.remember(topic)
    text = files.read(f"{path}/{OWNER_FILE}")
    if text is None:
        if files.exists(f"{path}/offsets") or files.exists(f"{path}/metadata"):
            raise CheckpointError(f"the checkpoint {path} was not made by this pipeline; set another data_dir")
        return Claim(files, path, {**mine, "topic_id": topic_id, "id": uuid.uuid4().hex}, is_new=True)
    try:
        owner = json.loads(text)
        owner["id"] = str(owner["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}/{OWNER_FILE} is damaged") from error
    for name, value in mine.items():
        if owner.get(name) != value:
            raise CheckpointError(
                f"the checkpoint {path} is of {name} {owner.get(name)!r}, and this is {name} {value!r}"
            )
    require_same_topic(topic, topic_id, owner.get("topic_id"), f"the checkpoint {path}", "set another data_dir")
    return Claim(files, path, owner, is_new=False)


def require_same_topic(topic: str, topic_id: str, known: str | None, of: str, remedy: str) -> None:
    """Names live longer than topics; a broker or an owner without ids has to be believed."""
    if topic_id and known and topic_id != known:
        raise CheckpointError(
            f"topic {topic} was deleted and made anew, and {of} has offsets of the old one: they are other records "
            f"now; to begin with the new one, {remedy}"
        )


def owner_of_table(files: Files, path: str) -> str:
    """Return the id of the checkpoint that wrote the table.

    Raises:
        UnknownTopic: there is no table.
    """
    text = files.read(f"{path}/{OUTPUT_OWNER_FILE}")
    if text is None:
        raise UnknownTopic(f"there is no table of the job bronze in {path}")
    return str(json.loads(text)["checkpoint"])


def check_output(context: Context, checkpoint_id: str, path: str) -> None:
    """A table is written by one checkpoint: a new one would write everything a second time."""
    files = Files(context.spark)
    text = files.read(f"{path}/{OUTPUT_OWNER_FILE}")
    if text is None:
        if any(not name.startswith((".", "_")) for name in files.names(path)):
            raise CheckpointError(f"{path} holds files that this pipeline did not write")
    elif json.loads(text).get("checkpoint") != checkpoint_id:
        raise CheckpointError(
            f"the table {path} was written with another checkpoint, and this one would write it again from its start: "
            "bring that checkpoint back, or remove the table"
        )


def take_output(context: Context, checkpoint_id: str, path: str) -> None:
    """The table is this checkpoint's from now on."""
    files, name = Files(context.spark), f"{path}/{OUTPUT_OWNER_FILE}"
    if not files.exists(name):
        files.write(name, json.dumps({"checkpoint": checkpoint_id}) + "\n")

"""Who remembers how far the store job is. Rule: whichever it is, rows and offsets are one transaction of the database.

`checkpoint`: Spark's checkpoint. After a crash Spark repeats the batch that was under way, with the same number and the
same records; the database has the number of the last batch that it holds, and a batch that it holds is left out.

`kafka`: a consumer group. Offsets are committed after the transaction, so lag tools see the job and an operator can set
it back with `kafka-consumer-groups --reset-offsets`. A crash in between leads to records that come a second time; their
coordinates are the table's key, and the database drops them.

`store`: the database itself. A run begins where the database says, in no matter what state checkpoint and group are;
the table can be restored from a backup, and the job goes on from the backup's offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pipeline import checkpoints, topics
from pipeline.context import Context
from pipeline.database import SQLITE, Database
from pipeline.errors import CheckpointError

JOB = "store"
PROGRESS, OFFSETS = "pipeline_progress", "pipeline_offsets"
DROP_DOUBLES = "ON CONFLICT DO NOTHING"
Offsets = dict[int, int]


def ensure_tables(database: Database) -> None:
    integer = "INTEGER" if database.dialect == SQLITE else "BIGINT"
    database.ensure_table(PROGRESS, {"table_name": "TEXT", "checkpoint": "TEXT", "batch_id": integer}, ["table_name"])
    kinds = {"table_name": "TEXT", "topic": "TEXT", "partition": integer, "next_offset": integer, "topic_id": "TEXT"}
    database.ensure_table(OFFSETS, kinds, ["table_name", "topic", "partition"])


def require_same_topic(database: Database, table: str, topic: str, topic_id: str) -> None:
    """Rows are known by topic, partition and offset: those of a later topic of the same name would pass for them."""
    statement = f"SELECT DISTINCT topic_id FROM {OFFSETS} WHERE table_name = ? AND topic = ?"
    for (known,) in database.execute(statement, (table, topic)):
        checkpoints.require_same_topic(topic, topic_id, known, f"the table {table}", "set another table")


def stored_offsets(database: Database, table: str, topic: str) -> Offsets:
    statement = f'SELECT "partition", next_offset FROM {OFFSETS} WHERE table_name = ? AND topic = ?'
    return dict(database.execute(statement, (table, topic)))


def store_offsets(database: Database, table: str, topic: str, topic_id: str, offsets: Mapping[int, int]) -> None:
    columns = ["table_name", "topic", "partition", "next_offset", "topic_id"]
    rows = [(table, topic, partition, offset, topic_id) for partition, offset in offsets.items()]
    database.upsert(OFFSETS, columns, columns[:3], rows)


class Strategy(Protocol):
    """`checkpoint` is where Spark keeps its own, None for a temporary one."""

    checkpoint: str | None
    on_conflict: str

    def starting(self) -> Offsets | None:
        """Where a run begins, None where Spark knows itself."""

    def is_done(self, batch_id: int) -> bool: ...

    def in_transaction(self, batch_id: int) -> None: ...

    def after_commit(self, offsets: Offsets) -> None: ...


class _Base:
    checkpoint: str | None = None
    on_conflict = ""

    def __init__(self, context: Context, database: Database) -> None:
        self._context, self._database = context, database
        self._table, self._topic = context.settings.table, context.settings.bronze_topic

    def starting(self) -> Offsets | None:
        return None

    def is_done(self, batch_id: int) -> bool:
        return False

    def in_transaction(self, batch_id: int) -> None:
        return None

    def after_commit(self, offsets: Offsets) -> None:
        return None

    def _with_all_partitions(self, known: Offsets) -> Offsets:
        """Spark wants a place for every partition; one that nobody has read yet begins at its start."""
        return {p: known.get(p, topics.EARLIEST) for p in self._context.kafka.partitions(self._topic)}


class ByCheckpoint(_Base):
    def __init__(self, context: Context, database: Database) -> None:
        super().__init__(context, database)
        self.checkpoint = context.settings.path(f"checkpoints/{JOB}-{self._table}")
        self._id = checkpoints.claim(context, JOB, self._topic, self.checkpoint)
        owner = self._progress()
        if owner is not None and owner[0] != self._id:
            raise CheckpointError(
                f"table {self._table} was written with another checkpoint than {self.checkpoint}: bring that one back, "
                "or go on with --offsets store, which begins where the table ends"
            )

    def _progress(self) -> tuple[str, int] | None:
        found = self._database.execute(
            f"SELECT checkpoint, batch_id FROM {PROGRESS} WHERE table_name = ?", (self._table,)
        )
        return found[0] if found else None

    def is_done(self, batch_id: int) -> bool:
        progress = self._progress()
        return progress is not None and batch_id <= progress[1]

    def in_transaction(self, batch_id: int) -> None:
        columns = ["table_name", "checkpoint", "batch_id"]
        self._database.upsert(PROGRESS, columns, columns[:1], [(self._table, self._id, batch_id)])


class _WithoutCheckpoint(_Base):
    def in_transaction(self, batch_id: int) -> None:
        """A checkpoint that was used before knows nothing of these rows: it must not go on from where it was."""
        columns = ["table_name", "checkpoint", "batch_id"]
        self._database.upsert(PROGRESS, columns, columns[:1], [(self._table, "none", batch_id)])


class ByKafka(_WithoutCheckpoint):
    on_conflict = DROP_DOUBLES

    def __init__(self, context: Context, database: Database) -> None:
        super().__init__(context, database)
        self.group = context.settings.group or f"{JOB}-{self._table}"

    def starting(self) -> Offsets | None:
        committed = self._context.kafka.committed(self.group, self._topic)
        return self._with_all_partitions(committed) if committed else None

    def after_commit(self, offsets: Offsets) -> None:
        self._context.kafka.commit(self.group, self._topic, offsets)


class ByStore(_WithoutCheckpoint):
    def starting(self) -> Offsets | None:
        stored = stored_offsets(self._database, self._table, self._topic)
        return self._with_all_partitions(stored) if stored else None


STRATEGIES: dict[str, type[ByCheckpoint] | type[ByKafka] | type[ByStore]] = {
    "checkpoint": ByCheckpoint,
    "kafka": ByKafka,
    "store": ByStore,
}

"""The memories of how far the store job is. Rule: with each of them rows and offsets are one database transaction.

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

from pipeline import checkpoints, topics
from pipeline.context import Context
from pipeline.database import SQLITE, Database
from pipeline.errors import CheckpointError
from pipeline.files import Files

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
    """Refuse a later topic of the same name: rows are known by topic, partition and offset."""
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


def owner_of(database: Database, table: str) -> tuple[str, int] | None:
    """Return the checkpoint that the table was written with, and the last batch of it that the table has."""
    found = database.execute(f"SELECT checkpoint, batch_id FROM {PROGRESS} WHERE table_name = ?", (table,))
    return found[0] if found else None


def store_owner(database: Database, table: str, checkpoint_id: str, batch_id: int) -> None:
    columns = ["table_name", "checkpoint", "batch_id"]
    database.upsert(PROGRESS, columns, columns[:1], [(table, checkpoint_id, batch_id)])


def check_table(database: Database, table: str, checkpoint_id: str) -> None:
    """Refuse a table that is another checkpoint's: this one would add the same records a second time."""
    owner = owner_of(database, table)
    if owner is not None and owner[0] != checkpoint_id:
        raise CheckpointError(
            f"table {table} was written with another checkpoint: bring that one back, or set another database"
        )


def take_table(database: Database, table: str, checkpoint_id: str) -> None:
    """Note the checkpoint as the table's owner. A crash before the checkpoint is taken must leave no owner."""
    if owner_of(database, table) is None:
        with database.transaction():
            store_owner(database, table, checkpoint_id, -1)


class Strategy:
    """A memory of offsets. checkpoint: the path of Spark's own, None for a temporary one; on_conflict: the
    SQL clause for a row that the table has already."""

    checkpoint: str | None = None
    on_conflict = ""

    def __init__(self, context: Context, database: Database, claim: checkpoints.Claim | None) -> None:
        """claim: the checkpoint's claim, if the checkpoint is the memory."""
        self._context, self._database = context, database
        self._table, self._topic = context.settings.table, context.settings.bronze_topic

    def starting(self) -> Offsets | None:
        """Return where a run begins, None if it is the first."""
        return None

    def is_done(self, batch_id: int) -> bool:
        """Return whether the database has the batch."""
        return False

    def in_transaction(self, batch_id: int) -> None:
        """Note the batch together with its rows."""

    def after_commit(self, offsets: Offsets) -> None:
        """Note the offsets that the committed rows reach."""

    def _known(self, offsets: Offsets) -> Offsets | None:
        """Return an offset for every partition, as Spark wants; one that nobody has read yet begins at its start."""
        if not offsets:
            return None
        return {p: offsets.get(p, topics.EARLIEST) for p in self._context.kafka.partitions(self._topic)}


class ByCheckpoint(Strategy):
    def __init__(self, context: Context, database: Database, claim: checkpoints.Claim | None) -> None:
        super().__init__(context, database, claim)
        assert claim is not None
        self._claim = claim
        self.checkpoint = claim.path
        owner = owner_of(database, self._table)
        if owner is not None and owner[0] != claim.id:
            raise CheckpointError(
                f"table {self._table} was written with another checkpoint than {self.checkpoint}: bring that one back, "
                "or go on with --offsets store, which begins where the table ends"
            )

    def starting(self) -> Offsets | None:
        """Return the beginning of the checkpoint's first batch: later ones begin where the checkpoint says."""
        self._claim.take(Files(self._context.spark))
        return self._known(stored_offsets(self._database, self._table, self._topic))

    def is_done(self, batch_id: int) -> bool:
        progress = owner_of(self._database, self._table)
        return progress is not None and batch_id <= progress[1]

    def in_transaction(self, batch_id: int) -> None:
        store_owner(self._database, self._table, self._claim.id, batch_id)


class _WithoutCheckpoint(Strategy):
    def in_transaction(self, batch_id: int) -> None:
        """Take the table from a checkpoint that was used before: it knows nothing of these rows, and must not go on."""
        store_owner(self._database, self._table, "none", batch_id)


class ByKafka(_WithoutCheckpoint):
    on_conflict = DROP_DOUBLES

    def __init__(self, context: Context, database: Database, claim: checkpoints.Claim | None) -> None:
        super().__init__(context, database, claim)
        self.group = context.settings.group or f"{JOB}-{self._table}"

    def starting(self) -> Offsets | None:
        """Return the group's offsets; a partition that is new to the group, or forgotten, begins where the table ends.

        Brokers forget the offset of a partition without new records before those of the others.
        """
        stored = stored_offsets(self._database, self._table, self._topic)
        return self._known(stored | self._context.kafka.committed(self.group, self._topic))

    def after_commit(self, offsets: Offsets) -> None:
        self._context.kafka.commit(self.group, self._topic, offsets)


class ByStore(_WithoutCheckpoint):
    def starting(self) -> Offsets | None:
        return self._known(stored_offsets(self._database, self._table, self._topic))


def begin(context: Context, database: Database, strategy: Strategy, topic_id: str) -> Offsets | None:
    """Return where a run begins, None for the start of the topic.

    The first run settles for every partition which offset `latest` or a time means. If a later run asked again, it
    would leave out the records in between.
    """
    settings, topic = context.settings, context.settings.bronze_topic
    time_ms = settings.source.get("startingTimestamp")
    known = strategy.starting()
    if known is None and (time_ms or settings.starting_offsets == "latest"):
        if time_ms:
            known = context.kafka.offsets_at(topic, int(time_ms))
        else:
            known = {partition: end for partition, (_, end) in context.kafka.ranges(topic).items()}
        strategy.after_commit(known)
        with database.transaction():
            store_offsets(database, settings.table, topic, topic_id, known)
    return known


STRATEGIES: dict[str, type[Strategy]] = {"checkpoint": ByCheckpoint, "kafka": ByKafka, "store": ByStore}

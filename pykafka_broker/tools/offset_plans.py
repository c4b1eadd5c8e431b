"""New offsets of groups in a CSV file, as `--export` prints it and `--from-file` reads it.

Rule: lines are `topic,partition,offset` where there is one group, `group,topic,partition,offset` else; with one group
both are read. What is missing at the end of a line is nothing, or 0.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.leaders import Place
from pykafka_broker.client.properties import integer, long

_QUOTED_FROM = 25  # characters: Kafka's writer quotes what it does not want to look through
_SPECIAL = set(',"\\')

Plans = dict[str, dict[Place, int]]


def export_lines(plans: Mapping[str, Mapping[Place, int]], with_group: bool) -> list[str]:
    """The lines of all groups."""
    return [
        ",".join([*([_quoted(group)] if with_group else []), _quoted(topic), str(partition), str(offset)])
        for group, offsets in plans.items()
        for (topic, partition), offset in offsets.items()
    ]


def _quoted(text: str) -> str:
    if len(text) < _QUOTED_FROM and not _SPECIAL & set(text) and all(each >= "-" for each in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def read_plans(path: str, groups: Sequence[str]) -> Plans:
    """By group. Raises ClientError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ClientError(f"Unable to read file {path}") from None
    rows = [row for row in csv.reader(text.splitlines()) if row]
    if not rows:
        raise ClientError(f"No content in file {path}")
    if len(groups) == 1 and _is_of_one_group(rows[0]):
        return {groups[0]: dict(_of_one_group(rows))}
    plans: Plans = {}
    for row in rows:
        if len(row) > 4:
            raise ClientError(f"Too many entries in line {','.join(row)}")
        plans.setdefault(row[0], {}).update(_of_one_group([row[1:]]))
    return plans


def _is_of_one_group(row: list[str]) -> bool:
    try:
        list(_of_one_group([row]))
    except ClientError:
        return False
    return True


def _of_one_group(rows: Iterable[list[str]]) -> Iterable[tuple[Place, int]]:
    for row in rows:
        topic, partition, offset, *more = [*row, *[""] * (3 - len(row))]
        try:
            if more:
                raise ValueError("too many")
            yield (topic, integer(partition or "0")), long(offset or "0")
        except ValueError:
            raise ClientError(f"No topic, partition and offset: {','.join(row)}") from None

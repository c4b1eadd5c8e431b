"""The errors of the pipeline. Rule: every error that a user can cause has its class, and every class its exit code."""

import difflib
from collections.abc import Iterable


def perhaps(name: str, known: Iterable[str]) -> str:
    """Return the known name that may be meant, as the end of a sentence; nothing without one."""
    by_small = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_small, 1)
    return f"; perhaps {by_small[close[0]]} is meant" if close else ""


class PipelineError(Exception):
    """An error whose text is for the person who started the job, and all that this person gets to see."""

    exit_code = 1


class SettingsError(PipelineError):
    exit_code = 2


class BrokerUnreachable(PipelineError):
    exit_code = 3


class UnknownTopic(PipelineError):
    exit_code = 4


class SchemaError(PipelineError):
    """A schema that can't be read, lacks a column, or contradicts what is stored already."""

    exit_code = 5


class CheckpointError(PipelineError):
    """The checkpoint, or the offsets, belong to another job, another topic or another cluster."""

    exit_code = 6


class DataLoss(PipelineError):
    """Records that the job had still to read are gone from the topic."""

    exit_code = 7


class StoreError(PipelineError):
    """The outside database refused."""

    exit_code = 8


class JobFailed(PipelineError):
    """Spark ended a job for a reason that has no words of its own here."""

    exit_code = 9


class CheckFailed(PipelineError):
    """A result differs from what plain Python computes."""

    exit_code = 10

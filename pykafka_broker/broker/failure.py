"""A whole request that failed.

Rule: the error goes wherever the response has room for one: into its own field, and into an answer for every topic,
partition, group or resource that was asked about. A response that has no room at all can't carry it, and the connection
is closed instead, so that the client never waits for nothing.

Only what no handler foresaw comes here. So the structs of an answer are found by their annotations, which takes its
time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import EncodeError, Fields, Message

# What an answer repeats of the question. A partition has four names.
_PARTITION = ("partition_index", "partition", "partition_id", "index")
_TEXT = ("name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_name", "user")
_OTHERS = ("topic_id", "resource_type", "producer_id")
_LIST_OF = re.compile(r"list\[(\w+)\]")
_NOTHING_TO_ANSWER = "forgotten_topics_data"  # of Fetch: what the client no longer asks for


def whole_request_failure(
    response_type: type[Message], code: ErrorCode, message: str | None, request: Any, version: int
) -> Message:
    """A response to `request` that says `code`; raises FrameError where there is no room for it."""
    response = response_type()
    if request is not None:
        answer_items(response, request, code, message)
    _tell(response, code, message)
    if says(response, version, code):
        return response
    _tell(response, ErrorCode.NONE, getattr(response_type(), "error_message", None))
    if says(response, version, code):
        return response
    raise FrameError(f"{code.name} has no place in a {response_type.__name__} v{version}")


def says(response: Message, version: int, code: ErrorCode) -> bool:
    """Whether the client can see the error: a version may lack the field for it, silently or not."""
    try:
        return _holds(type(response).decode(response.encode(version), version), code)
    except EncodeError:
        return False


def _holds(value: Any, code: ErrorCode) -> bool:
    if isinstance(value, Fields):
        return getattr(value, "error_code", None) == code or _holds(
            [getattr(value, name) for name in value.__match_args__], code
        )
    return isinstance(value, list) and any(_holds(item, code) for item in value)


def _tell(answer: Any, code: ErrorCode, message: str | None) -> bool:
    if not hasattr(answer, "error_code"):
        return False
    answer.error_code = code
    if hasattr(answer, "error_message"):
        answer.error_message = message
    return True


def answer_items(answer: Any, asked: Any, code: ErrorCode, message: str | None) -> bool:
    """Put an answer with the error for each item of `asked` into the lists of `answer`; False if there was none."""
    told = False
    for name, kind in _answering_lists(type(answer)):
        for item in _items(asked, name):
            one = kind()
            if _identify(one, item):
                here = _tell(one, code, message)
                below = isinstance(item, Fields) and answer_items(one, item, code, message)
                if here or below:
                    getattr(answer, name).append(one)
                    told = True
    return told


def _answering_lists(kind: type[Fields]) -> Iterator[tuple[str, type[Fields]]]:
    """The lists of a struct whose items have errors, or lists of such."""
    for name, annotation in kind.__init__.__annotations__.items():
        match = _LIST_OF.match(str(annotation))
        item = getattr(sys.modules[kind.__module__], match[1], None) if match else None
        if item is not None and ("error_code" in item.__match_args__ or any(_answering_lists(item))):
            yield name, item


def _items(asked: Any, name: str) -> list[Any]:
    """What was asked about: the list of the same name, or else the first that holds anything."""
    for each in (name, *asked.__match_args__):
        found = getattr(asked, each, None)
        if isinstance(found, list) and found and each != _NOTHING_TO_ANSWER:
            return found
    return []


def _identify(one: Any, item: Any) -> bool:
    """Say in an answer which item it is for; False if the two have nothing in common that would say it."""
    names = [name for name in one.__match_args__ if name in _PARTITION + _TEXT + _OTHERS]
    known = {name: value for name in names if (value := _value_of(item, name)) is not None}
    for name, value in known.items():
        setattr(one, name, value)
    return bool(known) or not names


def _value_of(item: Any, name: str) -> Any:
    if not isinstance(item, Fields):
        fits = _PARTITION if isinstance(item, int) else _TEXT
        return item if name in fits else None
    aliases = _PARTITION if name in _PARTITION else (name,)
    return next((getattr(item, alias) for alias in aliases if hasattr(item, alias)), None)

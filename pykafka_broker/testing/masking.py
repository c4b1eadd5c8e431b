"""Recordings that may be given away: without addresses, ids, passwords, and the content of records.

Rule: what was equal stays equal, so a masked recording is played as it was. Keys, values and values of headers become
other text of the same length; names of topics, groups and clients stay. Logins and what carries passwords are left out.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pykafka_broker.control.traffic.recorder import WITH_SECRETS
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import ZERO_UUID, Message, leaves
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.conversion import build_message_set, iter_messages
from pykafka_broker.records.errors import CorruptBatch, UnsupportedCompression
from pykafka_broker.records.header import CODEC_MASK, HEADER_SIZE, BatchHeader, batch_of, iter_batches
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.steps import at_once
from pykafka_broker.testing.compared_answers import CHOSEN, NODE
from pykafka_broker.testing.playing import Named, read_recordings
from pykafka_broker.testing.recorded_messages import RecordedMessages
from pykafka_broker.testing.recording import Recorded, Recording, lines_of

_HOSTS = ("host", "client_host")
_PRINCIPALS = ("principal", "principal_name", "owner_principal_name", "token_requester_principal_name", "user")
_LEFT_OUT = WITH_SECRETS | {
    *(ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN),
    *(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS),  # values may be passwords
    ApiKey.PUSH_TELEMETRY,
}
_LONGEST_DIGEST = 64  # bytes
_MAGIC_AT = 16  # of a batch, and of a message


def mask_recording(*recordings: Named, to: Named) -> None:
    """Write a recording that may be given away, as `pykafka-broker replay RECORDING --masked FILE` does: without
    logins, with other addresses and ids, and with other text of the same length in records.

    Raises:
        ValueError: a file is no recording.
        OSError: a file can't be read or written.
    """
    masked = Mask(os.urandom(32)).recording(read_recordings(recordings))
    Path(to).write_text("\n".join([*lines_of(masked), ""]), encoding="utf-8")


class Mask:
    """The masked form of a recording. secret: bytes that nobody knows, so that no value can be guessed and compared."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._of: dict[tuple[str, Any], Any] = {}
        self._counts: dict[str, int] = {}

    def recording(self, recording: Recording) -> Recording:
        events = [each for event in recording.events if (each := self._event(event)) is not None]
        return recording._replace(state=list(map(self._line, recording.state)), events=events)

    def _event(self, event: Recorded) -> Recorded | None:
        if event.call is not None:
            method, target, body = event.call
            return event._replace(call=(method, target, self._body(body)))
        if event.is_close:
            return event
        message = RecordedMessages(event)
        if message.api_key in _LEFT_OUT or message.request is None:
            return None
        for each in (message.request, message.response):
            if each is not None:
                self._mask(each)
        return message.rewritten() if event.response is None or message.response is not None else None

    def _mask(self, message: Message) -> None:
        for struct, name, value in leaves(message):
            if name in CHOSEN and CHOSEN[name] != NODE:
                many = isinstance(value, list)
                found = [self._id(CHOSEN[name], each) for each in (value if many else [value])]
                setattr(struct, name, found if many else found[0])
            elif name in _HOSTS and value:
                setattr(struct, name, self._id("host", value))
            elif name in _PRINCIPALS and isinstance(value, str) and value:
                setattr(struct, name, f"User:{self._id('user', value)}" if ":" in value else self._id("user", value))
            elif name == "records" and value is not None:
                struct.records = self._records(bytes(value))

    def _id(self, kind: str, value: Any) -> Any:
        """Return the same other id for the same one."""
        if value in ("", 0, -1, None, ZERO_UUID):
            return value
        if (kind, value) not in self._of:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            made: Any = number
            if isinstance(value, bytes):
                made = b"masked  " + number.to_bytes(8, "big")
            elif isinstance(value, str):
                made = f"{kind.replace(' ', '-')}-{number}"
            self._of[kind, value] = made
        return self._of[kind, value]

    # -- records

    def _records(self, data: bytes) -> bytes:
        masked: list[bytes] = []
        if data[_MAGIC_AT : _MAGIC_AT + 1] in (b"\0", b"\1"):
            return self._messages(data)
        with suppress(ValueError):  # what was fetched ends anywhere, and offsets of damaged records may fall
            for header, batch in iter_batches(data):
                masked.append(self._batch(header, batch))
        return b"".join(masked)

    def _messages(self, data: bytes) -> bytes:
        """Mask a set of messages of format v0 or v1."""
        masked: list[BatchRecord] = []
        with suppress(CorruptBatch, UnsupportedCompression):
            for each in iter_messages(data):
                masked.append(self._record(each))
        return bytes(at_once(build_message_set(masked, data[_MAGIC_AT])))

    def _record(self, record: BatchRecord) -> BatchRecord:
        headers = [(name, self._content(value)) for name, value in record.headers]
        return BatchRecord(
            record.offset, record.timestamp, self._content(record.key), self._content(record.value), headers
        )

    def _batch(self, header: BatchHeader, batch: memoryview) -> bytes:
        producer_id = self._id("producer id", header.producer_id)
        if header.is_control:
            return bytes(batch_of(replace(header, producer_id=producer_id), batch[HEADER_SIZE:]))
        records = list(map(self._record, iter_records(batch, header)))
        builder = BatchBuilder(base_offset=header.base_offset)
        builder.extend(records)
        base = records[0].timestamp if records else header.base_timestamp
        attributes = header.attributes & ~CODEC_MASK
        told = replace(header, producer_id=producer_id, attributes=attributes, base_timestamp=base)
        return bytes(batch_of(told, bytes(builder.build())[HEADER_SIZE:]))

    def _content(self, value: bytes | None) -> bytes | None:
        if value is None:
            return None
        digest = blake2b(value, digest_size=_LONGEST_DIGEST, key=self._secret).hexdigest().encode()
        return (digest * (len(value) // len(digest) + 1))[: len(value)]

    # -- lines and calls

    def _line(self, line: str) -> str:
        """Mask a line for `seed`; a line that is no JSON becomes other text."""
        try:
            found = json.loads(line)
        except ValueError:
            return (self._content(line.encode()) or b"").decode()
        is_record = isinstance(found, dict) and found.get("type") == "record"
        return json.dumps(self._given(found)) if is_record else line

    def _body(self, body: str) -> str:
        """Mask the records of a call, which are in its JSON, or in lines for `seed`."""
        with suppress(ValueError):
            found = json.loads(body)
            if isinstance(found, dict) and isinstance(found.get("records"), list):
                return json.dumps(found | {"records": list(map(self._given, found["records"]))})
        return "\n".join(map(self._line, body.split("\n")))

    def _given(self, record: dict[str, Any]) -> dict[str, Any]:
        masked = dict(record)
        for name in ("key", "value"):
            _replace(masked, name, self._content)
        if record.get("headers"):
            masked["headers"] = [dict(each) for each in record["headers"]]
            for each in masked["headers"]:
                _replace(each, "value", self._content)
        return masked


def _replace(given: dict[str, Any], name: str, change: Callable[[bytes | None], bytes | None]) -> None:
    """Change a text, JSON or bytes in base64."""
    in_base64 = f"{name}_base64"
    if given.get(in_base64) is not None:
        given[in_base64] = b64encode(change(b64decode(given[in_base64])) or b"").decode()
    elif (value := given.get(name)) is not None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        given[name] = (change(text.encode()) or b"").decode()

"""A message as JSON, an exchange as a line, names of APIs and errors as people write them.

Rule: the names are the names of Kafka's schemas; times are UTC. Ids are shown as Kafka writes them, records by their
size or, if asked for, as far as the log of requests has kept them, other bytes as text, or as base64 if they are no
text. A field that may hold a password, or anything usable as a password, is hidden. An unknown name is refused with
similar known names.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import asdict
from itertools import islice
from math import isfinite
from typing import Any

from pykafka_broker.broker.requests.context import ANONYMOUS
from pykafka_broker.config.describe import is_secret
from pykafka_broker.control.answers import SeenRequestAnswer
from pykafka_broker.control.problems import Problem, did_you_mean
from pykafka_broker.control.traffic.exchange import Exchange, error_name
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.push_telemetry_request import PushTelemetryRequest
from pykafka_broker.protocol.runtime import Fields, uuid_text
from pykafka_broker.records.errors import CorruptBatch, UnsupportedCompression
from pykafka_broker.records.header import check_crc, iter_batches
from pykafka_broker.records.record import BatchRecord, header_name, iter_records

_UUID_BYTES = 16
HIDDEN = "[hidden]"
_SECRETS = frozenset({"auth_bytes", "salted_password", "hmac"})
_HEADER_FIELDS = ("base_offset", "count", "codec", "producer_id", "producer_epoch", "base_sequence", "is_transactional")
_MOST_RECORDS = 100  # shown of a batch
_MOST_BYTES_OF_CONTENT = 1024  # of a key or value
_MOST_BYTES_OF_RECORDS = 1 << 20  # decompressed


def seen(exchange: Exchange, bodies: bool, records: bool = False) -> SeenRequestAnswer:
    """Return an exchange in the form of operations, with bodies and the records in these if asked for."""
    connection = exchange.connection
    return SeenRequestAnswer(
        number=exchange.number,
        time=exchange.wall_ms,
        duration_ms=exchange.duration_ns / 1e6,
        connection=connection.id,
        client=f"{connection.client_host}:{connection.client_port}",
        listener=connection.listener,
        client_id=exchange.client_id,
        principal=connection.principal,
        software=exchange.software,
        api=exchange.api,
        version=exchange.version,
        correlation_id=exchange.correlation_id,
        request_bytes=exchange.request_bytes,
        response_bytes=None if exchange.answer is None else exchange.answer_bytes,
        errors=exchange.errors,
        fault=exchange.fault,
        request=as_json(exchange.request, records=records) if bodies else None,
        response=as_json(exchange.response, records=records) if bodies else None,
    )


def as_json(value: Any, name: str = "", records: bool = False) -> Any:
    """Return a message, or the content of the field `name`, as JSON."""
    if isinstance(value, Fields):
        shown = {field: as_json(getattr(value, field), field, records) for field in value.__match_args__}
        if isinstance(value, PushTelemetryRequest):
            shown["metrics"] = _pushed(value)
        if shown.get("value") is not None and is_secret(str(shown.get("name"))):
            shown["value"] = HIDDEN
        return shown
    if isinstance(value, list):
        return [as_json(each, name, records) for each in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        if records and name == "records" and (batches := _batches(value)):
            return batches
        if name in _SECRETS and value:
            return HIDDEN
        return _bytes(bytes(value), name)
    if isinstance(value, int) and name.endswith("error_code"):
        return error_name(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # JSON has no such number
    return value


def _pushed(push: PushTelemetryRequest) -> Any:
    """Return the metrics of a push, or a text where they can't be shown."""
    from pykafka_broker.control.otlp import decoded_push  # few clients push

    metrics = decoded_push(push.compression_type, push.metrics)
    return metrics if isinstance(metrics, str) else [asdict(each) for each in metrics]


def _batches(data: bytes | bytearray | memoryview) -> list[dict[str, Any]]:
    """Return batches with their records; nothing where the log of requests has not kept them, or they are damaged."""
    shown = []
    try:
        for header, batch in iter_batches(data):
            check_crc(batch, header)
            found = iter_records(batch, header, max_bytes=_MOST_BYTES_OF_RECORDS)
            records = [_record(each) for each in islice(found, _MOST_RECORDS)]
            shown.append({**{name: getattr(header, name) for name in _HEADER_FIELDS}, "records": records})
    except (CorruptBatch, UnsupportedCompression):
        return []
    return shown


def _record(record: BatchRecord) -> dict[str, Any]:
    content = {"key": record.key, "value": record.value}
    headers = [{"name": header_name(name), "value": _text(value)} for name, value in record.headers]
    return {"timestamp": record.timestamp, **{name: _text(data) for name, data in content.items()}, "headers": headers}


def _text(data: bytes | None) -> str | None:
    return None if data is None else _bytes(bytes(data[:_MOST_BYTES_OF_CONTENT]), "")


def _bytes(value: bytes, name: str) -> str:
    if name == "records":
        return f"{len(value)} bytes"
    if len(value) == _UUID_BYTES and name.endswith(("_id", "_ids", "directory", "directories")):
        return uuid_text(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()
    return text if text.isprintable() else b64encode(value).decode()


def printable(text: str) -> str:
    """Return a client's text with escapes for line breaks and other unprintable characters."""
    return text if text.isprintable() else repr(text)[1:-1]


def line(seen: SeenRequestAnswer) -> str:
    """Return a request as a line.

    `12:30:01.250 Fetch v17 consumer-1 127.0.0.1:50312 123 B -> 214 B in 1.3 ms NOT_LEADER_OR_FOLLOWER`; with
    `User:alice` before the address where clients authenticate.
    """
    seconds, milliseconds = divmod(seen["time"], 1000)
    clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{milliseconds:03}"
    answer = "no answer" if seen["response_bytes"] is None else f"{seen['response_bytes']} B"
    parts = [clock, f"{seen['api']} v{seen['version']}", printable(seen["client_id"] or "-")]
    parts += [seen["client"]] if seen["principal"] == ANONYMOUS else [printable(seen["principal"]), seen["client"]]
    parts += [f"{seen['request_bytes']} B -> {answer} in {seen['duration_ms']:.1f} ms", *seen["errors"]]
    parts += [f"(fault {seen['fault']})"] if seen["fault"] is not None else []
    return " ".join(parts)


_APIS = {spec.name.lower(): key for key, spec in SPECS.items()}
_NAMES = [spec.name for spec in SPECS.values()]


def api_keys(api: str | list[str] | None) -> frozenset[int] | None:
    """Return the keys of APIs by name (`Produce`), key, or a list of both; None for all. Raises `Problem` 400."""
    if api is None:
        return None
    if api == []:
        raise Problem(400, "api names nothing: none would ever match; leave it out for all")
    return frozenset(map(_api_key, api if isinstance(api, list) else [api]))


def _api_key(api: str) -> int:
    if re.fullmatch("[0-9]{1,5}", api) and int(api) in SPECS:
        return int(api)
    key = _APIS.get(api.replace("_", "").lower())
    if key is None:
        raise Problem(400, f"there is no API {api}{_meant(api, _NAMES)}")
    return key


def error_code(error: str | int) -> int:
    """Return the code of an error by name or code. Raises `Problem` 400."""
    if isinstance(error, int):
        if error in ErrorCode._value2member_map_ and error != ErrorCode.NONE:
            return error
        raise Problem(400, f"there is no error {error}; codes are -1 and 1 to {max(ErrorCode)}")
    name = _ERRORS.get(_plain(error))
    if name is None:
        spelt = re.sub("(?<=[a-z])(?=[A-Z])", "_", error.removesuffix("Exception"))
        raise Problem(400, f"there is no error {error}{_meant(spelt.upper(), list(_ERRORS.values()))}")
    return ErrorCode[name].value


def _meant(name: str, names: list[str]) -> str:
    """Return the names closest to a name; without a close one those that share a part of it."""
    parts = {part for part in _parts(name) if len(part) >= _LEAST_OF_A_PART}
    sharing = [each for each in names if any(part in _plain(each) for part in parts)][:_MOST_NAMES]
    shared = f"; did you mean {' or '.join(sharing)}?" if sharing else ""
    return did_you_mean(name, names) or shared or f"; names are Kafka's, such as {names[0]} and {names[1]}"


def _parts(name: str) -> list[str]:
    """Return the words of a name, in capitals: of NOT_LEADER as of NotLeader."""
    return re.sub("(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+", " ", name).upper().split()


def _plain(name: str) -> str:
    return name.replace("_", "").upper()


_ERRORS = {_plain(code.name): code.name for code in ErrorCode if code is not ErrorCode.NONE}
_LEAST_OF_A_PART = 3
_MOST_NAMES = 5

"""Client quotas as metadata (KIP-546). Rule: requests that Kafka refuses are refused, in its words.

An entity is a user, a client id, both, or an IP address; the name None stands for the default of its type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from pykafka_broker.cluster.controller import (
    MAX_RECORDS_PER_OPERATION,
    Controller,
    Decision,
    TooManyRecords,
    invalid_request,
)
from pykafka_broker.cluster.image import MetadataImage, QuotaEntity
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import QuotaMatch
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_client_quotas_request as wanted
from pykafka_broker.protocol.messages import alter_client_quotas_response as altered
from pykafka_broker.protocol.messages.describe_client_quotas_request import ComponentData
from pykafka_broker.protocol.stored.client_quota_record import ClientQuotaRecord, EntityData

_KINDS = USER, CLIENT_ID, IP = "user", "client-id", "ip"
_MAX_FRACTION = 1e-6  # of a whole number
# The keys of an entity, and whether their values are whole numbers.
_CLIENT_KEYS = {
    "producer_byte_rate": True,
    "consumer_byte_rate": True,
    "request_percentage": False,
    "controller_mutation_rate": False,
}
_IP_KEYS = {"connection_creation_rate": True}
# An address or a host name; names are not looked up, since a start must not wait for a name server.
_HOST = re.compile(r"[0-9A-Fa-f:.]+|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")


def alter_client_quotas(
    controller: Controller, request: wanted.AlterClientQuotasRequest
) -> Decision[altered.AlterClientQuotasResponse]:
    records: list[ApiMessageAndVersion] = []
    answers: dict[QuotaEntity, tuple[int, str | None]] = {}
    for entry in request.entries:
        parts = {part.entity_type: part.entity_name for part in entry.entity}.items()
        entity = tuple(sorted(parts, key=lambda part: part[0] != CLIENT_ID))  # the order of Kafka's hash table
        answer: tuple[int, str | None] = 0, None
        try:
            if entity in answers or len({op.key for op in entry.ops}) < len(entry.ops):
                text = ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
                raise invalid_request(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{text}}})")
            records += _records(controller, entity, entry.ops)
        except ApiError as error:
            answer = error.code, error.message
        answers[entity] = answer
        if len(records) > MAX_RECORDS_PER_OPERATION:
            raise TooManyRecords
    entries = [
        altered.EntryData(code, message, [altered.EntityData(*part) for part in entity])
        for entity, (code, message) in answers.items()
    ]
    return Decision([] if request.validate_only else records, altered.AlterClientQuotasResponse(entries=entries))


def _records(controller: Controller, entity: QuotaEntity, ops: Sequence[wanted.OpData]) -> list[ApiMessageAndVersion]:
    allowed = _allowed_keys(entity)
    present = controller.image.client_quotas.get(tuple(sorted(entity)), {})
    records = []
    for op in ops:
        if not op.remove:
            _check_value(allowed, op.key, op.value, must_be_finite=controller.config.is_of_4_4)
        elif op.key not in present:
            continue
        parts, value = [EntityData(*part) for part in entity], 0.0 if op.remove else op.value
        records.append(ApiMessageAndVersion(ClientQuotaRecord(parts, op.key, value, op.remove), 0))
    return records


def _allowed_keys(entity: QuotaEntity) -> Mapping[str, bool]:
    if not entity:
        raise invalid_request("Invalid empty client quota entity")
    kinds = [kind for kind, _ in entity]
    for kind, name in entity:
        if kind not in _KINDS:
            raise invalid_request(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise invalid_request(f"Empty {kind} not supported")
    if IP not in kinds:
        return _CLIENT_KEYS
    if len(kinds) > 1:
        raise invalid_request("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = entity[0][1]
    if address is not None and _HOST.fullmatch(address) is None:
        raise invalid_request(f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _check_value(allowed: Mapping[str, bool], key: str, value: float, *, must_be_finite: bool) -> None:
    if key not in allowed:
        raise invalid_request(f"Invalid configuration key {key}")
    if must_be_finite and not math.isfinite(value):
        raise invalid_request(f"Quota {key} must be a finite number")
    if value <= 0:
        raise invalid_request(f"Quota {key} must be greater than 0")
    if allowed[key] and not math.isnan(value):
        if math.isinf(value) or value > 1 << 63:
            raise invalid_request(f"Proposed value for {key} is too large for a LONG.")
        if value - int(value) > _MAX_FRACTION:
            raise invalid_request(f"{key} cannot be a fractional value.")


def describe_client_quotas(
    image: MetadataImage, components: Sequence[ComponentData], strict: bool
) -> Iterator[tuple[QuotaEntity, dict[str, float]]]:
    """Yield the quotas of entities that match every component; strict: and have no other part."""
    exact: dict[str, str | None] = {}
    any_name = set()
    for component in components:
        kind = component.entity_type
        _check_component(component, kind in exact or kind in any_name)
        if component.match_type == QuotaMatch.ANY:
            any_name.add(kind)
        else:
            exact[kind] = component.match if component.match_type == QuotaMatch.EXACT else None
    kinds = exact.keys() | any_name
    if IP in kinds and len(kinds) > 1:
        raise invalid_request(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    for entity, quotas in image.client_quotas.items():
        names = dict(entity)
        if not kinds <= names.keys() or (strict and len(kinds) < len(names)):
            continue
        if all(names[kind] == name for kind, name in exact.items()):
            yield entity, quotas


def _check_component(component: ComponentData, repeated: bool) -> None:
    kind = component.entity_type
    if not kind:
        raise invalid_request("Invalid empty entity type.")
    if repeated:
        raise invalid_request(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in _KINDS:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    how, match = component.match_type, component.match
    if how == QuotaMatch.EXACT and match is None:
        raise invalid_request("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if how == QuotaMatch.DEFAULT and match is not None:
        raise invalid_request("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
    if how == QuotaMatch.ANY and match is not None:
        raise invalid_request("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
    if how not in set(QuotaMatch):
        raise invalid_request(f"Unknown match type {how}")

"""The metrics of clients: GetTelemetrySubscriptions v0, PushTelemetry v0 (KIP-714).

Behaviour: a client asks once for its id, the metrics that subscriptions of kafka-client-metrics want of it, and the
interval; then it pushes them as OTLP, the last time with `terminating`. ApiVersions offers both APIs with
`pykafka.telemetry` alone, as Kafka does where a metrics reporter receives them; a client that asks without it is
answered, as by Kafka. No right is needed. `client_metrics.py` decides, and keeps what was pushed.
"""

from __future__ import annotations

from pykafka_broker.broker.client_metrics import ACCEPTED_COMPRESSION_TYPES
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles_in_steps
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Steps
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from pykafka_broker.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from pykafka_broker.protocol.messages.push_telemetry_request import PushTelemetryRequest
from pykafka_broker.protocol.messages.push_telemetry_response import PushTelemetryResponse
from pykafka_broker.protocol.runtime import ZERO_UUID


@handles_in_steps(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
def get_telemetry_subscriptions(
    services: Services, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> Steps[GetTelemetrySubscriptionsResponse]:
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = services.node.new_uuid()
    manager = services.client_metrics
    instance = yield from manager.subscribe(instance_id, context)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION_TYPES),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=manager.max_bytes,
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )


@handles_in_steps(ApiKey.PUSH_TELEMETRY)
def push_telemetry(
    services: Services, context: RequestContext, request: PushTelemetryRequest
) -> Steps[PushTelemetryResponse]:
    yield from services.client_metrics.push(
        request.client_instance_id,
        context,
        request.subscription_id,
        request.terminating,
        request.compression_type,
        request.metrics,
        services.clock.wall,
    )
    return PushTelemetryResponse()

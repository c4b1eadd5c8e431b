"""Changes of finalized features (KIP-584, KIP-778; Kafka: FeatureControlManager).

Rule: all of a request or nothing; the error of the whole names the first feature that can't be changed. Levels stand in
records, except for kraft.version, which the quorum keeps with its voters.

The only reader is in another layer (`broker/api`); `features.py` can't have this: the controller imports it.
"""

from __future__ import annotations

from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.features import (
    DEPENDENCIES,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    supported_features,
)
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.enums import UpgradeType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.protocol.messages.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse
from pykafka_broker.protocol.stored.clear_elr_record import ClearElrRecord
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord

_UPGRADE_TYPES = frozenset(UpgradeType)
_UPGRADE_TYPES_FROM = 1
_NO_RESULTS_FROM = 2


def update_features(
    controller: Controller, request: UpdateFeaturesRequest, version: int
) -> Decision[UpdateFeaturesResponse]:
    records: list[ApiMessageAndVersion] = []
    results = []
    kraft_version = 0
    wanted = {update.feature: update.max_version_level for update in request.feature_updates}
    metadata_version = wanted.get(METADATA_VERSION, controller.image.features.get(METADATA_VERSION, 0))
    for update in request.feature_updates:
        upgrade_type = update.upgrade_type
        if version < _UPGRADE_TYPES_FROM:
            upgrade_type = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
        problem = _problem(controller, update, upgrade_type, metadata_version)
        if problem is not None:
            message = f"The update failed for all features since the following feature had an error: {problem}"
            return Decision(
                [], UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message)
            )
        results.append(UpdatableFeatureResult(update.feature, error_message=ErrorCode.NONE.name))
        if update.feature == KRAFT_VERSION:
            kraft_version = update.max_version_level if update.max_version_level > controller.kraft_version else 0
        elif update.max_version_level != controller.image.features.get(update.feature, 0):
            records.append(ApiMessageAndVersion(FeatureLevelRecord(update.feature, update.max_version_level), 0))
            if update.feature == ELR_VERSION and update.max_version_level > 0:
                records += _nobody_eligible(controller.image)
    response = UpdateFeaturesResponse(error_message=None, results=results if version < _NO_RESULTS_FROM else [])
    return Decision([], response) if request.validate_only else Decision(records, response, kraft_version)


def _nobody_eligible(image: MetadataImage) -> list[ApiMessageAndVersion]:
    """Clear all eligible replicas: while the feature is off nobody keeps the lists up to date."""
    partitions = (partition for topic in image.topics.values() for partition in topic.partitions.values())
    if not any(partition.elr or partition.last_known_elr for partition in partitions):
        return []
    return [ApiMessageAndVersion(ClearElrRecord(), 0)]


def _problem(controller: Controller, update: FeatureUpdateKey, upgrade_type: int, metadata_version: int) -> str | None:
    """Return why a feature can't be changed, or None. metadata_version: the level that the request leaves."""
    name, level = update.feature, update.max_version_level
    reason = _unsupported(controller, name, level, upgrade_type)
    if reason is not None:
        return f"Invalid update version {level} for feature {name}. {reason}"
    current = controller.kraft_version if name == KRAFT_VERSION else controller.image.features.get(name, 0)
    if level < current and upgrade_type == UpgradeType.UPGRADE:
        return (
            f"Invalid update version {level} for feature {name}. Can't downgrade the version of this feature without "
            "setting the upgrade type to either safe or unsafe downgrade."
        )
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        return f"Invalid update version {level} for feature {name}. Can't downgrade to a newer version."
    if name == METADATA_VERSION and level < current:
        refusal = f"Unsupported metadata.version downgrade from {current} to {level}. "
        if upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
            return refusal + "Unsafe metadata downgrade is not supported in this version."
        return refusal + "Refusing to perform the requested downgrade because it might delete metadata information."
    needed = DEPENDENCIES.get(name, {}).get(level, {}).get(METADATA_VERSION, 0)
    if metadata_version < needed:
        return f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}"
    if name == KRAFT_VERSION and level < current:
        return f"Invalid update version {level} for feature {name}. Can't downgrade the version of this feature."
    return None


def _unsupported(controller: Controller, name: str, level: int, upgrade_type: int) -> str | None:
    if upgrade_type not in _UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    supported = supported_features(controller.config)
    if name not in supported:
        if level == 0:
            return f"Feature {name} not found."
        return f"Local controller {controller.node_id} does not support this feature."
    lowest, highest = supported[name]
    if not lowest <= level <= highest:
        return f"Local controller {controller.node_id} only supports versions {lowest}-{highest}"
    return _unsupported_by_brokers(controller, name, level)


def _unsupported_by_brokers(controller: Controller, name: str, level: int) -> str | None:
    """Return the reason for which a registered broker, active or not, can't support the level; None for no reason."""
    for broker in sorted(controller.image.brokers.values(), key=lambda broker: broker.id):
        lowest, highest = broker.features.get(name, (0, 0))
        if level and highest == 0:
            return f"Broker {broker.id} does not support this feature."
        if level and not lowest <= level <= highest:
            return f"Broker {broker.id} only supports versions {lowest}-{highest}"
    return None

"""kafka-features."""

import re

from interop.tools.steps import Step, steps
from interop.tools.tables.metadata_quorum import of_any_node
from pykafka_broker.cluster.features import METADATA_VERSION, SHARE_VERSION, SUPPORTED
from tests.releases.other import OWN

_NEWEST = SUPPORTED[METADATA_VERSION][1]
_TIMEOUT = "{file:default.api.timeout.ms=400\\nrequest.timeout.ms=200}"


def _any_epoch(out: str) -> str:
    out = re.sub(r"(kraft.version .* FinalizedVersionLevel: )\d", r"\1N", out)  # Kafka does it even where it refuses
    return re.sub(r"Epoch: \d+", "Epoch: N", out)


_DESCRIBED = Step("features", "describe", alike=_any_epoch)

_STATUS = Step("metadata-quorum", "describe --status", alike=of_any_node)
STEPS: list[Step] = steps(
    "features",
    _DESCRIBED,
    Step("features", "describe --node-id 1", alike=_any_epoch),
    f"upgrade --feature share.version={SUPPORTED[SHARE_VERSION][1]}",
    "upgrade --feature metadata.version=29",
    "upgrade --feature metadata.version=99",
    "upgrade --feature metadata.version=0",
    "upgrade --feature no.such=1",
    "upgrade --feature group.version",
    "upgrade --feature group.version=x",
    "upgrade --feature group.version=-1",
    "upgrade --feature group.version=1 --feature group.version=1",
    "upgrade --feature group.version=1 --feature transaction.version=2",
    "upgrade --dry-run --feature group.version=1",
    "upgrade --release-version 4.0",
    "upgrade --release-version nonsense",
    f"upgrade --metadata {OWN}",
    "upgrade --metadata 4.0 --dry-run",
    "upgrade --metadata nonsense",
    f"upgrade --metadata {OWN} --release-version {OWN}",
    f"upgrade --release-version {OWN} --feature group.version=1",
    f"upgrade --feature metadata.version={_NEWEST} --metadata {OWN}",
    "upgrade",
    "upgrade --unsafe --feature group.version=1",
    "downgrade --dry-run --feature transaction.version=1",
    "downgrade --feature transaction.version=1",
    "downgrade --feature transaction.version=2",
    "downgrade --feature transaction.version=0 --unsafe",
    "downgrade --metadata 4.2 --dry-run",
    "downgrade --metadata 4.2",
    "downgrade --metadata 3.3-IV3 --unsafe --dry-run",
    "downgrade --release-version 4.1 --dry-run",
    "downgrade --feature no.such=1",
    "downgrade",
    _DESCRIBED,
    "disable --feature group.version --dry-run",
    "disable --feature group.version",
    "disable --feature group.version",
    "disable --feature group.version --unsafe",
    "disable --feature no.such",
    "disable --feature metadata.version",
    "disable",
    _DESCRIBED,
    _DESCRIBED,
    "version-mapping",
    "version-mapping --release-version 4.0",
    "version-mapping --release-version 3.3-IV3",
    "version-mapping --release-version nonsense",
    "feature-dependencies --feature transaction.version=2",
    "feature-dependencies --feature group.version=1 share.version=1",
    "feature-dependencies --feature group.version=1 --feature share.version=1",
    "feature-dependencies --feature eligible.leader.replicas.version=1",
    f"feature-dependencies --feature metadata.version={_NEWEST}",
    "feature-dependencies --feature no.such=1",
    "feature-dependencies --feature group.version=77",
    "feature-dependencies --feature group.version",
    "feature-dependencies",
    "",
    "nonsense",
    "describe --no-such-flag",
    "describe extra",
    "{nowhere} describe",
    f"{{nowhere}} --bootstrap-server localhost:1 --command-config {_TIMEOUT} describe",
    f"{{nowhere}} --bootstrap-server localhost:1 --command-config {_TIMEOUT} upgrade --feature group.version=1",
    "{nowhere} --bootstrap-server nonsense describe",
    "{nowhere} --bootstrap-server {bootstrap} --bootstrap-controller {bootstrap} describe",
    "--command-config /no/such/file describe",
    "upgrade --feature kraft.version=2",
    "upgrade --feature kraft.version=1 --dry-run",
    "upgrade --feature kraft.version=1",
    "upgrade --feature kraft.version=1",
    Step("features", "describe", alike=lambda out: re.sub(r"Epoch: \d+", "Epoch: N", out)),
    _STATUS,
    "downgrade --feature kraft.version=0",
    "downgrade --feature kraft.version=0 --unsafe",
    "disable --feature kraft.version",
    Step("metadata-quorum", "remove-controller --controller-id 1 --controller-directory-id vzdFkeVGTZq3yR5zXE_fdg"),
    _STATUS,
    f"upgrade --release-version {OWN}",
)
STEPS += [
    Step("features", each)
    for each in (
        "--",
        "{nowhere}",
    )
]
STEPS += [
    Step("features", each, alike=_any_epoch)
    for each in ("desc", "d", "up --feature share.version=1", "dis --feature nothing", "nothing", "describe extra")
]
IN_OUR_WORDS = {
    "",
    "--",
    "d",
    "describe --no-such-flag",
    "describe extra",
    "feature-dependencies",
    "feature-dependencies --feature group.version=1 share.version=1",
    "nonsense",
    "nothing",
    "remove-controller --controller-id 1 --controller-directory-id vzdFkeVGTZq3yR5zXE_fdg",
    "upgrade --feature metadata.version=0",
    "upgrade --metadata nonsense",
    "upgrade --release-version nonsense",
    "upgrade --unsafe --feature group.version=1",
    "{nowhere}",
    "{nowhere} --bootstrap-server {bootstrap} --bootstrap-controller {bootstrap} describe",
    "{nowhere} describe",
}

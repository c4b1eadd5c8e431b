"""kafka-broker-api-versions."""

import re

from interop.tools.steps import Step, steps

_TIMEOUT = "{file:default.api.timeout.ms=400\\nrequest.timeout.ms=200}"


def latest(out: str) -> str:
    """Our broker serves older versions too."""
    return re.sub(r"\d+ to ", "", out)


STEPS: list[Step] = steps(
    "broker-api-versions",
    Step("broker-api-versions", "", alike=latest),
    Step("broker-api-versions", "extra", alike=latest),
    "--no-such-flag",
    "--command-config /no/such/file",
    "--bootstrap-server",
    "{nowhere}",
    "{nowhere} --bootstrap-server nonsense",
    f"{{nowhere}} --bootstrap-server localhost:1 --command-config {_TIMEOUT}",
)
STEPS += steps("broker-api-versions", "--command-config")
IN_OUR_WORDS = {
    "{nowhere}",
    "{nowhere} --bootstrap-server localhost:1 --command-config {file:default.api.timeout.ms=400\\nrequest.timeout.ms=200}",  # noqa: E501
    "{nowhere} --bootstrap-server nonsense",
}

"""kafka-cluster, as far as brokers are asked."""

from interop.tools.steps import Step, steps
from interop.tools.tables.broker_api_versions import latest

_TIMEOUT = "{file:default.api.timeout.ms=400\\nrequest.timeout.ms=200}"


def _at(*commands: str) -> list[Step]:
    return [
        Step("cluster", f"{{nowhere}} {each}", alike=latest, alone=True)
        for each in (command.replace("AT", "--bootstrap-server {bootstrap}") for command in commands)
    ]


STEPS: list[Step] = steps(
    "cluster",
    *_at(
        "api-versions AT",
        "cluster-id AT",
        "api -b {bootstrap}",
        "cluster-id AT AT",
        "api-versions",
        "",
        "nothing AT",
        "AT cluster-id",
        "api-versions AT extra",
        "api-versions AT --no-such-flag",
        "api-versions --bootstrap-controller {bootstrap}",
        "api-versions AT --bootstrap-controller {bootstrap}",
        "cluster-id --bootstrap-server",
        "cluster-id --bootstrap-server nonsense",
        f"cluster-id --bootstrap-server localhost:1 --command-config {_TIMEOUT}",
        "cluster-id AT --config {file:client.id=x}",
        "cluster-id AT --config /no/such/file",
        "cluster-id AT --command-config /no/such/file",
        "cluster-id AT --config {file:client.id=x} -c {file:client.id=x}",
    ),
)
IN_OUR_WORDS = {
    "{nowhere} --bootstrap-server {bootstrap} cluster-id",
    "{nowhere} api-versions",
    "{nowhere} nothing --bootstrap-server {bootstrap}",
}

"""kafka-client-metrics."""

import re

from interop.tools.steps import Step, sorted_lines, steps

_TIMEOUT = "{file:default.api.timeout.ms=400\\nrequest.timeout.ms=200}"


def _any_id(out: str) -> str:
    return re.sub(r"for [\w-]{22}\.", "for ID.", out)


STEPS: list[Step] = steps(
    "client-metrics",
    "--list",
    "--describe",
    "--describe --name absent",
    "--alter --name m --metrics org.apache.kafka.producer.,org.apache.kafka.consumer. --interval 60000",
    "--alter --name m --match client_id=app.*,client_software_name=kafka-python",
    "--describe --name m",
    Step("client-metrics", "--alter --generate-name --interval 1000", alike=_any_id),
    Step("client-metrics", "--describe", alike=sorted_lines),
    Step("client-metrics", "--list", alike=sorted_lines),
    "--alter --name m --interval ''",
    "--alter --name m --metrics ''",
    "--describe --name m",
    "--alter --name m",
    "--alter --name m --interval soon",
    "--alter --name m --interval 1",
    "--alter --name m --match no_such=x",
    "--alter --name m --match client_id",
    "--alter --name m --match client_id=[",
    "--alter --name m --match client_id=",
    "--alter --name m --match ' client_id = app , client_source_port=[0-9]+'",
    "--alter --name m --match =x",
    "--alter --name m --match client_id=a=b",
    "--alter --name m --metrics a,,b",
    "--describe --name m",
    "--alter --name m --match client_id=a,,client_id=a",
    "--alter --name m --metrics ,",
    "--alter --name m --metrics a,a",
    "--alter --name m --interval 99",
    "--alter --name m --interval 3600001",
    "--alter --name m --interval -5",
    "--describe --name m",
    "--alter --name m --metrics *",
    "--alter --name m --generate-name --interval 1000",
    "--alter --interval 1000",
    "--alter --name 'a b' --interval 1000",
    "--delete --name m",
    "--delete --name m",
    "--delete --name absent",
    "--delete",
    "--delete --name m --interval 5",
    "--describe --name m --metrics a",
    "--describe --generate-name",
    "--list --name m",
    "--list --generate-name",
    "--list --describe",
    "--describe --name m --name n",
    "",
    "--name m",
    "--no-such-flag",
    "{nowhere} --list",
    f"{{nowhere}} --list --bootstrap-server localhost:1 --command-config {_TIMEOUT}",
    f"{{nowhere}} --alter --name m --interval 1000 --bootstrap-server localhost:1 --command-config {_TIMEOUT}",
    "{nowhere} --list --bootstrap-server nonsense",
)
STEPS += [
    Step("client-metrics", each)
    for each in (
        "extra",
        "--command-config",
        "{nowhere}",
    )
]
IN_OUR_WORDS = {
    "",
    "--list --describe",
    "--name m",
    "extra",
    "{nowhere}",
}

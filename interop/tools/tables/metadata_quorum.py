"""kafka-metadata-quorum."""

import re

from interop.tools.steps import Step, steps

_TIMEOUT = "{file:default.api.timeout.ms=400\\nrequest.timeout.ms=200}"


def of_any_node(out: str) -> str:
    """Epochs, offsets and times are those of the moment; our node without a listener for controllers tells another."""
    return re.sub(r"(?<![\w.])\d+(?![\w.])", "N", out).replace("CONTROLLER://", "PLAINTEXT://")


def _described(*flags: str) -> list[Step]:
    return [Step("metadata-quorum", f"describe {each}", alike=of_any_node) for each in flags]


STEPS: list[Step] = steps(
    "metadata-quorum",
    *_described("--status", "--replication", "--replication --human-readable", "--status --human-readable"),
    "describe",
    "describe --status --replication",
    "describe --human-readable",
    "",
    "nonsense",
    "describe --no-such-flag",
    "add-controller",
    "add-controller --dry-run",
    "remove-controller",
    "remove-controller --controller-id 7",
    "remove-controller --controller-id 7 --controller-directory-id short",
    "remove-controller --controller-id 7 --controller-directory-id vzdFkeVGTZq3yR5zXE_fdg",
    "remove-controller --controller-id 7 --controller-directory-id vzdFkeVGTZq3yR5zXE_fdg --dry-run",
    "remove-controller -i 7 -d vzdFkeVGTZq3yR5zXE_fdg --unregister",
    "remove-controller -i 7 -d vzdFkeVGTZq3yR5zXE_fdg --unregister --dry-run",
    "remove-controller --controller-id -7 --controller-directory-id vzdFkeVGTZq3yR5zXE_fdg",
    "remove-controller --controller-id x --controller-directory-id vzdFkeVGTZq3yR5zXE_fdg",
    "{nowhere} describe --status",
    f"{{nowhere}} --bootstrap-server localhost:1 --command-config {_TIMEOUT} describe --status",
    "{nowhere} --bootstrap-server nonsense describe --status",
    "--command-config /no/such/file describe --status",
    "--command-config {file:process.roles=broker} add-controller",
    "--command-config {file:process.roles=controller\\nnode.id=5} add-controller --dry-run",
    "--command-config {file:process.roles=controller\\nnode.id=5\\ncontroller.listener.names=C"
    "\\nlisteners=C://localhost:19999\\nlog.dirs=/no/such/dir\\nmetadata.log.dir=/no/such/dir} add-controller",
)
STEPS += [
    Step("metadata-quorum", each)
    for each in (
        "--",
        "{nowhere}",
    )
]
STEPS += [
    Step("metadata-quorum", each, alike=of_any_node)
    for each in ("desc --stat", "d --status", "nothing", "describe", "describe --status extra")
]
IN_OUR_WORDS = {
    "--command-config {file:process.roles=controller\\nnode.id=5} add-controller --dry-run",
    "remove-controller",
    "remove-controller --controller-id 7",
    "remove-controller --controller-id 7 --controller-directory-id short",
    "remove-controller --controller-id x --controller-directory-id vzdFkeVGTZq3yR5zXE_fdg",
    "{nowhere} describe --status",
}

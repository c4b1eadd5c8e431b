"""The cost of a thousand ACLs for a client that produces and consumes.

Rule: a broker with them and one without take turns, each first in every other round, so that other work on the
machine meets both. The figures are quotients of sums, with ACLs by without.
"""

from collections.abc import Callable

from bench.running import Running
from interop.raw import RawClient
from interop.rights import AUTHORIZER
from pykafka_broker.cluster.authorizer import CLUSTER_NAME
from pykafka_broker.protocol.enums import AclResourceType
from pykafka_broker.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest

SETTINGS = AUTHORIZER  # without ACLs everybody may do everything, so anybody can make the first ones
ACLS = 1000
ROUNDS = 6
_LITERAL, _PREFIXED, _ALL, _READ, _WRITE, _ALLOW = 3, 4, 2, 3, 4, 3
Load = Callable[..., dict[str, float]]


def make_acls(bootstrap: str) -> None:
    """Let the load's client read and write topics that begin with `load-`; the other ACLs are of other users."""
    me = ("User:ANONYMOUS", "*")
    acls = [
        AclCreation(AclResourceType.CLUSTER, CLUSTER_NAME, _LITERAL, *me, _ALL, _ALLOW),
        AclCreation(AclResourceType.GROUP, "*", _LITERAL, *me, _ALL, _ALLOW),
        AclCreation(AclResourceType.TOPIC, "load-", _PREFIXED, *me, _READ, _ALLOW),
        AclCreation(AclResourceType.TOPIC, "load-", _PREFIXED, *me, _WRITE, _ALLOW),
    ]
    while len(acls) < ACLS:
        number = len(acls)
        pattern = _PREFIXED if number % 3 else _LITERAL
        user = f"User:user-{number % 50}"
        acls.append(
            AclCreation(AclResourceType.TOPIC, f"topic-{number}", pattern, user, "*", _READ + number % 2, _ALLOW)
        )
    with RawClient(bootstrap, timeout_s=60) as client:
        answer = client.call(CreateAclsRequest(acls), 3)
    assert not any(result.error_code for result in answer.results), answer


def compared(with_acls: Running, without: Running, records: int, load: Load) -> dict[str, float]:
    sums: dict[tuple[str, str], float] = {}
    for number in range(ROUNDS):
        sides = [("acls", with_acls), ("none", without)]
        for name, run in sides if number % 2 else reversed(sides):
            for mode, settings in (("produce", ("linger.ms=5", "acks=all")), ("consume", ())):
                found = load(run, mode, f"load-{number}", 4, records, 1024, *settings)
                sums[name, mode] = sums.get((name, mode), 0) + 1 / found["mb_per_s"]
                cpu = (name, mode + "_cpu")
                sums[cpu] = sums.get(cpu, 0) + found["cpu_s_per_gb"]
    figures = {f"acls_{mode}_speed": sums["none", mode] / sums["acls", mode] for mode in ("produce", "consume")}
    return figures | {
        f"acls_{mode}_cpu": sums["acls", f"{mode}_cpu"] / sums["none", f"{mode}_cpu"] for mode in ("produce", "consume")
    }

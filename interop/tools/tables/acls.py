"""kafka-acls. What it prints of several ACLs has no order in Kafka's."""

import re

from interop.tools.steps import UNREACHABLE, Step

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_TRACE = re.compile(r"^\s*(at |\.\.\. \d+ more|Caused by|java\.|joptsimple\.|org\.apache).*$", re.MULTILINE)
_UNWOUND = re.compile(r"^Error while executing ACL command: An exception was raised by the Python.*", re.DOTALL)


def without_trace(out: str) -> str:
    """Sorted, and without what Kafka prints of an exception, the recorder's own among them."""
    return "\n".join(sorted(_TRACE.sub("", _UNWOUND.sub("", out)).splitlines()))


def _acls(*commands: str) -> list[Step]:
    return [Step("acls", each, alike=without_trace) for each in commands]


STEPS: list[Step] = [
    *_acls(
        "--list",
        "--add --allow-principal User:alice --operation Read --operation write --topic orders",
        "--add --allow-principal User:alice --operation Read --topic orders",
        "--add --deny-principal User:mallory --operation All --topic orders --deny-host 10.0.0.1 --deny-host 10.0.0.2",
        "--add --allow-principal User:bob --allow-principal User:carol --allow-host 10.0.0.3 --operation Describe"
        " --topic orders --topic items --group readers",
        "--add --allow-principal User:alice --allow-host 10.0.0.9 --deny-principal User:* --operation Alter --cluster",
        "--add --allow-principal User:alice --topic logs- --resource-pattern-type prefixed --operation Read",
        "--add --allow-principal User:dave --producer --topic orders",
        "--add --allow-principal User:dave --producer --idempotent --topic sums --transactional-id mine",
        "--add --allow-principal User:erin --consumer --topic orders --group readers",
        "--add --allow-principal User:erin --consumer --producer --topic both --group readers",
        "--add --allow-principal User:root --operation CreateTokens --operation DescribeTokens --user-principal User:x",
        "--add --allow-principal User:root --operation Write --operation Describe --transactional-id payments",
        "--add --allow-principal User:root --operation TwoPhaseCommit --transactional-id payments",
        "--add --allow-principal User:all --topic *",
        "--add --allow-principal User:all --operation IdempotentWrite --operation ClusterAction --cluster"
        " kafka-cluster",
        "--add --allow-principal User:all --operation DescribeConfigs --operation AlterConfigs --topic orders",
        "--list",
        "--list --topic orders",
        "--list --topic logs-2024",
        "--list --topic logs-2024 --resource-pattern-type match",
        "--list --topic logs- --resource-pattern-type any",
        "--list --topic logs- --resource-pattern-type prefixed",
        "--list --group readers --topic items",
        "--list --cluster",
        "--list --principal User:alice",
        "--list --principal User:alice --principal User:bob --topic orders",
        "--list --principal User:nobody",
        "--list --transactional-id payments",
        "--list --user-principal User:x",
        "--list --topic nothing",
        "--list --topic *",
        "--list --operation Read",
        "--remove --force --allow-principal User:carol --allow-host 10.0.0.3 --operation Describe --topic orders",
        "--remove --force --allow-principal User:nobody --operation Read --topic orders",
        "--remove --force --topic items",
        "--remove --force --producer --allow-principal User:dave --topic orders",
        "--remove --force --consumer --topic orders --group readers",
        "--remove --force --deny-principal User:mallory --operation All --topic orders --deny-host 10.0.0.1",
        "--remove --force --allow-principal User:alice --topic logs-2024 --resource-pattern-type match",
        "--remove --force --cluster",
        "--list",
        "--list --topic orders",
        "",
        "--add --list",
        "--add --topic orders",
        "--add --allow-principal User:alice",
        "--add --allow-principal alice --topic orders",
        "--add --allow-principal User:alice --topic orders --operation Fly",
        "--add --allow-principal User:alice --topic orders --operation describe_configs",
        "--add --allow-principal User: --topic odd --operation Read",
        "--add --allow-principal :alice --topic odd --operation Read",
        "--add --allow-principal User:alice --topic orders --operation Alter --operation ClusterAction",
        "--add --allow-principal User:alice --group readers --operation Write",
        "--add --allow-principal User:alice --cluster --operation Read",
        "--add --allow-principal User:alice --topic orders --resource-pattern-type any",
        "--add --allow-principal User:alice --topic orders --resource-pattern-type match",
        "--add --allow-principal User:alice --topic orders --resource-pattern-type odd",
        "--add --allow-principal User:alice --producer",
        "--add --allow-principal User:alice --producer --topic orders --operation Read",
        "--add --allow-principal User:alice --consumer --topic orders",
        "--add --allow-principal User:alice --consumer --topic orders --group g --operation Read",
        "--add --allow-principal User:alice --idempotent --topic orders",
        "--add --allow-principal User:alice --consumer --topic orders --group g --cluster",
        "--add --allow-host 10.0.0.1 --topic orders",
        "--add --deny-host 10.0.0.1 --topic orders",
        "--add --deny-principal User:x --producer --topic orders",
        "--add --principal User:alice --topic orders",
        "--remove --force",
        "--remove --force --allow-principal User:alice",
        "--remove --force --principal User:alice --topic orders",
        "--list --allow-principal User:alice",
        "--list --principal alice",
        "--list --topic orders --resource-pattern-type odd",
        "--list --odd",
        "{nowhere} --list",
        "{nowhere} --list --bootstrap-server {bootstrap} --bootstrap-controller {bootstrap}",
        "{nowhere} --bootstrap-controller {bootstrap} --list",
        f"{UNREACHABLE} --list",
        f"{UNREACHABLE} --add --allow-principal User:a --topic t",
    ),
    Step("acls", "--list --command-config /no/such/file", why_not="the error names the file in other words"),
]
STEPS += [
    *_acls(
        "--list --topic asked",
        "--list --group asked",
        "--list --list",
        "--list --topic",
        "--list extra",
        "--remove",
        "--add --allow-principal User:a --topic t --operation",
        "--add --allow-principal User:a --allow-host 10.0.0.1 --cluster x --operation All",
        "--list --bootstrap-server nonsense",
        "{nowhere} --list --bootstrap-server nonsense",
    ),
]
IN_OUR_WORDS = {
    "{nowhere} --list",
    "{nowhere} --list --bootstrap-server {bootstrap} --bootstrap-controller {bootstrap}",
}

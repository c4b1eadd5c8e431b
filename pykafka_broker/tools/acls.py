"""`kafka-acls`.

Rule: no ACL is removed without `--force` or a `y` on standard input.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable

from pykafka_broker.client.acls import (
    AclBinding,
    AclEntry,
    ResourcePattern,
    create_acls,
    delete_acls,
    describe_acls,
    split_principal,
)
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.cluster.authorizer import CLUSTER_NAME, OPERATIONS
from pykafka_broker.protocol.enums import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykafka_broker.tools.console_producer import lines_of
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

# -- flags


_RESOURCE_FLAGS = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
    "delegation_token": AclResourceType.DELEGATION_TOKEN,
    "user_principal": AclResourceType.USER,
}
_CLUSTER = ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_OF_PRODUCERS = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_OF_CONSUMERS = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}
_NO_RESOURCE = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)

Wanted = dict[ResourcePattern, list[AclEntry]]


class Nonsense(Exception):
    """A senseless value, which Kafka's tool finds late and reports on standard output."""


def options(parser: ToolParser) -> None:
    parser.add_connection(controllers=True)
    parser.option("--list", "list the ACLs of the named resources, or of all")
    parser.option("--add", "add ACLs")
    parser.option("--remove", "remove ACLs")
    parser.option("--force", "do not ask before removing")
    parser.option("--topic NAME ...", "topic, or * for all")
    parser.option("--group NAME ...", "group, or * for all")
    parser.option("--cluster", "the cluster itself")
    parser.option("--transactional-id ID ...", "transactional id, or * for all")
    parser.option("--delegation-token ID ...", "delegation token, or * for all")
    parser.option("--user-principal PRINCIPAL ...", "user as a resource")
    parser.option(
        "--resource-pattern-type TYPE",
        "literal (default) or prefixed, and for --list and --remove also any or match",
        default="LITERAL",
    )
    parser.option("--allow-principal PRINCIPAL ...", "allow this principal, as User:name")
    parser.option("--deny-principal PRINCIPAL ...", "deny this principal, as User:name")
    parser.option("--allow-host HOST ...", "allow from this address; * by default")
    parser.option("--deny-host HOST ...", "deny from this address; * by default")
    parser.option("--principal PRINCIPAL ...", "list only the ACLs of this principal")
    parser.option("--operation OPERATION ...", "the operation to allow or deny; All by default")
    parser.option("--producer", "all that a producer needs")
    parser.option("--consumer", "all that a consumer needs")
    parser.option("--idempotent", "with --producer: all that an idempotent producer needs")


def check(tool: Tool) -> None:
    """Check which flags go together. Raises ToolUsageError."""
    options = tool.options
    if [options.list, options.add, options.remove].count(True) != 1:
        raise ToolUsageError("Command must include exactly one action: --list, --add, --remove.")
    tool.never_with("list", "producer", "consumer", "allow_host", "allow_principal", "deny_host", "deny_principal")
    for role in ("producer", "consumer"):
        tool.never_with(role, "operation", "deny_principal", "deny_host")
    if options.producer and not options.topic:
        raise ToolUsageError("With --producer you must specify a --topic")
    if options.idempotent and not options.producer:
        raise ToolUsageError("The --idempotent option is only available if --producer is set")
    only = not (options.cluster or (options.transactional_id and not options.producer))
    if options.consumer and not (options.topic and options.group and only):
        raise ToolUsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )
    if options.principal and not options.list:
        raise ToolUsageError("The --principal option is only available if --list is set")


def patterns(options: argparse.Namespace, *, needed: bool) -> list[ResourcePattern]:
    """Return the resources named by flags.

    Raises:
        Nonsense: a value makes no sense.
        ToolUsageError: resources are `needed` and none is named.
    """
    kind = _pattern_type(options.resource_pattern_type)
    found = []
    for flag, resource in _RESOURCE_FLAGS.items():
        of = PatternType.LITERAL if resource is AclResourceType.USER else kind
        found += [ResourcePattern(resource, name.strip(), of) for name in getattr(options, flag) or ()]
    if kind is PatternType.LITERAL and (options.cluster or options.idempotent):
        found.append(_CLUSTER)
    if needed and not found:
        raise ToolUsageError(_NO_RESOURCE)
    return list(dict.fromkeys(found))


def to_add(options: argparse.Namespace) -> Wanted:
    """Return the entries to add for each resource. Raises ToolUsageError and Nonsense."""
    kind = _pattern_type(options.resource_pattern_type)
    if kind not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise ToolUsageError(f"A '--resource-pattern-type' value of '{kind.name}' is not valid when adding acls.")
    wanted = to_remove(options)
    if not any(wanted.values()):
        raise ToolUsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    return wanted


def to_remove(options: argparse.Namespace) -> Wanted:
    """Return the entries to remove for each resource; an empty list stands for all entries of the resource.

    Raises:
        ToolUsageError: no resource is named, or a resource lacks an operation.
        Nonsense: a value makes no sense.
    """
    named = patterns(options, needed=True)
    if not (options.producer or options.consumer):
        entries = _entries(options, _operations(options))
        for each in named:
            _check_operations(each.type, entries)
        return dict.fromkeys(named, entries)
    wanted: Wanted = {}
    for needs in ([_OF_PRODUCERS] if options.producer else []) + ([_OF_CONSUMERS] if options.consumer else []):
        for each in named:
            if each.type in needs:
                wanted.setdefault(each, []).extend(_entries(options, needs[each.type]))
    if options.idempotent:
        wanted[_CLUSTER] = _entries(options, (AclOperation.IDEMPOTENT_WRITE,))
    return {each: list(dict.fromkeys(entries)) for each, entries in wanted.items()}


def principals(given: Iterable[str] | None) -> list[str]:
    """Return the given principals. Raises Nonsense."""
    found = [each.strip() for each in given or ()]
    try:
        for each in found:
            split_principal(each)
    except ClientError as error:
        raise Nonsense(str(error)) from None
    return found


def _entries(options: argparse.Namespace, operations: Iterable[AclOperation]) -> list[AclEntry]:
    operations = list(operations)
    return [
        AclEntry(principal, host.strip(), operation, permission)
        for permission, who, hosts in (
            (AclPermissionType.ALLOW, options.allow_principal, options.allow_host),
            (AclPermissionType.DENY, options.deny_principal, options.deny_host),
        )
        for principal in principals(who)
        for host in hosts or ["*"]
        for operation in operations
    ]


def _operations(options: argparse.Namespace) -> list[AclOperation]:
    """Return the given operations; UNKNOWN for unknown names, which no resource has."""
    known = {each.name.replace("_", ""): each for each in AclOperation}
    given = [each.strip().upper() for each in options.operation or ["All"]]
    return [known.get(each, AclOperation.UNKNOWN) for each in given]


def _check_operations(kind: AclResourceType, entries: Iterable[AclEntry]) -> None:
    allowed = {AclOperation.ALL, *OPERATIONS[kind]}
    if any(each.operation not in allowed for each in entries):
        listed = ", ".join(each.name for each in sorted(allowed))
        raise ToolUsageError(f"ResourceType {kind.name} only supports operations [{listed}]")


def _pattern_type(text: str) -> PatternType:
    known = {each.name: each for each in PatternType if each is not PatternType.UNKNOWN}
    if text.upper() not in known:
        raise Nonsense(f"Cannot parse argument '{text}' of option resource-pattern-type")
    return known[text.upper()]


# -- the tool


_FAILED = "Error while executing ACL command: "


async def run(tool: Tool) -> int:
    chosen = tool.options
    check(tool)
    action = _add if chosen.add else _remove if chosen.remove else _list
    try:
        async with tool.connect() as client:
            if chosen.bootstrap_controller is not None:
                await client.refresh(call="describeAcls")
            await action(tool, client)
    except Nonsense as error:
        return tool.fail(f"{_FAILED}{error}")
    except ClientError as error:
        return tool.fail(f"{_FAILED}{error if type(error) is ClientError else error.java}")
    return 0


async def _add(tool: Tool, client: Client) -> None:
    added: list[AclBinding] = []
    for pattern, entries in to_add(tool.options).items():
        there = {each.entry for each in await describe_acls(client, AclBinding(pattern))}
        for entry in filter(there.__contains__, entries):
            tool.print(f"Acl (pattern={pattern}, entry={entry}) already exists.")
        new = [entry for entry in entries if entry not in there]
        if new:
            tool.print(f"Adding ACLs for resource `{pattern}`: \n \t" + "\n\t".join(map(str, new)) + "\n")
            await create_acls(client, [AclBinding(pattern, entry) for entry in new])
            added += [AclBinding(pattern, entry) for entry in new]
    tool.result = _plain(added)


async def _remove(tool: Tool, client: Client) -> None:
    gone: list[AclBinding] = []
    answers = _answers(tool)
    for pattern, entries in to_remove(tool.options).items():
        if entries:
            listed = "\n\t".join(map(str, entries))
            asked = f"Are you sure you want to remove ACLs: \n \t{listed} \n from resource filter `{pattern}`? (y/n)"
        else:
            asked = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)"
        if tool.options.force or await _agreed(tool, asked, answers):
            gone += await delete_acls(
                client, [AclBinding(pattern, entry) for entry in entries] or [AclBinding(pattern)]
            )
    tool.result = _plain(gone)


async def _agreed(tool: Tool, question: str, answers: AsyncIterator[bytes]) -> bool:
    """Ask a question, which is no part of the output for `--json`."""
    (tool.warn if tool.options.json else tool.print)(question)
    return (await anext(answers, b"")).strip().lower() == b"y"


async def _answers(tool: Tool) -> AsyncIterator[bytes]:
    async for lines in lines_of(tool.stdin):  # Ctrl-C ends the wait
        for line in lines:
            yield line


async def _list(tool: Tool, client: Client) -> None:
    wanted = [AclBinding(each) for each in patterns(tool.options, needed=False)] or [AclBinding()]
    who = principals(tool.options.principal)
    found: set[AclBinding] = set()
    for each in wanted:
        found.update(await describe_acls(client, each))
    shown = [each for each in sorted(found) if not who or each.entry.principal in who]
    tool.result = _plain(shown)
    if not who:
        _show(tool, shown)
    for principal in who:
        tool.print(f"ACLs for principal `{principal}`")
        _show(tool, [each for each in shown if each.entry.principal == principal])


def _show(tool: Tool, acls: Iterable[AclBinding]) -> None:
    by_resource: dict[ResourcePattern, list[AclBinding]] = defaultdict(list)
    for each in acls:
        by_resource[each.pattern].append(each)
    for pattern, of in by_resource.items():
        tool.print(f"Current ACLs for resource `{pattern}`:")
        for each in of:
            tool.print(f"\t{each.entry}")
        tool.print()


def _plain(acls: Iterable[AclBinding]) -> list[dict[str, str | None]]:
    """Return ACLs for `--json`."""
    return [
        {
            "resource_type": pattern.type.name,
            "resource_name": pattern.name,
            "pattern_type": pattern.pattern_type.name,
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation.name,
            "permission_type": entry.permission_type.name,
        }
        for pattern, entry in acls
    ]

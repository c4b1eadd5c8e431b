"""`kafka-acls`.

Rule: nothing is removed without `--force` or a `y` on standard input.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pykafka_broker.client.acls import Acl, Pattern, create_acls, delete_acls, describe_acls
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.tools.acl_flags import Nonsense, add_flags, check, patterns, principals, to_add, to_remove
from pykafka_broker.tools.frame import Tool, ToolParser

SUMMARY = "add, list and remove ACLs"
_FAILED = "Error while executing ACL command: "


def options(parser: ToolParser) -> None:
    parser.add_connection(controllers=True)
    add_flags(parser)


async def run(tool: Tool) -> int:
    chosen = tool.options
    check(chosen)
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
    added: list[Acl] = []
    for pattern, entries in to_add(tool.options).items():
        there = {each.entry for each in await describe_acls(client, Acl(pattern))}
        for entry in filter(there.__contains__, entries):
            tool.print(f"Acl (pattern={pattern}, entry={entry}) already exists.")
        new = [entry for entry in entries if entry not in there]
        if new:
            tool.print(f"Adding ACLs for resource `{pattern}`: \n \t" + "\n\t".join(map(str, new)) + "\n")
            await create_acls(client, [Acl(pattern, entry) for entry in new])
            added += [Acl(pattern, entry) for entry in new]
    tool.result = _plain(added)


async def _remove(tool: Tool, client: Client) -> None:
    gone: list[Acl] = []
    for pattern, entries in to_remove(tool.options).items():
        if entries:
            listed = "\n\t".join(map(str, entries))
            asked = f"Are you sure you want to remove ACLs: \n \t{listed} \n from resource filter `{pattern}`? (y/n)"
        else:
            asked = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)"
        if tool.options.force or _agreed(tool, asked):
            gone += await delete_acls(client, [Acl(pattern, entry) for entry in entries] or [Acl(pattern)])
    tool.result = _plain(gone)


def _agreed(tool: Tool, question: str) -> bool:
    tool.print(question)
    return tool.stdin.readline().strip().lower() == "y"


async def _list(tool: Tool, client: Client) -> None:
    wanted = [Acl(each) for each in patterns(tool.options, needed=False)] or [Acl()]
    who = principals(tool.options.principal)
    found: set[Acl] = set()
    for each in wanted:
        found.update(await describe_acls(client, each))
    shown = [each for each in sorted(found) if not who or each.entry.principal in who]
    tool.result = _plain(shown)
    if not who:
        _show(tool, shown)
    for principal in who:
        tool.print(f"ACLs for principal `{principal}`")
        _show(tool, [each for each in shown if each.entry.principal == principal])


def _show(tool: Tool, acls: Iterable[Acl]) -> None:
    by_resource: dict[Pattern, list[Acl]] = defaultdict(list)
    for each in acls:
        by_resource[each.pattern].append(each)
    for pattern, of in by_resource.items():
        tool.print(f"Current ACLs for resource `{pattern}`:")
        for each in of:
            tool.print(f"\t{each.entry}")
        tool.print()


def _plain(acls: Iterable[Acl]) -> list[dict[str, str | None]]:
    """As `--json` shows them."""
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

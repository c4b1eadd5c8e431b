"""Groups of consumers and of streams whose offsets are reset: what is committed, and what is printed of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.groups import Committed, commit_offsets, committed_offsets
from pykafka_broker.client.leaders import Place
from pykafka_broker.tools.frame import Tool, UsageError
from pykafka_broker.tools.group_table import print_table
from pykafka_broker.tools.offset_plans import export_lines, read_plans
from pykafka_broker.tools.reset_offsets import targets, within

PlacesOf = Callable[[Mapping[Place, Committed]], Awaitable[Sequence[Place]]]


async def reset(
    tool: Tool, client: Client, group: str, scenario: str, groups: Sequence[str], places_of: PlacesOf
) -> dict[Place, int]:
    """The new offsets of one group, committed if that is wanted. places_of: what is reset, by what is committed."""
    if scenario == "from_file":
        plan = read_plans(tool.options.from_file, groups).get(group)
        if plan is None:
            tool.print(f"\nError: No reset plan for group {group} found")
            return {}
        if any(offset < 0 for offset in plan.values()):
            raise UsageError("Invalid negative offset")
        found, committed = await within(client, dict(sorted(plan.items()))), {}
    else:
        committed = await committed_offsets(client, group)
        known = {place: each.offset for place, each in committed.items()}
        found = await targets(tool, client, scenario, await places_of(committed), known)
    if tool.options.execute and found:
        await commit_offsets(client, group, _to_commit(found, committed, keep=scenario == "to_current"))
    return found


def _to_commit(
    found: Mapping[Place, int], committed: Mapping[Place, Committed], *, keep: bool
) -> dict[Place, Committed]:
    """keep: an offset that stays keeps what was committed with it."""
    new = {place: Committed(offset) for place, offset in found.items()}
    if keep:
        new |= {place: each for place, each in committed.items() if found.get(place) == each.offset}
    return new


def print_plans(tool: Tool, plans: Mapping[str, Mapping[Place, int]], *, with_group: bool) -> None:
    """with_group: in what is exported."""
    rows = [
        (group, topic, partition, offset)
        for group, plan in plans.items()
        for (topic, partition), offset in plan.items()
    ]
    tool.result = [dict(zip(("group_id", "topic", "partition", "new_offset"), row, strict=True)) for row in rows]
    if tool.options.export:
        for line in export_lines(plans, with_group):
            tool.print(line)
        tool.print()
    else:
        print_table(tool, [("GROUP", 30), ("TOPIC", 30), ("PARTITION", 10), ("NEW-OFFSET", 15)], rows)

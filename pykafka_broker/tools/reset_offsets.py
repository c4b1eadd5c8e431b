"""Where the offsets of a group are reset to, for groups of all kinds.

Rule: exactly one scenario is given; an offset that a partition does not have becomes the nearest one that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.leaders import Found, Place, list_offsets
from pykafka_broker.client.properties import long
from pykafka_broker.protocol.enums import EARLIEST, LATEST
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.java_time import duration_ms, timestamp_ms
from pykafka_broker.tools.usage import given

_HELP = {
    "to_earliest": "to the first offset",
    "to_latest": "to the end",
    "to_current": "to what is committed, or the end",
    "to_offset": "to this offset",
    "shift_by": "by so many, back if negative",
    "to_datetime": "to the first record of that time, YYYY-MM-DDThh:mm:ss.sss",
    "by_duration": "to the first record of so long ago, PnDTnHnMnS",
    "from_file": "to what the CSV file says, as --export prints it",
}
_VALUES = {"to_offset": "N", "shift_by": "N", "to_datetime": "TIME", "by_duration": "DURATION", "from_file": "FILE"}
ALL_SCENARIOS = tuple(_HELP)


def add_scenarios(parser: ToolParser, scenarios: Collection[str] = ALL_SCENARIOS) -> None:
    """`--reset-offsets` with its flags."""
    parser.add_argument("--reset-offsets", action="store_true", help="reset the offsets of groups without members")
    for name in scenarios:
        flag = "--" + name.replace("_", "-")
        if name in _VALUES:
            parser.add_argument(flag, metavar=_VALUES[name], help=_HELP[name])
        else:
            parser.add_argument(flag, action="store_true", help=_HELP[name])
    parser.add_argument("--dry-run", action="store_true", help="show what would be done")
    parser.add_argument("--execute", action="store_true", help="do it")


def scenario_of(tool: Tool, scenarios: Collection[str] = ALL_SCENARIOS) -> str:
    """The only one that is given. Raises UsageError."""
    found = [name for name in scenarios if given(tool, name)]
    if len(found) != 1:
        listed = ", ".join("--" + name.replace("_", "-") for name in scenarios)
        raise UsageError(f"--reset-offsets takes exactly one of {listed}")
    if tool.options.execute and tool.options.dry_run:
        raise UsageError("--reset-offsets only accepts one of --execute and --dry-run")
    return found[0]


def whole_number(tool: Tool, name: str) -> int:
    """The value of a flag. Raises ClientError."""
    text = getattr(tool.options, name)
    try:
        return long(text)
    except ValueError:
        raise ClientError(f"Cannot parse argument '{text}' of option {name.replace('_', '-')}") from None


async def targets(
    tool: Tool, client: Client, scenario: str, places: Collection[Place], committed: Mapping[Place, int]
) -> dict[Place, int]:
    """The new offset of each place. Raises ClientError, and UsageError where one can't be shifted."""
    if scenario == "to_earliest":
        return await _at(client, places, EARLIEST)
    if scenario == "to_latest":
        return await _at(client, places, LATEST)
    if scenario == "to_offset":
        offset = whole_number(tool, scenario)
        return await within(client, dict.fromkeys(places, offset))
    if scenario == "shift_by":
        by = whole_number(tool, scenario)
        for topic, partition in places:
            if (topic, partition) not in committed:
                raise UsageError(
                    f"Cannot shift offset for partition {topic}-{partition} since there is no current committed offset"
                )
        return await within(client, {place: committed[place] + by for place in places})
    if scenario == "to_current":
        ends = await _at(client, [place for place in places if place not in committed], LATEST)
        return await within(client, {place: committed.get(place, ends.get(place, 0)) for place in places})
    return await _since(tool, client, places, _moment(tool, client, scenario))


def _moment(tool: Tool, client: Client, scenario: str) -> int:
    if scenario == "to_datetime":
        return timestamp_ms(tool.options.to_datetime)
    client.clock.tick()
    return client.clock.wall - duration_ms(tool.options.by_duration)


async def _since(tool: Tool, client: Client, places: Collection[Place], moment: int) -> dict[Place, int]:
    """The first offset with such a timestamp, or a later one; without any, the end."""
    found = await _found(client, dict.fromkeys(places, moment))
    empty = [place for place in places if found[place].offset < 0]
    ends = await _at(client, empty, LATEST)
    for topic, partition in empty:
        tool.print(f"\nWarn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset.")
    return {place: ends[place] if place in ends else found[place].offset for place in places}


async def within(client: Client, offsets: Mapping[Place, int]) -> dict[Place, int]:
    """The nearest ones that the partitions have."""
    first, end = await _at(client, offsets, EARLIEST), await _at(client, offsets, LATEST)
    return {place: min(max(offset, first[place]), end[place]) for place, offset in offsets.items()}


async def _at(client: Client, places: Collection[Place], time: int) -> dict[Place, int]:
    found = await _found(client, dict.fromkeys(places, time))
    return {place: each.offset for place, each in found.items()}


async def _found(client: Client, times: Mapping[Place, int]) -> dict[Place, Found]:
    """Raises the first ClientError."""
    found = await list_offsets(client, times) if times else {}
    for each in found.values():
        if isinstance(each, ClientError):
            raise each
    return found

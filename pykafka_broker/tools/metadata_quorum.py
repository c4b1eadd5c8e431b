"""`kafka-metadata-quorum`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pykafka_broker.addresses import address_text, split_address
from pykafka_broker.client.errors import ClientError, KafkaError, Unusable
from pykafka_broker.client.properties import integer, read_properties
from pykafka_broker.client.quorum import (
    QuorumInfo,
    RaftVoterEndpoint,
    add_voter,
    describe_quorum,
    remove_voter,
    unregister_controller,
)
from pykafka_broker.protocol.messages.describe_quorum_response import ReplicaState
from pykafka_broker.protocol.runtime import ZERO_UUID, parse_uuid_text, uuid_text
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

_COLUMNS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")


def options(parser: ToolParser) -> None:
    parser.add_connection(controllers=True)
    command = parser.add_command("describe", "what there is of the quorum")
    command.option("--status", "print the leader, and the lag of the others")
    command.option("--replication", "print each replica of the metadata log")
    command.option("--human-readable", 'with --replication: print times as "... ms ago"')
    command = parser.add_command("add-controller", "add the controller whose settings are in --command-config")
    command.option("--dry-run", "only say what would be done")
    command = parser.add_command("remove-controller", "remove a controller")
    command.option("--controller-id -i ID", "the node that is removed", type=integer, required=True)
    command.option("--controller-directory-id -d ID", "the id of its directory", required=True)
    command.option("--unregister", "remove its registration, too")
    command.option("--dry-run", "only say what would be done")


async def run(tool: Tool) -> None:
    options = tool.options
    if options.bootstrap_server is None and options.bootstrap_controller is None:
        raise ToolUsageError("one of the arguments --bootstrap-server --bootstrap-controller is required")
    await {"describe": _describe, "add-controller": _add, "remove-controller": _remove}[options.command](tool)


async def _describe(tool: Tool) -> None:
    options = tool.options
    if options.status and options.replication:
        raise ToolUsageError("Only one of --status or --replication should be specified with describe sub-command")
    if not options.status and not options.replication:
        raise ToolUsageError("One of --status or --replication must be specified with describe sub-command")
    if options.human_readable and not options.replication:
        raise ToolUsageError("The option --human-readable is only supported along with --replication")
    async with tool.connect() as client:
        quorum = await describe_quorum(client)
        client.clock.tick()
        if options.status:
            _status(tool, client.cluster_id or "", quorum)
        else:
            _replication(tool, quorum, client.clock.wall if options.human_readable else None)


def _leader(quorum: QuorumInfo) -> ReplicaState:
    for each in quorum.voters:
        if each.replica_id == quorum.leader_id:
            return each
    raise ClientError(f"the leader {quorum.leader_id} is not among the voters")


def _status(tool: Tool, cluster_id: str, quorum: QuorumInfo) -> None:
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda each: each.log_end_offset)
    lag_ms = -1
    if last is leader:
        lag_ms = 0
    elif leader.last_caught_up_timestamp >= 0 and last.last_caught_up_timestamp >= 0:
        lag_ms = leader.last_caught_up_timestamp - last.last_caught_up_timestamp
    tool.result = {
        "cluster_id": cluster_id,
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "max_follower_lag": leader.log_end_offset - last.log_end_offset,
        "max_follower_lag_time_ms": lag_ms,
        "current_voters": _nodes(quorum, quorum.voters),
        "current_observers": _nodes(quorum, quorum.observers),
    }
    for name, value in tool.result.items():
        words = [word.capitalize() for word in name.split("_")]
        text = _listed(value) if isinstance(value, list) else value
        tool.print(f"{''.join(words) + ':':<24}{text}")


def _nodes(quorum: QuorumInfo, states: Iterable[ReplicaState]) -> list[dict[str, Any]]:
    found = []
    for each in states:
        node: dict[str, Any] = {"id": each.replica_id}
        if each.replica_directory_id != ZERO_UUID:
            node["directory_id"] = uuid_text(each.replica_directory_id)
        if quorum.endpoints.get(each.replica_id):
            node["endpoints"] = [_spelt(one) for one in quorum.endpoints[each.replica_id]]
        found.append(node)
    return found


def _listed(nodes: list[dict[str, Any]]) -> str:
    return json.dumps([{"directoryId" if key == "directory_id" else key: each[key] for key in each} for each in nodes])


def _spelt(endpoint: RaftVoterEndpoint) -> str:
    return f"{endpoint.name}://{address_text(endpoint.host, endpoint.port)}"


def _replication(tool: Tool, quorum: QuorumInfo, wall: int | None) -> None:
    """Print lag and times of each replica. wall: the time before which times are told, None for timestamps."""
    leader = _leader(quorum)
    followers = [each for each in quorum.voters if each is not leader]
    rows, tool.result = [], []
    for status, states in (("Leader", [leader]), ("Follower", followers), ("Observer", quorum.observers)):
        for each in states:
            found = {
                "node_id": each.replica_id,
                "directory_id": uuid_text(each.replica_directory_id),
                "log_end_offset": each.log_end_offset,
                "lag": leader.log_end_offset - each.log_end_offset,
                "last_fetch_timestamp": each.last_fetch_timestamp,
                "last_caught_up_timestamp": each.last_caught_up_timestamp,
                "status": status,
            }
            tool.result.append(found)
            times = {name: _time(at, wall) for name, at in found.items() if name.endswith("timestamp")}
            rows.append((found | times).values())
    tool.print_columns(_COLUMNS, rows)


def _time(timestamp: Any, wall: int | None) -> str:
    return str(timestamp) if wall is None or timestamp < 0 else f"{max(0, wall - timestamp)} ms ago"


async def _remove(tool: Tool) -> None:
    options = tool.options
    node_id = options.controller_id
    if node_id < 0:
        raise ToolUsageError(f"Invalid negative --controller-id: {node_id}")
    try:
        directory_id = parse_uuid_text(options.controller_directory_id)
    except ValueError as error:
        raise ToolUsageError(f"Failed to parse --controller-directory-id: {error}") from None
    tool.result = {"id": node_id, "directory_id": options.controller_directory_id, "removed": not options.dry_run}
    if options.unregister:
        tool.result["unregistered"] = not options.dry_run
    removed = f"KRaft controller {node_id} with directory id {options.controller_directory_id}"
    if options.dry_run:
        tool.print(f"DRY RUN of removing {removed}")
        if options.unregister:
            tool.print(f"DRY RUN of unregistering KRaft controller {node_id}")
        return
    async with tool.connect() as client:
        with _hint(f"remove KRaft voter {node_id}", node_id) if options.unregister else nullcontext():
            await remove_voter(client, node_id, directory_id)
        tool.print(f"Removed {removed}")
        if options.unregister:
            with _hint(f"unregister controller {node_id}", node_id):
                await unregister_controller(client, node_id)
            tool.print(f"Unregistered KRaft controller {node_id}")


@contextmanager
def _hint(act: str, node_id: int) -> Iterator[None]:
    """Name the command that only unregisters, where an act of `--unregister` is refused."""
    try:
        yield
    except KafkaError as error:
        command = f"`kafka-cluster.sh unregister-controller --id {node_id}`"
        hint = f"To unregister the controller from the cluster, run {command}."
        raise ClientError(f"Failed to {act}: {error}. {hint}") from None


async def _add(tool: Tool) -> None:
    path = tool.options.command_config
    if path is None:
        raise ToolUsageError(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    settings = read_properties(path)
    node_id, directory_id = _node_id(settings), _directory_id(settings)
    endpoints = _endpoints(settings)
    if not tool.options.dry_run:
        async with tool.connect() as client:
            await add_voter(client, node_id, parse_uuid_text(directory_id), endpoints)
    listed = [_spelt(each) for each in endpoints]
    added = not tool.options.dry_run
    tool.result = {"id": node_id, "directory_id": directory_id, "endpoints": listed, "added": added}
    done = "Added" if added else "DRY RUN of adding"
    tool.print(f"{done} controller {node_id} with directory id {directory_id} and endpoints: {', '.join(listed)}")


def _node_id(settings: dict[str, str]) -> int:
    text = settings.get("node.id", "")
    if not text.isascii() or not text.isdigit():
        raise Unusable("node.id not found in configuration file. Is this a valid controller configuration file?")
    if "controller" not in settings.get("process.roles", ""):
        raise Unusable("process.roles did not contain 'controller' in configuration file")
    return int(text)


def _directory_id(settings: dict[str, str]) -> str:
    where = settings.get("metadata.log.dir") or settings.get("log.dirs", "").split(",")[0]
    if not where:
        raise Unusable("Neither metadata.log.dir nor log.dirs were found in the configuration file")
    path = Path(where) / "meta.properties"
    found = read_properties(str(path)).get("directory.id")
    if found is None:
        raise Unusable(f"{path} has no directory.id: the controller has to be formatted first")
    try:
        parse_uuid_text(found)
    except ValueError as error:
        raise Unusable(f"{path}: {error}") from None
    return found


def _endpoints(settings: dict[str, str]) -> list[RaftVoterEndpoint]:
    """Return the endpoints of the controller listeners; advertised endpoints win."""
    wanted = [each.strip() for each in settings.get("controller.listener.names", "").split(",") if each.strip()]
    if not wanted:
        raise Unusable("controller.listener.names was not found in the configuration file")
    found: dict[str, RaftVoterEndpoint] = {}
    for key in ("advertised.listeners", "listeners"):
        for text in filter(None, (each.strip() for each in settings.get(key, "").split(","))):
            endpoint = _endpoint(text)
            found.setdefault(endpoint.name, endpoint)
    missing = [each for each in wanted if each not in found]
    if missing:
        raise Unusable(f"Cannot find information about controller listener name {missing[0]}")
    return [found[each] for each in wanted]


def _endpoint(text: str) -> RaftVoterEndpoint:
    name, scheme, rest = text.partition("://")
    host, port = split_address(rest)
    if not scheme or ":" not in rest or not port.isascii() or not port.isdigit():
        raise Unusable(f"{text} is no endpoint of a controller")
    return RaftVoterEndpoint(name, host or "localhost", int(port))

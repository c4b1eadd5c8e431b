"""`kafka-features`."""

from __future__ import annotations

from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.properties import integer
from pykafka_broker.client.quorum import api_versions, update_features
from pykafka_broker.cluster.features import METADATA_VERSION, METADATA_VERSIONS, default_levels
from pykafka_broker.cluster.formatting import NO_LEVEL, FormatError, KnownLevels, feature_level
from pykafka_broker.protocol.enums import UpgradeType
from pykafka_broker.tools.frame import FAILED, Tool, ToolParser, ToolUsageError

_DONE = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}
_LEVELS = KnownLevels()


def options(parser: ToolParser) -> None:
    parser.add_connection(controllers=True)
    command = parser.add_command("describe", "the features of the cluster and their levels")
    command.option("--node-id ID", "ask this node", type=integer)
    for word in ("upgrade", "downgrade"):
        command = parser.add_command(word, f"{word} features")
        command.option("--metadata RELEASE", "set metadata.version to the level of this release")
        command.option("--release-version RELEASE", "set all features to the levels of this release")
        command.option("--feature FEATURE=LEVEL ...", "set this feature", default=[])
        command.option("--dry-run", "only say whether it could be done")
        if word == "downgrade":
            command.option("--unsafe", "even if metadata is lost")
    command = parser.add_command("disable", "disable features")
    command.option("--feature FEATURE ...", "disable this feature", default=[])
    command.option("--dry-run", "only say whether it could be done")
    command.option("--unsafe", "even if metadata is lost")
    command = parser.add_command("version-mapping", "the features of a release")
    command.option("--release-version RELEASE", "the release; by default the latest")
    command = parser.add_command("feature-dependencies", "what a feature needs")
    command.option("--feature FEATURE=LEVEL ...", required=True)


async def run(tool: Tool) -> int:
    options = tool.options
    if options.bootstrap_server is None and options.bootstrap_controller is None:
        raise ToolUsageError("You must specify either --bootstrap-controller or --bootstrap-server")
    command = options.command
    try:
        if command == "version-mapping":
            tool.result = _LEVELS.version_mapping(options.release_version)
        elif command == "feature-dependencies":
            tool.result = [
                line
                for text in options.feature
                for line in _LEVELS.feature_dependencies(*feature_level(text), NO_LEVEL)
            ]
        elif command == "describe":
            await _describe(tool)
        else:
            return await _update(tool, command)
    except FormatError as error:
        raise ClientError(str(error)) from None
    for line in tool.result if command != "describe" else ():
        tool.print(line)
    return 0


async def _describe(tool: Tool) -> None:
    async with tool.connect() as client:
        found = await api_versions(client, tool.options.node_id, call="describeFeatures")
    finalized = {each.name: each.max_version_level for each in found.finalized_features}
    epoch = found.finalized_features_epoch
    tool.result = []
    for each in sorted(found.supported_features, key=lambda each: each.name):
        level = finalized.get(each.name, 0)
        first, last, now = (_spelt(each.name, number) for number in (each.min_version, each.max_version, level))
        tool.print(
            f"Feature: {each.name:<42}SupportedMinVersion: {first:<17}SupportedMaxVersion: {last:<17}"
            f"FinalizedVersionLevel: {now:<17}Epoch: {'-' if epoch < 0 else epoch}"
        )
        tool.result.append(
            {
                "feature": each.name,
                "supported_min_version": each.min_version,
                "supported_max_version": each.max_version,
                "finalized_version_level": level,
                "epoch": None if epoch < 0 else epoch,
            }
        )


def _spelt(name: str, level: int) -> str:
    if name != METADATA_VERSION:
        return str(level)
    return METADATA_VERSIONS.get(level) or f"UNKNOWN [{level}]"


async def _update(tool: Tool, command: str) -> int:
    options = tool.options
    levels = _wanted(tool, command)
    unsafe = command != "upgrade" and options.unsafe
    kind = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    if command == "upgrade":
        kind = UpgradeType.UPGRADE
        lowest = [level for level in levels.values() if level < 1]
        if lowest and options.release_version is None:
            raise ClientError(f"an upgrade can't be to level {lowest[0]}: that is what disable is for")
    client = tool.connect()
    try:
        async with client:
            found = await update_features(client, levels, kind, validate_only=options.dry_run)
    except ClientError as error:
        found = dict.fromkeys(levels, error)
    tool.result = []
    for name in sorted(found):
        tool.print(_outcome(command, name, levels[name], found[name], options.dry_run))
        refused = found[name]
        tool.result.append({"feature": name, "level": levels[name], "error": None if refused is None else str(refused)})
    failed = sum(1 for each in found.values() if each is not None)
    if failed:
        tool.warn(f"{failed} out of {len(found)} operation(s) failed.")
    return FAILED if failed else 0


def _outcome(command: str, name: str, level: int, refused: ClientError | None, dry_run: bool) -> str:
    to = "" if command == "disable" else f" to {level}"
    if refused is not None:
        return f"{'Can' if dry_run else 'Could'} not {command} {name}{to}. {refused}"
    return f"{name} {'can be' if dry_run else 'was'} {_DONE[command]}{to}."


def _wanted(tool: Tool, command: str) -> dict[str, int]:
    """Return the level of each named feature. Raises ToolUsageError and FormatError."""
    options = tool.options
    if command == "disable":
        pairs = [(name, 0) for name in options.feature]
    else:
        if options.release_version is not None:
            if options.metadata is not None or options.feature:
                raise ToolUsageError("Can not specify `release-version` with other feature flags.")
            level = _LEVELS.metadata_version(options.release_version)
            levels = {METADATA_VERSION: level, **default_levels(level)}
            return {name: each for name, each in levels.items() if each or command == "downgrade"}
        pairs = []
        if options.metadata is not None:
            tool.print(" `metadata` flag is deprecated and may be removed in a future release.")
            pairs.append((METADATA_VERSION, _LEVELS.metadata_version(options.metadata)))
        pairs += map(feature_level, options.feature)
    if not pairs:
        raise ToolUsageError(f"You must specify at least one feature to {command}")
    found: dict[str, int] = {}
    for name, level in pairs:
        if name in found:
            raise ToolUsageError(f"Feature {name} was specified more than once.")
        if level < 0:
            raise ToolUsageError("Cannot specify a negative version level.")
        found[name] = level
    return found

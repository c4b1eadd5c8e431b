"""Properties that a tool takes from a file and from flags: `--command-config FILE --command-property name=value`.

Rule: a flag wins over the file, and what was deprecated in Kafka 4 excludes what took its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pykafka_broker.client.properties import read_properties
from pykafka_broker.tools.frame import Tool, ToolParser
from pykafka_broker.tools.usage import given, never_with


def pairs(texts: Iterable[str] | None) -> dict[str, str]:
    """Of `name=value` texts; a name without a value has an empty one."""
    return {name: value for name, _, value in (text.partition("=") for text in texts or ())}


class Old(NamedTuple):
    """Deprecated names of `--command-config` and `--command-property`; `says`: what is said of one that is used."""

    config: str
    property: str
    says: str = "Option --{} is deprecated and will be removed in a future version. Use --{} instead."


def deprecated(tool: Tool, flag: str, instead: str, says: str = Old("", "").says) -> None:
    """Say on standard output that `flag` was used, as Kafka's scripts do."""
    if given(tool, _dest(flag)):
        tool.print(says.format(flag, instead))


def add_properties(parser: ToolParser, old: Old, what: str) -> None:
    """`--command-property` and the deprecated names of it and of `--command-config`."""
    parser.add_argument(
        "--command-property", action="append", metavar="NAME=VALUE", help=f"property of the {what}, may be repeated"
    )
    parser.add_argument(f"--{old.property}", action="append", metavar="NAME=VALUE", help="the same (deprecated)")
    parser.add_argument(
        f"--{old.config}", dest=_dest(old.config), metavar="FILE", help="the same as --command-config (deprecated)"
    )


def properties_of(tool: Tool, old: Old) -> dict[str, str]:
    """Of the client, from file and flags. Raises UsageError and Unusable."""
    found = merged(tool, "command_config", "command_property", _dest(old.property), _dest(old.config))
    deprecated(tool, old.property, "command-property", old.says)
    deprecated(tool, old.config, "command-config", old.says)
    return found


def _dest(flag: str) -> str:
    return flag.replace("-", "_").replace(".", "_")


def merged(tool: Tool, config: str, new: str, old: str, old_config: str | None = None) -> dict[str, str]:
    """A file of properties, and a flag with its deprecated name, which wins over the file."""
    never_with(tool, new, old)
    options = vars(tool.options)
    path = options[config]
    if old_config is not None:
        never_with(tool, config, old_config)
        path = path or options[old_config]
    return ({} if path is None else read_properties(path)) | pairs(options[new] or options[old])

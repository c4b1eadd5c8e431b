"""`docs/rights.md` from the table of rights. `python -m tests.broker.rights_page` writes it anew."""

from __future__ import annotations

from pathlib import Path

from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.releases.release import OWN_VERSION
from tests.broker.rights import NEXT_TABLE, NOTHING_TO_ASK, TABLE, Need

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rights.md"
_HEAD = f"""# Which request needs which right

The rights that each request needs, as ACLs give them. Each line was asked of this broker and of a real Kafka
{OWN_VERSION}, with all rights and without that one (`interop/test_security_rights.py`); the page is made from
`tests/broker/rights.py` by `python -m tests.broker.rights_page`. Several lines for one API are checked in their order;
"or" means that any will do. A topic that may not be described looks like one that is not there.

What is implied: Describe by Read, Write, Delete and Alter; DescribeConfigs by AlterConfigs; everything by All. What is
denied counts before what is allowed, and implies nothing.

| API | needs | error without the right |
|---|---|---|
"""


def page() -> str:
    lines: list[str] = []
    for asked in (*TABLE, *NEXT_TABLE):
        name = _camel(asked.api_key.name) + (" (Kafka 4.4)" if asked in NEXT_TABLE else "")
        for need in asked.needs:
            line = f"| {name} | {_needed(need)} | {_told(need)} |"
            if line not in lines:
                lines.append(line)
    nothing = [f"| {_camel(key.name)} | {why} |" for key, why in NOTHING_TO_ASK.items()]
    return (
        _HEAD
        + "\n".join(lines)
        + "\n\n## No right is asked for\n\n| API | why |\n|---|---|\n"
        + "\n".join(nothing)
        + "\n"
    )


def _needed(need: Need) -> str:
    """Return a right in words such as `Read Topic`, without the names that the table uses."""
    return " or ".join(
        dict.fromkeys(f"{_camel(AclOperation(o).name)} {_camel(AclResourceType(r).name)}" for o, r, _ in need.rights)
    )


def _told(need: Need) -> str:
    return "nothing: it is left out" if need.error is None else f"{need.error.name} ({int(need.error)})"


def _camel(name: str) -> str:
    return name.title().replace("_", "")


if __name__ == "__main__":
    PAGE.write_text(page())

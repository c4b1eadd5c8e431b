"""Every API with its versions, and every error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pages.markdown import code, plain, table
from pykafka_broker import client
from pykafka_broker.broker.requests.controller_routes import CONTROLLER_ROUTES
from pykafka_broker.broker.requests.router import served_versions
from pykafka_broker.broker.requests.routes import ROUTES, Route
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.releases.release import OWN_VERSION, release

_NEWEST = release(OWN_VERSION).name
_APIS = f"""# APIs and their versions

What this broker answers beside what Kafka {_NEWEST} has. Versions that Kafka 4 has dropped are served for old
clients; `--emulate {_NEWEST}` refuses them, and with another release it has [that release's](../old-releases.md).
Which rights each API asks for is [a table of its own](../rights.md).
"""
_ERRORS = """# Errors

Every error of the protocol, with the sentence that Kafka's clients have for it. One that may pass is marked
*retriable*: clients ask again by themselves. Any of them can be provoked: [faults](../faults.md). What to do about
those that come uncalled for says [troubleshooting](../troubleshooting.md).
"""


def apis() -> str:
    theirs = release(_NEWEST).apis
    rows = []
    for number, spec in sorted(SPECS.items()):
        key = ApiKey(number)
        clients, controllers = _served(key, ROUTES), _served(key, CONTROLLER_ROUTES)
        if clients or controllers or number in theirs:
            rows.append((str(number), spec.name, clients, controllers, _range(theirs.get(number))))
    heads = ("key", "API", "brokers", "our controller", f"Kafka {_NEWEST}, brokers")
    return f"{_APIS}\n{table(heads, rows)}"


def errors() -> str:
    sentences = json.loads((Path(client.__file__).parent / "errors.json").read_text(encoding="utf-8"))
    rows = [
        (
            str(int(error)),
            code(error.name),
            "retriable" if error.retriable else "",
            plain(sentences[str(int(error))][1]),
        )
        for error in ErrorCode
        if error is not ErrorCode.NONE
    ]
    return f"{_ERRORS}\n{table(('code', 'name', '', 'in the words of Kafka'), rows)}"


def _served(key: ApiKey, routes: Mapping[ApiKey, Route]) -> str:
    return _range(served_versions(key, routes)) if key in routes else ""


def _range(versions: tuple[int, int] | None) -> str:
    """Return a range of versions as text, empty for none."""
    return "" if versions is None or versions[1] < versions[0] else "{}-{}".format(*versions)

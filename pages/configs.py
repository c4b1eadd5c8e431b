"""Every config key with what this broker makes of it."""

from __future__ import annotations

from pages.markdown import code, plain, table
from pykafka_broker.cli.configs import SCOPES
from pykafka_broker.config import extensions
from pykafka_broker.config.describe import documentation
from pykafka_broker.config.effects import effect_of
from pykafka_broker.config.registry import CLUSTER_WIDE, PER_BROKER, ConfigKey
from pykafka_broker.releases.release import OWN_VERSION

_HEADS = ("key", "what it is", "type", "default", "allowed", "effect")
_TITLES = {
    "broker": "Brokers",
    "topic": "Topics",
    "group": "Groups",
    "client-metrics": "Subscriptions of client metrics",
}
_OWN = {  # in the words of those who set them; which there are says the code
    extensions.EMULATE: ("string", "", "pass for that release of Kafka: `--emulate`"),
    extensions.STRICT: ("boolean", "false", "what the two switches below are where they are not set: `--strict`"),
    extensions.PARKED_FETCH: ("boolean", "", "a fetch that waits keeps the other requests of its connection waiting"),
    extensions.AUTO_CREATION: ("boolean", "", "the answer that creates a topic does not have it yet"),
    extensions.TELEMETRY: ("boolean", "false", "clients are offered to push their metrics (KIP-714)"),
    extensions.VALIDATE_RECORDS: (
        "boolean",
        "true",
        "every record of a produced batch is looked at, not only its header",
    ),
}
_HEAD = f"""# Config keys

Every key of Kafka {OWN_VERSION}, and those that older releases have. A key that came after 4.3 names the release that
brought it: with `--emulate` and an older release there is no such key. A key is *honoured*; or it has *no effect* here,
and is accepted for the reason given; or it is *refused* when it has another value than its default, because the broker
would promise what it does not do. `pykafka-broker configs` prints the same list, and `--effect refused` only the
refused keys.

Honoured keys of brokers that say "at run time" may be changed while the broker runs, for one broker or for all of them,
as in Kafka.
"""


def configs() -> str:
    parts = [
        _HEAD,
        "## Of this broker alone\n\n" + table(("key", "type", "default", "effect"), map(_own, sorted(_OWN))),
    ]
    for scope, keys in SCOPES.items():
        known = keys()
        told = [
            known[name]
            for name in sorted(known)
            if not known[name].internal or effect_of(scope, name)[0] != "no effect"
        ]
        parts.append(f"## {_TITLES[scope]}\n\n" + table(_HEADS, [_row(scope, key) for key in told]))
    return "\n".join(parts)


def _own(name: str) -> tuple[str, str, str, str]:
    kind, default, says = _OWN[name]
    return code(name), kind, code(default), says


def _row(scope: str, key: ConfigKey) -> tuple[str, ...]:
    default = "(unset)" if key.default_text is None else code(key.default_text) or "(empty)"
    says = plain(documentation(scope.replace("-", "_"))[key.name])
    return code(key.name), says, key.type.name.lower(), default, _allowed(key), _effect(scope, key)


def _allowed(key: ConfigKey) -> str:
    if key.allowed:
        return ", ".join(map(code, key.allowed))
    if key.minimum is not None and key.maximum is not None:
        return f"{key.minimum} to {key.maximum}"
    if key.minimum is not None:
        return f"{key.minimum} and more"
    return "" if key.maximum is None else f"{key.maximum} and less"


def _effect(scope: str, key: ConfigKey) -> str:
    effect, reason = effect_of(scope, key.name)
    said = f"{effect}: {plain(reason)}" if reason else effect
    if key.since is not None:
        said = f"Kafka {key.since}: {said}"
    run_time = {CLUSTER_WIDE: ", at run time", PER_BROKER: ", at run time, also for one broker"}
    if scope == "broker" and effect == "honoured" and key.mode is not None:
        said += run_time[key.mode]
    falls_back = [code(name) for name, _ in key.synonyms if name != key.name]
    return (
        f"{said}; where it is not set, {' or '.join(falls_back)} holds" if falls_back and effect == "honoured" else said
    )

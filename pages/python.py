"""The page about `pykafka_broker.testing`, made from its classes: signatures and docstrings without examples."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, is_typeddict

from pages.markdown import plain
from pykafka_broker import testing
from pykafka_broker.testing import answers
from pykafka_broker.testing.controlled import BrokerClock
from pykafka_broker.testing.traffic import Fault, Faults

_HEAD = """# Python

The classes, methods and errors of `pykafka_broker.testing`. The fixtures of pytest, with their options and markers,
are in [First test](../first-test.md); what a test does with all this, [in tests](../testing.md).
"""


def _classes() -> dict[str, type]:
    """Return the public classes by the way to them. Imported here: the asynchronous form may be out of date."""
    from pykafka_broker.testing.simulation.broker import SimulatedBroker

    return {
        "KafkaBroker": testing.KafkaBroker,
        "broker.clock": BrokerClock,
        "broker.faults": Faults,
        "broker.faults.add(...)": Fault,
        "Record": testing.Record,
        "NewRecord": testing.NewRecord,
        "KafkaCluster": testing.KafkaCluster,
        "SimulatedCluster": testing.SimulatedCluster,
        "SimulatedBroker": SimulatedBroker,
        "AsyncKafkaBroker": testing.AsyncKafkaBroker,
        "KafkaBrokerTestCase": testing.KafkaBrokerTestCase,
        "RemoteBroker": testing.RemoteBroker,
        "AsyncRemoteBroker": testing.AsyncRemoteBroker,
    }


_ONLY_TOLD = {
    "AsyncKafkaBroker",
    "AsyncRemoteBroker",
    "KafkaBrokerTestCase",
    "RemoteBroker",
}  # classes with the methods of another class
_OWN_METHODS = {"SimulatedCluster", "SimulatedBroker"}  # the others are of a class that stands here as well
_NOT_MADE = {"Record", "KafkaBrokerTestCase", "SimulatedBroker"}  # by the author of a test
_ANSWERS = """Dicts that calls return, such as `broker.topic("orders")["partitions"]`. Their types are in
`pykafka_broker.testing.answers`.
"""
_PAGE = re.compile(r"`?docs/([\w-]+\.md)`?")  # as a docstring names it
_ERRORS = ("RecordsDiffer", "WaitTimeout", "BrokerError", "ControlError")


def python() -> str:
    parts = [_HEAD, *(_described(name, kind) for name, kind in _classes().items())]
    errors = [f"- `{name}`: {_told(getattr(testing, name))}" for name in _ERRORS]
    text = "\n".join([*parts, _answers(), "## Errors\n\n" + "\n".join(errors) + "\n"])
    return _PAGE.sub(r"[\1](../\1)", text)


def _answers() -> str:
    """Return the section about the dicts that calls return."""
    told = [
        f"- `{name}`: {_told(kind)} Keys: {', '.join(f'`{key}`' for key in kind.__annotations__)}."
        for name in answers.__all__
        if is_typeddict(kind := getattr(answers, name))
    ]
    return f"## Answers\n\n{_ANSWERS}\n" + "\n".join(told) + "\n"


def _described(name: str, kind: type) -> str:
    text = f"## {name}\n\n"
    if name == kind.__name__ and name not in _NOT_MADE:
        text += f"```text\n{name}{_signature(vars(kind)['__init__'], wide=True)}\n```\n\n"
    text += f"{_laid_out(kind)}\n"
    members = [] if name in _ONLY_TOLD else list(_members(kind, own=name in _OWN_METHODS))
    return text + "".join(
        f"\n### {name}.{each.partition('(')[0]}\n" + "".join(f"\n{line}\n" for line in (f"`{each}`", said) if line)
        for each, said in members
    )


def _members(kind: type, *, own: bool) -> Iterator[tuple[str, str]]:
    """Yield the signature and the text of each method and property, inherited ones too unless `own`."""
    for name in sorted(
        {
            name
            for each in (kind.__mro__[:1] if own else kind.__mro__[:-1])
            for name in vars(each)
            if not name.startswith("_")
        }
    ):
        member = inspect.getattr_static(kind, name)
        if isinstance(member, property):
            yield name, _laid_out(_with_text(kind, name).fget)
        elif inspect.isfunction(member):
            yield f"{name}{_signature(member)}{_result(member)}", _laid_out(_with_text(kind, name))


def _with_text(kind: type, name: str) -> Any:
    """Return the member, of the class next in line that says something about it."""
    found = [vars(each)[name] for each in kind.__mro__ if name in vars(each)]
    return next((each for each in found if each.__doc__), found[0])


def _told(thing: Any) -> str:
    """Return a docstring as one paragraph, with its arguments, result and errors, and without examples."""
    return " ".join(plain(_section(part) or part) for part in _parts(thing))


def _laid_out(thing: Any) -> str:
    """Return a docstring as `_told` does, but with several arguments or errors as a list."""
    blocks = [""]
    for part in _parts(thing):
        if len(items := _items(part)) > 1:
            raises = "raises " if part.startswith("Raises:") else ""
            blocks += ["\n".join(f"- {raises}{plain(item)}" for item in items), ""]
        else:
            blocks[-1] = f"{blocks[-1]} {plain(_section(part) or part)}".strip()
    return "\n\n".join(filter(None, blocks))


def _parts(thing: Any) -> list[str]:
    """Return the paragraphs of a docstring without examples."""
    return [part for part in (inspect.getdoc(thing) or "").split("\n\n") if not _is_example(part)]


def _section(part: str) -> str:
    """Return a section of a docstring (Args, Returns, Raises) as a sentence; empty for other paragraphs."""
    head, _, rest = part.partition("\n")
    if head == "Returns:":
        return f"Returns: {rest}"
    items = _items(part)
    return ("Raises " if head == "Raises:" else "") + "; ".join(items) + "." if items else ""


def _items(part: str) -> list[str]:
    """Return the arguments or errors of a section of a docstring, none of other paragraphs."""
    head, _, rest = part.partition("\n")
    if head not in ("Args:", "Raises:"):
        return []
    items: list[str] = []
    for line in rest.splitlines():
        if line.startswith("        ") or ": " not in line:
            items[-1] += f" {line.strip()}"
        else:
            names, _, text = line.strip().partition(": ")
            items.append(f"{', '.join(f'`{name}`' for name in names.split(', '))}: {text}")
    return [item.rstrip(".") for item in items]


def _is_example(part: str) -> bool:
    """Return whether a paragraph is code: each line is indented, or a call."""
    return all(line.startswith("    ") or line.rstrip().endswith((")", "...")) for line in part.splitlines())


def _result(function: Any) -> str:
    annotation = inspect.signature(function).return_annotation
    return "" if annotation in ("None", "NoReturn", inspect.Signature.empty) else f" -> {annotation}"


def _signature(function: Any, *, wide: bool = False) -> str:
    """Return the signature without `self`. wide: with a line for each parameter."""
    shown = []
    starred = False
    for each in list(inspect.signature(function).parameters.values())[1:]:
        if each.kind is each.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        starred = starred or each.kind is each.VAR_POSITIONAL
        star = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        kind = "" if each.annotation is each.empty else f": {each.annotation}"
        shown.append(f"{star}{each.name}{kind}{'' if each.default is each.empty else f' = {each.default!r}'}")
    return "(\n" + "".join(f"    {each},\n" for each in shown) + ")" if wide and shown else f"({', '.join(shown)})"

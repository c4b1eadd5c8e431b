"""kafka-delete-records."""

import re

from interop.tools.preparing import make_topics, send
from interop.tools.steps import QUICK, UNREACHABLE, Step, sorted_lines, steps


def prepare(bootstrap: str) -> None:
    make_topics(bootstrap, {"one": 1, "two": 2})
    make_topics(bootstrap, {"compacted": 1}, {"cleanup.policy": "compact"})
    send(bootstrap, "one", 5)
    send(bootstrap, "two", 3)
    send(bootstrap, "two", 3, 1)


def _file(text: str) -> str:
    return "--offset-json-file '{file:" + text + "}'"


def _places(*places: tuple[str, object, object]) -> str:
    told = ", ".join(f'{{"topic": "{t}", "partition": {p}, "offset": {o}}}' for t, p, o in places)
    return _file(f'{{"partitions": [{told}], "version": 1}}')


def _late_somehow(out: str) -> str:
    """Return the lines sorted and without the text of a time-out, which changes from run to run."""
    return sorted_lines(re.sub(r"(TimeoutException: ).*", r"\1", out))


def _late(*places: tuple[str, object, object]) -> Step:
    return Step("delete-records", f"{QUICK} {_places(*places)}", alike=_late_somehow)


STEPS: list[Step] = [
    *steps(
        "delete-records",
        _places(("one", 0, 2)),
        _places(("one", 0, 1)),
        _places(("one", 0, 9)),
        _places(("one", 0, -1)),
        _places(("one", 0, -2)),
        _late(("one", 1, 1)),
        _late(("unknown", 0, 1)),
        _places(("compacted", 0, 1)),
        Step("delete-records", _places(("two", 0, 1), ("two", 1, 2)), alike=sorted_lines),
        _late(("two", 0, 1), ("unknown", 1, 2)),
        _places(("two", 0, 2), ("two", 0, 3)),
        _places(("two", '"0"', 1)),
        _places(("two", 0, '"1"')),
        _places(("two", 0, 1.5)),
        _late(("two", -1, 1)),
        _places(),
        _file('{"partitions": [{"topic": "two", "partition": 0, "offset": 1}]}'),
        _file('{"partitions": [{"topic": "two", "partition": 0, "offset": 1}], "version": 2}'),
        _file('{"partitions": [{"topic": "two", "partition": 0, "offset": 1}], "version": "1"}'),
        _file('{"partitions": [{"topic": "two", "partition": 0}], "version": 1}'),
        _file('{"partitions": [{"topic": "two", "offset": 0}], "version": 1}'),
        _file('{"partitions": [{"partition": 0, "offset": 0}], "version": 1}'),
        _file('{"partitions": [7], "version": 1}'),
        _file('{"partitions": {}, "version": 1}'),
        _file('{"partitions": 7, "version": 1}'),
        _file('{"version": 1}'),
        _file("{}"),
        _file("[]"),
        _file("no JSON"),
        _file(""),
        "--offset-json-file /no/such/file",
        "",
        "--no-such-flag",
        "--offset-json-file",
        "{nowhere} " + _places(("one", 0, 2)),
        UNREACHABLE + " " + _places(("one", 0, 2)),
        "--command-config '{file:client.id=me}' " + _places(("one", 0, 2)),
        "--command-config /no/such/file " + _places(("one", 0, 2)),
    ),
    *steps("get-offsets", "--topic 'one|two' --time earliest"),
]
STEPS += steps(
    "delete-records",
    "extra",
    "--command-config",
    "{nowhere}",
)
STEPS += [
    *steps(
        "delete-records",
        _places(("one", 0, 0)),
        _places(("one", 0, 3)) + " " + _places(("one", 0, 3)),
        _places(("one", 0, 99999999999999999999)),
        _places(("one", 99999999999, 1)),
        _places(("one", 0, "null")),
        _places(("one", 0, "true")),
        _places(("one", 0, -3)),
        _file('{"partitions": [{"topic": 7, "partition": 0, "offset": 1}], "version": 1}'),
        _file('{"partitions": [{"topic": "two", "partition": 0, "offset": 1, "more": 1}], "version": 1, "more": 2}'),
        _file('{"partitions": null, "version": 1}'),
        _places(("one", 0, 4)) + " extra",
        "{nowhere} --bootstrap-server nonsense " + _places(("one", 0, 2)),
    ),
]
IN_OUR_WORDS = {
    "{nowhere}",
}

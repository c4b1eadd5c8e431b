"""Functions as operations of the control API, and the table of all operations.

Rule: a parameter named in the path comes from the path. The other parameters come from the query of a GET or DELETE,
else from the JSON object in the body. If one parameter is a `Text`, it is the body, and the others come from the query.
A parameter with a default may be left out. The first parameter is the `Control`.

The table is read without the modules of the operations: a module is imported with the first request for it. `{name}` in
a path is a parameter of the function. If two paths fit a request, the path with fewer parameters is taken.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, get_type_hints
from urllib.parse import unquote

from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import one_line, read, read_text

IN_QUERY = frozenset({"GET", "DELETE"})
JSON_LINES = "application/jsonl"
REQUIRED = inspect.Parameter.empty


class Text(NamedTuple):
    """An answer or a body other than JSON."""

    content_type: str
    text: str


class Lines(NamedTuple):
    """An answer sent line by line during the work: JSON Lines."""

    lines: AsyncIterator[str]


class Parameter(NamedTuple):
    """A parameter of an operation, with the place in the request."""

    name: str
    kind: Any
    default: Any  # REQUIRED without a default
    place: str  # path, query, body


class Operation:
    """A function at a method and path (`/topics/{topic}`)."""

    def __init__(self, method: str, path: str, function: Callable[..., Any]) -> None:
        self.method = method
        self.path = path
        self.function = function
        self.name = function.__name__
        self.text = one_line(function.__doc__ or "")
        hints = get_type_hints(function, include_extras=True)
        self.answer = hints.get("return", type(None))
        declared = list(inspect.signature(function).parameters.values())[1:]
        self._in_query = method in IN_QUERY or any(hints[each.name] is Text for each in declared)
        self.parameters = [self._parameter(each, hints[each.name]) for each in declared]
        self.text_parameter = next((each.name for each in self.parameters if each.kind is Text), None)
        self.takes_json = self.text_parameter is None and any(each.place == "body" for each in self.parameters)

    def _parameter(self, declared: inspect.Parameter, kind: Any) -> Parameter:
        place = "query" if self._in_query and kind is not Text else "body"
        if f"{{{declared.name}}}" in self.path:
            place = "path"
        return Parameter(declared.name, kind, declared.default, place)

    def arguments(self, path: Mapping[str, str], query: Mapping[str, str], body: Any) -> dict[str, Any]:
        """Return the function's arguments.

        `body` is a `Text` where the function takes one, else the JSON value. Raises `Problem` 400.
        """
        values = {"path": path, "query": query, "body": self._fields(body)}
        given: dict[str, Any] = {}
        self._refuse_others("query", query)
        for name, kind, default, place in self.parameters:
            if kind is Text:
                given[name] = body
            elif name in values[place]:
                given[name] = (read if place == "body" else read_text)(kind, values[place][name], name)
            elif default is REQUIRED:
                raise Problem(400, f"{name} is missing")
        return given

    def _fields(self, body: Any) -> Mapping[str, Any]:
        if self.text_parameter is not None:
            return {}
        if not isinstance(body, dict):
            raise Problem(400, "the body must be a JSON object")
        self._refuse_others("body", body)
        return body

    def _refuse_others(self, place: str, given: Mapping[str, Any]) -> None:
        known = [each.name for each in self.parameters if each.place == place]
        unknown = sorted(given.keys() - {*known})
        if unknown:
            allowed = f"it may have {', '.join(known)}" if known else "it takes nothing"
            raise Problem(400, f"the {place} has no {unknown[0]}; {allowed}")


_ROUTES: dict[tuple[str, str], str] = {  # module and function below control/api/
    ("GET", "/healthz"): "health.health",
    ("GET", "/readyz"): "health.ready",
    ("GET", "/broker"): "health.broker",
    ("GET", "/cluster"): "cluster.cluster",
    ("GET", "/openapi.json"): "document.openapi",
    ("GET", "/metrics"): "metrics.metrics",
    ("GET", "/telemetry"): "telemetry.telemetry",
    ("GET", "/connections"): "traffic.connections",
    ("GET", "/topics"): "topics.topics",
    ("POST", "/topics"): "topics.create_topic",
    ("GET", "/topics/{topic}"): "topics.topic",
    ("DELETE", "/topics/{topic}"): "topics.delete_topic",
    ("POST", "/topics/{topic}/config"): "topics.alter_config",
    ("POST", "/topics/{topic}/partitions"): "topics.add_partitions",
    ("GET", "/topics/{topic}/partitions/{partition}"): "cluster.partition",
    ("POST", "/cluster/settings/reset"): "cluster.reset_settings",
    ("GET", "/coordinator"): "cluster.coordinator",
    ("GET", "/topics/{topic}/records"): "records.records",
    ("POST", "/topics/{topic}/records"): "records.produce",
    ("DELETE", "/topics/{topic}/records"): "records.delete_records",
    ("POST", "/producers"): "records.new_producer",
    ("GET", "/browse"): "browse.browse_overview",
    ("GET", "/browse/names"): "browse.browse_names",
    ("GET", "/browse/schemas"): "browse.browse_schemas",
    ("GET", "/browse/access"): "browse.browse_access",
    ("GET", "/browse/topics"): "browse.browse_topics",
    ("GET", "/browse/topics/{topic}"): "browse.browse_topic",
    ("GET", "/browse/topics/{topic}/records"): "browse_records.browse_records",
    ("GET", "/browse/topics/{topic}/partitions/{partition}/records/{offset}"): "browse_records.browse_record",
    ("GET", "/browse/topics/{topic}/partitions/{partition}/records/{offset}/decoded"): "browse_records.browse_decoded",
    ("GET", "/browse/groups"): "browse.browse_groups",
    ("GET", "/browse/transactions"): "browse.browse_transactions",
    ("GET", "/browse/configs/{kind}/{name}"): "browse.browse_configs",
    ("GET", "/dump"): "seeding.dump",
    ("POST", "/seed"): "seeding.seed",
    ("GET", "/groups"): "groups.groups",
    ("GET", "/groups/{group}"): "groups.group",
    ("DELETE", "/groups/{group}"): "groups.delete_group",
    ("GET", "/groups/{group}/lag"): "groups.lag",
    ("POST", "/groups/{group}/offsets"): "groups.commit",
    ("POST", "/groups/{group}/offsets/reset"): "groups.reset_offsets",
    ("GET", "/clock"): "health.clock",
    ("POST", "/clock/advance"): "health.advance_clock",
    ("POST", "/clock/freeze"): "health.freeze_clock",
    ("POST", "/clock/resume"): "health.resume_clock",
    ("POST", "/clock/set"): "health.set_clock",
    ("POST", "/reset"): "state.reset",
    ("POST", "/fork"): "state.fork",
    ("POST", "/checkpoints"): "state.write_checkpoints",
    ("GET", "/snapshots"): "state.snapshots",
    ("POST", "/snapshots/{name}"): "state.snapshot",
    ("DELETE", "/snapshots/{name}"): "state.delete_snapshot",
    ("POST", "/snapshots/{name}/restore"): "state.restore",
    ("POST", "/waits/group"): "waits.wait_for_group",
    ("POST", "/waits/records"): "waits.wait_for_records",
    ("POST", "/waits/record"): "waits.wait_for_record",
    ("POST", "/waits/lag"): "waits.wait_for_lag",
    ("POST", "/waits/transaction"): "waits.wait_for_transaction",
    ("POST", "/waits/connections"): "traffic.wait_for_connections",
    ("POST", "/assertions/records"): "waits.assert_records",
    ("POST", "/assertions/contains"): "waits.assert_contains",
    ("POST", "/assertions/no-more"): "waits.assert_no_more",
    ("GET", "/requests"): "traffic.requests",
    ("DELETE", "/requests"): "traffic.clear_requests",
    ("GET", "/advice"): "traffic.advice",
    ("POST", "/recording"): "recording.start_recording",
    ("GET", "/recording"): "recording.recording",
    ("DELETE", "/recording"): "recording.stop_recording",
    ("POST", "/waits/request"): "traffic.wait_for_request",
    ("GET", "/history"): "history.history",
    ("POST", "/history"): "history.start_history",
    ("DELETE", "/history"): "history.stop_history",
    ("POST", "/history/clear"): "history.clear_history",
    ("POST", "/check"): "history.check",
    ("GET", "/faults"): "traffic.faults",
    ("POST", "/faults"): "traffic.add_fault",
    ("DELETE", "/faults"): "traffic.clear_faults",
    ("GET", "/faults/{fault}"): "traffic.fault",
    ("DELETE", "/faults/{fault}"): "traffic.remove_fault",
    ("POST", "/waits/fault"): "traffic.wait_for_fault",
    ("POST", "/chaos"): "traffic.chaos",
    ("GET", "/chaos"): "traffic.chaos_state",
    ("POST", "/incidents/leader-epoch"): "incidents.bump_leader_epoch",
    ("POST", "/incidents/leader"): "cluster.move_leader",
    ("POST", "/incidents/network"): "cluster.cut_off",
    ("DELETE", "/incidents/network"): "cluster.rejoin",
    ("POST", "/incidents/coordinator"): "incidents.move_coordinator",
    ("POST", "/incidents/member"): "incidents.expire_member",
    ("POST", "/incidents/compaction"): "incidents.compact",
    ("POST", "/incidents/retention"): "incidents.apply_retention",
    ("POST", "/incidents/full-disk"): "incidents.fill_disk",
    ("DELETE", "/incidents/full-disk"): "incidents.free_disk",
    ("POST", "/incidents/broken-disk"): "incidents.break_disk",
    ("POST", "/incidents/pause"): "incidents.pause",
    ("DELETE", "/incidents/pause"): "incidents.unpause",
}
_PARTS = {route: tuple(route[1].strip("/").split("/")) for route in _ROUTES}


@cache
def operation_at(route: tuple[str, str]) -> Operation:
    """Return the operation of a method and path of the table."""
    module, _, function = _ROUTES[route].partition(".")
    return Operation(*route, getattr(importlib.import_module(f"pykafka_broker.control.api.{module}"), function))


def operations() -> Iterator[Operation]:
    return map(operation_at, _ROUTES)


def find(method: str, path: str) -> tuple[Operation, dict[str, str]]:
    """Return the operation for a request, and the parameters of the path. Raises `Problem` 404 or 405."""
    parts = tuple(map(unquote, path.strip("/").split("/")))
    fitting = {route: given for route in _ROUTES if (given := _path_parameters(_PARTS[route], parts)) is not None}
    if not fitting:
        raise Problem(404, f"there is no {path}; /openapi.json has all paths")
    of_method = [route for route in fitting if route[0] == method]
    if not of_method:
        allowed = ", ".join(sorted({route[0] for route in fitting}))
        raise Problem(405, f"{path} has {allowed}, not {method}", more={"allowed": allowed})
    route = min(of_method, key=lambda each: len(fitting[each]))
    return operation_at(route), fitting[route]


def _path_parameters(pattern: tuple[str, ...], parts: tuple[str, ...]) -> dict[str, str] | None:
    """Return the parameters in the parts of a path; None for a path that does not fit the pattern."""
    if len(pattern) != len(parts):
        return None
    pairs = list(zip(pattern, parts, strict=True))
    if any(wanted != part and not wanted.startswith("{") for wanted, part in pairs):
        return None
    return {wanted[1:-1]: part for wanted, part in pairs if wanted.startswith("{")}

"""Answers to requests that fail as a whole, as Kafka gives them (`tests/broker/requests/refusals.txt`).

Rule: the error stands in the field of the response or, without one, in an answer for each topic, partition, group or
resource that the request names; an answer repeats what tells its item from others. `failed` makes the whole response,
`add_failed` the answers for the items.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.generator.code import FunctionCode, ModuleCode
from protocol.generator.schema import FIXED, Field, Message, StructType, snake

_PARTITION = ("partition_index", "partition", "partition_id", "index")
# What identifies the item of an answer, and the names that requests have for the same.
_NAMES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_PARTITION, _PARTITION),
    "topic_name": ("topic_name", "name"),
    "user": ("user", "name"),
}
for _name in (
    "name", "topic", "topic_id", "group_id", "member_id", "transactional_id", "producer_id", "key", "resource_type",
    "resource_name", "feature", "id", "entity_type", "entity_name",
):  # fmt: skip
    _NAMES[_name] = (_name,)
# Responses with an error of their own and answers for the items, and in which versions.
_WITH_BOTH = {
    "AlterPartitionReassignmentsResponse": "",
    "DescribeUserScramCredentialsResponse": "",
    "ElectLeadersResponse": "",
    "FetchResponse": "version < 13",
    "ListPartitionReassignmentsResponse": "",
    "MetadataResponse": "",
}
# Lists without errors that name what was asked about.
_NAMED = {"AlterClientQuotasResponse": ("entity",), "ListPartitionReassignmentsResponse": ("topics", "partitions")}
# Responses that do not name the items.
_NAMELESS = ("DescribeUserScramCredentialsResponse",)
# Responses without the topics for which the request names no partitions.
_WITH_PARTITIONS = ("ProduceResponse", "WriteTxnMarkersResponse")
_ERRORS = ("error_code", "partition_error_code")
# Numbers that are -1 beside an error, whatever the schema's default.
_UNKNOWN = ("base_offset", "high_watermark", "committed_offset", "low_watermark")
_UNKNOWN_IN = {"FindCoordinatorResponse": ("node_id", "port"), "InitProducerIdResponse": ("producer_epoch",)}
# What else stands beside the error of the whole response.
_BESIDE_IT = {
    "CreateDelegationTokenResponse": (
        "principal_type='User'", "principal_name='ANONYMOUS'",
        "token_requester_principal_type='User' if version >= 3 else ''",
        "token_requester_principal_name='ANONYMOUS' if version >= 3 else ''",
        "issue_timestamp_ms=-1", "expiry_timestamp_ms=-1", "max_timestamp_ms=-1",
    ),
    "DescribeClientQuotasResponse": ("entries=None",),
    "FetchResponse": ("session_id=request.session_id if request is not None else 0",),
    "JoinGroupResponse": ("protocol_name=None if version >= 7 else ''",),
}  # fmt: skip
_NOTHING_TO_ANSWER = "forgotten_topics_data"  # of Fetch: what the client no longer asks for


@dataclass(frozen=True)
class _Asked:
    """A list of the request with a counterpart in the answer: the fields on the way to the list, and the identities."""

    way: tuple[Field, ...]
    identity: tuple[str, ...]


def failed_methods(response: Message, request: Message, module: ModuleCode) -> list[str]:
    """Return the methods of a response."""
    code = _Failures(response, request, module)
    code.lists(response.root, request.root, "self", "request")
    items = code.code.lines
    if items:
        items = [
            "",
            "    def add_failed(self, request: Any, code: int, message: str | None = None) -> None:",
            *(f"    {line}" for line in items),
        ]
        module.typing.add("Any")
    error = code.error(response.root)
    if not error:
        return items
    both = ["request is not None", *filter(None, [_WITH_BOTH.get(response.name)])]
    module.typing |= {"Any", "Self"}
    return [
        "",
        "    @classmethod",
        "    def failed(cls, request: Any, code: int, message: str | None, version: int) -> Self:",
        f"        answer = cls({', '.join([*error, *_BESIDE_IT.get(response.name, ())])})",
        *(
            [f"        if {' and '.join(both)}:", "            answer.add_failed(request, code, message)"]
            if items and response.name in _WITH_BOTH
            else []
        ),
        "        return answer",
        *items,
    ]


class _Failures:
    def __init__(self, response: Message, request: Message, module: ModuleCode) -> None:
        self.response = response
        self.request = request
        self.code = FunctionCode(module)

    def error(self, answer: StructType) -> list[str]:
        """Return the arguments for the error in a struct with fields for errors."""
        names = {field.python: field for field in answer.fields}
        arguments = [f"{name}=code" for name in _ERRORS if name in names]
        if not arguments:
            return []
        unknown = (*_UNKNOWN, *_UNKNOWN_IN.get(self.response.name, ()))
        arguments += [f"{name}=-1" for name in unknown if name in names and names[name].default != "-1"]
        if "records" in names:
            arguments.append("records=b''")  # none, where the schema's default is null
        if "error_message" in names:
            nullable = names["error_message"].annotation.endswith("None")
            arguments.append("error_message=message" if nullable else "error_message=message or ''")
        return arguments

    def holds_errors(self, answer: StructType) -> bool:
        return bool(self.error(answer)) or any(self.answering(answer))

    def answering(self, answer: StructType) -> list[tuple[Field, StructType]]:
        """Return the lists of a struct with errors in the items, or in lists of the items, and those that are named."""
        lists = [field for field in answer.fields if field.array and field.is_struct]
        structs = [(field, self.response.structs[field.type]) for field in lists]
        named = _NAMED.get(self.response.name, ())
        return [(field, struct) for field, struct in structs if field.python in named or self.holds_errors(struct)]

    def lists(self, answer: StructType, asked: StructType, target: str, source: str) -> None:
        """Fill the lists of `target` from the lists of `source`."""
        for field, struct in self.answering(answer):
            for chosen in self.chosen(field, struct, asked):
                self.items(f"{target}.{field.python}", struct, chosen, source)

    def chosen(self, field: Field, answer: StructType, asked: StructType) -> list[_Asked]:
        """Return the lists of the request behind a list of the answer: of the same name, or all fitting lists."""
        lists = [each for each in asked.fields if each.array and each.python != _NOTHING_TO_ANSWER]
        same = [each for each in lists if each.python == field.python]
        fitting = [
            _Asked((each,), identity) for each in same or lists if (identity := self.identity(answer, each)) is not None
        ]
        if fitting and not fitting[0].identity:
            return fitting[:1]
        if fitting or same:
            return fitting
        return [
            _Asked((outer, *inner.way), inner.identity)
            for outer in lists
            if outer.is_struct
            for inner in self.chosen(field, answer, self.request.structs[outer.type])
        ]

    def identity(self, answer: StructType, asked: Field) -> tuple[str, ...] | None:
        """Return the arguments for the identity of an `item`; None if a needed identity is missing."""
        names = {} if self.response.name in _NAMELESS else _NAMES
        wanted = [field for field in answer.fields if field.python in names]
        found = {field.python: value for field in wanted if (value := self.value(field, asked)) is not None}
        partitions = [field.python for field in wanted if field.python in _PARTITION]
        if (wanted and not found) or any(name not in found for name in partitions):
            return None
        return tuple(f"{name}={value}" for name, value in found.items())

    def value(self, field: Field, asked: Field) -> str | None:
        """Return the expression for an identity in terms of `item`."""
        if not asked.is_struct:
            return "item" if asked.type == field.type or (asked.type in FIXED and field.type in FIXED) else None
        fields = {each.python: each for each in self.request.structs[asked.type].fields}
        for name in _NAMES[field.python]:
            if name in fields:
                asked_name = fields[name]
                stays = asked_name.annotation != "str | None" or asked_name.nullable.low in field.nullable
                return f"item.{name}" if stays else f"item.{name} or ''"
        return None

    def items(self, target: str, answer: StructType, asked: _Asked, source: str) -> None:
        *outer, last = asked.way
        if outer:
            step = self.code.local(snake(outer[0].type), source)
            with self.code.block(f"for {step} in {_iterable(source, outer[0])}:"):
                self.items(target, answer, _Asked(asked.way[1:], asked.identity), step)
            return
        item = self.code.local(last.python + "_item" if not last.is_struct else snake(last.type), source)
        arguments = [argument.replace("=item", f"={item}") for argument in asked.identity] + self.error(answer)
        made = f"{answer.name}({', '.join(arguments)})"
        with self.code.block(f"for {item} in {_iterable(source, last)}:"):
            inner = self.answering(answer) if last.is_struct else []
            if not inner:
                self.code.line(f"{target}.append({made})")
                return
            answered = self.code.local("answer", item)
            self.code.line(f"{answered} = {made}")
            self.lists(answer, self.request.structs[last.type], answered, item)
            if self.response.name in _WITH_PARTITIONS and not self.answering(inner[0][1]):
                self.code.line(f"if {answered}.{inner[0][0].python}:")
                self.code.line(f"    {target}.append({answered})")
            else:
                self.code.line(f"{target}.append({answered})")


def _iterable(source: str, field: Field) -> str:
    return f"{source}.{field.python}{' or ()' if field.annotation.endswith('None') else ''}"

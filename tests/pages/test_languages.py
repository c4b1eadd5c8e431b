"""The control API in other languages is what the document says: `make generate` writes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pages import languages
from pages.asynchronous import ROOT, outdated
from pages.languages import dotnet, go, java, node
from pages.languages.model import Api, Kind, api, api_of, camel, is_long, kind_of, pascal
from pykafka_broker.control.operations import operations


def described(**operation: Any) -> Api:
    """Return a document with one more operation, read."""
    answer = {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pear"}}}}}
    entry = {"operationId": "pick_pear", "summary": "Pick a pear", "responses": answer} | operation
    pear = {
        "type": "object",
        "properties": {
            "weight": {"type": ["integer", "null"]},
            "worms": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["weight"],
    }
    return api_of({"paths": {"/trees/{tree}": {"post": entry}}, "components": {"schemas": {"Pear": pear}}})


PICKED = described(
    description="It may be unripe.",
    parameters=[{"name": "tree", "in": "path", "required": True, "schema": {"type": "string"}}],
    requestBody={
        "content": {
            "application/json": {
                "schema": {
                    "properties": {
                        "timeout_ms": {"type": "integer", "minimum": 0, "default": 10_000},
                        "ripe": {"type": "boolean", "default": True},
                        "branch": {"type": "integer"},
                        "record": {"$ref": "#/components/schemas/ExpectedRecord"},
                    },
                    "required": ["branch", "record"],
                }
            }
        }
    },
)


def test_the_files_are_what_the_document_says() -> None:
    assert outdated(languages.files()) == [], "make generate"


def test_every_operation_that_is_not_the_pages_own_is_in_every_language() -> None:
    told = {each.name for each in api().operations}
    names = {each.name for each in operations() if not each.name.startswith("browse_")} - {"openapi", "records"}
    assert told == names | {"records_page"}
    texts = languages.files()
    assert [
        name for name in told if f"  async {camel(name)}(" not in texts["packaging/languages/node/operations.js"]
    ] == []
    methods = texts["packaging/languages/java/src/main/java/pykafkabroker/Operations.java"]
    assert [name for name in told if f" {camel(name)}(" not in methods] == []
    methods = texts["packaging/languages/dotnet/src/Operations.cs"]
    assert [name for name in told if f" {pascal(name)}Async(" not in methods] == []
    for file, receiver in (("operations.go", "c *Client"), ("testing.go", "b *Broker")):
        text = texts[f"packaging/languages/go/{file}"]
        assert [name for name in told if f"func ({receiver}) {go.name_of(name)}(" not in text] == []
    assert [name for name in told if f"  {camel(name)}(" not in texts["packaging/languages/node/operations.d.ts"]] == []


def dotnet_name(name: str) -> str:
    return f"{pascal(name)}Async"


@pytest.mark.parametrize(
    ("language", "name_of"), [("node", camel), ("go", go.name_of), ("java", camel), ("dotnet", dotnet_name)]
)
def test_the_methods_that_a_readme_names_are_there(language: str, name_of: Callable[[str], str]) -> None:
    readme = (ROOT / "packaging" / "languages" / language / "README.md").read_text(encoding="utf-8")
    _, _, section = readme.partition("## What a test may ask\n")
    (table,) = re.findall(r"^\| topics, records \|.*?\n\n", section, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`(\w+)`", table)
    assert len(named) > 30
    there = {name_of(each) for each in ("records", *(operation.name for operation in api().operations))}
    there |= {"header", "timestamp", "partition"} if language == "java" else set()  # of NewRecord
    assert [name for name in named if name not in there] == []


def test_an_operation_in_javascript() -> None:
    files = node.files(PICKED)
    assert (
        "  async pickPear(tree, branch, record, options = {}) {\n"
        "    return this._call('POST', `/trees/${encodeURIComponent(tree)}`, "
        "{ body: { ...options, branch, record: toRecord(record) } })\n"
    ) in files["node/operations.js"]
    types = files["node/operations.d.ts"]
    assert "   * Pick a pear. It may be unripe.\n" in types
    signature = "pickPear(tree: string, branch: number, record: RecordLike, options?: PickPearOptions): Promise<Pear>"
    assert signature in types
    assert "export interface PickPearOptions {\n  /** By default 10000. */\n  timeout_ms?: number\n" in types
    assert "  /** By default true. */\n  ripe?: boolean\n" in types
    assert "export interface Pear {\n  weight: number | null\n  worms?: string[]\n}\n" in types


def test_bytes_may_be_given_in_javascript_where_they_are_sent_in_base64() -> None:
    content: list[dict[str, Any]] = [
        {"name": name, "in": "query", "required": False, "schema": {}} for name in ("key", "key_base64")
    ]
    types = node.files(described(parameters=content))["node/operations.d.ts"]
    assert "export interface PickPearOptions {\n  key?: Uint8Array | unknown\n  key_base64?: unknown\n}\n" in types


def test_an_operation_in_c_sharp() -> None:
    operations, answers = dotnet.files(PICKED).values()
    assert (
        "        /// Pick a pear. It may be unripe.\n        /// </summary>\n        /// <remarks>\n"
        "        /// By default: <c>timeout</c> 10000 ms, <c>ripe</c> true.\n        /// </remarks>\n"
        "        public virtual Task<Pear> PickPearAsync(\n"
        "            string tree,\n            int branch,\n            NewRecord record,\n"
        "            TimeSpan? timeout = null,\n            bool? ripe = null,\n"
        "            CancellationToken cancellationToken = default)\n        {\n"
        "            var given = Given.Body()\n"
        '                .Put("branch", branch)\n                .Put("record", record)\n'
        '                .Put("timeout_ms", timeout)\n                .Put("ripe", ripe);\n'
        '            return CallAsync<Pear>(HttpMethod.Post, "/trees/" + Given.InPath(tree), '
        "given, cancellationToken);\n"
    ) in operations
    assert (
        '        [JsonPropertyName("weight")]\n        public int? Weight { get; set; }\n\n'
        '        [JsonPropertyName("worms")]\n        public IReadOnlyList<string> Worms { get; set; } = null!;\n'
    ) in answers


def test_an_operation_in_go() -> None:
    files = go.files(PICKED)
    assert (
        "// PickPearOptions are the parameters of PickPear that may be left out. By default: Timeout 10000 ms,\n"
        "// Ripe true.\n"
        "type PickPearOptions struct {\n\tTimeout time.Duration\n\tRipe    *bool\n}\n"
    ) in files["go/operations.go"]
    signature = "PickPear(%stree string, branch int, record NewRecord, options ...PickPearOptions)"
    assert (
        "// PickPear picks a pear. It may be unripe.\n"
        f"func (c *Client) {signature % 'ctx context.Context, '} (Pear, error) {{\n"
        '\tgiven := fields{"branch": branch, "record": record}\n'
    ) in files["go/operations.go"]
    assert f"func (b *Broker) {signature % ''} Pear {{\n\tb.t.Helper()\n" in files["go/testing.go"]
    assert 'Weight *int     `json:"weight"`\n\tWorms  []string `json:"worms"`\n' in files["go/answers.go"]


def test_an_operation_in_java() -> None:
    operations, answers, options = java.files(PICKED).values()
    signature = "public Answers.Pear pickPear(String tree, int branch, NewRecord record"
    assert (
        "     * Pick a pear. It may be unripe.\n     */\n"
        f"    {signature}) {{\n        return pickPear(tree, branch, record, options -> {{}});\n"
    ) in operations
    assert (
        f"    {signature}, Consumer<Options.PickPear> options) {{\n"
        '        Given given = Given.body().put("branch", branch).put("record", record);\n'
        "        options.accept(new Options.PickPear(given));\n"
        '        return call("POST", "/trees/" + Given.inPath(tree), given, new TypeToken<Answers.Pear>() {});\n'
    ) in operations
    assert "public record Pear(\n            Integer weight,\n            List<String> worms) {}\n" in answers
    assert (
        "        /** By default 10000 ms. */\n        public PickPear timeout(Duration timeout) {\n"
        '            given.put("timeout_ms", timeout.toMillis());\n'
    ) in options


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({}, Kind("any")),
        ({"type": "integer", "minimum": 1}, Kind("integer", minimum=1)),
        ({"type": ["string", "null"]}, Kind("string", nullable=True)),
        ({"enum": ["a", "b"]}, Kind("string", values=("a", "b"))),
        ({"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}, Kind("array", (Kind("any"),), nullable=True)),
        ({"type": ["string", "integer"]}, Kind("union", (Kind("string"), Kind("integer")))),
        ({"type": "object", "additionalProperties": {"type": "number"}}, Kind("map", (Kind("number"),))),
        ({"$ref": "#/components/schemas/Pear"}, Kind("object", ref="Pear")),
    ],
)
def test_the_kind_of_a_schema(schema: dict[str, Any], kind: Kind) -> None:
    assert kind_of(schema) == kind


def test_what_counts_records_may_need_64_bits() -> None:
    short = {
        f"{each.name}.{field.name}"
        for each in api().objects
        for field in each.fields
        if field.kind.name == "integer" and not is_long(field.name)
    }
    assert [name for name in short if re.search("offset|watermark|_bytes|_ms$|lag$", name)] == []


def test_names() -> None:
    assert (camel("wait_for_records"), pascal("wait_for_records")) == ("waitForRecords", "WaitForRecords")

"""Lines of `sasl.jaas.config` as Kafka's own parser reads them: given ones, and some made up of their parts."""

import random

import pytest
from py4j.protocol import Py4JJavaError

from interop.java_transactions import JavaClients
from pykafka_broker.security.sasl.jaas import parse_login_module

pytestmark = [pytest.mark.java, pytest.mark.ours_only]

Read = tuple[str, dict[str, str]] | None  # None: the line is refused
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LINES = [
    f'{MODULE} required username="admin" password="admin-secret" user_alice="a";',
    f"{MODULE} required user_alice=secret;",
    f"{MODULE} required user_alice='sec ret';",
    f"{MODULE} REQUIRED;",
    f"{MODULE} optional ;",
    f"{MODULE} sufficient a=b c=d;",
    f"{MODULE} requisite a = b\n\tc\n=\n'd' ;",
    rf'{MODULE} required a="x\"y\\z" b="\n\t\101\77\8\q";',
    f'{MODULE} required // a comment\n a="//no comment" /* one more */ b=c;',
    f"{MODULE} required a=1;",
    f"{MODULE} required a=-1;",
    f"{MODULE} required a=x1 b=x-1 c=x.y d=_x e=$x;",
    f"{MODULE} required a=12ab;",
    f'{MODULE} required a="1" 2="b";',
    f'{MODULE} required a="1" ,="b" 1.5="c";',
    f"{MODULE} required a=-b;",
    f"{MODULE} required a=.5 b=c;",
    f'{MODULE} required "user_a b"="c d";',
    f"{MODULE} required user_jürgen=grün b=x/y;",
    f'{MODULE} required user_a@b="c" d="e";',
    f'{MODULE} required user_a-b.c="d";',
    f"{MODULE} required a==b;",
    f"{MODULE} required a=;",
    f"{MODULE} required a;",
    f"{MODULE} required a=b",
    f"{MODULE} sometimes;",
    f"{MODULE}",
    f"{MODULE};",
    "",
    ";",
    f"{MODULE} required;{MODULE} required;",
    f"{MODULE} required;;",
    f'"{MODULE}" required;',
    f'{MODULE} "required" a=b;',
    f'{MODULE} required a="not ended;',
    f'{MODULE} required a="over\nlines";',
    f"{MODULE} required a=b, c=d;",
    f"{MODULE} required a=b # c=d;",
    f"{MODULE} required a=http://x;",
]
PARTS = [
    "a",
    "b.c",
    "=",
    ";",
    '"x y"',
    "'z'",
    "required",
    MODULE,
    " ",
    "\n",
    "//",
    "/* */",
    "1",
    ".5",
    "-",
    "_",
    "é",
    "\\",
    ",",
]
MADE_UP = 400


def by_kafka(java: JavaClients, line: str) -> Read:
    common = java.jvm.org.apache.kafka.common
    settings = java.jvm.java.util.HashMap()
    settings.put("plain.sasl.jaas.config", common.config.types.Password(line))
    listener = common.network.ListenerName("OUTSIDE")
    try:
        context = common.security.JaasContext.loadServerContext(listener, "PLAIN", settings)
    except Py4JJavaError:
        return None
    entry = context.configurationEntries().get(0)
    options = dict(entry.getOptions())
    options.pop(None, None)  # of what is no name
    return str(entry.getLoginModuleName()), {str(key): str(value) for key, value in options.items()}


def by_ours(line: str) -> Read:
    try:
        module = parse_login_module(line)
    except ValueError:
        return None
    return module.name, module.options


def test_lines_are_read_as_kafka_reads_them(java: JavaClients) -> None:
    assert {line: by_ours(line) for line in LINES} == {line: by_kafka(java, line) for line in LINES}


def test_lines_that_are_made_up_too(java: JavaClients) -> None:
    draw = random.Random(14)
    begin = [MODULE, " required "]
    lines = ["".join(begin + draw.choices(PARTS, k=draw.randrange(1, 9)) + [";"]) for _ in range(MADE_UP)]
    assert {line: by_ours(line) for line in lines} == {line: by_kafka(java, line) for line in lines}

"""Login modules as Kafka reads them."""

from __future__ import annotations

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jaas import login_module, parse_login_module
from tests.security.sasl.realms import PREFIX, settings_of


def options(text: str) -> dict[str, str]:
    return parse_login_module(f"Module required {text};").options


def test_a_line_has_a_class_a_flag_and_options() -> None:
    module = parse_login_module('a.b.Module required username="admin" password="secret";')
    assert module.name == "a.b.Module"
    assert module.options == {"username": "admin", "password": "secret"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a='b c'", {"a": "b c"}),
        ('a = "b"\n  c="d"', {"a": "b", "c": "d"}),
        (r'a="say \"hi\" \\ there"', {"a": r'say "hi" \ there'}),
        (r'a="tab\tnew\nline\101"', {"a": "tab\tnew\nlineA"}),
        ('user_alice="a;b=c,d" // who\n user_bob=x /* and\n more */', {"user_alice": "a;b=c,d", "user_bob": "x"}),
        ('user_jürgen="grün"', {"user_jürgen": "grün"}),
        ('user_a-b.c="x"', {"user_a-b.c": "x"}),
        ('a="1" a="2"', {"a": "2"}),
        ('a="1" 2="b" ,="c"', {"a": "1"}),
        # as Java's StreamTokenizer reads them
        ("a=b / who\n c=d", {"a": "b", "c": "d"}),
        ("a=/etc/kafka.keytab\n b", {"a": "b"}),
        ('a="x;\n b=c', {"a": "x;", "b": "c"}),
        ("a=\x01b\x00", {"a": "b"}),
        ("a=\u0663", {"a": "\u0663"}),
    ],
)
def test_options_are_words_or_quoted(text: str, expected: dict[str, str]) -> None:
    assert options(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains 0 login modules"),
        ("M required; N required;", "contains 2 login modules"),
        ("M sometimes;", "control flag"),
        ("M", "control flag"),
        ('M required a="hidden"', "not terminated by semi-colon"),
        ("M required a=;", "Value not specified for key 'a'"),
        ("M required a;", "Value not specified for key 'a'"),
        ("M required a=1;", "Value not specified for key 'a'"),
        ("M required a=-1;", "Value not specified for key 'a'"),
        ('M required ="hidden";', "Value not specified for key 'null'"),
        ('M required a=\x85"hidden";', "Value not specified for key 'a'"),
        ("M required a=/hidden b=c;", "Value not specified for key 'a'"),
        ("M required a=b /* hidden;", "not terminated by semi-colon"),
    ],
)
def test_what_is_wrong_is_told_without_a_value(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        parse_login_module(text)
    assert "hidden" not in str(raised.value)


def test_the_module_is_looked_for_under_listener_and_mechanism_only() -> None:
    settings = settings_of({"sasl.jaas.config": "M required;", PREFIX + "sasl.jaas.config": "M required;"})
    assert login_module(settings, "PLAIN").options["user_alice"] == "alice-secret"
    with pytest.raises(ConfigError, match=r"listener OUTSIDE: there is no login module for DIGEST-MD5"):
        login_module(settings, "DIGEST-MD5")


def test_a_bad_line_is_told_under_its_whole_name_and_without_its_text() -> None:
    settings = settings_of({PREFIX + "plain.sasl.jaas.config": 'M required user_alice="alice-secret"'})
    with pytest.raises(ConfigError, match=r"listener\.name\.outside\.plain\.sasl\.jaas\.config") as raised:
        login_module(settings, "PLAIN")
    assert "alice-secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_the_repr_of_a_module_has_no_password() -> None:
    assert "secret" not in repr(login_module(settings_of(), "PLAIN"))

"""Makes names.json: what Java writes for subjects, and what Kafka's mapper makes of rules.

Run `python -m tests.security.tls.record_names` with a JDK and Kafka's jars (`interop.jars`); the answers are kept, so
that the tests need neither.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from interop.java import java_command, kafka_classpath

ANSWERS = Path(__file__).with_name("names.json")

UTF8, PRINTABLE, T61, IA5, UNIVERSAL, BMP, INTEGER, NUMERIC = 12, 19, 20, 22, 28, 30, 2, 18
CN, SN, C, L, ST, STREET, ORG, OU = (f"2.5.4.{number}" for number in (3, 4, 6, 7, 8, 9, 10, 11))
DC, UID, MAIL = "0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1", "1.2.840.113549.1.9.1"
MANY = [CN, SN, C, L, ST, STREET, ORG, OU, DC, UID, MAIL, "2.5.4.5", "2.5.4.12", "2.5.4.42", "2.5.4.46", "2.5.29.14"]
MANY += ["1.3.6.1.4.1.42.2.11.2.1", "2.5.4.17", "2.5.4.65", "2.5.4.44", "2.5.4.43"]

RULES = [
    "DEFAULT",
    "",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT",
    "RULE:^CN=(.*?), *OU=(.*?), *O=(.*?)$/$1@$2/L",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/L,RULE:^CN=(.*?)$/$1/,DEFAULT",
    "RULE:CN=alice/bob/",
    "RULE:^CN=(\\w+).*/$1/U, RULE:.*/other/L",
    "RULE:.*/x$0y/",
    "RULE:(CN)=(\\w*).*/$2-$1-\\$1/",
    "RULE:^CN=([^,]*),.*$/$1/L,DEFAULT",
    "RULE:^CN=(.*?),.*$/ $1 /",
    "RULE:^CN=(?<name>\\w+).*$/${name}/",
    "RULE:.*/$3/",
    "RULE:^CN=(.*?)(,.*)?$/$1$2/,DEFAULT",
    "DEFAULT,RULE:.*/never/",
    "RULE:^CN=(\\p{Alpha}+).*/$1/",
    "RULE:^CN=([a-z&&[^b]]+).*/$1/,DEFAULT",
    "default",
    "RULE:CN=alice",
    "RULE:CN=alice/bob",
    "RULE:CN=alice/bob/X",
    "RULE:[/a/",
    "RULE:(?<a>x)(?<a>y)/a/",
    "RULE://",
    "something",
    "DEFAULT DEFAULT",
    "RULE:^CN=(.*)$/$1/L/g",
    "RULE:a/b/L RULE:c/d/",
]
NAMES = ["CN=alice", "CN=Alice,OU=ServiceUsers,O=Acme", "cn=kim,ou=dev,dc=example,dc=com", "CN=b-1.x,OU=a,O=z", "O=x"]

PROGRAM = """
import java.nio.file.*; import java.util.*; import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;
public class Names {
  static String hex(String text) throws Exception { return HexFormat.of().formatHex(text.getBytes("UTF-8")); }
  public static void main(String[] a) throws Exception {
    for (String line : Files.readAllLines(Path.of(a[0]))) {
      String[] parts = line.split(" ", -1);
      String answer;
      try {
        if (parts[0].equals("subject")) answer = new X500Principal(HexFormat.of().parseHex(parts[1])).getName();
        else answer = SslPrincipalMapper.fromRules(new String(HexFormat.of().parseHex(parts[1]), "UTF-8"))
            .getName(new String(HexFormat.of().parseHex(parts[2]), "UTF-8"));
      } catch (Throwable error) { answer = "! " + error.getClass().getSimpleName() + ": " + error.getMessage(); }
      System.out.println(hex(answer));
    }
  }
}
"""


def element(tag: int, content: bytes) -> bytes:
    """Encode an element of DER."""
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def identifier(oid: str) -> bytes:
    first, second, *rest = map(int, oid.split("."))
    out = b""
    for number in (first * 40 + second, *rest):
        digits = [number & 127]
        while number := number >> 7:
            digits.append(number & 127 | 128)
        out += bytes(reversed(digits))
    return element(6, out)


def value(text: str, tag: int) -> bytes:
    coding = {BMP: "utf-16-be", UNIVERSAL: "utf-32-be", T61: "latin-1", INTEGER: "latin-1"}.get(tag, "utf-8")
    return element(tag, text.encode(coding))


def name(*rdns: list[tuple[str, str, int]]) -> bytes:
    """A subject: of each relative name its attributes in the order in which they stand."""
    return element(
        0x30,
        b"".join(
            element(0x31, b"".join(element(0x30, identifier(oid) + value(text, tag)) for oid, text, tag in rdn))
            for rdn in rdns
        ),
    )


def subjects() -> list[bytes]:
    texts = [
        "alice",
        "Doe, Jane",
        ' "x" <y> ;z#+=\\\\',
        "  two  blanks  ",
        " ",
        "#lead",
        "a#b",
        "Zoë Ünal",
        "日本",
        "😀",
    ]
    texts += ["a\nb", "a\0b", "tab\t", "\r", "", "+", "a/b:c'd(e)?", "x" * 300, "*", "a@b", "_&!", " \r x \r "]
    out = [name([(CN, text, UTF8)]) for text in texts]
    out += [
        name([(CN, "alice", tag)]) for tag in (PRINTABLE, T61, IA5, UNIVERSAL, BMP, INTEGER, NUMERIC, 23, 27, 26, 25)
    ]
    out += [name([(CN, "Zoë", tag)]) for tag in (T61, BMP, UNIVERSAL, PRINTABLE)]
    out += [name([(oid, "DE", PRINTABLE)]) for oid in MANY]
    out += [name([(DC, "com", IA5)], [(DC, "example", IA5)], [(CN, "x", UTF8)], [(MAIL, "a@b.c", IA5)])]
    out += [name([(C, "DE", PRINTABLE)], [(ORG, "Acme, Inc.", UTF8)], [(OU, "Dev", UTF8)], [(CN, "alice", UTF8)])]
    out += [name([(CN, "alice", UTF8), (UID, "7", UTF8)], [(ORG, "x", UTF8)])]
    out += [name([(UID, "7", UTF8), (CN, "alice", UTF8), (OU, "b", UTF8)])]
    out += [name(), name([(CN, "a", UTF8)], [(CN, "b", UTF8)])]
    out += [name([(MAIL, "a" * 200, IA5)]), name([("1.2.3", "x", UTF8)]), name([("2.999.1234567890123", "x", UTF8)])]
    return out


def main() -> None:
    asked: list[str] = []
    found = subjects()
    asked += [f"subject {der.hex()}" for der in found]
    pairs = [(rules, text) for rules in RULES for text in NAMES]
    asked += [f"rules {rules.encode().hex()} {text.encode().hex()}" for rules, text in pairs]
    with tempfile.TemporaryDirectory() as folder:
        program, lines = Path(folder, "Names.java"), Path(folder, "asked")
        program.write_text(PROGRAM)
        lines.write_text("\n".join(asked))
        done = subprocess.run(
            java_command("-cp", kafka_classpath(), str(program), str(lines)), capture_output=True, text=True, check=True
        )
    answers = [bytes.fromhex(line).decode() for line in done.stdout.split("\n")[: len(asked)]]
    ANSWERS.write_text(
        json.dumps(
            {
                "subjects": dict(zip((der.hex() for der in found), answers, strict=False)),
                "rules": [[*pair, answer] for pair, answer in zip(pairs, answers[len(found) :], strict=True)],
            },
            indent=0,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()

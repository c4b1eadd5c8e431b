"""The generator's commands.

`python -m protocol.generator` writes the generated code, with `--check` it only compares; `import JARS` takes over a
Kafka release (see importer.py). The committed schemas come from three, here as folders of jars:

    python -m protocol.generator import --fresh kafka-3.9.2/ && python -m protocol.generator import kafka-4.3.1/
    python -m protocol.generator import --ahead kafka-4.4.0/
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from protocol.generator.emit import MADE_BY, MARK, message_module
from protocol.generator.importer import import_release, load_ahead
from protocol.generator.registries import api_keys_module, config_attributes_module, errors_module, stored_keys_module
from protocol.generator.schema import load_messages

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "protocol" / "schemas"
PACKAGE = ROOT / "pykafka_broker"
PROTOCOL = PACKAGE / "protocol"
CONFIG = PACKAGE / "config"


def generate() -> dict[Path, str]:
    """Return every generated file with the text."""
    messages = load_messages(SCHEMAS)
    requests = {message.api_key: message for message in messages if message.kind == "request"}
    files = {
        PROTOCOL / message.folder / f"{message.module}.py": message_module(
            message, requests[message.api_key] if message.kind == "response" else None
        )
        for message in messages
    }
    for folder, doc in (
        ("messages", "What travels: requests, responses, headers"),
        ("stored", "What Kafka writes to disk"),
    ):
        files[PROTOCOL / folder / "__init__.py"] = f'{MARK}\n"""{doc}; one module per message."""\n'
    files[PROTOCOL / "errors.py"] = errors_module(SCHEMAS / "errors.json")
    files[PROTOCOL / "api_keys.py"] = api_keys_module(messages, load_ahead(SCHEMAS))
    files[PROTOCOL / "stored_keys.py"] = stored_keys_module(messages)
    files[CONFIG / "attributes.py"] = config_attributes_module(CONFIG / "data.json")
    return files


def generated_files() -> set[Path]:
    """Return the files in the package with the mark."""
    return {path for path in PACKAGE.rglob("*.py") if path.read_text().startswith(MADE_BY)}


def check(files: dict[Path, str]) -> list[str]:
    """Return the differences between the committed code and the schemas."""
    differences = [f"left over: {path.relative_to(ROOT)}" for path in sorted(generated_files() - files.keys())]
    for path, text in sorted(files.items()):
        if not path.exists():
            differences.append(f"missing: {path.relative_to(ROOT)}")
        elif path.read_text() != text:
            differences.append(f"differs: {path.relative_to(ROOT)}")
    return differences


def write(files: dict[Path, str]) -> None:
    for path in generated_files() - files.keys():
        path.unlink()
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["import"]:
        parser = argparse.ArgumentParser(prog="python -m protocol.generator import")
        parser.add_argument("jars", nargs="+", type=Path, help="jars of one Kafka release, or folders of them")
        parser.add_argument(
            "--fresh",
            action="store_true",
            help="forget the schemas that are there",
        )
        parser.add_argument(
            "--ahead",
            action="store_true",
            help="go on speaking the versions that were there, until the release is imported without this option",
        )
        options = parser.parse_args(arguments[1:])
        print(import_release(options.jars, SCHEMAS, options.fresh, options.ahead))
        return 0
    parser = argparse.ArgumentParser(prog="python -m protocol.generator", description="Write the generated code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the committed code differs")
    files = generate()
    if parser.parse_args(arguments).check:
        differences = check(files)
        print("\n".join(differences) or f"{len(files)} generated files are up to date")
        return 1 if differences else 0
    write(files)
    print(f"{len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

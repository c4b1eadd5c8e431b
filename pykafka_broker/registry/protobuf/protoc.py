"""protoc, as the module that grpcio-tools has it.

Rule: it sees the text, those that it refers to and Google's own files, and nothing else of this machine: names that
lead elsewhere are refused. It is told of errors before it could print them.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import _protoc_compiler

from pykafka_broker.registry.problems import InvalidSchema

_GOOGLES = Path(grpc_tools.__file__).parent / "_proto"
_SYNTAX = 'syntax = "proto2";\n'  # what protoc takes a text for that does not say, but warns of


def descriptor_of(text: str, library: Mapping[str, str]) -> FileDescriptorProto:
    """What the text declares, without a name. Raises InvalidSchema."""
    with tempfile.TemporaryDirectory(prefix="pykafka-broker-protoc-") as folder:
        for name, needed in library.items():
            _write(Path(folder), name, needed)
        name = "schema.proto"
        while name in library:
            name = f"_{name}"
        _write(Path(folder), name, text)
        return _compile(Path(folder), name)


def googles_text(name: str) -> str:
    """One of the files that come with protoc, as `google/protobuf/timestamp.proto`."""
    return (_GOOGLES / name).read_text()


def _write(folder: Path, name: str, text: str) -> None:
    if not name or os.path.isabs(name) or any(part in ("", ".", "..") for part in name.split("/")) or "\\" in name:
        raise InvalidSchema(f"{name} can't be the name of a file that is imported")
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((text if _says_syntax(text) else _SYNTAX + text).encode())
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeError):
            raise
        raise InvalidSchema(f"{name} can't be the name of a file that is imported") from None


def _says_syntax(text: str) -> bool:
    return "syntax" in text or "edition" in text


def _compile(folder: Path, name: str) -> FileDescriptorProto:
    paths = [str(folder).encode(), str(_GOOGLES).encode()]
    try:
        with warnings.catch_warnings(action="ignore"):  # of an import that is not used
            _protoc_compiler.get_protos(name.encode(), paths)
    except _protoc_compiler.ProtocErrors as errors:
        raise InvalidSchema("; ".join(str(errors).split("\n"))) from None
    made = folder / "descriptor"
    arguments = [b"protoc", *(b"-I" + path for path in paths), b"--descriptor_set_out=" + str(made).encode()]
    if _protoc_compiler.run_main([*arguments, name.encode()]) != 0:
        raise InvalidSchema("protoc does not take it")
    found = FileDescriptorSet.FromString(made.read_bytes()).file[0]
    found.ClearField("name")
    return found

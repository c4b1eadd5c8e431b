"""The bill of materials of a wheel: a CycloneDX document in `.dist-info/sboms/` (PEP 770).

Rule: the document says what the wheel's own metadata say: name, version, license, and each required package with its
range. Nothing is looked up, so that the same wheel gets the same document. The versions that an installation chooses
are not in it: a wheel does not decide them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
import zipfile
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FILE = "sboms/pykafka-broker.cdx.json"


def add_sbom(wheel: Path, time: int) -> None:
    """Put the document into a wheel, in place. time: of the commit, in epoch seconds, for all files.

    Raises CalledProcessError if the wheel can't be packed again.
    """
    with tempfile.TemporaryDirectory() as folder:
        tool = [sys.executable, "-m", "wheel"]
        subprocess.run([*tool, "unpack", "--dest", folder, str(wheel)], stdout=subprocess.DEVNULL, check=True)
        (unpacked,) = Path(folder).iterdir()
        (info,) = unpacked.glob("*.dist-info")
        (info / FILE).parent.mkdir()
        document = sbom(message_from_bytes((info / "METADATA").read_bytes()), time)
        (info / FILE).write_text(document, encoding="utf-8")
        again = [*tool, "pack", "--dest-dir", str(wheel.parent), str(unpacked)]
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(time)}
        subprocess.run(again, env=environment, stdout=subprocess.DEVNULL, check=True)


def sbom_of(wheel: Path) -> str:
    """Return the document of a wheel. Raises KeyError if there is none."""
    with zipfile.ZipFile(wheel) as files:
        found = [name for name in files.namelist() if name.endswith(f".dist-info/{FILE}")]
        if not found:
            raise KeyError(f"{wheel.name} has no {FILE}")
        return files.read(found[0]).decode()


def sbom(metadata: Message, time: int) -> str:
    """Return the document for a wheel's METADATA, as JSON."""
    root = _component(metadata["Name"], metadata["Version"], ComponentType.LIBRARY)
    root.description = metadata["Summary"]
    root.licenses.add(DisjunctiveLicense(id=metadata["License-Expression"]))
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, str(root.purl)),
        metadata=BomMetaData(component=root, timestamp=datetime.fromtimestamp(time, UTC)),
    )
    needed = [
        _required(Requirement(line)) for line in metadata.get_all("Requires-Dist") or () if "extra ==" not in line
    ]
    for component in needed:
        bom.components.add(component)
    bom.register_dependency(root, needed)
    return str(JsonV1Dot6(bom).output_as_string(indent=1)) + "\n"


def _required(requirement: Requirement) -> Component:
    component = _component(requirement.name, None, ComponentType.LIBRARY)
    component.properties.add(Property(name="pykafka-broker:requirement", value=str(requirement)))
    return component


def _component(name: str, version: str | None, kind: ComponentType) -> Component:
    url = PackageURL("pypi", name=canonicalize_name(name), version=version)
    return Component(name=name, version=version, type=kind, purl=url, bom_ref=str(url))

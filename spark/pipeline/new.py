"""A new project. Rule: it stands alone: the pipeline is copied into it, and nothing in it points back to here."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from pipeline.errors import SettingsError
from pipeline.settings import Settings

PIPELINE = Path(__file__).parent
TEMPLATE = PIPELINE.parent / "template"
PACKAGE = re.compile(r"[a-z][a-z0-9_]*")
PLACEHOLDER = "NAME"
NOT_COPIED = shutil.ignore_patterns("__pycache__")


def write(settings: Settings) -> dict[str, Any]:
    """Write a project into the folder `output`, whose name is that of its package.

    Raises:
        SettingsError: the folder is there already, can't be written, or has a name that is none for a package.
    """
    folder = Path(settings.output)
    name = folder.name
    if not PACKAGE.fullmatch(name) or name in ("pipeline", "tests"):
        raise SettingsError(
            f"output is {settings.output!r}, and its last part has to be a package's name, such as shop"
        )
    if folder.exists():
        raise SettingsError(f"{folder} is there already")
    if not TEMPLATE.is_dir():
        raise SettingsError(f"there is no template at {TEMPLATE}: a new project is written by a checkout")
    try:
        for path in sorted(TEMPLATE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                target = folder / str(path.relative_to(TEMPLATE)).replace(PLACEHOLDER, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(re.sub(rf"(?<![A-Z=]){PLACEHOLDER}(?![A-Z=])", name, path.read_text()))
        shutil.copytree(PIPELINE, folder / "spark" / "pipeline", ignore=NOT_COPIED)
    except OSError as error:
        raise SettingsError(f"output {folder} can't be written: {error.strerror}") from error
    return {"project": str(folder), "files": sum(path.is_file() for path in folder.rglob("*"))}

"""Tables of Delta and Iceberg as programs without Spark read them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pipeline.settings import DELTA


def rows_without_spark(path: str, table_format: str) -> list[Any]:
    """Return the rows of a table in a local folder, with the columns as attributes: read by `deltalake`, which is Rust,
    or by `pyiceberg`, which is Python."""
    table = _delta(path) if table_format == DELTA else _iceberg(Path(path, "metadata"))
    return [SimpleNamespace(**row) for row in table.to_pylist()]


def _delta(path: str) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(path).to_pyarrow_table()


def _iceberg(metadata: Path) -> Any:
    """Read the table as a catalog of folders has it: the hint names the newest version, or one before it."""
    from pyiceberg.table import StaticTable

    version = int((metadata / "version-hint.text").read_text())
    while (metadata / f"v{version + 1}.metadata.json").exists():
        version += 1
    return StaticTable.from_metadata(f"file://{metadata}/v{version}.metadata.json").scan().to_arrow()

"""Files through Hadoop's file system, while another job changes them."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.files import Files

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("listing", [Files.names, Files.sizes])
def test_a_folder_that_another_job_removes_has_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: Any
) -> None:
    """A compaction ended with an error where a stream had removed an emptied folder."""
    files, folder = Files(spark), tmp_path / "batch=7"
    system, path = files._open(str(folder))

    class RemovedMeanwhile:
        exists = staticmethod(system.exists)

        def listStatus(self, path: Any) -> Any:
            folder.rmdir()
            return system.listStatus(path)

    monkeypatch.setattr(files, "_open", lambda folder: (RemovedMeanwhile(), path))
    folder.mkdir()
    assert not listing(files, str(folder))

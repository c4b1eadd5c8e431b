"""Files through Hadoop's file system, while another job changes them."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.files import Files, LocalFiles

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


@pytest.mark.parametrize("path", ["there", "there/", "./no/../there", "{}/there", "file:{}/there", "file://{}/there"])
def test_local_files_are_those_of_hadoop(spark: SparkSession, tmp_path: Path, path: str) -> None:
    """A relative path is one below the folder in which the JVM has started."""
    name = path.format(tmp_path) if "{}" in path else f"{os.path.relpath(tmp_path)}/{path}"
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "owner.json").write_text("ü")
    hadoop, local = Files(spark), LocalFiles()
    assert local.qualified(name) == hadoop.qualified(name)
    for files in (hadoop, local):
        assert files.names(name) == ["owner.json"]
        assert files.read(f"{name}/owner.json") == "ü"
        assert (files.exists(name), files.exists(f"{name}x")) == (True, False)
        assert (files.names(f"{name}x"), files.read(f"{name}/other.json")) == ([], None)


def test_a_text_has_no_checksum_beside_it(spark: SparkSession, tmp_path: Path) -> None:
    """A reader found the checksum of the text before, as Hadoop renames a checksum after its file."""
    for text in ("one", "two"):
        Files(spark).write(f"{tmp_path}/text", text)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
    assert Files(spark).read(f"{tmp_path}/text") == "two"

"""Small files beside the data. Rule: everything goes through Hadoop's FileSystem, so a path may be on this disk, on
HDFS or in an object store, and a file is there whole or not at all.
"""

from __future__ import annotations

import os
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pipeline.settings import local

WILDCARD = re.compile(r"[*?\[{]")
HADOOP_PATH = "org.apache.hadoop.fs.Path"


def beside(path: str, what: str) -> str:
    """Return a folder beside `path` that no reader of tables looks into, and whose name no topic can have."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}~{what}"


class Files:
    """Files of Hadoop's FileSystem. What may be missing is asked for first: PySpark makes 40 calls of an exception."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._new_path = getattr(self._jvm, HADOOP_PATH)
        self._configuration = spark._jsc.hadoopConfiguration()

    def _open(self, path: str) -> tuple[Any, Any]:
        hadoop_path = self._new_path(path)
        return hadoop_path.getFileSystem(self._configuration), hadoop_path

    def exists(self, path: str) -> bool:
        system, hadoop_path = self._open(path)
        return bool(system.exists(hadoop_path))

    def qualified(self, path: str) -> str:
        """Return the path with its file system, and absolute."""
        system, hadoop_path = self._open(path)
        return str(system.makeQualified(hadoop_path).toString())

    def names(self, folder: str) -> list[str]:
        """Return the names of what is in the folder; nothing if there is no folder."""
        return [str(status.getPath().getName()) for status in self._statuses(folder)]

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the names of what is in the folder, and how many bytes each has; nothing if there is no folder."""
        return {str(status.getPath().getName()): int(status.getLen()) for status in self._statuses(folder)}

    def _statuses(self, folder: str) -> list[Any]:
        system, hadoop_path = self._open(folder)
        if not system.exists(hadoop_path):
            return []
        try:
            return list(system.listStatus(hadoop_path))
        except Py4JJavaError:  # another job may remove the folder at any time
            if system.exists(hadoop_path):
                raise
            return []

    def root_of(self, path: str) -> str:
        """Return the folder that holds all that a reader finds at `path`, as the path of a URI: the folder itself, that
        of a file, or the one above the first wildcard."""
        system, hadoop_path = self._open(path)
        if not system.exists(hadoop_path):  # a wildcard, or nothing
            while hadoop_path.getParent() is not None and WILDCARD.search(hadoop_path.toString()):
                hadoop_path = hadoop_path.getParent()
        elif not system.getFileStatus(hadoop_path).isDirectory():
            hadoop_path = hadoop_path.getParent()
        return str(system.makeQualified(hadoop_path).toUri().getRawPath()).rstrip("/")

    def read(self, path: str) -> str | None:
        system, hadoop_path = self._open(path)
        if not system.exists(hadoop_path):
            return None
        try:
            stream = system.open(hadoop_path)
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error.java_exception):
                return None
            raise
        try:
            return str(getattr(self._jvm, "org.apache.commons.io.IOUtils").toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        system, hadoop_path = self._open(path)
        unfinished = self._new_path(f"{path}.{uuid.uuid4().hex}")
        stream = system.create(unfinished)
        stream.write(bytearray(text.encode()))
        stream.close()
        self._drop_checksum(unfinished, system)
        system.delete(hadoop_path, False)
        system.rename(unfinished, hadoop_path)

    def _drop_checksum(self, path: Any, system: Any) -> None:
        """Remove what Hadoop's local files have beside them, and rename after them: between the two, and for good where
        two jobs write one file, a reader would find the checksum of another text."""
        system.delete(self._new_path(path.getParent(), f".{path.getName()}.crc"), False)

    def make_folder(self, path: str) -> None:
        system, hadoop_path = self._open(path)
        system.mkdirs(hadoop_path)

    def delete(self, path: str) -> None:
        system, hadoop_path = self._open(path)
        system.delete(hadoop_path, True)

    def rename(self, old: str, new: str) -> None:
        system, hadoop_path = self._open(old)
        system.mkdirs(self._new_path(new).getParent())
        if not system.rename(hadoop_path, self._new_path(new)):
            raise OSError(f"{old} can't be renamed to {new}")

    def rename_once(self, old: str, new: str) -> None:
        """Rename a file that another process may be renaming, too, or may have renamed."""
        if not self.exists(old):
            return
        try:
            self.rename(old, new)
        except (OSError, Py4JJavaError):
            if self.exists(old) or not self.exists(new):
                raise

    def delete_if_empty(self, folder: str) -> None:
        system, hadoop_path = self._open(folder)
        if system.exists(hadoop_path) and not self.names(folder):
            with suppress(Py4JJavaError):  # another job removes a checksum there, which has no name, then the folder
                system.delete(hadoop_path, False)

    def replace_folder(self, finished: str, path: str) -> None:
        """Put a finished folder in the place of `path`; `recover_folder` mends what a crash in between leaves."""
        old = beside(path, "old")
        self.delete(old)
        if self.exists(path):
            self.rename(path, old)
        self.rename(finished, path)
        self.delete(old)

    def recover_folder(self, path: str) -> None:
        old = beside(path, "old")
        if not self.exists(path) and self.exists(old):
            self.rename(old, path)


class LocalFiles:
    """Files of this machine's disk, to look at while there is no JVM; a path is understood as Hadoop would."""

    def exists(self, path: str) -> bool:
        return os.path.exists(_absolute(path))

    def qualified(self, path: str) -> str:
        return f"file:{_absolute(path)}"

    def names(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError):
            return os.listdir(_absolute(folder))
        return []

    def read(self, path: str) -> str | None:
        with suppress(FileNotFoundError):
            return Path(_absolute(path)).read_text(encoding="utf-8")
        return None


def _absolute(path: str) -> str:
    return os.path.abspath(local(path))


AnyFiles = Files | LocalFiles

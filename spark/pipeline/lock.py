"""Locks of tables on a local disk. Rule: whoever commits to a table of Delta or Iceberg there holds its lock meanwhile.

Both formats number their commits, and rely on a file system that never renames one file over another. A local disk
does: two processes that look at the same moment find that no file has the next number, and the second one's rename
takes the place of the first one's commit, whose rows are gone. Neither format has a means against it that needs no
server.

The lock is a file's (`fcntl`), held by the JVM, which writes: it ends with that process, however that ends. Elsewhere
(HDFS, object stores) nothing is locked.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from pipeline.files import Files

FILE = "_pipeline.lock"  # in the table's folder; readers leave out names that begin with _
LOCAL = "file:"
_threads: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # by table: a file's lock is a process's


@contextmanager
def held(spark: SparkSession, path: str) -> Iterator[None]:
    """Hold the lock of the table in a folder, if the folder is on a local disk; wait while another process has it."""
    files = Files(spark)
    whole = files.qualified(path)
    if not whole.startswith(LOCAL):
        yield
        return
    files.make_folder(path)
    folder = os.path.realpath(whole.removeprefix(LOCAL))
    with _threads[folder]:
        jvm: Any = spark._jvm
        file = jvm.java.io.RandomAccessFile(os.path.join(folder, FILE), "rw")
        try:
            file.getChannel().lock()
            yield
        finally:
            file.close()

"""Java's exceptions as Java throws them. Rule: only Spark's own tests see Spark's exceptions."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j import java_gateway, protocol


@contextmanager
def plain_exceptions() -> Iterator[None]:
    """Undo PySpark's conversion of Java exceptions within the block.

    PySpark, once it has had a session, turns the Java exceptions of every gateway into its own, by its own JVM.
    """
    of_spark, java_gateway.get_return_value = java_gateway.get_return_value, protocol.get_return_value
    try:
        yield
    finally:
        java_gateway.get_return_value = of_spark

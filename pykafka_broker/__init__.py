"""A wire-compatible Kafka broker in pure Python."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # in a clone that is on the path; pip refuses to install there
    raise ImportError(f"pykafka-broker needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")

__version__ = "0.1.0"

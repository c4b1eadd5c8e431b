"""The process: sockets, signals, one timer."""

from pykafka_broker.server.process import run

__all__ = ["run"]

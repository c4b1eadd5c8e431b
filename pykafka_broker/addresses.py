"""Addresses as text: `host:port`, with brackets around an IPv6 address.

Rule: the brackets belong to the text. A host in the program has none. The module imports nothing, since the tests'
package, which starts in milliseconds, reads addresses too.
"""

from __future__ import annotations


def address_text(host: str, port: int) -> str:
    """Return an address as clients take it: "127.0.0.1:9092", "[::1]:9092" (Kafka: Utils.formatAddress)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(text: str) -> tuple[str, str]:
    """Return the host, and the text of the port behind the last colon."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), port

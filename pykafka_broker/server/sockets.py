"""Sockets as brokers and links want them, and addresses as Kafka writes them."""

from __future__ import annotations

import socket
import struct


def listening(host: str, port: int, backlog: int, receive_buffer_bytes: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one, a buffer size of -1 is the system's.

    `OSError` names the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((host, port))
        sock.listen(backlog)
        sock.setblocking(False)
        if receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error
    return sock


def prepare(sock: socket.socket, send_buffer_bytes: int = -1) -> None:
    """What a stream of requests or answers needs; a buffer size of -1 is the system's."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a request may wait for long: is anybody there?
    if send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)


def plain_address(address: str) -> str:
    """An address of IPv4 as such, also where a socket for both families has accepted it."""
    return address.removeprefix("::ffff:") if "." in address else address


def as_java_writes(address: str) -> str:
    """An address as ACLs, groups and logs of Kafka have it: one of IPv6 without `::`."""
    plain, _, scope = address.partition("%")
    if ":" not in plain:
        return address
    groups = struct.unpack(">8H", socket.inet_pton(socket.AF_INET6, plain))
    return ":".join(f"{group:x}" for group in groups) + (f"%{scope}" if scope else "")

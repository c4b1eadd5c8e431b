"""The process behind an address, for its memory and its CPU time."""

import time

import psutil

from interop.raw import address_of


def process_at(bootstrap_servers: str) -> psutil.Process:
    _, port = address_of(bootstrap_servers)
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            return psutil.Process(connection.pid)
    raise LookupError(f"nobody listens on {bootstrap_servers}")


def resident_mb(process: psutil.Process) -> float:
    """Return the resident memory of the process and its children."""
    everyone = [process, *process.children(recursive=True)]
    return float(sum(p.memory_info().rss for p in everyone)) / 2**20


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of the process so far, in seconds; exact, unlike psutil's ticks of 10 ms."""
    return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3)

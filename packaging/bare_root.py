"""A stranger's machine: a bare Debian in a folder, where the package is installed from an index and used.

Rule: the root has what debootstrap makes of Debian's smallest variant with Python, an ordinary user, and nothing of
this machine: no checkout, no tools, no environment. Processes in it end with the command that started them, and what
that command has mounted is gone with it. Needs root, debootstrap, and a mirror of Debian.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

RELEASE = "bookworm"
PYTHON = ("python3", "python3-venv")
HOME = "home/stranger"
NEEDED = ("debootstrap", "chroot", "unshare")

FIRST_TEST = """
from kafka import KafkaConsumer, KafkaProducer


def test_an_order_arrives_although_the_first_try_fails(kafka_broker):
    address = kafka_broker.bootstrap_servers
    kafka_broker.create_topic("orders")
    fault = kafka_broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
    producer = KafkaProducer(bootstrap_servers=address)
    producer.send("orders", key=b"17", value=b"apples").get(30)
    producer.close()
    assert fault.hits == 1
    consumer = KafkaConsumer("orders", bootstrap_servers=address, auto_offset_reset="earliest")
    assert next(consumer).value == b"apples"
    consumer.close()
"""
START = """
import re, subprocess, urllib.request

command = ["venv/bin/pykafka-broker", "--ephemeral", "--listen", "0", "--control", "127.0.0.1:0"]
with subprocess.Popen([*command, "--stop-on-stdin-close"], stdin=-1, stdout=-1, text=True) as broker:
    said = broker.stdout.readline() + broker.stdout.readline()
    (control,) = re.findall(r"^control on (\\S+)$", said, re.MULTILINE)
    assert "listening on 127.0.0.1:" in said, said
    page = urllib.request.urlopen(control).read().decode()
    assert "<title>pykafka-broker</title>" in page, page[:200]
    broker.stdin.close()
    assert broker.wait(30) == 0
"""


class BareRootFailed(Exception):
    """A root that can't be made, or in which something does not work; the text has the output."""


@contextlib.contextmanager
def bare_root() -> Iterator[Path]:
    """Make the root, and remove it after the block."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if sys.platform == "win32" or missing or os.geteuid() != 0:
        raise BareRootFailed(f"a bare root needs root's rights{''.join(f', {name}' for name in missing)}")
    with tempfile.TemporaryDirectory(prefix="bare-root-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        run("debootstrap", "--variant=minbase", f"--include={','.join(PYTHON)}", RELEASE, folder)
        run("chroot", folder, "useradd", "--create-home", "--uid", "1000", "stranger")
        yield root


def python_of(root: Path) -> str:
    """Return the version of Python there, as 3.11."""
    return inside(root, "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").strip()


def use(root: Path, index: str, package: str) -> str:
    """Install the package from an index, start the broker, and run a first test; return what has run where."""
    home = root / HOME
    for name, text in {
        "test_first.py": FIRST_TEST,
        "start.py": START,
        "trial.py": Path(__file__).with_name("trial.py").read_text(encoding="utf-8"),
    }.items():
        (home / name).write_text(text, encoding="utf-8")
    install = f"venv/bin/pip install -q --index-url {shlex.quote(index)} {package} pytest kafka-python"
    inside(root, f"python3 -m venv venv && {install}")
    inside(root, "venv/bin/python start.py")
    inside(root, "venv/bin/python -m pytest -q -p no:cacheprovider test_first.py")
    return inside(root, "venv/bin/python trial.py").strip()


def inside(root: Path, script: str) -> str:
    """Run a script as the ordinary user, in the root's own tree of processes; return what it prints."""
    clean = (
        "env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/stranger PIP_DISABLE_PIP_VERSION_CHECK=1 LC_ALL=C.UTF-8"
    )
    enter = f"exec chroot --userspec=1000:1000 {shlex.quote(str(root))} {clean} sh -ec {shlex.quote(f'cd; {script}')}"
    mount = f"mount -t proc proc {shlex.quote(str(root / 'proc'))}"
    return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", f"{mount}; {enter}")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise BareRootFailed(f"{shlex.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout

"""A Kerberos server (KDC) for tests, where Debian's krb5-kdc and krb5-admin-server are installed.

Rule: the server listens on loopback only, and all its files are in one folder.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interop.real_kafka import free_port
from interop.waiting import eventually

REALM = "TEST.REALM"
_TOOLS = ("kdb5_util", "kadmin.local", "krb5kdc", "kinit")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"


def missing() -> list[str]:
    """Return the names of the Kerberos tools that are not installed."""
    return [tool for tool in _TOOLS if shutil.which(tool, path=_PATH) is None]


class Kdc:
    """A running Kerberos server."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.config = folder / "krb5.conf"
        self.folder = folder
        self._environment = environment

    def run(self, tool: str, *arguments: str) -> None:
        found = shutil.which(tool, path=_PATH)
        assert found is not None
        subprocess.run([found, *arguments], check=True, capture_output=True, env=self._environment)

    def keytab(self, principal: str) -> Path:
        """Add a principal; return the file with its key."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "addprinc", "-randkey", principal)
        self.run("kadmin.local", "ktadd", "-k", str(path), principal)
        return path

    def ticket(self, principal: str, keytab: Path) -> Path:
        """Get a ticket for the principal with `kinit`; return the file with the ticket."""
        cache = self.folder / f"{principal.replace('/', '-')}.ticket"
        self.run("kinit", "-k", "-t", str(keytab), "-c", f"FILE:{cache}", principal)
        return cache


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    """Run a Kerberos server in the folder until the block ends."""
    port = free_port()
    (folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n"
        " dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        f"[domain_realm]\n localhost = {REALM}\n"
    )
    (folder / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
        f"  acl_file = {folder}/acl\n }}\n"
    )
    environment = {
        **os.environ,
        "KRB5_CONFIG": str(folder / "krb5.conf"),
        "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
    }
    kdc = Kdc(folder, environment)
    kdc.run("kdb5_util", "create", "-s", "-P", "a throw-away", "-r", REALM)
    found = shutil.which("krb5kdc", path=_PATH)
    assert found is not None
    with (folder / "kdc.log").open("wb") as log:
        process = subprocess.Popen([found, "-n", "-r", REALM], env=environment, stdout=log, stderr=log)
    try:
        eventually(lambda: process.poll() is not None or listens(port), True)
        assert process.poll() is None, (folder / "kdc.log").read_text()
        yield kdc
    finally:
        process.terminate()
        process.wait(10)

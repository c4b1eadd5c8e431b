"""OpenSSL is loaded when TLS is wanted, and not before."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from pykafka_broker.server.lazy_tls import import_asyncio

_BEGIN = "import sys; from pykafka_broker.server.lazy_tls import import_asyncio; import_asyncio()\n"


def run(code: str) -> str:
    """Run code in a fresh interpreter and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_loop_that_serves_connections_does_without_openssl() -> None:
    assert (
        run("""
        import asyncio, socket

        def ask(address):
            with socket.create_connection(address) as client:
                client.sendall(b"served\\n")
                return client.makefile().readline()

        async def serve():
            async def echo(reader, writer):
                writer.write(await reader.readline())
                writer.close()
            server = await asyncio.start_server(echo, "127.0.0.1", 0)
            print(await asyncio.to_thread(ask, server.sockets[0].getsockname()[:2]), end="")
            server.close()

        asyncio.run(serve())
        print("_ssl" in sys.modules)
        """)
        == "served\nFalse"
    )


def test_what_the_command_loads_to_serve_is_without_openssl_and_pathlib() -> None:
    """Half a megabyte of an idle broker comes with pathlib."""
    code = "import pykafka_broker.cli.serve, pykafka_broker.server.serving; print({'_ssl', 'pathlib'} & {*sys.modules})"
    assert run(code) == "set()"


def test_tls_is_whole_for_who_wants_it() -> None:
    assert (
        run("""
        import asyncio, ssl
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: ssl.create_default_context(), range(8)))
        print({type(each).__name__ for each in made}, asyncio.sslproto.SSLProtocol.__name__)
        print(asyncio.base_events.ssl is ssl, hasattr(ssl, "nothing"), "__getattr__" in vars(ssl))
        """)
        == "{'SSLContext'} SSLProtocol\nTrue False False"
    )


def test_whoever_has_imported_asyncio_already_keeps_it() -> None:
    assert run("print(sys.modules['ssl'] is not None)") == "True"
    before, finders = sys.modules["asyncio.sslproto"], list(sys.meta_path)
    import_asyncio()
    assert (sys.modules["asyncio.sslproto"], sys.meta_path) == (before, finders)

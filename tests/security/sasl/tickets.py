"""A login line of Kerberos, and a context that needs none."""

from __future__ import annotations

from typing import Any

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


class Context:
    """A Kerberos context that is established after one token, with an answer or without."""

    def __init__(self, answer: bytes | None, choice: bytes, who: str = "alice@R.COM") -> None:
        self.answer, self.choice, self.initiator_name = answer, choice, who
        self.complete = False

    def step(self, token: bytes) -> bytes | None:
        self.complete = True
        return self.answer

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return _Message(b"wrapped" + message)

    def unwrap(self, token: bytes) -> Any:
        return _Message(self.choice)


class _Message:
    def __init__(self, message: bytes) -> None:
        self.message = message

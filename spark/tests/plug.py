"""Runs that end in the middle."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pipeline.errors import PipelineError

Work = Callable[..., Any]


def nothing(*_: Any, **__: Any) -> None: ...


@contextmanager
def plug_pulled(owner: Any, name: str, after: Work = nothing) -> Iterator[None]:
    """Let the call of `name` end what runs in the block, after the given work: the call's own, say."""

    def fail(*arguments: Any, **keywords: Any) -> None:
        after(*arguments, **keywords)
        raise PipelineError("the plug was pulled")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, fail)
        with pytest.raises(PipelineError, match="the plug was pulled"):
            yield

"""Tests that must hold on both event loops."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

_LOOPS = [
    pytest.param(asyncio.new_event_loop, id="asyncio"),
    pytest.param(uvloop.new_event_loop, id="uvloop"),
]


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    def run(loop: Callable[[], asyncio.AbstractEventLoop], **given: Any) -> None:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(test(**given))

    own = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    asked = inspect.signature(test).parameters.values()
    run.__signature__ = inspect.Signature([*asked, own])  # type: ignore[attr-defined]
    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
    return pytest.mark.parametrize("loop", _LOOPS)(run)

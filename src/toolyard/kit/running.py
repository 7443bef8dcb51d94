"""Calling an author's function: async on the loop, sync in a thread, with its context."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from ..edge.threads import in_thread
from .context import Context
from .introspection import underlying
from .rounds import signals_in


class Callee:
    """A function and where its context goes."""

    def __init__(self, function: Callable[..., Any], context_name: str | None) -> None:
        self._function = function
        self._context_name = context_name
        self._is_async = inspect.iscoroutinefunction(underlying(function))

    @property
    def wants_context(self) -> bool:
        return self._context_name is not None

    def __call__(self, arguments: dict[str, Any], context: Context | None) -> Awaitable[Any]:
        if self._context_name is not None:
            arguments[self._context_name] = context
        if self._is_async:
            return self._function(**arguments)
        return self._in_thread(arguments, context)

    async def _in_thread(self, arguments: dict[str, Any], context: Context | None) -> Any:
        try:
            value = await in_thread(self._run, arguments)
            # An `async def` behind an ordinary decorator looks like a `def`.
            return await value if inspect.isawaitable(value) else value
        except asyncio.CancelledError:
            if context is not None:
                context.mark_cancelled()
            raise

    def _run(self, arguments: dict[str, Any]) -> Any:
        try:
            return self._function(**arguments)
        except (StopIteration, GeneratorExit, KeyboardInterrupt) as error:
            # The first no future takes, and the call would never end; the others mean something on the loop.
            raise RuntimeError(f"the function raised {type(error).__name__}") from error


def reraise_signals(error: BaseException) -> None:
    """What is no failure of the author's goes on: our own signals, and the end of this very task.

    A cancellation that leaked from elsewhere is a failure like others.
    """
    if next(signals_in(error), None) is not None:
        raise error
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise error

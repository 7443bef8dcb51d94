"""`Depends`: parameters that the server fills with what another function makes, for each call."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any


def Depends(function: Callable[..., Any]) -> Any:
    """The default of a parameter that callers do not see: `db: Database = Depends(open_database)`.

    The function may be plain or async, may return a context manager, which is left after the call, and may
    have dependencies and a `Context` itself. It is called on the event loop, once for each call.
    """
    return Dependency(function)


class Dependency:
    """What `Depends` leaves in a signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def dependencies_of(function: Callable[..., Any]) -> dict[str, Dependency]:
    parameters = inspect.signature(function).parameters
    return {name: one.default for name, one in parameters.items() if isinstance(one.default, Dependency)}


class Resolver:
    """What the dependencies of one call are; each is made once."""

    def __init__(
        self, stack: AsyncExitStack, context_name: Callable[[Any], str | None], context: Any
    ) -> None:
        self._stack = stack
        self._context_name = context_name
        self._context = context
        self._made: dict[Callable[..., Any], Any] = {}

    async def resolve(self, wanted: Mapping[str, Dependency]) -> dict[str, Any]:
        return {name: await self._one(dependency.function) for name, dependency in wanted.items()}

    async def _one(self, function: Callable[..., Any]) -> Any:
        if function in self._made:
            return self._made[function]
        arguments = await self.resolve(dependencies_of(function))
        if name := self._context_name(function):
            arguments[name] = self._context
        value = function(**arguments)
        if inspect.isawaitable(value):
            value = await value
        if hasattr(value, "__aenter__"):
            value = await self._stack.enter_async_context(value)
        elif hasattr(value, "__enter__"):
            value = self._stack.enter_context(value)
        self._made[function] = value
        return value

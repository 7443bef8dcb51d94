"""What wraps an upstream is asked in its place, and so has to answer everything that an upstream is asked."""

import inspect
from typing import Any

import pytest

from toolyard.upstream.base import Forward, Outcome, Upstream, WrappedUpstream

METHODS = sorted(Upstream.__abstractmethods__ - {"send"})


class Plain(WrappedUpstream):
    async def send(self, forward: Forward) -> Outcome:
        return await self._inner.send(forward)


def listening(heard: list[Any]) -> Upstream:
    """An upstream that keeps what it is asked, and answers each question in its own way."""

    def method(name: str) -> Any:
        def said(self: Upstream, *given: Any) -> Any:
            heard.append((name, *given))
            return f"the answer of {name}"

        async def later(self: Upstream, *given: Any) -> Any:
            return said(self, *given)

        return later if inspect.iscoroutinefunction(getattr(Upstream, name)) else said

    members: dict[str, Any] = {name: method(name) for name in (*METHODS, "send")}
    kind: Any = type("Listening", (Upstream,), {**members, "runs_named_tools": "what it runs"})
    return kind()


@pytest.mark.parametrize("name", METHODS)
async def test_a_wrapper_passes_on_whatever_an_upstream_is_asked(name: str):
    heard: list[Any] = []
    wrapped = Plain(Plain(listening(heard)))
    given = [f"given {number}" for number in range(len(inspect.signature(getattr(wrapped, name)).parameters))]
    answer = getattr(wrapped, name)(*given)
    found = await answer if inspect.isawaitable(answer) else answer
    assert heard == [(name, *given)]
    says_something = inspect.signature(getattr(Upstream, name)).return_annotation is not None
    assert found == (f"the answer of {name}" if says_something else None)


def test_a_wrapper_has_the_properties_of_what_it_wraps():
    assert inspect.get_annotations(Upstream).keys() == {"runs_named_tools"}
    assert Plain(Plain(listening([]))).runs_named_tools == "what it runs"

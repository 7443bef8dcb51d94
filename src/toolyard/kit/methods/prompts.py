"""Listing and rendering prompts, and completing the arguments of prompts and resource templates."""

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any, cast

from ...wire.call import Call
from ...wire.errors import InvalidParams
from ...wire.messages import decode_params
from ...wire.text import clean
from ...wire.types import (
    CompleteParams,
    CompleteResult,
    Completion,
    GetPromptParams,
    GetPromptResult,
    ListPromptsResult,
    PromptRef,
    Result,
)
from ..rounds import InputRequired
from .base import Methods, check_own, guarded

if TYPE_CHECKING:
    from ..server import Server

MAX_COMPLETIONS = 100


class PromptMethods(Methods):
    def __init__(self, server: "Server") -> None:
        super().__init__(server)
        self.shared = {
            "prompts/list": self._list,
            "prompts/get": self._get,
            "completion/complete": self._complete,
        }

    async def _list(self, call: Call) -> ListPromptsResult:
        self._need(call, "prompts")
        found, cursor = self._page(call, self._server.prompts.values())
        result = ListPromptsResult(prompts=[item.info for item in found], next_cursor=cursor)
        return self._cached(call, result)

    async def _get(self, call: Call) -> Result:
        self._need(call, "prompts")
        params = decode_params(call.params, GetPromptParams)
        prompt = self._server.prompts.get(params.name)
        if prompt is None:
            raise InvalidParams(f"Unknown prompt: {params.name[:80]!r}")
        context = self._context(call, params, params.name, params.arguments) if prompt.wants_context else None
        try:
            messages = await guarded(prompt.render(params.arguments, context), f"prompt {params.name!r}")
        except InputRequired as pending:
            check_own(pending, context)
            return pending.result
        finally:
            if context is not None:
                context.close()
        return GetPromptResult(messages=messages, description=prompt.info.description)

    async def _complete(self, call: Call) -> CompleteResult:
        self._need(call, "completions")
        params = decode_params(call.params, CompleteParams)
        ref = params.ref
        kind, target = ("prompt", ref.name) if isinstance(ref, PromptRef) else ("resource", ref.uri)
        known = self._server.prompts if kind == "prompt" else self._server.resources
        if target not in known:
            raise InvalidParams(f"Unknown {kind}: {target[:80]!r}")
        complete = self._server.completions.get((kind, target, params.argument.name))
        if complete is None:
            return CompleteResult(completion=Completion([], 0, False))
        what = f"completion of {params.argument.name!r}"
        completing = complete(params.argument.value, params.context.arguments, call.caller)
        values = await guarded(_strings(completing), what)
        shown = values[:MAX_COMPLETIONS]
        return CompleteResult(completion=Completion(shown, len(values), len(values) > len(shown)))


async def _strings(completing: Awaitable[Any]) -> list[str]:
    found = await completing
    if found is None or isinstance(found, str) or not isinstance(found, Iterable):
        raise TypeError(f"a completion returns strings, not {type(found).__name__}")
    values = list(cast(Iterable[Any], found))
    if not all(isinstance(value, str) for value in values):
        raise TypeError("a completion returns strings only")
    return [clean(value) for value in values]

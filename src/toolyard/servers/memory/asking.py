"""Asking the user before something is destroyed."""

from collections.abc import Mapping
from typing import Any, cast

from ...kit import Context


async def allowed(ctx: Context, question: str, yes: str) -> bool:
    """Whether the user agrees; where nobody can be asked, the call itself is the word."""
    if not _can_ask(ctx.caller.capabilities):
        return True
    field = {"type": "boolean", "title": yes, "default": False}
    form = {"type": "object", "properties": {"confirm": field}, "required": ["confirm"]}
    answer = await ctx.elicit(question, form)
    return answer.accepted and cast(dict[str, Any], answer.content or {}).get("confirm") is True


def _can_ask(capabilities: Mapping[str, Any]) -> bool:
    able = capabilities.get("elicitation")
    # Clients from before there were two ways declare an empty object and mean forms.
    return able is not None and (not able or "form" in able)

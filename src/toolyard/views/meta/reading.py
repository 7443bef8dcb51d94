"""`read_result`: more of a result that was too big to be sent whole. Every dialect has it."""

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from ...kit.content import ToolError
from ...results.reading.asked import MOST_ITEMS, Wrong
from ...wire.call import Call
from ...wire.types import CallToolResult, Text
from ..stored import Shelved
from .tools import MetaTool

if TYPE_CHECKING:
    from .desk import Desk

NAME = "read_result"
MORE = f"{NAME}(id='{{id}}') shows more of it: pages, or JMESPath or SQL over what the preview shows"
_DESCRIPTION = (
    "Read more of a truncated result: a page of items or lines, a JMESPath query, or one SQL SELECT over the "
    "table `result`, a row per item. All of them see what the preview shows: a list of records is a list of "
    "records, however it was sent. Prefer a query that answers the question to paging."
)
_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Of the result: at the end of storage.resource."},
        "offset": {"type": "integer", "minimum": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ITEMS},
        "query": {
            "type": "string",
            "description": "JMESPath from what the preview shows: [?state=='open'].title, length(@)",
        },
        "sql": {"type": "string", "description": "SELECT state, count(*) FROM result GROUP BY state"},
    },
    "required": ["id"],
}


def read_result(stored: Shelved) -> MetaTool:
    async def answer(desk: "Desk", call: Call, arguments: dict[str, Any]) -> CallToolResult:
        try:
            body = await stored.ask(call, arguments)
        except Wrong as error:
            raise ToolError(str(error)) from None
        return CallToolResult(content=[Text(body.decode())], structured_content=Raw(body))

    return MetaTool(
        name=NAME,
        title="Read a stored result",
        description=_DESCRIPTION,
        input_schema=_INPUT,
        answer=answer,
        annotations={"readOnlyHint": True, "openWorldHint": False},
    )

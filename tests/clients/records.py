"""A server of records, as somebody who comes from the Agent SDK's `@tool` would write it.

`python -m tests.clients.records` serves it on stdio.
"""

from typing import Annotated, Any, NotRequired, TypedDict

from toolyard.kit import Context, Server
from toolyard.kit.enhanced import enhanced_server, enhanced_tool

SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="

Json = dict[str, Any]


class Order(TypedDict):
    dish: Annotated[str, "What to eat"]
    spicy: NotRequired[bool]


@enhanced_tool(
    "add",
    "Add two numbers",
    {"a": int, "b": int},
    {"title": "Sums", "readOnlyHint": True, "open_world_hint": False, "maxResultSizeChars": 9000},
    SUM,
)
async def add(args: Json) -> Json:
    return {"content": [], "structuredContent": {"sum": args["a"] + args["b"]}}


@enhanced_tool("explain", "Count and say so", {"type": "object"}, output_schema=SUM)
async def explain(args: Json) -> Json:
    return {
        "content": [{"type": "text", "text": f"There are **{len(args)}**."}],
        "structuredContent": {"sum": len(args)},
    }


@enhanced_tool("fail", "Fail", {}, {"destructiveHint": True}, SUM)
async def fail(args: Json) -> Json:
    return {
        "content": [{"type": "text", "text": "No."}],
        "structuredContent": {"sum": 0},
        "is_error": True,
    }


@enhanced_tool("fail_silently", "Fail and say nothing", {})
async def fail_silently(args: Json) -> Json:
    return {"content": [], "is_error": True}


@enhanced_tool("paint", "Paint", {}, output_schema=SUM)
async def paint(args: Json) -> Json:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    return {"content": [picture], "structuredContent": {"sum": 1}}


@enhanced_tool("serve", "Serve food", Order)
async def serve(args: Order) -> Json:
    return {
        "content": [
            {"type": "text", "text": args["dish"]},
            {"type": "resource_link", "uri": "menu://today", "name": "today"},
            {"type": "resource", "resource": {"uri": "menu://bill", "text": "9 €"}},
            {"type": "resource", "resource": {"uri": "menu://stamp", "blob": "aGk="}},
        ]
    }


@enhanced_tool("lie", "Break its own promise", {}, output_schema=SUM)
async def lie(args: Json) -> Json:
    return {"content": [], "structuredContent": {"sum": "three"}}


@enhanced_tool("babble", "Return what is no content", {})
async def babble(args: Json) -> Json:
    return {"content": [{"type": "smell", "text": "?"}]}


@enhanced_tool("greet", "Ask for a name", {})
async def greet(args: Json, ctx: Context) -> Json:
    answer = await ctx.elicit("What is your name?", NAME)
    return {"content": [{"type": "text", "text": f"Hello {answer.content['name']}"}]}


TOOLS = [add, explain, fail, fail_silently, paint, serve, lie, babble, greet]


def records() -> Server:
    return enhanced_server("records", "2.1.0", TOOLS)


if __name__ == "__main__":
    records().run_stdio()

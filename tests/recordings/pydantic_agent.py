"""An agent of Pydantic AI: its tools are those of an MCP server, its model follows a script.

Run in an environment of its own: `python pydantic_agent.py URL QUESTION`. Prints what the agent did as JSON.
"""

import asyncio
import json
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

tools: list[str] = []
results: list[str] = []


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Asks for the sum, then for statistics of what was said, and answers with both."""
    tools[:] = [tool.name for tool in info.function_tools]
    results[:] = [
        json.dumps(part.content, default=str)
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    if not results:
        return ModelResponse(
            parts=[ToolCallPart("add", {"a": 2, "b": 40}), ToolCallPart("echo", {"text": sys.argv[2]})]
        )
    if len(results) == 2:
        return ModelResponse(parts=[ToolCallPart("text_statistics", {"text": sys.argv[2], "top": 1})])
    return ModelResponse(parts=[TextPart(f"The answers are {' and '.join(results)}.")])


async def main() -> None:
    agent = Agent(FunctionModel(model), toolsets=[MCPToolset(sys.argv[1])])
    async with agent:
        result = await agent.run("What is it?")
    print(json.dumps({"tools": tools, "results": results, "answer": result.output}))


asyncio.run(main())

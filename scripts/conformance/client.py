"""The client under test: `toolyard.Client`, which looks at all that a server has and tries each of it.

The suite starts it with the address of the scenario's server and says by environment which scenario it is,
in which revision, and what else it wants done.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolyard import Client
from toolyard.client import Elicitation, ElicitResult, McpError, SampleRequest, SampleResult, ToolInfo

EXAMPLES: dict[str, Any] = {"integer": 2, "number": 3, "boolean": True, "array": [], "object": {}}
ECHO, ECHOED = "json_schema_echo", "json_schema_2020_12_tool"


def fill(form: Elicitation) -> ElicitResult:
    """All that has no default; the client adds what has one."""
    fields: dict[str, Any] = (form.schema or {}).get("properties", {})
    missing = {name: field for name, field in fields.items() if "default" not in field}
    return form.accept({name: EXAMPLES.get(field.get("type"), "text") for name, field in missing.items()})


def sample(request: SampleRequest) -> SampleResult:
    return SampleResult("an answer", "example-model")


def arguments(tool: ToolInfo, tools: dict[str, ToolInfo]) -> dict[str, Any]:
    if tool.name == ECHO:
        return {"schema": tools[ECHOED].input_schema}
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    wanted = tool.input_schema.get("required", [])
    return {name: EXAMPLES.get(properties[name].get("type"), "text") for name in wanted}


async def explore(client: Client, given: list[dict[str, Any]]) -> None:
    """Call each tool, or what the scenario says; read each resource; get each prompt."""
    tools = {tool.name: tool for tool in await client.list_tools()}
    calls = [(call["name"], call["arguments"]) for call in given]
    for name, values in calls or [(name, arguments(tool, tools)) for name, tool in tools.items()]:
        with suppress(McpError):  # a scenario may only look at what was asked
            await client.call_tool(name, values)
    if "resources" in client.capabilities:
        for resource in await client.list_resources():
            await client.read_resource(resource.uri)
    if "prompts" in client.capabilities:
        for prompt in await client.list_prompts():
            await client.get_prompt(prompt.name)


async def main(url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
    handlers: dict[str, Any] = {"on_elicit": fill, "on_sample": sample, "roots": [Path.cwd()]}
    async with Client(url, version=version, timeout=15, **handlers) as client:
        await explore(client, context.get("toolCalls", []))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))

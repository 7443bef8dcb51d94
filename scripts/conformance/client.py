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
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

from toolyard import Client
from toolyard.client import Elicitation, ElicitResult, McpError, OAuth, SampleRequest, SampleResult, ToolInfo

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


CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"
REDIRECT = "http://localhost:3000/callback"


async def agree(url: str) -> str:
    """The user: the suite's authorization server agrees at once, and sends the browser back."""
    async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as page:
        return page.headers["Location"]


def credentials(scenario: str, context: dict[str, Any], folder: Path) -> OAuth | None:
    """How the client logs in, by the kind of scenario."""
    if not scenario.startswith("auth/"):
        return None
    kind = scenario.removeprefix("auth/")
    known: dict[str, Any] = {
        key: context[key] for key in ("client_id", "client_secret") if isinstance(context.get(key), str)
    }
    if kind == "client-credentials-jwt":
        key = {
            "private_key": context["private_key_pem"],
            "algorithm": context.get("signing_algorithm", "ES256"),
        }
        return OAuth("client_credentials", client_id=context["client_id"], **key)
    if kind == "client-credentials-basic":
        return OAuth("client_credentials", **known)
    if kind == "enterprise-managed-authorization":
        provider = {
            "token_endpoint": context["idp_token_endpoint"],
            "client_id": context.get("idp_client_id", context["client_id"]),
        }
        return OAuth("id_jag", **known, subject_token=context["idp_id_token"], identity_provider=provider)
    if kind == "wif-jwt-bearer":
        file = folder / "assertion"
        file.write_text(context["valid_jwt"])
        return OAuth("workload_identity", **known, assertion_file=str(file))
    options: dict[str, Any] = {"client_metadata_url": CLIENT_DOCUMENT, **known}
    if kind.startswith("dpop"):
        options["dpop"] = True
    return OAuth(authorize=agree, redirect=REDIRECT, **options)


async def main(url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
    handlers: dict[str, Any] = {"on_elicit": fill, "on_sample": sample, "roots": [Path.cwd()]}
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    with TemporaryDirectory() as folder:
        auth = credentials(scenario, context, Path(folder))
        async with Client(url, version=version, timeout=15, auth=auth, **handlers) as client:
            await explore(client, context.get("toolCalls", []))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))

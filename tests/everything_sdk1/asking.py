"""Tools that ask the client in the middle of a call, which is the only way of the legacy era.

`test_input_required_result_*` has its name from the modern era: behind a bridge, modern clients call it too.
"""

import json
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import ClientCapabilities, ElicitResult, SamplingCapability, SamplingMessage, TextContent

from tests.everything_sdk1.fixtures import COLOR, DEFAULTS, ENUMS, NAME, OK, USER


async def elicit(ctx: Context, message: str, schema: dict[str, Any]) -> ElicitResult:
    # Not `ctx.elicit`, which takes a model: no model says all that these schemas say.
    return await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)


async def sample(ctx: Context, prompt: str, max_tokens: int) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message(
        [message], max_tokens=max_tokens, related_request_id=ctx.request_id
    )
    return answer.content.text if isinstance(answer.content, TextContent) else ""


def shown(answer: ElicitResult) -> str:
    return f"action={answer.action}, content={json.dumps(answer.content)}"


def add_asking_tools(server: FastMCP[Any]) -> None:
    add_plain_questions(server)
    add_single_questions(server)
    add_several_questions(server)


def add_plain_questions(server: FastMCP[Any]) -> None:
    @server.tool()
    async def test_sampling(prompt: str, ctx: Context) -> str:
        """Asks the client's model."""
        return f"LLM response: {await sample(ctx, prompt, 100)}"

    @server.tool()
    async def test_elicitation(message: str, ctx: Context) -> str:
        """Asks the user for a name and an address."""
        return f"User response: {shown(await elicit(ctx, message, USER))}"

    @server.tool()
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Asks with a default for every primitive type."""
        answer = await elicit(ctx, "Please review and update the form fields with defaults", DEFAULTS)
        return f"Elicitation completed: {shown(answer)}"

    @server.tool()
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Asks with every kind of choice."""
        answer = await elicit(ctx, "Please select options from the enum fields", ENUMS)
        return f"Elicitation completed: {shown(answer)}"

    @server.tool()
    async def test_streaming_elicitation(ctx: Context) -> str:
        """Asks the user in the middle of the call."""
        return f"Elicitation completed: {shown(await elicit(ctx, 'Please confirm', OK))}"

    @server.tool()
    async def test_missing_capability(ctx: Context) -> str:
        """Needs sampling, and says so to a client that does not offer it."""
        if not ctx.session.check_client_capability(ClientCapabilities(sampling=SamplingCapability())):
            raise ToolError("This tool needs a client that offers sampling")
        return f"LLM response: {await sample(ctx, 'Say anything', 10)}"


def add_single_questions(server: FastMCP[Any]) -> None:
    @server.tool()
    async def test_input_required_result_elicitation(ctx: Context) -> str:
        """Asks the user for a name."""
        answer = await elicit(ctx, "What is your name?", NAME)
        return f"Hello, {answer.content['name']}!" if answer.content else "Hello, whoever you are!"

    @server.tool()
    async def test_input_required_result_sampling(ctx: Context) -> str:
        """Asks the client's model for a capital."""
        return await sample(ctx, "What is the capital of France?", 100)

    @server.tool()
    async def test_input_required_result_list_roots(ctx: Context) -> str:
        """Asks the client for its roots."""
        answer = await ctx.session.list_roots()
        return f"Roots: {', '.join(str(root.uri) for root in answer.roots)}"

    @server.tool()
    async def test_input_required_result_request_state(ctx: Context) -> str:
        """Asks the user to confirm."""
        return f"state-ok: {(await elicit(ctx, 'Please confirm', OK)).action}"

    @server.tool()
    async def test_input_required_result_tampered_state(ctx: Context) -> str:
        """Asks the user to confirm; whoever keeps a state for this call must refuse a changed one."""
        return f"state-ok: {(await elicit(ctx, 'Please confirm', OK)).action}"


def add_several_questions(server: FastMCP[Any]) -> None:
    @server.tool()
    async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
        """Asks the user, the client's model and the client, one after the other."""
        name = await elicit(ctx, "What is your name?", NAME)
        greeting = await sample(ctx, "Generate a greeting", 50)
        roots = await ctx.session.list_roots()
        return f"{greeting} {name.action}, {len(roots.roots)} root"

    @server.tool()
    async def test_input_required_result_multi_round(ctx: Context) -> str:
        """Asks the user twice."""
        name = await elicit(ctx, "Step 1: What is your name?", NAME)
        favourite = await elicit(ctx, "Step 2: What is your favorite color?", COLOR)
        return f"Name: {json.dumps(name.content)}, color: {json.dumps(favourite.content)}"

    @server.tool()
    async def test_input_required_result_capabilities(ctx: Context) -> str:
        """Asks only in the ways that the client declared."""
        asked: list[str] = []
        client = ctx.session.client_params
        if client and client.capabilities.elicitation:
            await elicit(ctx, "What is your name?", NAME)
            asked.append("user_name")
        if client and client.capabilities.sampling:
            await sample(ctx, "Generate a greeting", 50)
            asked.append("greeting")
        return f"Answered: {', '.join(asked)}"

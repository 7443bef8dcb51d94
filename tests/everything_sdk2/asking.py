"""Tools that ask the client: elicitation, sampling and roots, in one round or several."""

import json
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitResult, InputRequest

from tests.everything_sdk1.fixtures import COLOR, DEFAULTS, ENUMS, NAME, OK, USER
from tests.everything_sdk2.dialogue import ask, asking, elicit, roots, sample, text_of


def shown(answer: ElicitResult) -> str:
    return f"action={answer.action}, content={json.dumps(answer.content)}"


def add_asking_tools(server: MCPServer[Any]) -> None:
    add_plain_questions(server)
    add_single_questions(server)
    add_several_questions(server)


def add_plain_questions(server: MCPServer[Any]) -> None:
    """What `tools-call-*`, `elicitation-*` and `server-stateless` call."""

    @server.tool()
    @asking
    async def test_sampling(prompt: str, ctx: Context) -> str:
        """Asks the client's model."""
        answers = await ask(ctx, answer=sample(prompt, 100))
        return f"LLM response: {text_of(answers['answer'])}"

    @server.tool()
    @asking
    async def test_elicitation(message: str, ctx: Context) -> str:
        """Asks the user for a name and an address."""
        answers = await ask(ctx, user=elicit(message, USER))
        return f"User response: {shown(answers['user'])}"

    @server.tool()
    @asking
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Asks with a default for every primitive type."""
        question = elicit("Please review and update the form fields with defaults", DEFAULTS)
        answers = await ask(ctx, form=question)
        return f"Elicitation completed: {shown(answers['form'])}"

    @server.tool()
    @asking
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Asks with every kind of choice."""
        answers = await ask(ctx, form=elicit("Please select options from the enum fields", ENUMS))
        return f"Elicitation completed: {shown(answers['form'])}"

    @server.tool()
    @asking
    async def test_streaming_elicitation(ctx: Context) -> str:
        """Asks the user; no request of the server's own may appear on the stream."""
        answers = await ask(ctx, confirm=elicit("Please confirm", OK))
        return f"Elicitation completed: {shown(answers['confirm'])}"

    @server.tool()
    @asking
    async def test_missing_capability(ctx: Context) -> str:
        """Needs sampling, whether the client offers it or not."""
        answers = await ask(ctx, answer=sample("Say anything", 10))
        return f"LLM response: {text_of(answers['answer'])}"


def add_single_questions(server: MCPServer[Any]) -> None:
    """What `input-required-result-*` calls with one question a round."""

    @server.tool()
    @asking
    async def test_input_required_result_elicitation(ctx: Context) -> str:
        """Asks the user for a name."""
        content = (await ask(ctx, user_name=elicit("What is your name?", NAME)))["user_name"].content
        return f"Hello, {content['name']}!" if content else "Hello, whoever you are!"

    @server.tool()
    @asking
    async def test_input_required_result_sampling(ctx: Context) -> str:
        """Asks the client's model for a capital."""
        answers = await ask(ctx, capital_question=sample("What is the capital of France?", 100))
        return text_of(answers["capital_question"])

    @server.tool()
    @asking
    async def test_input_required_result_list_roots(ctx: Context) -> str:
        """Asks the client for its roots."""
        answers = await ask(ctx, client_roots=roots())
        return f"Roots: {', '.join(str(root.uri) for root in answers['client_roots'].roots)}"

    @server.tool()
    @asking
    async def test_input_required_result_request_state(ctx: Context) -> str:
        """Asks the user to confirm, with a state that has to come back."""
        answers = await ask(ctx, confirm=elicit("Please confirm", OK))
        return f"state-ok: {answers['confirm'].action}"

    @server.tool()
    @asking
    async def test_input_required_result_tampered_state(ctx: Context) -> str:
        """Asks the user to confirm; a changed state must be refused."""
        answers = await ask(ctx, confirm=elicit("Please confirm", OK))
        return f"state-ok: {answers['confirm'].action}"


def add_several_questions(server: MCPServer[Any]) -> None:
    """What `input-required-result-*` calls with several questions, together or in turn."""

    @server.tool()
    @asking
    async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
        """Asks the user, the client's model and the client in one round."""
        answers = await ask(
            ctx,
            user_name=elicit("What is your name?", NAME),
            greeting=sample("Generate a greeting", 50),
            client_roots=roots(),
        )
        count = len(answers["client_roots"].roots)
        return f"{text_of(answers['greeting'])} {answers['user_name'].action}, {count} root"

    @server.tool()
    @asking
    async def test_input_required_result_multi_round(ctx: Context) -> str:
        """Asks the user twice."""
        name = (await ask(ctx, step1=elicit("Step 1: What is your name?", NAME)))["step1"]
        favourite = (await ask(ctx, step2=elicit("Step 2: What is your favorite color?", COLOR)))["step2"]
        return f"Name: {json.dumps(name.content)}, color: {json.dumps(favourite.content)}"

    @server.tool()
    @asking
    async def test_input_required_result_capabilities(ctx: Context) -> str:
        """Asks only in the ways that the client declared."""
        questions: dict[str, InputRequest] = {}
        offered = ctx.client_capabilities
        if offered and offered.elicitation:
            questions["user_name"] = elicit("What is your name?", NAME)
        if offered and offered.sampling:
            questions["greeting"] = sample("Generate a greeting", 50)
        answers = await ask(ctx, **questions)
        return f"Answered: {', '.join(answers)}"

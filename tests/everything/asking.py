"""Tools that ask the client: elicitation, sampling and roots, in one round or several."""

import secrets
from typing import Annotated, Any

import msgspec

from toolyard.kit import Context, Elicit, Roots, Sample, Server


def form(**properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of a form in which every field is required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


NAME = form(name={"type": "string"})
OK = form(ok={"type": "boolean"})
USER = form(
    username={"type": "string", "description": "User's response"},
    email={"type": "string", "description": "User's email address"},
)
DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
ENUMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
}


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def add_asking_tools(server: Server) -> None:
    add_plain_questions(server)
    add_single_questions(server)
    add_several_questions(server)


def add_plain_questions(server: Server) -> None:
    """What `tools-call-*`, `elicitation-*` and `server-stateless` call."""

    @server.tool
    async def test_sampling(prompt: Annotated[str, "The prompt to send to the LLM"], ctx: Context) -> str:
        """Asks the client's model."""
        answer = await ctx.sample(prompt, max_tokens=100)
        return f"LLM response: {answer.text}"

    @server.tool
    async def test_elicitation(message: Annotated[str, "The message to show the user"], ctx: Context) -> str:
        """Asks the user for a name and an address."""
        answer = await ctx.elicit(message, USER)
        return f"User response: action={answer.action}, content={as_json(answer.content)}"

    @server.tool
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Asks with a default for every primitive type."""
        answer = await ctx.elicit("Please review and update the form fields with defaults", DEFAULTS)
        return f"Elicitation completed: action={answer.action}, content={as_json(answer.content)}"

    @server.tool
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Asks with every kind of choice."""
        answer = await ctx.elicit("Please select options from the enum fields", ENUMS)
        return f"Elicitation completed: action={answer.action}, content={as_json(answer.content)}"

    @server.tool
    async def test_streaming_elicitation(ctx: Context) -> str:
        """Asks the user; no request of the server's own may appear on the stream."""
        answer = await ctx.elicit("Please confirm", OK)
        return f"Elicitation completed: action={answer.action}"

    @server.tool
    async def test_missing_capability(ctx: Context) -> str:
        """Needs sampling, whether the client offers it or not."""
        answer = await ctx.sample("Say anything", max_tokens=10)
        return f"LLM response: {answer.text}"


def add_single_questions(server: Server) -> None:
    """What `input-required-result-*` calls with one question a round."""

    @server.tool
    async def test_input_required_result_elicitation(ctx: Context) -> str:
        """Asks the user for a name."""
        answer = await ctx.elicit("What is your name?", NAME, key="user_name")
        return f"Hello, {answer.content['name']}!" if answer.accepted else "Hello, whoever you are!"

    @server.tool
    async def test_input_required_result_sampling(ctx: Context) -> str:
        """Asks the client's model for a capital."""
        answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
        return answer.text

    @server.tool
    async def test_input_required_result_list_roots(ctx: Context) -> str:
        """Asks the client for its roots."""
        roots = await ctx.roots(key="client_roots")
        return f"Roots: {', '.join(root.uri for root in roots)}"

    @server.tool
    async def test_input_required_result_request_state(ctx: Context) -> str:
        """Carries a number that is drawn once through the round."""
        drawn = await ctx.remember("drawn", lambda: secrets.token_hex(8))
        answer = await ctx.elicit("Please confirm", OK, key="confirm")
        return f"state-ok: {answer.action} {drawn}"

    @server.tool
    async def test_input_required_result_tampered_state(ctx: Context) -> str:
        """Asks the user to confirm; a changed state must be refused."""
        answer = await ctx.elicit("Please confirm", OK, key="confirm")
        return f"state-ok: {answer.action}"


def add_several_questions(server: Server) -> None:
    """What `input-required-result-*` calls with several questions, together or in turn."""

    @server.tool
    async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
        """Asks the user, the client's model and the client in one round."""
        answers = await ctx.ask(
            user_name=Elicit("What is your name?", NAME),
            greeting=Sample("Generate a greeting", max_tokens=50),
            client_roots=Roots(),
        )
        return (
            f"{answers['greeting'].text} {answers['user_name'].action}, {len(answers['client_roots'])} root"
        )

    @server.tool
    async def test_input_required_result_multi_round(ctx: Context) -> str:
        """Asks the user twice."""
        name = await ctx.elicit("Step 1: What is your name?", NAME, key="step1")
        color = form(color={"type": "string"})
        favourite = await ctx.elicit("Step 2: What is your favorite color?", color, key="step2")
        return f"Name: {as_json(name.content)}, color: {as_json(favourite.content)}"

    @server.tool
    async def test_input_required_result_capabilities(ctx: Context) -> str:
        """Asks only in the ways that the client declared."""
        questions: dict[str, Elicit | Sample] = {}
        if "elicitation" in ctx.caller.capabilities:
            questions["user_name"] = Elicit("What is your name?", NAME)
        if "sampling" in ctx.caller.capabilities:
            questions["greeting"] = Sample("Generate a greeting", max_tokens=50)
        answers = await ctx.ask(**questions)
        return f"Answered: {', '.join(answers)}"

"""One way to ask the client in both eras, or in one of them: most servers know but one.

In the legacy era a question is a request in the middle of the call. In the modern one the call ends with
`input_required`, and comes again with the answers; the SDK seals the state in which they travel.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    InputResponses,
    ListRootsRequest,
    ListRootsResult,
    MissingRequiredClientCapabilityErrorData,
    RootsCapability,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

P = ParamSpec("P")
ASKS_IN: set[str] = {"legacy", "modern"}
"""The eras in which this server asks; in the other it fails as such servers do."""
ANSWERS: TypeAdapter[InputResponses] = TypeAdapter(InputResponses)
RESULTS: dict[str, type[Any]] = {
    "elicitation/create": ElicitResult,
    "sampling/createMessage": CreateMessageResult,
    "roots/list": ListRootsResult,
}
NEEDS = {
    "elicitation/create": ClientCapabilities(elicitation=ElicitationCapability()),
    "sampling/createMessage": ClientCapabilities(sampling=SamplingCapability()),
    "roots/list": ClientCapabilities(roots=RootsCapability()),
}


class Unanswered(Exception):
    """The call cannot go on in this round; `asking` turns it into the result of the round."""

    def __init__(self, result: InputRequiredResult) -> None:
        self.result = result


def asking(function: Callable[P, Awaitable[Any]]) -> Callable[P, Awaitable[Any]]:
    """Lets a tool or a prompt call `ask` as if the answers came at once."""

    @functools.wraps(function)
    async def round_of(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return await function(*args, **kwargs)
        except Unanswered as unanswered:
            return unanswered.result

    return round_of


async def ask(ctx: Context, **questions: InputRequest) -> dict[str, Any]:
    """The answers, by the keys of the questions."""
    for question in questions.values():
        require(ctx, question)
    era = "modern" if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"
    if era not in ASKS_IN:
        raise ToolError(f"This server cannot ask on a {ctx.protocol_version} connection")
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return {key: await ask_now(ctx, question) for key, question in questions.items()}
    answers = {**ANSWERS.validate_json(ctx.request_state or "{}"), **(ctx.input_responses or {})}
    missing = {
        key: question
        for key, question in questions.items()
        if not isinstance(answers.get(key), RESULTS[question.method])
    }
    if missing:
        state = ANSWERS.dump_json(answers, by_alias=True, exclude_none=True).decode()
        raise Unanswered(InputRequiredResult(input_requests=missing, request_state=state))
    return answers


async def ask_now(ctx: Context, question: InputRequest) -> Any:
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    return await ctx.session.send_request(question, RESULTS[question.method], metadata=related)


def require(ctx: Context, question: InputRequest) -> None:
    needed = NEEDS[question.method]
    if ctx.session.check_client_capability(needed):
        return
    reason = f"This needs a client that answers {question.method}"
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise ToolError(reason)
    data = MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
    raise MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY, reason, data.model_dump(by_alias=True, exclude_none=True)
    )


def elicit(message: str, schema: dict[str, Any]) -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str, max_tokens: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def roots() -> ListRootsRequest:
    return ListRootsRequest()


def text_of(answer: CreateMessageResult) -> str:
    return answer.content.text if isinstance(answer.content, TextContent) else ""

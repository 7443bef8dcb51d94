"""Resources, prompts, completions, and the legacy methods for which the SDK has no decorator."""

import json
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer, Message, UserMessage
from mcp_types import (
    Completion,
    CompletionArgument,
    EmptyResult,
    PromptReference,
    ResourceTemplateReference,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from tests.everything.media import RED_PIXEL_PNG
from tests.everything_sdk1.fixtures import CONTEXT, IDS, PLACES, TEMPLATE
from tests.everything_sdk2.content import embedded
from tests.everything_sdk2.dialogue import ask, asking, elicit


def add_resources(server: MCPServer[Any]) -> None:
    @server.resource("test://static-text", name="static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text that never changes."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", name="static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """A picture that never changes."""
        return RED_PIXEL_PNG

    @server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
    def watched_resource() -> str:
        """A text that clients subscribe to."""
        return "Watched resource content"

    @server.resource(TEMPLATE, name="template", mime_type="application/json")
    def template(id: str) -> str:
        """Data for one id."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def add_prompts(server: MCPServer[Any]) -> None:
    @server.prompt()
    def test_simple_prompt() -> str:
        """One message without arguments."""
        return "This is a simple prompt for testing."

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """One message with two arguments in it."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:
        """A message with a resource, and one about it."""
        resource = embedded(resourceUri, "Embedded resource content for testing.", "text/plain")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    @server.prompt()
    def test_prompt_with_image() -> list[Message]:
        """A message with an image, and one about it."""
        image = Image(data=RED_PIXEL_PNG, format="png")
        return [UserMessage(image), UserMessage("Please analyze the image above.")]

    @server.prompt()
    @asking
    async def test_input_required_result_prompt(ctx: Context) -> str:
        """Asks the user what the prompt is about."""
        question = elicit("What context should the prompt use?", CONTEXT)
        content = (await ask(ctx, user_context=question))["user_context"].content
        return f"Use this context: {content['context'] if content else 'none'}"


def add_completions(server: MCPServer[Any]) -> None:
    @server.completion()
    async def complete(
        ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: Any
    ) -> Completion:
        known = PLACES if isinstance(ref, PromptReference) else IDS
        return Completion(values=[value for value in known if value.startswith(argument.value)])


def add_session_methods(server: MCPServer[Any]) -> None:
    """Log level and subscriptions of the legacy era. Every level is sent, and no resource ever changes."""

    async def nothing_to_do(ctx: Any, params: Any) -> EmptyResult:
        return EmptyResult()

    low = server._lowlevel_server
    low.add_request_handler("logging/setLevel", SetLevelRequestParams, nothing_to_do)
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, nothing_to_do)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, nothing_to_do)

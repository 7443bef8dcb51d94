"""Resources, prompts, completions, and the methods for which FastMCP has no decorator."""

import json
from functools import partial
from typing import Any

from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.fastmcp.prompts.base import Message, UserMessage
from mcp.server.lowlevel import NotificationOptions
from mcp.types import Completion, CompletionArgument, PromptReference, ResourceTemplateReference
from pydantic import AnyUrl

from tests.everything.media import RED_PIXEL_PNG
from tests.everything_sdk1.asking import elicit
from tests.everything_sdk1.content import embedded
from tests.everything_sdk1.fixtures import CONTEXT, IDS, PLACES, TEMPLATE


def add_resources(server: FastMCP[Any]) -> None:
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


def add_prompts(server: FastMCP[Any]) -> None:
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
        image = Image(data=RED_PIXEL_PNG, format="png").to_image_content()
        return [UserMessage(image), UserMessage("Please analyze the image above.")]

    @server.prompt()
    async def test_input_required_result_prompt(ctx: Context) -> str:
        """Asks the user what the prompt is about."""
        answer = await elicit(ctx, "What context should the prompt use?", CONTEXT)
        return f"Use this context: {answer.content['context'] if answer.content else 'none'}"


def add_completions(server: FastMCP[Any]) -> None:
    @server.completion()
    async def complete(
        ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: Any
    ) -> Completion:
        known = PLACES if isinstance(ref, PromptReference) else IDS
        return Completion(values=[value for value in known if value.startswith(argument.value)])


def add_session_methods(server: FastMCP[Any]) -> None:
    """Log level, subscriptions, and capabilities that say so."""
    low = server._mcp_server

    @low.set_logging_level()
    async def set_level(level: str) -> None:
        """Every level is sent, so there is nothing to set."""

    @low.subscribe_resource()
    async def subscribe(uri: AnyUrl) -> None:
        """The watched resource never changes."""

    @low.unsubscribe_resource()
    async def unsubscribe(uri: AnyUrl) -> None:
        """The watched resource never changes."""

    # The transport asks without saying what changes, and 1.x then declares that nothing does.
    changes = NotificationOptions(tools_changed=True, prompts_changed=True)
    low.create_initialization_options = partial(low.create_initialization_options, changes)

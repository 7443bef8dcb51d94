"""Prompts, one of which asks the user first, and completions for an argument."""

from typing import Annotated

from tests.everything.asking import form
from tests.everything.media import RED_PIXEL_PNG
from toolyard.kit import Context, EmbeddedResource, Image, Message, Server, TextContents, user


def add_prompts(server: Server) -> None:
    @server.prompt
    def test_simple_prompt() -> str:
        """One message without arguments."""
        return "This is a simple prompt for testing."

    @server.prompt
    def test_prompt_with_arguments(
        arg1: Annotated[str, "First test argument"], arg2: Annotated[str, "Second test argument"]
    ) -> str:
        """One message with two arguments in it."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.completion(prompt="test_prompt_with_arguments", argument="arg1")
    def places(value: str, context: dict[str, str]) -> list[str]:
        return [place for place in ("paris", "park", "party") if place.startswith(value)]

    @server.prompt
    def test_prompt_with_embedded_resource(
        resourceUri: Annotated[str, "URI of the resource to embed"],
    ) -> list[Message]:
        """A message with a resource, and one about it."""
        contents = TextContents(resourceUri, "Embedded resource content for testing.", "text/plain")
        return [user(EmbeddedResource(contents)), user("Please process the embedded resource above.")]

    @server.prompt
    def test_prompt_with_image() -> list[Message]:
        """A message with an image, and one about it."""
        return [user(Image(RED_PIXEL_PNG, "image/png")), user("Please analyze the image above.")]

    @server.prompt
    async def test_input_required_result_prompt(ctx: Context) -> str:
        """Asks the user what the prompt is about."""
        question = "What context should the prompt use?"
        answer = await ctx.elicit(question, form(context={"type": "string"}), key="user_context")
        return f"Use this context: {answer.content['context'] if answer.accepted else 'none'}"

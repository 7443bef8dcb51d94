"""Puts the fixtures together into one server."""

from tests.everything.asking import add_asking_tools
from tests.everything.content import add_content_tools
from tests.everything.prompts import add_prompts
from tests.everything.resources import add_resources
from tests.everything.streams import add_stream_tools
from tests.everything.tasks import add_task_tools
from toolyard.kit import Server


def everything() -> Server:
    server = Server(
        "everything",
        version="1.0.0",
        title="Everything",
        instructions="Fixtures of the MCP conformance suite; nothing here is useful by itself.",
    )
    # First, because `http-header-validation` calls the first tool of the list without arguments.
    add_content_tools(server)
    add_stream_tools(server)
    add_asking_tools(server)
    add_task_tools(server)
    add_resources(server)
    add_prompts(server)
    return server

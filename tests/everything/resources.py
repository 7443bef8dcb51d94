"""Resources, and a template with completions for its variable."""

import json

from tests.everything.media import RED_PIXEL_PNG
from toolyard.kit import Server

TEMPLATE = "test://template/{id}/data"


def add_resources(server: Server) -> None:
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

    @server.completion(resource=TEMPLATE, argument="id")
    def ids(value: str, context: dict[str, str]) -> list[str]:
        return [known for known in ("123", "124", "456") if known.startswith(value)]

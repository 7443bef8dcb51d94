"""Three servers of one shape, for tests of access. `python -m tests.policy.yard_servers ops` runs one."""

import sys

from toolyard.kit import Server


def make(name: str) -> Server:
    server = Server(name, instructions=f"Words of {name}.")

    @server.tool(name=f"read_{name}", read_only=True)
    async def read(id: int = 0) -> dict[str, str]:
        """Read what was kept under a number."""
        return {"read": f"{name} {id}"}

    @server.tool(name=f"write_{name}")
    async def write(text: str = "") -> dict[str, str]:
        """Keep a text under a new number."""
        return {"written": f"{name} {text}"}

    @server.tool(name=f"list_{name}", read_only=True)
    async def everything(count: int = 400) -> list[dict[str, str]]:
        """List all that was ever kept, which is a lot."""
        return [{"kept": f"{name} {number}"} for number in range(count)]

    @server.tool(name=f"slow_{name}", long=True)
    async def slow() -> str:
        """Take a while over it."""
        return f"{name} slowly"

    @server.prompt(name=f"ask_{name}")
    def ask(topic: str) -> str:
        return f"Tell me about {topic} of {name}"

    @server.completion(prompt=f"ask_{name}", argument="topic")
    def topics(value: str, context: dict[str, str]) -> list[str]:
        return [f"{name} alpha", f"{name} beta"]

    @server.resource(f"{name}://public")
    def public() -> str:
        return f"public words of {name}"

    @server.resource(f"{name}://secret")
    def secret() -> str:
        return f"secret words of {name}"

    @server.resource(f"{name}://items/{{id}}")
    def item(id: str) -> str:
        return f"item {id} of {name}"

    @server.completion(resource=f"{name}://items/{{id}}", argument="id")
    def ids(value: str, context: dict[str, str]) -> list[str]:
        return ["1", "2"]

    return server


notes, files, ops = make("notes"), make("files"), make("ops")

if __name__ == "__main__":
    make(sys.argv[1]).run_stdio()

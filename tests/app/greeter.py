"""A kit server that asks for a name, and one with a key of its own.

As a file (`tests/app/greeter.py:server`) it is a new server each time that it is loaded, as it is in another
process; as a module (`tests.app.greeter:server`) it is one for all that mount it.
"""

from toolyard.kit import Context, Server

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def made(key: bytes | None = None) -> Server:
    server = Server("greeter", key=key)

    @server.tool
    async def greet(ctx: Context, word: str = "Hello") -> str:
        drawn = await ctx.remember("drawn", lambda: "drawn once")
        return f"{word} {(await ctx.elicit('Your name?', NAME, key='who')).content['name']}, {drawn}"

    return server


server, own = made(), made(b"a key of the server's own")

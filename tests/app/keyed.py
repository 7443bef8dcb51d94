"""A server whose tool tells which keys of its caller it was given: in a gateway's process, or over HTTP."""

from toolyard.kit import CallerKeys, Context, Refused, Secret, Server

HEADERS = ("x-shop-key", "x-bank-key", "authorization")
UNWANTED = "a-key-that-may-not-enter"


def made(name: str) -> Server:
    keys = CallerKeys(HEADERS, required=False, every=True, admit=_admit)
    server = Server(name, key=b"for the yards of the tests", caller_keys=keys)

    @server.tool(read_only=True)
    async def keys_of(ctx: Context) -> str:
        """Which keys were brought, spelt backwards."""
        found = {header: key.reveal()[::-1] for header in HEADERS if (key := ctx.secret(header))}
        return f"{name} {sorted(found.items())}"

    return server


async def _admit(key: Secret) -> None:
    if key.reveal() == UNWANTED:
        raise Refused(403, "not you")


server = made("inside")

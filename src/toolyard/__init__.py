"""Toolyard: one MCP endpoint in front of every tool an agent needs.

`from toolyard import Client, Server`: talk to MCP servers, and write them. `narrow_grant` makes a token for a
sub-agent out of one's own, and `show_grant` says what is in one. All of them load when they are asked for.
"""

from ._version import __version__

TYPE_CHECKING = False  # not from `typing`, which is 8 ms that `toolyard --version` does without
if TYPE_CHECKING:
    from .callers.grant_token import narrow_grant, show_grant
    from .client import Client
    from .kit import Server

__all__ = ["Client", "Server", "__version__", "narrow_grant", "show_grant"]


def __getattr__(name: str) -> object:
    if name == "Client":
        from .client import Client

        return Client
    if name == "Server":
        from .kit import Server

        return Server
    if name in ("narrow_grant", "show_grant"):
        from .callers import grant_token

        return getattr(grant_token, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

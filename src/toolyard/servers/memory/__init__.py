"""The `memory` server: notes that an agent keeps between conversations, each user's own.

Owns what an agent sees: the tools, resources and the prompt, in two languages. How memories are kept is in
`store`, what may be kept and where in the modules beside this one.
"""

from ...kit import Server
from .settings import Settings

ENVIRONMENT = "TOOLYARD_MEMORY_"

__all__ = ["ENVIRONMENT", "Settings", "build"]


def build(settings: Settings) -> Server:
    """Nothing is opened before the first call."""
    from .building import built  # numpy comes with it: some 100 ms of CPU, only for who runs this server

    return built(settings)

"""The `memory` server: notes that an agent keeps between conversations, separate for each user.

Owns the tools, the resources and the prompt, in two languages. `service` has the operations, `store` the
database.
"""

from ...kit import Server
from .settings import Settings

ENVIRONMENT = "TOOLYARD_MEMORY_"

__all__ = ["ENVIRONMENT", "Settings", "build"]


def build(settings: Settings) -> Server:
    """Opens nothing before the first call."""
    from .server import build_server  # imports numpy: 100 ms of CPU, only to run this server

    return build_server(settings)

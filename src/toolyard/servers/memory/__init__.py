"""The `memory` server: notes that an agent keeps between conversations, separate for each user.

Owns the tools, the resources and the prompt, in two languages. `service` has the operations, `store` the
database.
"""

from ...kit import Server
from .settings import Settings

ENVIRONMENT = "TOOLYARD_MEMORY_"

__all__ = ["ENVIRONMENT", "Settings", "build"]


def build(settings: Settings) -> Server:
    """Nothing is opened before the first call."""
    from .server import build_server  # numpy comes with it: some 100 ms of CPU, only for who runs this server

    return build_server(settings)

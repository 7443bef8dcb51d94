"""Any REST API that a table describes: `toolyard run rest -o table=crm.toml`, or `toolyard run crm.toml`.

Owns which file is meant. The form of tables, and how they are run, is `rest`'s.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_REST_"

__all__ = ["ENVIRONMENT", "Settings", "build"]

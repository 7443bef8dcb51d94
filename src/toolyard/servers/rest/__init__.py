"""The `rest` server: any REST API that a table describes, as in `toolyard run rest -o table=crm.toml`.

Finds and loads the table. Its format and how it is run belong to `toolyard.rest`.
"""

from .server import Settings, build

ENVIRONMENT = "TOOLYARD_REST_"

__all__ = ["ENVIRONMENT", "Settings", "build"]

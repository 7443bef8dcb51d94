"""A web browser: opens pages, shows them as outlines with references, and acts on them. Uses Playwright.

Owns what a caller may reach and what is stored for them. Text from a page is returned as untrusted.
"""

from .server import build
from .settings import Settings

ENVIRONMENT = "TOOLYARD_BROWSER_"

__all__ = ["ENVIRONMENT", "Settings", "build"]

"""An emulator of Render's API: owners, services, deploys, databases, key values and logs over real HTTP.

Built from what is publicly known of the API, and kept honest by the official package `render`, which is its
first client. It is stricter than the real service where that is lenient or unknown: parameters that are not
documented are refused. How pages of logs overlap is not documented, so that it can do both.
"""

from .emulator import API_KEY, RenderEmulator
from .world import World

__all__ = ["API_KEY", "RenderEmulator", "World"]

"""An emulator of Composio: its REST and MCP endpoints over real HTTP, with faults on request.

Built from what is publicly known of the API (v3 as of January 2026, v3.1 as the client composio-client 2.0
speaks it), and kept honest by the official package, which is its first client. It is stricter than the real
service where that is lenient or unknown: fields and parameters that are not documented are refused.
"""

from .emulator import API_KEY, ComposioEmulator
from .faults import Fault

__all__ = ["API_KEY", "ComposioEmulator", "Fault"]

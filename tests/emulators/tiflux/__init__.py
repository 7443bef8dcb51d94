"""An emulator of TiFlux's API v2 for many tenants at once, over real HTTP.

Built from what is publicly known of the API: the calls that TiFlux's own MCP server (in JavaScript) makes,
and the fields that it reads. TiFlux has no client for Python, so that the emulator's tests speak plain HTTP.
It is stricter than the real service where that is lenient or unknown: parameters and members that are not
known, wrong types and wrong content types are refused.

Every tenant has the same ids and other texts, each of which carries the tenant's mark: whoever sees the wrong
tenant sees it in the text, not in a 404.
"""

from .asked import Attachment, Request
from .emulator import API_KEY, TifluxEmulator
from .faults import Fault
from .tenant import Tenant

__all__ = ["API_KEY", "Attachment", "Fault", "Request", "Tenant", "TifluxEmulator"]

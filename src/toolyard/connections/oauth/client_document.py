"""Our own client metadata document (CIMD): a gateway's name at issuers that read such documents.

Owns its address, what it says, and whether an issuer could read it. The gateway serves it.
"""

import asyncio
import ipaddress
from typing import Any
from urllib.parse import urlsplit

from ...egress import Resolve, is_public, plain, resolve

CLIENT_NAME = "Toolyard"
DOCUMENT_PATH = "/oauth/client.json"
LOOKUP_SECONDS = 5.0


def document_url(base_url: str) -> str:
    """The client id of the gateway at `base_url`; empty if its address cannot be one."""
    parts = urlsplit(base_url)
    plain_host = parts.username is None and not parts.query and not parts.fragment
    return f"{base_url}{DOCUMENT_PATH}" if parts.scheme == "https" and parts.hostname and plain_host else ""


def client_document(base_url: str) -> dict[str, Any]:
    return {
        "client_id": document_url(base_url),
        "client_name": CLIENT_NAME,
        "client_uri": base_url,
        "redirect_uris": [f"{base_url}/oauth/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "web",
    }


async def is_readable(base_url: str, resolve: Resolve = resolve) -> bool:
    """Whether an issuer on the internet could fetch the document: its host has only public addresses."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    try:
        return is_public(plain(ipaddress.ip_address(host)))
    except ValueError:
        pass
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            found = await resolve(host, parts.port or 443)
    except (OSError, UnicodeError, ValueError):  # TimeoutError is an OSError
        return False
    addresses = [plain(ipaddress.ip_address(address.partition("%")[0])) for address in found]
    return bool(addresses) and all(is_public(address) for address in addresses)

"""A gateway imports what its configuration needs."""

import subprocess
import sys

PROGRAM = """
import sys
from toolyard.app.gateway import Gateway
from toolyard.app.http import asgi
from toolyard.config import Config, Http, ServerConfig
from toolyard.config.server_auth import OAuthAuth

server = ServerConfig(name="a", where=Http(url="http://127.0.0.1:9/mcp"), auth={auth})
gateway = Gateway(Config(servers=(server,)), b"0123456789abcdef")
asgi(gateway)
{then}
parts = ("toolyard.connections.oauth.session", "toolyard.authserver", "cryptography", "joserfc")
print(*sorted(name for name in sys.modules if name.startswith(parts)))
"""


def imported(auth: str, then: str = "") -> str:
    program = PROGRAM.format(auth=auth, then=then)
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_gateway_whose_servers_want_no_login_imports_neither_oauth_nor_cryptography():
    assert imported("None") == ""
    assert "toolyard.connections.oauth.session" in imported("OAuthAuth()", "gateway.connections")

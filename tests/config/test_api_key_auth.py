"""`auth` of a server's entry: one mode, and only what belongs to it."""

import pytest

from tests.config.conftest import Load, Refused
from toolyard.config.server_auth import KeyAuth

URL = '[servers.shop]\nurl = "https://shop.example/mcp"\n'
PROGRAM = '[servers.shop]\ncommand = "python3"\n'
MODULE = '[servers.shop]\nmodule = "tiflux"\n'


def test_an_api_key_alone_is_a_bearer_of_each_caller(loaded: Load):
    auth = loaded(f'{URL}auth = "api_key"\n').servers[0].auth
    assert isinstance(auth, KeyAuth)
    assert (auth.sent_header, auth.header_value("k"), auth.is_personal) == ("Authorization", "Bearer k", True)


def test_a_table_says_how_the_key_is_carried(loaded: Load):
    table = (
        'auth = { mode = "api_key", header = "X-Api-Key", per = "all", help = "https://shop.example/keys" }\n'
    )
    auth = loaded(URL + table).servers[0].auth
    assert isinstance(auth, KeyAuth)
    assert (auth.sent_header, auth.header_value("k"), auth.is_personal) == ("X-Api-Key", "k", False)
    raw = loaded(f'{URL}auth = {{ mode = "api_key", prefix = "" }}\n').servers[0].auth
    assert isinstance(raw, KeyAuth)
    assert raw.header_value("k") == "k"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'{PROGRAM}auth = "api_key"\n', "without a variable"),
        (f'{PROGRAM}auth = "oauth"\n', "for servers at an address"),
        (f'{PROGRAM}auth = {{ mode = "api_key", variable = "A=B" }}\n', "not the name of a variable"),
        (f'{PROGRAM}env = {{ K = "x" }}\nauth = {{ mode = "api_key", variable = "K" }}\n', "in 'env' and in"),
        (f'{PROGRAM}auth = {{ mode = "api_key", variable = "K", header = "X" }}\n', "both 'variable' and"),
        (f'{URL}auth = {{ mode = "api_key", variable = "K" }}\n', "which is for programs"),
        (f'{URL}auth = {{ mode = "api_key", client_id = "x" }}\n', "unknown key 'client_id'"),
        (f'{URL}auth = {{ mode = "oauth", per = "all" }}\n', "unknown key 'per'"),
        (f'{URL}auth = {{ per = "all" }}\n', "has 'per', which is for API keys add mode = \"api_key\""),
        (f'{URL}auth = {{ mode = "api_key", per = "team" }}\n', "invalid 'per'"),
        (f'{URL}auth = {{ mode = "api_key", help = "http://shop.example" }}\n', "not an https address"),
        (f'{URL}auth = {{ mode = "api_key", help = "javascript:alert(1)" }}\n', "invalid 'help'"),
        (f'{URL}auth = {{ mode = "api_key", prefix = "a\\nb" }}\n', "cannot be in a header"),
        (f'{URL}auth = {{ mode = "api_key", header = "Host" }}\n', "another meaning"),
        (f'{URL}auth = {{ mode = "api_key", header = "Mcp-Name" }}\n', "another meaning"),
        (f'{URL}auth = "api_key"\nheaders = {{ authorization = "x" }}\n', "one way"),
        (f'{URL}auth = "api_key"\ncaller_keys = ["authorization"]\n', "one way"),
        (f'{MODULE}auth = "api_key"\ncaller_keys = ["x-key"]\n', "together"),
        ('[servers.shop]\ntype = "composio"\napi_key = "k"\nauth = "api_key"\n', "Composio has its"),
    ],
)
def test_what_does_not_fit_the_mode_or_the_server_is_refused(refused: Refused, text: str, said: str):
    error = refused(text)
    assert said in f"{error.message} {error.hint}", str(error)

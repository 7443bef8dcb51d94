"""`auth` of a server's entry: what is exchanged, for whom, and where that may be shown."""

from pathlib import Path

import pytest

from toolyard.config import ConfigError, load

ISSUERS = '[[auth.issuers]]\nissuer = "https://login.example.com"\n'
TWO = f'{ISSUERS}[[auth.issuers]]\nissuer = "https://other.example.com"\n'
CALLER = 'mode = "token_exchange"\nsubject = "caller"\nissuer = "https://as.example.com"\n'


def load_auth(folder: Path, lines: str, auth: str = ISSUERS):
    file = folder / "toolyard.toml"
    file.write_text(f'{auth}[servers.s]\nurl = "https://s.example.com/mcp"\n[servers.s.auth]\n{lines}')
    return load(file, {})


def problem(folder: Path, lines: str, auth: str = ISSUERS) -> str:
    """Why it cannot be used: a server's own mistakes leave the others running."""
    try:
        found = load_auth(folder, lines, auth)
    except ConfigError as error:
        return str(error)
    assert found.broken, found
    return found.broken[0].reason


def test_a_caller_is_the_subject_and_its_issuer_the_only_one(tmp_path: Path):
    (server,) = load_auth(tmp_path, CALLER).servers
    assert server.auth
    assert server.acts_for_caller
    assert server.auth.is_personal
    assert server.auth.subject_issuer == "https://login.example.com"


def test_types_of_tokens_are_written_shortly_or_as_their_uri(tmp_path: Path):
    for kind in ("jwt", "urn:ietf:params:oauth:token-type:jwt"):
        (server,) = load_auth(tmp_path, f'{CALLER}subject_token_type = "{kind}"').servers
        assert server.auth
        assert server.auth.subject_token_type == "urn:ietf:params:oauth:token-type:jwt"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('mode = "token_exchange"', "without a token to exchange"),
        (f'{CALLER}subject_token = "x"', "has 'subject' and 'subject_token'"),
        ('mode = "oauth"\nsubject = "caller"', "which 'oauth' does not exchange"),
        ('mode = "token_exchange"\nsubject = "somebody"', "subject"),
        ('mode = "token_exchange"\nsubject = "caller"', "without 'issuer'"),
        ('mode = "token_exchange"\nsubject = "caller"\nissuer = "http://as.example.com"', "not https"),
        (
            'mode = "token_exchange"\nsubject_token = "x"\nlists = "client_credentials"',
            "has 'lists' without subject",
        ),
        (f'{CALLER}lists = "client_credentials"', "without a secret"),
        (f'{CALLER}subject_token_type = "passport"', "no type of tokens"),
        (f'{CALLER}subject_issuer = "https://nobody.example.com"', "which [auth] does not accept"),
        (
            'mode = "id_jag"\nsubject = "caller"\nissuer = "https://as.example.com"\nclient_id = "c"\n'
            'identity_provider = {token_endpoint = "http://idp.example.com/token", client_id = "c"}',
            "not https",
        ),
    ],
)
def test_what_contradicts_itself_is_said_at_once(tmp_path: Path, lines: str, expected: str):
    assert expected in problem(tmp_path, lines)


def test_callers_have_to_bring_tokens_of_one_issuer(tmp_path: Path):
    assert "[auth] accepts none of an issuer" in problem(tmp_path, CALLER, "[auth]\nkeys = true\n")
    assert "several issuers" in problem(tmp_path, CALLER, TWO)
    chosen = f'{CALLER}subject_issuer = "https://other.example.com"'
    (server,) = load_auth(tmp_path, chosen, TWO).servers
    assert server.auth
    assert server.auth.subject_issuer == "https://other.example.com"

"""Why there is no token.

OAuthError                       `hint` says what to do; no text holds a secret or a server's own words
├── AuthorityUnavailableError    the authorization server does not answer usefully now; later it may
├── UntrustedAuthorityError      metadata or an answer contradict themselves or the rules: nothing is sent
├── NoClientError                there is no client id, and none can be had
├── GrantRefusedError            the authorization server refused: `code` is its error code
│   └── UnknownClientError       it does not know our client id any more
└── ConsentDeniedError           the user, or the server in their name, said no
"""

import re

_CODE = re.compile(r"[a-z_]{1,40}")


class OAuthError(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message if not hint else f"{message}; hint: {hint}")
        self.message = message
        self.hint = hint


class AuthorityUnavailableError(OAuthError):
    pass


class UntrustedAuthorityError(OAuthError):
    pass


class NoClientError(OAuthError):
    pass


class GrantRefusedError(OAuthError):
    def __init__(self, message: str, code: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.code = code


class UnknownClientError(GrantRefusedError):
    pass


class ConsentDeniedError(OAuthError):
    pass


def shown_code(code: object) -> str:
    """An error code for a message; a server may send anything in its place."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "an unknown error"

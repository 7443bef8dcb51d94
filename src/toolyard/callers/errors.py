"""Why a credential was not accepted.

CredentialError               the request is refused
├── InvalidTokenError         401  the token is malformed, forged, expired, or meant for somebody else
├── InsufficientScopeError    403  the token is good and lacks scopes
└── IssuerUnavailableError    503  nobody can say now whether it is good

A reason is shown to the caller. It quotes nothing of a token but the names in it, and never a secret.
"""


class CredentialError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidTokenError(CredentialError):
    pass


class InsufficientScopeError(CredentialError):
    """`scopes` are all that the operation needs, those that the token has included."""

    def __init__(self, scopes: tuple[str, ...]) -> None:
        super().__init__(f"The token lacks a scope: this needs {' '.join(scopes)}")
        self.scopes = scopes


class IssuerUnavailableError(CredentialError):
    def __init__(self, reason: str, retry_after: float = 5.0) -> None:
        super().__init__(reason)
        self.retry_after = max(1, round(retry_after))
        """Seconds, for the header of that name."""

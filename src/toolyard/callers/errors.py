"""Why a credential was not accepted.

CallerError                        the request is refused
├── InvalidTokenError              401  unknown, malformed, forged, expired, revoked, or of somebody else
│   └── RefusedTokenError          401  the same, of an issuer's token: its reason may be told
├── InsufficientScopeError         403  good, and without the scopes that are needed
└── VerifierUnavailableError       503  nobody can say now whether it is good
    └── IssuerUnavailableError     503  the same, because its issuer cannot be asked
"""

from collections.abc import Sequence


class CallerError(Exception):
    """`reason` is for the log; it never has the token in it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidTokenError(CallerError):
    """`description` is told to the caller, and so is the same for every token that is not ours."""

    def __init__(self, reason: str, description: str = "") -> None:
        super().__init__(reason)
        self.description = description


class RefusedTokenError(InvalidTokenError):
    """Tells its reason: whoever has a token can read all that is in it, and needs to know what to change."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, reason)


class InsufficientScopeError(CallerError):
    """`scopes` are all that the request needs, those that the token has included."""

    def __init__(self, scopes: Sequence[str]) -> None:
        super().__init__(f"The token lacks a scope: this needs {' '.join(scopes)}")
        self.scopes = tuple(scopes)


class VerifierUnavailableError(CallerError):
    def __init__(self, reason: str, retry_after: float = 5.0) -> None:
        super().__init__(reason)
        self.retry_after = max(1, round(retry_after))
        """Seconds, for the header of that name."""


class IssuerUnavailableError(VerifierUnavailableError):
    """What was known of the token has been used up: nobody is let in on it until the issuer answers."""

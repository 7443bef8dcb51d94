"""The error body of Composio's API, and the reasons for which the emulator refuses a request."""

from typing import Any
from uuid import uuid4

CONNECTED_ACCOUNT_NOT_FOUND = 1803
"""The one code that the vendor's own clients look at."""


class Refusal(Exception):
    """Becomes a response with this status and the documented error body."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: int | None = None,
        fix: str = "",
        errors: list[str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = 10_000 + status if code is None else code
        self.fix = fix
        self.errors = errors
        self.headers = headers or {}

    @property
    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {
            "message": self.message,
            "code": self.code,
            "status": self.status,
            "request_id": str(uuid4()),
            "suggested_fix": self.fix or "See the API reference for this endpoint.",
        }
        if self.errors is not None:
            error["errors"] = self.errors
        return {"error": error}


def unauthorised(message: str = "Invalid API key: the x-api-key header is missing or unknown.") -> Refusal:
    return Refusal(401, message, fix="Pass a project API key in the x-api-key header.")


def not_found(what: str, name: str) -> Refusal:
    return Refusal(404, f"{what} {name!r} not found", fix=f"Check the {what.lower()} and try again.")


def invalid(errors: list[str]) -> Refusal:
    return Refusal(
        400,
        f"Validation error while processing request: {'; '.join(errors)}",
        fix="Correct the fields that are named in `errors`.",
        errors=errors,
    )


def expired(session: str, status: int = 410) -> Refusal:
    return Refusal(status, f"Session {session} has expired", fix="Create a new session.")


def not_connected(user: str, toolkit: str) -> Refusal:
    return Refusal(
        404,
        f"No connected account found for user ID {user} for toolkit {toolkit}",
        code=CONNECTED_ACCOUNT_NOT_FOUND,
        fix=f"Connect an account of {toolkit} for this user, then try again.",
    )

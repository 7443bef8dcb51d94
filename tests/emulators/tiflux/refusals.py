"""Replies that are no answers, in the form of the API: a code, a message, details by field."""

from typing import Any


class Refusal(Exception):
    def __init__(
        self, status: int, message: str, detail: dict[str, list[str]] | None = None, code: int = 0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail
        self.code = code or status * 100 + 1

    @property
    def shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"error_code": self.code, "message": str(self)}
        return shown | ({"detail": self.detail} if self.detail else {})


def unauthorised() -> Refusal:
    return Refusal(401, "Invalid or missing token")


def forbidden(what: str) -> Refusal:
    return Refusal(403, f"You may not {what}")


def missing(what: str, id: object) -> Refusal:
    return Refusal(404, f"{what} {id} not found")


def invalid(field: str, complaint: str) -> Refusal:
    """The only code that is known of the many."""
    return Refusal(422, "Validation failed", {field: [complaint]}, 42201)

"""What Composio refuses, in its own words.

Refused             of `upstream.errors`
└── ApiRefused      an HTTP error with the API's body: `words` are its message, `hint` what it suggests
"""

from ...wire.errors import McpError
from ..errors import Refused, Spoken, Stale, UpstreamError
from ..expiry import is_refusal, says_expired


class ApiRefused(Refused):
    def __init__(self, server: str, status: int, words: str, hint: str = "") -> None:
        how = "it says" if status == 200 else f"it answered HTTP {status}"
        super().__init__(server, f"{how}: {words}", status, says_expired(words))
        self.words = words
        self.hint = hint

    @property
    def is_about_tool(self) -> bool:
        """410 also stands for a tool that was taken out of service."""
        return not self.expired and "tool" in self.words.lower().replace("tool router", "")


def is_over(error: McpError) -> bool:
    """Whether a call was refused because its session is over, and so has not been made.

    401 may just as well mean that the key is wrong; then no session can be begun either, and that is said.
    404 is what the address of a session that is gone answers.
    """
    if isinstance(error, ApiRefused):
        return error.expired or error.status == 401 or (error.status == 410 and not error.is_about_tool)
    if isinstance(error, Refused):
        return error.expired or error.status in (401, 404, 410)
    if isinstance(error, UpstreamError):
        return isinstance(error, Stale) and error.expired
    if isinstance(error, Spoken) and error.status in (401, 410):
        return True
    return is_refusal(error.message)

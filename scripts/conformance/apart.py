"""What cannot be asked of a server on some way, and why: those checks are counted apart, by their names.

Everything that is not named here has to pass. A name that is not needed any more fails the run too.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .suite import Check


@dataclass(frozen=True)
class Apart:
    """A scenario, or some of its checks, that does not apply on a way."""

    scenario: str
    reason: str
    checks: tuple[str, ...] = ()
    """Without any: all of them."""
    unjudged: bool = False
    """Whether the suite itself has to say that it could not judge: INFO."""

    def covers(self, scenario: str, check: str, found: Iterable[Check]) -> bool:
        if scenario != self.scenario or (self.checks and check not in self.checks):
            return False
        return not self.unjudged or all(one.status == "INFO" for one in found)


ON_PIPES = (
    Apart(
        "server-sse-polling",
        "a process on a pipe has no stream to cut",
        ("server-sse-disconnect-resume",),
        unjudged=True,
    ),
)

_ASKS = "a client of 2025-11-25 answers a question in another request, which may reach another instance"
_TASKS = "a task goes on after its answer, and an instance is stopped then; the function offers none"
_LISTENS = "a subscription is a stream without an end, and a function has one"
_SESSIONS = "a session is in its id, and nobody remembers that it was ended; the client is told 405"
_PUBLIC = "a Function URL is for the whole internet: there is no local network to be tricked into"
_RESUMES = "the client cannot come back for a stream: the instance that had it may be gone"
_JSON = "an answer to which nothing is said before it is JSON, and the suite does not judge that"

ON_LAMBDA = (
    # 2025-11-25
    Apart("tools-call-sampling", _ASKS),
    Apart("tools-call-elicitation", _ASKS),
    Apart("elicitation-sep1034-defaults", _ASKS),
    Apart("elicitation-sep1330-enums", _ASKS),
    Apart(
        "server-session-lifecycle",
        _SESSIONS,
        ("server-session-delete-accepted", "server-session-terminated-returns-404"),
    ),
    Apart("server-sse-polling", _RESUMES),
    Apart("resources-subscribe", _LISTENS),
    Apart("resources-unsubscribe", _LISTENS),
    # 2026-07-28
    Apart(
        "server-stateless",
        _LISTENS,
        (
            "sep-2575-server-honors-notification-filter",
            "sep-2575-server-sends-subscription-ack",
            "sep-2575-server-tags-subscription-id",
            "sep-2575-server-sends-prompts-list-changed-on-subscription",
            "sep-2575-server-sends-tools-list-changed-on-subscription",
        ),
    ),
    Apart("tasks-lifecycle", _TASKS),
    Apart("tasks-capability-negotiation", _TASKS),
    Apart("tasks-wire-fields", _TASKS),
    Apart("tasks-request-state-removal", _TASKS),
    Apart("tasks-mrtr-input", _TASKS),
    Apart("tasks-mrtr-composition", _TASKS),
    Apart("tasks-request-headers", _TASKS),
    Apart("tasks-dispatch-and-envelope", _TASKS),
    Apart("tasks-required-task-error", _TASKS),
    # both
    Apart("dns-rebinding-protection", _PUBLIC, ("localhost-host-rebinding-rejected",)),
    Apart("server-sse-multiple-streams", _JSON, ("server-sse-streams-functional",), unjudged=True),
)
"""A function is stateless: an instance serves one request at a time, and may be gone after it."""

NOT_OURS: dict[str, str] = {}
"""Client scenarios, by how their names begin, that are not about what our client does."""

ON_WAY: dict[str, tuple[Apart, ...]] = {
    "stdio": ON_PIPES,
    "lambda": ON_LAMBDA,
    "lambda-stream": ON_LAMBDA,
}

"""What happens in a run, for whoever shows it: a terminal, a log, a test."""

from collections.abc import Callable

from msgspec import Struct

from .messages import TokenUsage


class AgentStarted(Struct, frozen=True):
    agent: str
    """The id of the agent within the run: `main`, or `main/report-creation-expert.1`."""
    name: str
    parent: str
    model: str
    task: str


class TurnBegan(Struct, frozen=True):
    agent: str
    turn: int


class TextArrived(Struct, frozen=True):
    agent: str
    text: str


class ModelReplied(Struct, frozen=True):
    agent: str
    turn: int
    model: str
    usage: TokenUsage
    cost: float | None
    seconds: float
    text: str


class ToolBegan(Struct, frozen=True):
    agent: str
    id: str
    tool: str
    """The tool that runs, also if a meta tool calls it."""
    detail: str
    """Its arguments in a few words."""


class ToolEnded(Struct, frozen=True):
    agent: str
    id: str
    tool: str
    seconds: float
    is_error: bool
    chars: int
    """The size of the result as the model gets it."""
    saved: int
    """Bytes that the gateway kept out of it, if the result says so."""
    detail: str = ""
    """The first line of an error, or what the server counted."""


class AgentEnded(Struct, frozen=True):
    agent: str
    kind: str
    reason: str
    seconds: float


class RunWarning(Struct, frozen=True):
    agent: str
    text: str


RunEvent = (
    AgentStarted | TurnBegan | TextArrived | ModelReplied | ToolBegan | ToolEnded | AgentEnded | RunWarning
)
OnEvent = Callable[[RunEvent], None]


def ignore_event(event: RunEvent) -> None:
    """For runs that nobody watches."""

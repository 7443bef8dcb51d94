"""The agent runner: a customer of the gateway like any other, which speaks MCP to it.

    async with AgentRunner(gateway, open_backend, RunFolder.create(), library=AgentLibrary.load(),
                           model="openai:gpt-4o-mini") as runner:
        outcome = await runner.ask("Write a report on …")

`gateway` is a `LocalGateway` or a `RemoteGateway`. `definition` reads agents, `runner` leads a run, `session`
is one agent as a backend sees it, `loop` is our own backend, `runs` the folder of a run.
"""

from .access import AgentGateway, GatewayAccessError, LocalGateway, RemoteGateway
from .definition import AgentDefinition, AgentFileError, AgentLibrary, UnknownAgentError
from .limits import RunLimits
from .runner import AgentOutcome, AgentRunner, run_agent
from .runs import RunFolder, RunFolderError, RunRecord
from .session import AgentEnding, AgentSession, Backend

__all__ = [
    "AgentDefinition",
    "AgentEnding",
    "AgentFileError",
    "AgentGateway",
    "AgentLibrary",
    "AgentOutcome",
    "AgentRunner",
    "AgentSession",
    "Backend",
    "GatewayAccessError",
    "LocalGateway",
    "RemoteGateway",
    "RunFolder",
    "RunFolderError",
    "RunLimits",
    "RunRecord",
    "UnknownAgentError",
    "run_agent",
]

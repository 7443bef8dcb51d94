"""The gateway of a run: the one of the configuration, started in this process, or one that runs elsewhere.

Grants are on in either case, so that each agent has rights of its own. The process's own gateway is used in
memory: it opens no port.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..client.connection import read_header
from ..configuration import loader
from ..serving.gateway import API_KEY_VARIABLE, process_principal
from ..serving.session_key import session_key
from ..ui.messages import CommandError, is_terminal, warn

if TYPE_CHECKING:
    from ...agents import AgentGateway
    from ...client import Elicitation
    from ...config import Config
    from ...telemetry.run_spans import RunSpans

GatewayView = Literal["auto", "search", "index", "all"]


class GatewayChoice(Struct, frozen=True, kw_only=True):
    """Which gateway a run uses, as the options say."""

    config: Path | None = None
    url: str | None = None
    key: str | None = None
    headers: tuple[str, ...] = ()
    view: GatewayView | None = None
    """Of the gateway in this process; None: as the configuration says."""
    without_grants: bool = False


class RunGateway(Struct, frozen=True):
    """An open gateway, and the spans of the runs that use it."""

    access: "AgentGateway"
    spans: "RunSpans"
    is_local: bool


Asking = Callable[[], AbstractContextManager[None]]
OpenRunGateway = Callable[[], AbstractAsyncContextManager[RunGateway]]


def prepare_gateway(choice: GatewayChoice, asking: Asking = nullcontext) -> OpenRunGateway:
    """Checks the options, loads the configuration, and returns what opens the gateway.

    `asking` is around every question to the person at the terminal. Raises CommandError.

    In two steps because a configuration is read, and a key checked, outside of an event loop.
    """
    if choice.url is not None:
        return _remote(choice, choice.url, asking)
    if choice.headers or choice.without_grants:
        option = "--header" if choice.headers else "--without-grants"
        raise CommandError(f"{option} is for a gateway at an address", "add --url URL")
    file = loader.config_file(None, choice.config)
    if file is None:
        raise CommandError(
            "there is no configuration, so there are no tools",
            "`toolyard add local_toolkit` adds a server; --url URL uses a gateway that runs",
        )
    return _local(loader.load_config(file), choice.view, asking)


def agent_config(config: "Config", view: GatewayView | None = None) -> "Config":
    """The configuration of a run's own gateway: grants on, traces kept, served to nobody else."""
    from ...telemetry.tracing import agent_telemetry

    gateway = replace(config.gateway, public_url="", view=view or config.gateway.view)
    auth = replace(config.auth, grants=True, keys=config.auth.keys or not config.auth.knows_callers)
    return replace(config, gateway=gateway, auth=auth, telemetry=agent_telemetry(config.telemetry))


def _local(config: "Config", view: GatewayView | None, asking: Asking) -> OpenRunGateway:
    from ...agents import LocalGateway
    from ...config.files import state_folder
    from ...config.secrets import possible_secrets
    from ...telemetry.tracing import open_run_spans

    key = session_key(None)
    if key is None:
        raise CommandError("agents need a key of the gateway that lasts", "set TOOLYARD_KEY")
    principal = process_principal(config, key)
    # Rules name agents. The local user has no name and owns the rules, so each agent is asked for by its own.
    by_name = bool(config.access.rules) and principal.kind == "local" and not principal.agent
    settings = agent_config(config, view)
    gateway = loader.make_gateway(settings, key)
    for item in config.broken:
        warn(f"skipped: {item.name}: {item.reason}")

    @asynccontextmanager
    async def opened() -> AsyncGenerator[RunGateway]:
        secrets = [*known_secrets(), *possible_secrets(settings)]
        spans = open_run_spans(settings.telemetry, state_folder(settings), secrets)
        try:
            await gateway.start()
            try:
                access = LocalGateway(
                    gateway.view(), gateway.callers, principal, by_name=by_name, **_answering(asking)
                )
                yield RunGateway(access, spans, True)
            finally:
                await gateway.close()
        finally:
            await spans.close()

    return opened


def _remote(choice: GatewayChoice, url: str, asking: Asking) -> OpenRunGateway:
    from ... import narrow_grant
    from ...agents import RemoteGateway
    from ...config.files import state_home
    from ...config.models import TelemetryConfig
    from ...telemetry.tracing import agent_telemetry, open_run_spans

    if choice.config is not None or choice.view is not None:
        option = "--config" if choice.config is not None else "--view"
        raise CommandError(f"{option} and --url at once", "give one of them")
    headers = dict(read_header(line) for line in choice.headers)
    access = RemoteGateway(
        url if "://" in url else f"://{url}",
        choice.key or "",
        narrow=narrow_grant,
        headers=headers,
        without_grants=choice.without_grants,
        **_answering(asking),
    )

    @asynccontextmanager
    async def opened() -> AsyncGenerator[RunGateway]:
        spans = open_run_spans(agent_telemetry(TelemetryConfig()), state_home(), known_secrets())
        try:
            yield RunGateway(access, spans, False)
        finally:
            await spans.close()

    return opened


def _answering(asking: Asking) -> dict[str, Any]:
    """Questions of tools, and approvals that rules want, go to the person at the terminal."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return {}
    from ..ui.terminal import answer_elicitation

    one_at_a_time = asyncio.Lock()

    async def ask(question: "Elicitation") -> dict[str, Any]:
        # In a thread, so that other agents go on meanwhile.
        async with one_at_a_time:
            with asking():
                return await asyncio.to_thread(answer_elicitation, question.raw)

    return {"on_elicit": ask}


SECRET_VARIABLES = (
    API_KEY_VARIABLE,
    "TOOLYARD_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "COMPOSIO_API_KEY",
    "LOGFIRE_TOKEN",
)


def known_secrets() -> list[str]:
    """Values of the environment that are written nowhere, whoever says them."""
    return [value for name in SECRET_VARIABLES if (value := os.environ.get(name, ""))]

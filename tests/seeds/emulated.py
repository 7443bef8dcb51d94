"""The services behind the gateways, emulated, and what transcripts say to them: `composio fails search 500`.

Owns the words. Each service is a class whose methods are the words, so the page can list them; what a word
returns is what it prints.
"""

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from tests.app.speaker import speaking
from tests.aws.memory import found_in
from tests.aws.packed import ARCH, NEWER, python, unpacked
from tests.aws.proxy import at_a_url
from tests.aws.rie import MANAGED, Emulated, emulated
from tests.aws.runtime_api import running
from tests.aws.works import write
from tests.crawler.web import Web
from tests.dispatch.fork import HEADER, Fork
from tests.emulators.anthropic_messages import ScriptedClaude, scripted_claude
from tests.emulators.composio import ComposioEmulator
from tests.emulators.openai_chat import ScriptedChat, scripted_chat
from tests.emulators.render import API_KEY as RENDER_KEY
from tests.emulators.render import RenderEmulator
from tests.emulators.scripted import ToolUse
from tests.emulators.supabase import SupabaseEmulator
from tests.emulators.supabase.emulator import SERVICE_KEY
from tests.emulators.tiflux import TifluxEmulator
from tests.emulators.vision_chat import VisionChat, vision_chat
from tests.flow.story import PAGES, Story, news_site
from tests.seeds.shell import ROOT, Shell
from tests.serving import Client, modern
from tests.telemetry.collector import Collector, collector
from tests.waiting import PATIENCE


class Service(Protocol):
    """`variables` are what a stage's environment has because of it."""

    variables: dict[str, str]


class ComposioWords:
    def __init__(self, emulator: ComposioEmulator) -> None:
        self._emulator = emulator
        self._seen = 0
        self.variables = {"COMPOSIO_API_KEY": emulator.api_key, "COMPOSIO_BASE_URL": emulator.url}

    def asked(self, operation: str = "") -> str:
        """The requests since the last time, with the session that they name."""
        new, self._seen = self._emulator.requests[self._seen :], len(self._emulator.requests)
        lines = [
            " ".join(
                [
                    record.method,
                    unquote(record.path),
                    *([json.dumps(record.body)] if record.path.endswith("/session") else []),
                    *([] if record.headers.get("x-api-key") else ["without a key"]),
                    *([named] if (named := _session(record.headers)) else []),
                ]
            )
            for record in new
            if not operation or operation in (record.operation, *record.operation.split("."))
        ]
        return "\n".join(lines)

    def fails(self, operation: str, status: str, times: str = "1", message: str = "") -> None:
        """Answers the next requests for an operation with an error."""
        self._emulator.fail(operation, int(status), times=int(times), message=message)

    def finds(self, nothing: str) -> None:
        """Finds nothing in the next searches."""
        assert nothing == "nothing"
        self._emulator.empty("search", times=50)

    def expires(self, status: str) -> None:
        """Ends all sessions: whatever names one gets this status."""
        for session in self._emulator.sessions:
            self._emulator.expire(session, int(status))

    def recovers(self) -> None:
        self._emulator.faults.clear()

    def connects(self, user: str, app: str) -> None:
        """The user has authorised this app."""
        self._emulator.connect(user, app)

    def agrees(self) -> None:
        """The user opens the links that were given and agrees."""
        for account in self._emulator.accounts.values():
            if account.status == "INITIATED":
                self._emulator.settle(account.id, "ACTIVE")

    def ran(self, text: str) -> str:
        """The lines of code with this text that the workbench was given."""
        cells = [record.body["arguments"] for record in self._emulator.asked("session.execute_meta")]
        lines = "\n".join(cell.get("code_to_execute", "") for cell in cells).split("\n")
        return "\n".join(line for line in lines if text in line)

    def executed(self, prefix: str) -> str:
        """The tools with such a name that were executed."""
        return "\n".join(
            one["tool"] for one in self._emulator.world.executions if one["tool"].startswith(prefix)
        )

    def session(self) -> str:
        """What the last session was begun with."""
        return json.dumps(list(self._emulator.sessions.values())[-1].config)

    def users(self) -> str:
        """For whom sessions were begun, tools executed and workbenches opened."""
        found = {session.user_id for session in self._emulator.sessions.values()} - {"toolyard"}
        return " ".join(sorted(found | {box.user_id for box in self._emulator.sandboxes.values()}))

    def gives(self, form: str) -> None:
        """The code interpreter gives files in this form: `s3url`, `content`, `uri` or `local`."""
        self._emulator.world.file_form = form  # pyright: ignore[reportAttributeAccessIssue]

    def mails(self) -> str:
        """The mails that were sent, with what was attached."""
        mails = self._emulator.records.get("emails", [])
        return "\n".join(
            json.dumps({"to": mail["recipient_email"], "attachment": mail.get("received", b"").decode()[:20]})
            for mail in mails
        )


def _session(headers: Mapping[str, str]) -> str:
    return f"{HEADER}: {headers[HEADER]}" if HEADER in headers else ""


class RenderWords:
    def __init__(self, emulator: RenderEmulator) -> None:
        self.variables = {"RENDER_API_KEY": RENDER_KEY, "RENDER_URL": emulator.url}
        shop = emulator.world.service("shop-web")
        emulator.world.log(shop, "Payment of order 1041 failed", ago=60, level="error")


class SupabaseWords:
    def __init__(self, emulator: SupabaseEmulator) -> None:
        self._emulator = emulator
        self.variables = {"SUPABASE_URL": emulator.url, "SUPABASE_SERVICE_ROLE_KEY": SERVICE_KEY}

    def buckets(self) -> str:
        """The buckets, whether they are public, and how many objects they hold."""
        return "\n".join(
            f"{bucket.id} {'public' if bucket.public else 'private'} {len(bucket.objects)}"
            for bucket in self._emulator.world.buckets.values()
        )

    def fails(self) -> None:
        """Answers with 500 from now on."""
        self._emulator.fault = "500"

    def recovers(self) -> None:
        self._emulator.fault = None


class ForkWords:
    def __init__(self, fork: Fork, url: str) -> None:
        self._fork = fork
        self._seen = 0
        self.variables = {"FORK_URL": url}

    def asked(self) -> str:
        """The sessions that were begun since the last time, and the calls with the session that they name."""
        new, self._seen = self._fork.seen[self._seen :], len(self._fork.seen)
        return "\n".join(
            f"POST /session {json.dumps(item.message)}"
            if item.path == "/session"
            else f"tools/call {_session(item.headers) or 'without a session'}"
            for item in new
            if item.path == "/session" or item.method == "tools/call"
        )

    def refuses(self, manner: str) -> None:
        """All sessions are over, and whoever names one is told so in this manner."""
        self._fork.manner = manner
        self._fork.live.clear()

    def fails(self) -> None:
        """Begins no sessions."""
        self._fork.gives = False

    def recovers(self) -> None:
        self._fork.gives = True


class ClaudeWords:
    """A model that writes one statement, and approves of it."""

    def __init__(self, api: ScriptedClaude) -> None:
        self.variables = {"CLAUDE_URL": api.url}


class TifluxWords:
    def __init__(self, emulator: TifluxEmulator) -> None:
        self._emulator = emulator
        self.variables = {"TIFLUX_API_BASE_URL": emulator.url}
        for key in ("abc123", "xyz789"):
            emulator.add_tenant(key)

    def asked(self) -> str:
        """The last request, and whose key it came with."""
        last = self._emulator.requests[-1]
        return f"{last.method} {last.path} Authorization: Bearer {last.key}"


class LambdaWords:
    """AWS's emulator for functions behind a stand-in for a Function URL."""

    def __init__(self, stack: AsyncExitStack, shell: Shell) -> None:
        self._stack = stack
        self._shell = shell
        self._folder = shell.folder
        self._function: Emulated | None = None
        self._broken: Client | None = None
        self.variables: dict[str, str] = {}

    async def starts(self) -> None:
        """Runs what `toolyard deploy lambda` made, at $LAMBDA_URL."""
        made = unpacked(python(), self._folder / "build/lambda")
        folder, command, path = made.folder, made.python.managed, str(made.python.loop)
        if (made.python.version, ARCH) != (
            NEWER,
            "x86_64",
        ):  # the zip is for another Python: the checkout, then
            folder, command, path = write(self._folder, "tiflux"), MANAGED, str(ROOT)
        variables = made.variables(ToolyardKey="the key of all instances") | {"PYTHONPATH": path}
        variables |= {"TIFLUX_API_BASE_URL": self._shell.environment["TIFLUX_API_BASE_URL"]}
        log = self._folder / "function.log"
        self._function = await self._stack.enter_async_context(
            emulated(folder, log, variables, command=command)
        )
        client = await self._stack.enter_async_context(at_a_url(self._function))
        self.variables["LAMBDA_URL"] = f"http://127.0.0.1:{client.port}"

    async def breaks(self, tool: str) -> str:
        """Calls a tool of a function whose author has made mistakes; the status and the body."""
        if self._broken is None:
            folder = self._folder / "broken"
            folder.mkdir()
            variables = {
                "PYTHONPATH": self._shell.environment["PYTHONPATH"],
                "TOOLYARD_KEY": "the key of all instances",
            }
            function = emulated(
                write(folder, "tests.app.keyed_function:server"), self._folder / "broken.log", variables
            )
            self._broken = await self._stack.enter_async_context(
                at_a_url(await self._stack.enter_async_context(function))
            )
        headers, message = modern("tools/call", {"name": tool, "arguments": {}})
        answer = await self._broken.post({**headers, "x-tiflux-api-key": "abc123"}, message)
        return f"{answer.status} {answer.body.decode()}"

    async def gets(self, event: str) -> str:
        """What the function returns for an event that is no request."""
        assert self._function is not None
        return (await self._function.returned(event.encode())).decode()

    def remembers(self, *texts: str) -> str:
        """Those of some texts that are in the function's memory."""
        assert self._function is not None
        found = found_in(self._function.pid, [text.encode() for text in texts])
        return " ".join(text for text in texts if text.encode() in found) or "nothing"

    async def streams(self) -> str:
        """Has a tool report, go on when the report has come, and report again; says what came when."""
        gate, port, said = await _gate()
        folder = self._folder / "streaming"
        folder.mkdir()
        variables = {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "TOOLYARD_KEY": "the key of all instances"}
        command = (sys.executable, "-m", "toolyard.edge.aws.runtime")
        call = modern("tools/call", {"name": "steps", "arguments": {"port": port}}, progress="p")
        async with (
            gate,
            running(write(folder), self._folder / "streaming.log", variables, command=command) as function,
            at_a_url(function) as client,
        ):
            line = await client.open(*call)
            first = await line.next_message()
            said.set()
            second = await line.next_message()
            last = await line.next_message()
        reports = [f"progress {one['params']['progress']}" for one in (first, second)]
        return f"{reports[0]}, then it went on: {reports[1]}, result {last['result']['content'][0]['text']!r}"


async def _gate() -> tuple[asyncio.Server, int, asyncio.Event]:
    """A port that says `go on` once it may."""
    said = asyncio.Event()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await said.wait()
        writer.write(b"go on\n")
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1], said


class NewsWords:
    """Articles on the web, some of which cannot be had, and a scripted model that mails a report on them."""

    def __init__(self, site: Web, chat: ScriptedChat, folder: Path) -> None:
        self._site = site
        self._folder = folder
        self.variables = {
            "NEWS_URL": site.url("/news"),
            "OPENAI_BASE_URL": chat.url,
            "OPENAI_API_KEY": "sk-of-nobody",
            "TOOLYARD_MODEL": "openai:scripted",
            "TOOLYARD_PRICES": "scripted=1/2",
        }

    def serves(self, file: str) -> None:
        """Has a file too, under its name."""
        self._site.pages[f"/news/{Path(file).name}"] = (self._folder / file).read_bytes()

    def read(self) -> str:
        """How many articles were asked for since the last time."""
        count = sum(1 for path in self._site.hits if path.startswith("/news/") and path[6:].isdigit())
        self._site.hits.clear()
        return f"{count} articles"


class LogfireWords:
    """Takes spans as Logfire does."""

    def __init__(self, receiver: Collector) -> None:
        self._receiver = receiver
        self.variables = {
            "LOGFIRE_TOKEN": "pylf_v1_eu_0123456789abcdef",
            "LOGFIRE_BASE_URL": receiver.url,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    async def spans(self, name: str) -> str:
        """The first span with such a name, and the token that came with it."""
        names: list[str] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := [one for one in names if one.startswith(name)]):
                    batch = await self._receiver.received.get()
                    scopes = [scope for resource in batch.resource_spans for scope in resource.scope_spans]
                    names += [span.name for scope in scopes for span in scope.spans]
        except TimeoutError:
            return "\n".join(["only", *names])
        token = self._receiver.headers[-1].get("Authorization", "no token")
        return f"{found[0]}, by {token}"


class ZaiWords:
    """A vision model that says what it sees."""

    def __init__(self, api: VisionChat) -> None:
        self._api = api
        self.variables = {"Z_AI_API_KEY": api.key, "Z_AI_BASE_URL": api.url}

    def asked(self) -> str:
        return " ".join(body["model"] for body in self._api.bodies)


async def _news(stack: AsyncExitStack, shell: Shell) -> Service:
    site = await stack.enter_async_context(news_site())
    return NewsWords(site, await stack.enter_async_context(scripted_chat(Story())), shell.folder)


async def _logfire(stack: AsyncExitStack, shell: Shell) -> Service:
    return LogfireWords(await stack.enter_async_context(collector()))


async def _zai(stack: AsyncExitStack, shell: Shell) -> Service:
    return ZaiWords(await stack.enter_async_context(vision_chat()))


async def _lambda(stack: AsyncExitStack, shell: Shell) -> Service:
    return LambdaWords(stack, shell)


async def _composio(stack: AsyncExitStack, shell: Shell) -> Service:
    emulator = await stack.enter_async_context(ComposioEmulator())
    if "NEWS_URL" in shell.environment:
        emulator.world.search_results = [
            f"{shell.environment['NEWS_URL']}/{number}" for number in range(PAGES)
        ]
    return ComposioWords(emulator)


async def _render(stack: AsyncExitStack, shell: Shell) -> Service:
    return RenderWords(await stack.enter_async_context(RenderEmulator()))


async def _supabase(stack: AsyncExitStack, shell: Shell) -> Service:
    return SupabaseWords(stack.enter_context(SupabaseEmulator()))


async def _tiflux(stack: AsyncExitStack, shell: Shell) -> Service:
    return TifluxWords(await stack.enter_async_context(TifluxEmulator()))


async def _fork(stack: AsyncExitStack, shell: Shell) -> Service:
    fork = Fork()
    url = await stack.enter_async_context(speaking(fork))
    return ForkWords(fork, url.removesuffix("/mcp"))


async def _claude(stack: AsyncExitStack, shell: Shell) -> Service:
    script = [
        ToolUse("write_sql", {"sql": "SELECT count(*) AS pedidos FROM orders"}),
        ToolUse("judge_sql", {"approved": True, "reason": "fits"}),
        ToolUse("write_sql", {"sql": "DELETE FROM orders"}),
        ToolUse("write_sql", {"sql": "DELETE FROM orders"}),
    ]
    return ClaudeWords(await stack.enter_async_context(scripted_claude(script)))


SERVICES: dict[str, Callable[[AsyncExitStack, Shell], Awaitable[Service]]] = {
    "claude": _claude,
    "composio": _composio,
    "fork": _fork,
    "lambda": _lambda,
    "logfire": _logfire,
    "news": _news,
    "render": _render,
    "supabase": _supabase,
    "tiflux": _tiflux,
    "zai": _zai,
}


async def say(service: Service, words: list[str]) -> str:
    """What a service says to `fails search 500`."""
    method: Any = getattr(service, words[0])
    said = method(*words[1:])
    return (await said if inspect.isawaitable(said) else said) or ""

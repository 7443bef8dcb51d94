"""What it costs to know callers: calls with keys, tokens, rules, limits and audit beside calls without.

Owns the configurations, the credentials and the figures; `bench.callers_report` judges them. The gateways run
side by side and are loaded in turns. They are started several times, because two processes of the same code
differ by some percent for as long as they run.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from bench import yard
from bench.connection import WrongReply
from bench.gateway import KEY, toolyard
from bench.load import ERAS, Client, Target
from bench.process import HOST, ROOT, Process, cpu_seconds, free_port
from bench.rounds import Key, Progress, Subject, interleaved, wait_for_echo
from toolyard.callers.keys import ApiKeys, KeyHolder
from toolyard.state import State, open_state
from toolyard.wire.seal import Sealer

CONNECTIONS = 16
PLAIN, WITH_KEY, WITH_TOKEN, BEFORE = "nothing configured", "API key", "JWT", "nothing configured, before"
AUDIENCE = "bench"
FEW_KEYS, MANY_KEYS = 1, 100_000
LOOKUPS = 2_000
AGENTS = 12
PAGES = 40

RULES = """
[access]
agents = ["main", "research", "nightly", "ours"]
[access.groups]
staff = ["main", "ours"]
[[access.rules]]
name = "staff"
who = ["group:staff"]
allow = ["up", "prompt:*/*"]
deny = ["up/delete_*"]
[[access.rules]]
name = "research"
who = ["research"]
allow = ["*/*:read"]
[[access.rules]]
name = "nightly"
who = ["nightly"]
allow = ["up/echo"]
confirm = ["*/*:write"]
[[access.rules]]
name = "nobody"
deny = ["*/*secret*"]

[[limits.rules]]
name = "everybody"
rate = 1000000
burst = 1000000
concurrent = 1000
tokens_a_day = 1000000000000
[[limits.rules]]
name = "nightly"
who = ["nightly"]
calls = 100
window = 60

[audit]
url = "file:"
"""


@dataclass(slots=True)
class Calls:
    """CPU seconds for a call by way and era, a list of rounds for each start of the gateways."""

    starts: list[dict[Key, list[float]]] = field(default_factory=list[dict[Key, list[float]]])


@dataclass(frozen=True, slots=True)
class Lists:
    """CPU seconds for a page of 10,000 tools."""

    first: list[float]
    """Of principals that the gateway sees for the first time."""
    later: list[float]
    unrestricted: list[float]
    """Of a gateway without rules."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """CPU seconds to verify a key that no cache knows, by the number of keys."""

    seconds: Mapping[int, list[float]]


def calls(
    address: str, *, per_round: int, rounds: int, starts: int, before: Path | None, progress: Progress
) -> Calls:
    found = Calls()
    with _issuer() as (issuer, token):
        for number in range(starts):

            def say(text: str, number: int = number) -> None:
                progress(f"callers, start {number + 1} of {starts}: {text}")

            with ExitStack() as stack:
                ways = _ways(stack, address, issuer, token, before, number)
                subjects = [
                    Subject(name, era, target, partial(cpu_seconds, process.pid))
                    for era in ERAS
                    for name, (process, target) in ways.items()
                ]
                for process, target in ways.values():
                    wait_for_echo(process, target)
                figures = interleaved(
                    subjects, connections=CONNECTIONS, calls=per_round, rounds=rounds, progress=say
                )
                found.starts.append({key: each.cpu_s for key, each in figures.items()})
    return found


def _ways(
    stack: ExitStack, address: str, issuer: str, token: str, before: Path | None, number: int
) -> dict[str, tuple[Process, Target]]:
    plain = f'[servers.up]\nurl = "{address}"\n'
    by_key = f"{plain}[auth]\nkeys = true\nrequired = true\n{RULES}"
    by_token = (
        f"{plain}[auth]\nrequired = true\n[[auth.issuers]]\nissuer = {json.dumps(issuer)}\n"
        f'jwks_url = "{issuer}/keys"\naudiences = ["{AUDIENCE}"]\nclaims = {{ agent = "agent" }}\n{RULES}'
    )

    def folder() -> Path:
        return Path(stack.enter_context(tempfile.TemporaryDirectory()))

    def started(config: str, where: Path, credential: str = "", source: Path | None = None):
        process = stack.enter_context(toolyard(config, where, source))
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        target = Target(process.port, tool="mcp__up__echo", through="call_tool", headers=headers)
        return process, target

    keyed = folder()
    makers = {
        PLAIN: lambda: started(plain, folder()),
        WITH_KEY: lambda: started(by_key, keyed, _new_key(by_key, keyed)),
        WITH_TOKEN: lambda: started(by_token, folder(), token),
    }
    if before is not None:
        makers[BEFORE] = lambda: started(plain, folder(), source=before / "src")
    # Not always in the same order: the first to start may get the better place in memory.
    order = list(makers) if number % 2 == 0 else list(reversed(makers))
    made = {name: makers[name]() for name in order}
    return {name: made[name] for name in makers}


def _new_key(config: str, folder: Path) -> str:
    """A key, made as a user makes one."""
    file = folder / "toolyard.toml"
    file.write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "toolyard", "keys", "create", "bench", "--agent", "ours"]
    env = {**os.environ, "XDG_STATE_HOME": str(folder), "TOOLYARD_KEY": KEY}
    done = subprocess.run(
        [*command, "--config", str(file)], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@contextmanager
def _issuer() -> Generator[tuple[str, str], None, None]:
    """An issuer's key set on loopback, and a token of it. It is asked once, before anything is measured."""
    key = ECKey.generate_key("P-256", {"kid": "bench"})
    published = json.dumps({"keys": [key.as_dict(private=False)]}).encode()

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(published)))
            self.end_headers()
            self.wfile.write(published)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Keys) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{HOST}:{server.server_port}"
        now = int(time.time())
        claims: dict[str, Any] = {"iss": url, "aud": AUDIENCE, "sub": "ada", "agent": "ours"}
        claims |= {"iat": now, "exp": now + 86400, "scope": "mcp"}
        try:
            yield url, jwt.encode({"alg": "ES256", "kid": "bench", "typ": "at+jwt"}, claims, key)
        finally:
            server.shutdown()


# Lists


def lists(progress: Progress) -> Lists:
    """The first page for one agent after another, each with rules of its own."""
    port = free_port()
    with ExitStack() as stack:
        stack.enter_context(yard.farm(port, hang=0))
        open_gateway, guarded = (
            stack.enter_context(toolyard(config, Path(stack.enter_context(tempfile.TemporaryDirectory()))))
            for config in (yard.config(port), yard.config(port) + _agents())
        )
        progress(f"callers: lists of {yard.SERVERS * yard.TOOLS:,} tools")
        yard.wait_for_all(open_gateway)
        yard.wait_for_all(guarded, _as("everything"))
        found = Lists([], [], [])
        plain = Client(Target(open_gateway.port), "modern")
        _page(open_gateway, plain)
        for number in range(AGENTS):
            client = Client(Target(guarded.port, headers=_as(f"agent{number}")), "modern")
            found.first.append(_page(guarded, client))
            for _ in range(PAGES // AGENTS):
                found.later.append(_page(guarded, client))
                found.unrestricted.append(_page(open_gateway, plain))
            client.close()
        plain.close()
    return found


def _agents() -> str:
    """Callers whom a proxy names, and for each agent rules of every form."""
    rules = "".join(
        f'[[access.rules]]\nname = "r{at}"\nwho = ["agent{at}"]\n'
        f'allow = ["s0{at:02d}", "*/*:read", "*/create_*", "*/*_pages"]\n'
        f'deny = ["s1{at:02d}", "*/delete_*", "s0{at + 20:02d}/ARCHIVE_*"]\n'
        for at in range(AGENTS)
    )
    return (
        f'\n[auth]\nrequired = true\n[auth.proxy]\naddresses = ["{HOST}"]\nagent = "x-agent"\n'
        f'[[access.rules]]\nname = "all"\nwho = ["everything"]\nallow = ["*"]\n{rules}'
    )


def _as(agent: str) -> dict[str, str]:
    return {"X-Forwarded-User": "ada", "X-Agent": agent}


def _page(gateway: Process, client: Client) -> float:
    before = cpu_seconds(gateway.pid)
    client.connection.reopen_if_closed()
    page = client.ask("tools/list")
    taken = cpu_seconds(gateway.pid) - before
    if len(page["tools"]) < 100 or "nextCursor" not in page:
        raise WrongReply(f"the first page has {len(page['tools'])} tools")
    return taken


# Keys


def lookups(progress: Progress, many: int = MANY_KEYS) -> Lookups:
    return asyncio.run(_lookups(progress, many))


async def _lookups(progress: Progress, many: int) -> Lookups:
    with tempfile.TemporaryDirectory() as folder:
        stores = {count: open_state(f"sqlite://{folder}/{count}.db", None) for count in (FEW_KEYS, many)}
        texts: dict[int, list[str]] = {}
        for count, state in stores.items():
            progress(f"callers: {count:,} keys")
            texts[count] = await _fill(state, count)
        seconds: dict[int, list[float]] = {count: [] for count in stores}
        for turn in range(9):
            for count in stores if turn % 2 else reversed(stores):
                progress(f"callers: look-ups, round {turn + 1} of 9, {count:,} keys")
                # Without an authenticator, which would remember them.
                keys = _keys(stores[count])
                known = texts[count]
                chosen = [known[at * 7919 % len(known)] for at in range(LOOKUPS)]
                for text in chosen:  # what is written once for each key is written here
                    await keys.verify(text, "")
                await keys.close()
                before = time.process_time()
                for text in chosen:
                    await keys.verify(text, "")
                seconds[count].append((time.process_time() - before) / LOOKUPS)
        for state in stores.values():
            await state.close()
    return Lookups(seconds)


def _keys(state: State) -> ApiKeys:
    return ApiKeys(state, "toolyard", Sealer(KEY.encode()))


async def _fill(state: State, count: int) -> list[str]:
    """Makes that many keys; returns the texts of some."""
    keys = _keys(state)
    texts: list[str] = []
    for number in range(count):
        issued = await keys.create(KeyHolder(name=f"key{number}", user="ada", agent="ours"))
        if number % 50 == 0:
            texts.append(issued.text)
    await keys.close()
    return texts

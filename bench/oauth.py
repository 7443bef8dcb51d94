"""What a login at a server costs a call: `python -m bench.oauth`, in CPU time of the gateway.

One gateway has the same upstream several times: without `auth`, and with each kind. They are called in many
short rounds, each beside calls without, so that the drift of the machine affects both alike; what counts is
the median of the ratios. Calls without beside themselves show how exact that is, and a token in `headers`
what one more header costs. Callers have API keys.
Tokens are put into the vault before: how one gets them is not measured. The second table has the time that
calls take while another caller's token is refreshed over and over, beside the same without refreshes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct

from bench.__main__ import end_progress, progress
from bench.gateway import KEY, toolyard, upstream
from bench.load import Client, Target, pump
from bench.process import HOST, ROOT, Process, cpu_seconds, free_port, running
from bench.rounds import FIRST, WARMUP_CALLS, wait_for_echo
from toolyard.callers.keys import KeyHolder, open_keys
from toolyard.connections.oauth.proofs import new_dpop_key
from toolyard.connections.oauth.token_endpoint import ClientIdentity
from toolyard.connections.oauth.tokens import TokenRecord, TokenStore
from toolyard.state import open_state
from toolyard.vault.base import SecretAddress
from toolyard.vault.master_keys import MasterKeys, TextSource
from toolyard.vault.vault import Vault
from toolyard.wire.call import Principal
from toolyard.wire.seal import Sealer

AIM = 1.05
LOAD = 16
CALLERS = 100
WITHOUT, HEADER, OAUTH, MACHINE, PROVED = "none", "in `headers`", "oauth", "client_credentials", "oauth, DPoP"
SERVERS = {WITHOUT: "plain", HEADER: "header", OAUTH: "personal", MACHINE: "machine", PROVED: "proved"}
HASTY, STEADY = "hasty", "steady"
"""Two callers beside those that are measured: the token of the first is refreshed all the time."""
HASTY_LIFE = 0.1
PAUSE = 0.02
"""Between calls of those two."""
TOKEN = "t" * 900
"""As long as a JWT."""


def configuration(address: str, folder: Path) -> str:
    return f"""
[gateway]
view = "all"
max_idle = 10000
state_dir = "{folder}"
[state]
url = "sqlite:"
key = "{KEY}"
[auth]
keys = true
[servers.plain]
url = "{address}"
[servers.header]
url = "{address}"
headers = {{ Authorization = "Bearer {TOKEN}" }}
[servers.personal]
url = "{address}"
auth = "oauth"
[servers.machine]
url = "{address}"
[servers.machine.auth]
mode = "client_credentials"
client_id = "bench"
client_secret = "of the benchmark"
[servers.proved]
url = "{address}"
[servers.proved.auth]
mode = "oauth"
dpop = true
"""


class Callers(Struct, frozen=True):
    """The headers of each caller."""

    many: list[dict[str, str]]
    hasty: dict[str, str]
    steady: dict[str, str]


async def fill(folder: Path, address: str, issuer: str) -> Callers:
    """Makes keys and tokens of all callers."""
    vault = Vault(open_state("sqlite:", folder), MasterKeys(TextSource(KEY)), owns_state=True)
    tokens = TokenStore(vault, vault.store)
    keys = open_keys("sqlite:", folder, "toolyard", Sealer(KEY.encode(), "toolyard"))

    async def known(user: str, lifetime: float) -> dict[str, str]:
        owner = Principal(subject=user).owner
        for server, dpop in (("personal", False), ("proved", True)):
            place = SecretAddress("local", "token", server, owner)
            await tokens.save(place, record(address, issuer, lifetime, dpop=dpop))
        issued = await keys.create(KeyHolder(name=user, user=user))
        return {"Authorization": f"Bearer {issued.text}"}

    await tokens.save(SecretAddress("local", "token", "machine"), record(address, issuer, 1e6))
    callers = Callers(
        [await known(f"user{number}", 1e6) for number in range(CALLERS)],
        await known(HASTY, HASTY_LIFE),
        await known(STEADY, 1e6),
    )
    await keys.close()
    await vault.close()
    return callers


def record(address: str, issuer: str, lifetime: float, *, dpop: bool = False) -> TokenRecord:
    return TokenRecord(
        access_token=TOKEN,
        token_type="DPoP" if dpop else "Bearer",
        obtained=time.time(),
        lifetime=lifetime,
        refresh_token="r",
        issuer=issuer,
        token_endpoint=f"{issuer}/token",
        client=ClientIdentity(id="bench", issuer=issuer),
        server_url=address,
        dpop_key=new_dpop_key() if dpop else None,
    )


class Way(Struct, frozen=True):
    auth: str
    callers: int
    clients: Sequence[Client]


def ways(process: Process, callers: Callers) -> Iterator[Way]:
    for count, kinds in ((1, tuple(SERVERS)), (CALLERS, (WITHOUT, HEADER, OAUTH))):
        for auth in kinds:
            tool = f"mcp__{SERVERS[auth]}__echo"
            headers = callers.many[:count] if count > 1 else [callers.many[0]] * LOAD
            targets = [Target(process.port, tool=tool, headers=each) for each in headers]
            wait_for_echo(process, targets[0])
            yield Way(auth, count, [Client(target, "modern") for target in targets])


Pairs = list[tuple[float, float]]
"""CPU seconds for a call, of a way and of the same without `auth` right beside it, for each round."""


def costs(process: Process, measured: Sequence[Way], calls: int, rounds: int) -> list[Pairs]:
    found: list[Pairs] = [[] for _ in measured]
    bases = {way.callers: way for way in measured if way.auth == WITHOUT}
    for way in measured:
        pump(way.clients, range(max(WARMUP_CALLS, 4 * len(way.clients))))

    def cost(way: Way, numbers: range) -> float:
        before = cpu_seconds(process.pid)
        pump(way.clients, numbers)
        return (cpu_seconds(process.pid) - before) / calls

    for turn in range(rounds):
        progress(f"calls, round {turn + 1} of {rounds}")
        numbers = range(FIRST + turn * calls, FIRST + (turn + 1) * calls)
        for way, into in zip(measured, found, strict=True):
            base = bases[way.callers]
            first, second = (way, base) if turn % 2 else (base, way)
            taken = cost(first, numbers), cost(second, numbers)
            into.append(taken if turn % 2 else (taken[1], taken[0]))
    return found


def cost_table(measured: Sequence[Way], found: Sequence[Pairs]) -> bool:
    print(f"{'auth':20}{'callers':>8}{'CPU, ms':>9}{'more, µs':>10}{'ratio':>8}")
    met = True
    for way, pairs in zip(measured, found, strict=True):
        ratio = median(own / base for own, base in pairs)
        more = median(own - base for own, base in pairs) * 1e6
        own = median(each for each, _ in pairs) * 1e3
        print(f"{way.auth:20}{way.callers:8}{own:9.3f}{more:10.1f}{ratio:8.3f}")
        met = met and (way.auth != OAUTH or ratio <= AIM)
    return met


# While another caller's token is refreshed


@contextmanager
def calling(process: Process, headers: dict[str, str]) -> Generator[subprocess.Popen[bytes], None, None]:
    """Another process that calls the server at an even pace; it is stopped until it is wanted."""
    command = [sys.executable, "-m", "bench.oauth", "--caller", str(process.port), json.dumps(headers)]
    caller = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert caller.stdout is not None
        caller.stdout.readline()
        caller.send_signal(signal.SIGSTOP)
        yield caller
    finally:
        caller.kill()
        caller.wait()


def call_for_ever(port: int, headers: dict[str, str]) -> None:
    clients = [Client(Target(port, tool="mcp__personal__echo", headers=headers), "modern")]
    pump(clients, range(1))
    print("ready", flush=True)
    number = FIRST
    while True:
        pump(clients, range(number, number + 1))
        number += 1
        time.sleep(PAUSE)


class Late(Struct):
    """Of one round: seconds of a call, and CPU of the gateway for each, the other caller's included."""

    p50: float
    p99: float
    cpu: float


def beside(process: Process, callers: Callers, calls: int, rounds: int) -> dict[str, list[Late]]:
    """Calls of one caller while another one calls, whose token is refreshed or not."""
    found: dict[str, list[Late]] = {HASTY: [], STEADY: []}
    target = Target(process.port, tool="mcp__personal__echo", headers=callers.many[0])
    clients = [Client(target, "modern")]
    with ExitStack() as stack:
        others = {
            HASTY: stack.enter_context(calling(process, callers.hasty)),
            STEADY: stack.enter_context(calling(process, callers.steady)),
        }
        pump(clients, range(WARMUP_CALLS))
        for turn in range(rounds):
            progress(f"beside refreshes, round {turn + 1} of {rounds}")
            numbers = range(FIRST + turn * calls, FIRST + (turn + 1) * calls)
            for kind in (STEADY, HASTY) if turn % 2 else (HASTY, STEADY):
                others[kind].send_signal(signal.SIGCONT)
                before = cpu_seconds(process.pid)
                seen = sorted(pump(clients, numbers).latencies)
                cpu = (cpu_seconds(process.pid) - before) / calls
                others[kind].send_signal(signal.SIGSTOP)
                found[kind].append(Late(seen[len(seen) // 2], seen[len(seen) * 99 // 100], cpu))
    return found


def beside_table(found: dict[str, list[Late]], refreshes: float) -> bool:
    print(f"\nwhile another caller's token is refreshed {refreshes:.0f} times a second:\n")
    print(f"{'':10}{'p50, ms':>9}{'ratio':>8}{'p99, ms':>9}{'ratio':>8}{'CPU, ms':>9}{'ratio':>8}")
    ratios: dict[str, list[float]] = {}
    for kind, name in ((STEADY, "without"), (HASTY, "with")):
        cells: list[str] = []
        for member in ("p50", "p99", "cpu"):
            values = [getattr(each, member) for each in found[kind]]
            base = [getattr(each, member) for each in found[STEADY]]
            ratio = median(a / b for a, b in zip(values, base, strict=True))
            ratios.setdefault(kind, []).append(ratio)
            cells.append(f"{median(values) * 1e3:9.3f}{ratio:8.3f}")
        print(f"{name:10}{''.join(cells)}")
    return ratios[HASTY][1] <= AIM


class Issuer:
    """A token endpoint that grants whatever it is asked: `python -m bench.oauth --issuer PORT`."""

    def __init__(self) -> None:
        self.count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                if head.startswith("post"):
                    await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))
                    self.count += 1
                    answer: Any = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": HASTY_LIFE}
                else:
                    answer = self.count
                body = json.dumps(answer).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(body), body)
                )
        except (OSError, EOFError):
            writer.close()

    async def run(self, port: int) -> None:
        server = await asyncio.start_server(self.serve, HOST, port)
        await server.serve_forever()


def granted(issuer: str) -> int:
    """How many tokens it has given so far."""
    from urllib.request import urlopen

    with urlopen(f"{issuer}/count") as answer:
        return int(answer.read())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.oauth", description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=400, help="a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=60, help="rounds (default: %(default)s)")
    parser.add_argument("--issuer", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--caller", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.issuer:
        asyncio.run(Issuer().run(options.issuer))
        return 0
    if options.caller:
        call_for_ever(int(options.caller[0]), json.loads(options.caller[1]))
        return 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(upstream())
        port = free_port()
        command = [sys.executable, "-m", "bench.oauth", "--issuer", str(port)]
        stack.enter_context(running("issuer", command, port))
        issuer = f"http://{HOST}:{port}"
        callers = asyncio.run(fill(folder, address, issuer))
        process = stack.enter_context(toolyard(configuration(address, folder), folder))
        measured = list(ways(process, callers))
        found = costs(process, measured, options.calls, options.rounds)
        for way in measured:
            for client in way.clients:
                client.close()
        before, began = granted(issuer), time.monotonic()
        late = beside(process, callers, options.calls, options.rounds)
        refreshes = (granted(issuer) - before) / (time.monotonic() - began) * 2  # half of the time
        end_progress()
        met = cost_table(measured, found)
        return 0 if beside_table(late, refreshes) and met else 1


if __name__ == "__main__":
    sys.exit(main())

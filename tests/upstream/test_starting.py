"""Programs that are downloaded first, and so take long to start: nobody waits, nothing is broken off."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import Yard, yard
from tests.upstream.kin import is_gone
from tests.upstream.runner import ROOT, Runner
from tests.waiting import PATIENCE, until
from toolyard.config import Config, GatewayConfig, ServerConfig, Stdio
from toolyard.upstream.stdio.install import may_download, start_seconds

SHORT = {"connect_timeout": 0.2, "timeout": 0.2, "retries": 0}


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Runner(tmp_path)


def server(runner: Runner, name: str = "up", **options: Any) -> ServerConfig:
    where = Stdio(command=str(runner.command), args=runner.args, cwd=str(ROOT))
    return ServerConfig(name=name, where=where, **options)


async def came(check: Callable[[], Any]) -> None:
    async def looked() -> bool:
        return bool(check())

    await until(looked)


async def all_gone(runner: Runner) -> None:
    await came(lambda: all(map(is_gone, runner.starts)))


async def error_of(front: Yard, tool: str = "mcp__up__echo") -> str:
    return (await front.call(tool, {"text": "hello"})).error["message"]


# While it installs


async def test_an_install_that_outlasts_every_time_limit_goes_on_and_its_program_is_used(runner: Runner):
    async with yard(server(runner, **SHORT), list_wait=0.1) as front:
        await came(lambda: runner.is_installing)
        for _ in range(3):
            assert "still starting" in await error_of(front)
        assert (await front.server())["state"] == "starting"
        await runner.release()
        await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
        assert await front.says("mcp__up__echo", {"text": "hello"}) == "hello"
        assert len(runner.starts) == 1


async def test_what_it_does_meanwhile_is_shown(runner: Runner):
    async with yard(server(runner), list_wait=0.1) as front:
        shown = await front.until_health(lambda health: "http" in health["servers"]["up"].get("activity", ""))
        told = shown["servers"]["up"]
        assert told["state"] == "starting"
        assert told["activity"] == "npm http fetch GET 200 https://example.org/ajv 52ms (cache miss)"
        assert told["seconds"] >= 0
        assert "npm http fetch GET 200" in await error_of(front)
        await runner.release()


async def test_a_model_is_told_that_it_starts_in_our_words_alone(runner: Runner):
    async with yard(server(runner), list_wait=0.1) as front:
        await came(lambda: runner.is_installing)
        about = (await front.modern("server/discover")).result
        assert "- up: it is still starting" in about["instructions"]
        assert "npm" not in about["instructions"]
        await runner.release()


async def test_the_callers_of_a_tool_that_is_known_wait_for_its_program_only_a_while(
    runner: Runner, tmp_path: Path
):
    """Its lists are known from last time; the package runner's cache is gone."""
    async with yard(server(runner), state=str(tmp_path)) as front:
        await runner.release()
        await front.until_health(lambda health: health["servers"]["up"]["tools"])
    (runner.folder / "whole").unlink()
    async with yard(server(runner, connect_timeout=0.3, timeout=30), state=str(tmp_path)) as front:
        answer = await front.call("mcp__up__echo", {"text": "hello"})
        assert "still starting" in answer.error["message"]
        assert answer.error["data"]["retryAfterMs"] == 5000
        await runner.release()
        await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
        assert await front.says("mcp__up__echo", {"text": "hello"}) == "hello"
        assert len(runner.starts) == 2


async def test_a_program_that_never_answers_is_ended_when_its_own_limit_is_over(tmp_path: Path):
    where = Stdio(command=sys.executable, args=("-c", "import sys; sys.stdin.read()"))
    async with yard(ServerConfig(name="up", where=where, start_timeout=0.3), list_wait=0.1) as front:
        shown = await front.until_health(lambda health: health["servers"]["up"]["state"] == "down")
        assert shown["servers"]["up"]["reason"].startswith("it did not answer within 0.3 s of its start")


async def test_two_servers_of_one_package_do_not_install_it_at_the_same_time(runner: Runner):
    async with yard(server(runner, "one"), server(runner, "two"), list_wait=0.1) as front:
        await came(lambda: runner.is_installing)
        shown = await front.until_health(
            lambda health: any(
                "another start" in one.get("activity", "") for one in health["servers"].values()
            )
        )
        assert {one["state"] for one in shown["servers"].values()} == {"starting"}
        await runner.release()
        await front.until_health(lambda health: health["status"] == "ok" and health["tools"] == 22)
        assert not runner.is_spoilt


# When nobody waits for it any more


@pytest.fixture
async def left(runner: Runner) -> AsyncIterator[Runner]:
    """An install that goes on by itself: it comes to its end, and nothing is left over."""
    yield runner
    assert not is_gone(runner.starts[0]), "it was broken off"
    assert not runner.is_spoilt
    await runner.release()
    await came(lambda: runner.is_installed)
    await all_gone(runner)


async def test_a_gateway_that_is_stopped_leaves_the_install_to_its_end(left: Runner):
    async with yard(server(left), list_wait=0.1):
        await came(lambda: left.is_installing)


async def test_a_server_that_is_taken_out_of_the_configuration_installs_to_the_end(left: Runner):
    async with yard(server(left), list_wait=0.1) as front:
        await came(lambda: left.is_installing)
        await front.gateway.reload(Config(gateway=GatewayConfig(view="all")))
        assert (await front.health())["servers"] == {}


async def test_other_time_limits_in_the_configuration_do_not_start_a_program_anew(runner: Runner):
    async with yard(server(runner), list_wait=0.1) as front:
        await came(lambda: runner.is_installing)
        changed = server(runner, connect_timeout=0.1, start_timeout=1000.0)
        await front.gateway.reload(Config(servers=(changed,), gateway=GatewayConfig(view="all")))
        await runner.release()
        await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
        assert len(runner.starts) == 1


async def test_a_limit_of_its_own_that_is_too_short_does_not_break_it_off(runner: Runner):
    async with yard(server(runner, start_timeout=0.3), list_wait=0.1) as front:
        await front.until_health(lambda health: health["servers"]["up"]["state"] == "down")
        assert not is_gone(runner.starts[0])
        await runner.release()
        await came(lambda: runner.is_installed)
        await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("words", ["list --json", "serve --port 0"])
async def test_whatever_ends_a_command_the_install_goes_on(
    left: Runner, tmp_path: Path, words: str, number: signal.Signals
):
    command = await toolyard(words, left, tmp_path, wait=60)
    await came(lambda: left.is_installing)
    command.send_signal(number)
    await command.communicate()


async def test_a_command_ends_before_the_install_does_and_the_next_one_finds_it_done(
    runner: Runner, tmp_path: Path
):
    command = await toolyard("list --json", runner, tmp_path, wait=0.5)
    await asyncio.wait_for(command.communicate(), PATIENCE)
    assert runner.is_installing
    again = await toolyard("list --json", runner, tmp_path, wait=60)
    await runner.release()
    output, _ = await asyncio.wait_for(again.communicate(), PATIENCE)
    assert b"mcp__up__echo" in output
    assert not runner.is_spoilt
    await all_gone(runner)


async def toolyard(words: str, runner: Runner, folder: Path, wait: float) -> asyncio.subprocess.Process:
    config = folder / "toolyard.toml"
    config.write_text(
        f"[gateway]\nlist_wait = {wait}\nstate_dir = {json.dumps(str(folder / 'gateway'))}\n"
        f"[servers.up]\ncommand = {json.dumps(str(runner.command))}\nargs = {json.dumps(runner.args)}\n"
    )
    command = [sys.executable, "-m", "toolyard", *words.split(), "--config", str(config)]
    return await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ),
        cwd=ROOT,
    )


# Which programs those are


@pytest.mark.parametrize(
    "words",
    [
        "npx -y @modelcontextprotocol/server-everything",
        "/usr/local/bin/npx -y server",
        "C:/node/npx.cmd -y server",
        "cmd /c npx -y server",
        "bash -c exec\tnpx\t-y\tserver",
        "env TOKEN=1 uvx mcp-server-git",
        "uv run --with mcp server.py",
        "uv tool run server",
        "pipx run server",
        "bunx server",
        "pnpm dlx server",
        "yarn dlx server",
        "npm exec -y server",
        "deno run -A npm:server",
        "docker run -i --rm mcp/time",
        "docker --context far run -i mcp/time",
        "toolyard envs run pypi:mcp-server-time==2026.10.19",
        "/opt/venv/bin/python -m toolyard envs run npm:server@1.0.0",
    ],
)
def test_package_runners_have_longer(words: str):
    command, *args = words.split(" ")
    program = Stdio(command=command, args=tuple(args))
    assert may_download(program)
    assert start_seconds(program) == 1800


@pytest.mark.parametrize(
    "words",
    ["python server.py", "node index.js", "docker ps", "npm test", "/opt/npxy -y", "toolyard stdio demo"],
)
def test_other_programs_have_minutes(words: str):
    command, *args = words.split(" ")
    assert start_seconds(Stdio(command=command, args=tuple(args))) == 300


# Why it failed


async def reason_of(*argv: str) -> str:
    """As /health has it. The program runs as it would for anybody, and writes what it writes."""
    where = Stdio(command=argv[0], args=argv[1:])
    async with yard(ServerConfig(name="up", where=where), list_wait=0.1) as front:
        shown = await front.until_health(lambda health: health["servers"]["up"]["state"] == "down")
        return shown["servers"]["up"]["reason"]


NODE = str(Path(sys.executable).with_name("node"))


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ((NODE, "/no/such/server.js"), "Error: Cannot find module '/no/such/server.js'"),
        (
            (NODE, "--input-type=module", "-e", "import '@nobody/nothing'"),
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@nobody/nothing' imported from",
        ),
        ((NODE, "-e", "throw new TypeError('API_KEY is required')"), "TypeError: API_KEY is required"),
        (
            (sys.executable, "-c", "import nothing_there"),
            "ModuleNotFoundError: No module named 'nothing_there'",
        ),
        ((sys.executable, "-m", "nothing_there"), f"{sys.executable}: No module named nothing_there"),
        (
            (sys.executable, "-c", "try: 1/0\nexcept ArithmeticError: raise RuntimeError('no token')"),
            "RuntimeError: no token",
        ),
        (
            (sys.executable, "-c", "raise ExceptionGroup('unhandled', [ValueError('inner reason')])"),
            "ValueError: inner reason",
        ),
        (("sh", "-c", "no-such-command"), "no-such-command: "),
    ],
)
async def test_the_reason_of_a_start_that_failed_is_the_line_with_the_error(
    argv: tuple[str, ...], reason: str
):
    assert reason in (await reason_of(*argv)).removeprefix("exited with code ").partition(": ")[2]


NPM_404 = """\
npm error code E404
npm error 404 Not Found - GET https://example.org/@nobody%2fno-such-server
npm error 404
npm error 404  The requested resource '@nobody/no-such-server@*' could not be found.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm notice New minor version of npm available! 11.19.1 -> 11.21.1
npm notice
npm error A complete log of this run can be found in: /home/me/.npm/_logs/2026-11-16T08_48_36_452Z-debug-0.log
"""
NPM_VERSION = """\
npm error code ETARGET
npm error notarget No matching version found for cowsay@99.99.99.
npm error notarget In most cases you or one of your dependencies are requesting a version that doesn't exist.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/2026-11-16T08_48_47_267Z-debug-0.log
"""
NPM_REFUSED = """\
npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to http://127.0.0.1:9/cowsay failed, reason: connect ECONNREFUSED 127.0.0.1:9
npm error     at ClientRequest.<anonymous> (/usr/lib/node_modules/npm/lib/index.js:130)
npm error     at process.processTicksAndRejections (node:internal/process/task_queues:83:21) {
npm error   code: 'ECONNREFUSED',
npm error   port: 9,
npm error }
npm error
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/2026-11-16T08_48_48_967Z-debug-0.log
"""
NPM_OLD = """\
npm ERR! could not determine executable to run

npm ERR! A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log
"""
UV = """\
error: No solution found when resolving tool dependencies
  cause: Because no-such-server was not found in the package registry and you require no-such-server.
"""
UV_OLD = """\
  × No solution found when resolving tool dependencies:
  ╰─▶ Because no-such-server was not found in the package registry and you require no-such-server.
"""  # noqa: RUF001 (its own words)
DOCKER = """\
docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?

Run 'docker run --help' for more information
"""
DOCKER_PULL = """\
Unable to find image 'mcp/nope:latest' locally
docker: Error response from daemon: pull access denied for mcp/nope, repository does not exist

Run 'docker run --help' for more information
"""
ARGPARSE = "usage: server [-h] --repo REPO\nserver: error: the following arguments are required: --repo\n"
GO = "panic: no token\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:4 +0x1d\nexit status 2\n"
RUST = (
    "thread 'main' panicked at src/main.rs:3:5:\ncalled `unwrap()` on a `None` value\n"
    "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"
)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (NPM_404, "npm error 404 Not Found - GET https://example.org/@nobody%2fno-such-server"),
        (NPM_VERSION, "npm error notarget No matching version found for cowsay@99.99.99."),
        (NPM_REFUSED, "npm error FetchError: request to http://127.0.0.1:9/cowsay failed, reason: connect"),
        (NPM_OLD, "npm error could not determine executable to run"),
        (UV, "dependencies: Because no-such-server was not found in the package registry"),
        (UV_OLD, "dependencies: Because no-such-server was not found in the package registry"),
        (DOCKER, "docker: Cannot connect to the Docker daemon"),
        (DOCKER_PULL, "docker: Error response from daemon: pull access denied for mcp/nope"),
        (ARGPARSE, "server: error: the following arguments are required: --repo"),
        (GO, "panic: no token"),
        (RUST, "thread 'main' panicked at src/main.rs:3:5: called `unwrap()` on a `None` value"),
        ("INFO begins\nnothing to do\n", "nothing to do"),
    ],
)
async def test_the_line_with_the_error_is_found_in_what_installers_write(written: str, reason: str):
    told = await reason_of(sys.executable, "-c", f"import sys; sys.stderr.write({written!r}); sys.exit(1)")
    assert told.startswith("exited with code 1: ")
    assert reason in told

"""`toolyard envs`: real installers make environments of packages that are made here."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.packages import from_wheels, make_wheel, npm_registry
from tests.cli.running import PATIENCE, Toolyard

TINY = "pypi:tiny-server==1.0"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    make_wheel(folder, "tiny-server", "1.0")
    for name, value in {**from_wheels(folder), "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def yard(wheels: Path, tmp_path: Path) -> Toolyard:
    return Toolyard(tmp_path)


def environments(yard: Toolyard) -> list[str]:
    root = yard.folder / "cache" / "toolyard" / "envs"
    return sorted(path.name for path in root.iterdir() if path.name != "locks") if root.exists() else []


def test_a_program_is_started_from_an_environment_that_is_made_once(yard: Toolyard):
    first = yard("envs", "run", TINY, "--one", "two", stdin='{"id": 1, "method": "tools/call"}\n')
    assert first.status == 0, first.err
    told = json.loads(json.loads(first.out)["result"]["content"][0]["text"])
    assert told["args"] == ["--one", "two"]
    assert told["prefix"].startswith(str(yard.folder / "cache" / "toolyard" / "envs" / "tiny-server-1.0-"))
    assert "tiny-server" in first.err  # the installer's own lines are the progress
    shutil.rmtree(yard.folder / "wheels")
    again = yard("envs", "run", TINY)
    assert (again.status, again.out, again.err) == (0, "", "")


def test_the_program_takes_the_place_of_our_process(yard: Toolyard):
    yard("envs", "install", TINY)
    process = yard.start("envs", "run", TINY)
    out, _ = process.communicate('{"id": 1, "method": "tools/call"}\n', timeout=PATIENCE)
    assert json.loads(json.loads(out)["result"]["content"][0]["text"])["pid"] == process.pid


def test_a_package_from_npm_is_installed_by_npm(yard: Toolyard):
    with npm_registry("@tiny/server", "2.1.0") as variables:
        made = yard("envs", "install", "npm:@tiny/server@2.1.0", **variables)
    assert made.status == 0, made.err
    call = '{"id": 1, "method": "tools/call"}\n'
    done = yard("envs", "run", "--program", "other", "npm:@tiny/server@2.1.0", "-x", stdin=call)
    assert json.loads(json.loads(done.out)["result"]["content"][0]["text"])["args"] == ["-x"]
    several = yard("envs", "run", "npm:@tiny/server@2.1.0")
    assert several.err == (
        "error: npm:@tiny/server@2.1.0 has no program 'server'\n"
        "hint: --program NAME takes one of its own: tiny-server, other\n"
    )


def test_without_uv_the_environment_is_made_by_pip(yard: Toolyard, tmp_path: Path):
    python = tmp_path / "elsewhere" / "python"  # so that no uv lies beside it
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    script = (
        "import sys; sys.executable = sys.argv.pop(1); from toolyard.cli import main; "
        "main(['envs', 'install', sys.argv[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(python), TINY],
        env={**os.environ, "PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    (made,) = environments(yard)
    marker = yard.folder / "cache" / "toolyard" / "envs" / made / "toolyard.json"
    assert json.loads(marker.read_text())["by"] == "pip"


def test_what_is_missing_is_named_with_what_to_install(yard: Toolyard, tmp_path: Path):
    script = (
        "import sys; sys.executable = '/nowhere/python'; from toolyard.cli import main; "
        "main(['envs', 'install', 'npm:tiny@1.0.0'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-2:] == [
        "error: cannot install npm:tiny@1.0.0: no npm on PATH",
        "hint: install Node.js, which has npm: https://nodejs.org",
    ]


def test_a_failed_install_leaves_nothing_and_shows_the_installers_words(yard: Toolyard):
    done = yard("envs", "install", "pypi:tiny-server==9.9")
    assert done.status == 2
    assert "9.9" in done.err
    assert "error: cannot install pypi:tiny-server==9.9: uv exited with" in done.err
    assert environments(yard) == []


def test_a_half_made_environment_is_made_anew(yard: Toolyard):
    yard("envs", "install", TINY)
    (name,) = environments(yard)
    folder = yard.folder / "cache" / "toolyard" / "envs" / name
    (folder / "toolyard.json").unlink()
    shutil.rmtree(folder / "lib")
    (folder / "rubbish").touch()
    assert yard("envs", "list", "--json").out == "[]\n"
    assert yard("envs", "run", TINY).status == 0
    assert not (folder / "rubbish").exists()


SLOW = """
import json, os, sys, time
with open({log!r}, "a") as log:
    print(json.dumps({{"cwd": os.getcwd(), **os.environ}}), file=log)
print("begun", flush=True)
while not os.path.exists({go!r}):
    time.sleep(0.02)
os.execv({uv!r}, sys.argv)
"""


def slow_uv(folder: Path, uv: str = "") -> dict[str, str]:
    """The variables with which uv waits for the file `go` before it begins. It notes its own in `log`."""
    uv = uv or shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    program = folder / "bin" / "uv"
    program.parent.mkdir()
    source = SLOW.format(uv=uv, go=str(folder / "go"), log=str(folder / "log"))
    program.write_text(f"#!{sys.executable}\n{source}")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_installers_see_the_users_registries_and_nothing_of_the_server_or_its_folder(
    yard: Toolyard, tmp_path: Path
):
    variables = slow_uv(tmp_path, uv="/bin/false")
    (tmp_path / "go").touch()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".npmrc").write_text("//registry.example/:_authToken=${REGISTRY_TOKEN}\n")
    of_user = {"HOME": str(tmp_path / "home"), "UV_INDEX": "https://own.example", "REGISTRY_TOKEN": "t"}
    of_user |= {"pip_index_url": "https://own.example", "HTTPS_PROXY": "http://proxy.example"}
    others = {"OPENAI_API_KEY": "hush", "NODE_OPTIONS": "--no-warnings", "PYTHONWARNINGS": "ignore"}
    of_server = {"TINY_KEY": "hush", "UV_DEFAULT_INDEX": "http://evil.example", "NO_PROXY": "*"}
    assert yard("envs", "install", TINY, **variables, **of_user, **others).status == 2
    entry = {"command": "toolyard", "args": ["envs", "run", TINY], "env": of_server}
    yard.write("x.json", json.dumps({"servers": {"tiny": entry}}))
    assert yard("list", "--config", "x.json", **variables, **of_user, **others).status == 3
    by_user, *by_gateway = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert by_gateway
    assert of_user.items() <= by_user.items()
    for seen in (by_user, *by_gateway):
        assert not {*others, *of_server} & set(seen)
        assert seen["cwd"].startswith(str(tmp_path / "cache" / "toolyard" / "envs" / "tiny-server-1.0-"))


def test_two_starts_install_once(yard: Toolyard, tmp_path: Path):
    variables = slow_uv(tmp_path)
    first = yard.start("envs", "run", TINY, **variables)
    assert first.stderr is not None
    assert first.stderr.readline() == "begun\n"
    second = yard.start("envs", "run", TINY, **variables)
    assert second.stderr is not None
    assert second.stderr.readline() == f"waiting: another process installs {TINY}\n"
    (tmp_path / "go").touch()
    assert [one.communicate("", timeout=PATIENCE) and one.returncode for one in (first, second)] == [0, 0]
    assert len((tmp_path / "log").read_text().splitlines()) == 2  # the environment, then the package


def test_an_install_that_outlives_its_start_keeps_others_from_installing(yard: Toolyard, tmp_path: Path):
    variables = slow_uv(tmp_path)
    first = yard.start("envs", "run", TINY, **variables)
    assert first.stderr is not None
    assert first.stderr.readline() == "begun\n"
    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE)
    second = yard.start("envs", "run", TINY, **variables)
    assert second.stderr is not None
    assert second.stderr.readline() == f"waiting: another process installs {TINY}\n"
    (tmp_path / "go").touch()
    second.communicate("", timeout=PATIENCE)
    assert second.returncode == 0
    first.communicate()


def test_environments_are_listed_and_removed_unless_a_server_runs_from_one(yard: Toolyard):
    make_wheel(yard.folder / "wheels", "other-server", "2.0")
    yard("envs", "install", TINY, "pypi:other-server==2.0")
    listed = json.loads(yard("envs", "list", "--json").out)
    assert [one["package"] for one in listed] == ["pypi:other-server==2.0", TINY]
    assert all(one["size"] > 1000 for one in listed)
    assert yard("envs", "list").out.splitlines()[0].split() == ["package", "size", "last", "used"]

    running = yard.start("envs", "run", TINY)
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write('{"id": 1, "method": "tools/list"}\n')
    running.stdin.flush()
    running.stdout.readline()
    busy = yard("envs", "remove", "--all")
    assert busy.status == 2
    assert busy.out.startswith("removed pypi:other-server==2.0: ")
    assert busy.err.startswith(f"warning: {TINY} was not removed: a server runs from it")
    running.communicate("", timeout=PATIENCE)
    assert yard("envs", "remove", "tiny-server").out.startswith(f"removed {TINY}: ")
    assert environments(yard) == []
    gone = yard("envs", "remove", "tiny-server")
    assert (gone.status, gone.err) == (
        2,
        "error: no environment of 'tiny-server'\nhint: toolyard envs list\n",
    )


@pytest.mark.parametrize(
    "package",
    [
        "tiny-server",
        "pypi:tiny-server",
        "pypi:tiny-server>=1",
        "pypi:tiny-server==1.0 --index-url=http://x",
        "pypi:--upgrade==1",
        "pypi:tiny @ http://x==1",
        "npm:tiny@latest",
        "npm:tiny@^1.0.0",
        "npm:tiny@1",
        "npm:tiny@1.2.x",
        "npm:tiny@npm:other@1.0.0",
        "npm:other/tiny@1.0.0",
        "npm:../tiny@1.0.0",
        "npm:--registry@1.0.0",
        "npm:tiny@1.0.0\n",
        "cargo:tiny@1.0.0",
    ],
)
def test_only_a_name_and_an_exact_version_is_a_package(yard: Toolyard, package: str):
    done = yard("envs", "run", package)
    assert done.status == 2
    assert "is not a package with its version" in done.err.splitlines()[0]
    assert environments(yard) == []


def test_a_server_is_added_counted_and_removed_again(yard: Toolyard):
    """The whole way of a package: its environment, its entry, a call through a gateway, and the end."""
    server = {
        "name": "io.example/tiny",
        "version": "1.0",
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "tiny-server",
                "version": "1.0",
                "transport": {"type": "stdio"},
                "packageArguments": [{"type": "named", "name": "--depth", "value": "2"}],
                "environmentVariables": [{"name": "TINY_WORD", "isRequired": True}],
            }
        ],
    }
    yard.write("server.json", json.dumps(server))
    added = yard("add", "--from", "server.json", "--yes", "--env", "TINY_WORD=hello")
    assert (added.status, added.out) == (0, "added 'tiny' to toolyard.toml: 1 tool\n"), added.err
    # Without `toolyard` on PATH, as when it was started by its full path.
    called = yard("call", "mcp__tiny__how", PATH="/usr/bin:/bin")
    assert called.status == 0, called.err
    told = json.loads(called.out)
    assert told["args"] == ["--depth", "2"]
    assert told["env"] == {"TINY_WORD": "hello"}
    removed = yard("remove", "tiny")
    assert (
        f"hint: its environment stays in the cache: `toolyard envs remove {TINY}` removes it" in removed.err
    )


def test_a_server_that_does_not_start_is_not_added(yard: Toolyard):
    make_wheel(
        yard.folder / "wheels", "broken-server", "1.0", "def main():\n    raise SystemExit('no licence')\n"
    )
    server = {
        "name": "io.example/broken",
        "version": "1.0",
        "packages": [{"registryType": "pypi", "identifier": "broken-server", "version": "1.0"}],
    }
    yard.write("server.json", json.dumps(server))
    done = yard("add", "--from", "server.json", "--yes")
    assert done.status == 2
    assert "no licence" in done.err
    assert not (yard.folder / "toolyard.toml").exists()

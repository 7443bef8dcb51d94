"""Builds the packages of a release into dist/ and tries them: `make dist`.

Owns what a package must prove before it is published: the sdist is built, the wheel is built from the sdist,
`twine check` accepts both, both hold every file of the package, and each works in an empty environment: it
says its version, serves the demo, and answers a call. Publishing is for people, see docs/releasing.md.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from bootstrap import CONSTRAINTS, ROOT, create_environment, fail, python_of, say, step

DIST = ROOT / "dist"
TRIAL = ROOT / "build" / "dist-trial"
LISTENING = re.compile(r"http://127\.0\.0\.1:\d+/mcp")
TIMEOUT_S = 60


def main() -> None:
    tools = ROOT / sys.argv[1]
    shutil.rmtree(DIST, ignore_errors=True)
    # Without options, `build` makes the sdist, unpacks it, and makes the wheel of what is there.
    limits = {"PIP_CONSTRAINT": str(CONSTRAINTS), "PIP_BUILD_CONSTRAINT": str(CONSTRAINTS)}
    step("sdist, and wheel from it", [python_of(tools), "-m", "build", "."], "does pip work?", **limits)
    packages = sorted(DIST.iterdir())
    hint = "the text above names the field of pyproject.toml"
    step("twine check", [python_of(tools), "-m", "twine", "check", "--strict", *map(str, packages)], hint)
    for package in packages:
        complete(package)
    for package in packages:
        works(package)
    say("ready: " + ", ".join(f"dist/{path.name} ({path.stat().st_size / 1e6:.1f} MB)" for path in packages))


def complete(package: Path) -> None:
    """Every file of `src/toolyard` that git knows is in the package, under its name."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src/toolyard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    wanted = {name.removeprefix("src/") for name in listed.stdout.split("\0") if name}
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            names = set(archive.namelist())
    else:
        with tarfile.open(package) as archive:
            names = {name.partition("/")[2].removeprefix("src/") for name in archive.getnames()}
    if missing := sorted(wanted - names):
        fail(f"{package.name} lacks {', '.join(missing[:5])}", "see tool.hatch.build in pyproject.toml")
    say(f"{package.name} holds all {len(wanted)} files of the package")


def works(package: Path) -> None:
    """Installs a package into an empty environment and uses it from an empty folder."""
    create_environment(TRIAL, clear=True)
    install = [python_of(TRIAL), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS)]
    step(f"{package.name} into an empty environment", [*install, str(package)], "does pip work?")
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.defpath, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
        toolyard = [str(TRIAL / "bin" / "toolyard")]
        version = said([*toolyard, "--version"], home, environment)
        if version.split()[-1] not in package.name:
            fail(f"{package.name} says that it is '{version}'", "see src/toolyard/_version.py")
        serving = subprocess.Popen(
            [*toolyard, "serve", "--port", "0"],
            cwd=home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            call = ["call", "add", "a=1", "b=2", "--url", address(serving)]
            answer = said([*toolyard, *call], home, environment)
        finally:
            serving.terminate()
            serving.wait(TIMEOUT_S)
    if answer != '{"sum":3.0}':
        fail(f"{package.name}: 'toolyard {' '.join(call)}' printed '{answer}'", "is the demo complete?")
    shutil.rmtree(TRIAL)
    say(f"{package.name}: '{version}'; serves the demo; add a=1 b=2 is {answer}")


def address(serving: "subprocess.Popen[str]") -> str:
    """Where the server listens, read from what it prints; its end ends the wait."""
    assert serving.stdout is not None
    printed: list[str] = []
    for line in serving.stdout:
        printed.append(line)
        if found := LISTENING.search(line):
            return found[0]
    raise SystemExit("error: `toolyard serve` ended: " + "".join(printed).strip())


def said(command: list[str], folder: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode:
        fail(f"`{' '.join(command)}` exited with {done.returncode}: {done.stderr.strip()}", "run it by hand")
    return done.stdout.strip()


if __name__ == "__main__":
    main()

"""Others' tests and examples: which versions, and getting them into build/faithful.

The versions are in scripts/requirements/faithful.txt, which is also what the tests run in. Nothing of theirs
is kept in this repository.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "faithful"
REQUIREMENTS = ROOT / "scripts" / "requirements" / "faithful.txt"
PACKAGES = ("fastmcp", "mcp")
"""Whose tests are run."""


@dataclass(frozen=True)
class Sources:
    """An environment and the unpacked sdists of what is installed in it."""

    python: Path
    versions: dict[str, str]
    folders: dict[str, Path]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def fail(reason: str, hint: str) -> NoReturn:
    print(f"error: {reason}\nhint: {hint}", file=sys.stderr)
    sys.exit(1)


def pinned() -> Sources:
    """What the repository pins; `make` has installed it."""
    python = ROOT / "build" / "envs" / "faithful" / "bin" / "python"
    return _sources(python, HOME)


def newest() -> Sources:
    """The newest versions of theirs, and of everything that these ask for, in an environment of their own."""
    home = HOME / "newest"
    shutil.rmtree(home, ignore_errors=True)
    python = home / "env" / "bin" / "python"
    say("installing the newest versions")
    _run([sys.executable, "-m", "venv", str(home / "env")])
    lines = re.findall(r"^[^#\s].*", REQUIREMENTS.read_text("utf-8"), re.M)
    names = [line.partition("==")[0] for line in lines]
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *names])
    return _sources(python, home)


def _sources(python: Path, home: Path) -> Sources:
    if not python.is_file():
        fail(f"{python.relative_to(ROOT)} is not there", "make faithful installs it")
    ask = f"from importlib.metadata import version\nfor name in {PACKAGES!r}: print(name, version(name))"
    said = subprocess.run([str(python), "-c", ask], check=True, stdout=subprocess.PIPE, text=True).stdout
    versions = dict(line.split() for line in said.splitlines())
    return Sources(
        python, versions, {name: _unpacked(name, version, home) for name, version in versions.items()}
    )


def _unpacked(name: str, version: str, home: Path) -> Path:
    folder = home / f"{name}-{version}"
    if not folder.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        say(f"downloading the sdist of {name} {version}")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        with tempfile.TemporaryDirectory(dir=home) as part:  # a run that was ended leaves no half of it
            _run([*pip, "--no-deps", "--no-binary", name, "--dest", part, f"{name}=={version}"])
            with tarfile.open(Path(part) / f"{folder.name}.tar.gz") as sdist:
                sdist.extractall(part, filter="data")
            (Path(part) / folder.name).rename(folder)
    return folder


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        fail(f"{' '.join(command)} failed:\n{done.stdout}", "is the package index reachable?")

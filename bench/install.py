"""Installs each peer into its own environment under `build/`, once.

Owns the folders and which interpreter a peer gets. Raises `CannotInstall` with the reason, for the table.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.process import ROOT

LIMIT_S = 1200.0
PYTHON_FOLDERS = (
    "~/.pyenv/versions/{}*/bin",
    "~/.local/share/uv/python/cpython-{}*/bin",
    "/opt/python*{}*/bin",
)


class CannotInstall(Exception):
    """No suitable interpreter, or the installer failed."""


def python_environment(name: str, packages: Sequence[str], versions: Sequence[str]) -> Path:
    """The folder of programs of an environment with `packages`; `versions` empty: our own Python."""
    folder = ROOT / "build" / "envs" / name
    if not _is_ready(folder, packages):
        python = _interpreter(versions) if versions else sys.executable
        shutil.rmtree(folder, ignore_errors=True)
        _run([python, "-m", "venv", "--without-pip", str(folder)], f"the environment of {name}")
        # Our pip installs into it: the interpreter found may have none, or an old one.
        target = str(folder / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", target, "install", "--quiet", "--no-input"]
        _run([*pip, "--disable-pip-version-check", *packages], " ".join(packages))
        _remember(folder, packages)
    return folder / "bin"


def npm_environment(name: str, packages: Sequence[str]) -> Path:
    """The folder of programs of npm packages, run by the Node beside our Python or the one on PATH."""
    folder = ROOT / "build" / f"npm-{name}"
    if not _is_ready(folder, packages):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        npm = ["npm", "install", "--prefix", str(folder), *options, *packages]
        _run(npm, " ".join(packages), PATH=path_with(Path(sys.executable).parent))
        _remember(folder, packages)
    return folder / "node_modules" / ".bin"


def path_with(*folders: Path) -> str:
    return os.pathsep.join([*map(str, folders), os.environ["PATH"]])


def _interpreter(versions: Sequence[str]) -> str:
    for version in versions:
        for candidate in _candidates(version):
            if _version_of(candidate) == version:
                return str(candidate)
    raise CannotInstall(f"no Python {' or '.join(versions)} was found")


def _candidates(version: str) -> Iterator[Path]:
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    for pattern in PYTHON_FOLDERS:
        place = Path(pattern.format(version)).expanduser()
        root = Path(place.anchor)
        yield from sorted(root.glob(f"{place.relative_to(root)}/python{version}"), reverse=True)


def _version_of(python: Path) -> str | None:
    """The version of an interpreter; empty if it does not run, as with some shims."""
    ask = "import sys; print('{}.{}'.format(*sys.version_info))"
    done = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _is_ready(folder: Path, packages: Sequence[str]) -> bool:
    mark = folder / ".ready"
    return mark.is_file() and mark.read_text(encoding="utf-8") == _state(folder, packages)


def _remember(folder: Path, packages: Sequence[str]) -> None:
    (folder / ".ready").write_text(_state(folder, packages), encoding="utf-8")


def _state(folder: Path, packages: Sequence[str]) -> str:
    # The folder too: an environment in a copied checkout points at the old folder.
    return "\n".join([*packages, str(folder), ""])


def _run(command: Sequence[str], what: str, **more: str) -> None:
    environment: Mapping[str, str] = {**os.environ, **more}
    try:
        subprocess.run(
            list(command), env=environment, check=True, timeout=LIMIT_S, capture_output=True, text=True
        )
    except subprocess.CalledProcessError as error:
        said = [line for line in f"{error.stdout}\n{error.stderr}".splitlines() if "ERR" in line.upper()]
        raise CannotInstall(f"{what} did not install: {said[0].strip() if said else error}") from None
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"{what} did not install within {LIMIT_S:.0f} s") from None
    except FileNotFoundError as error:
        raise CannotInstall(f"{what} did not install: '{error.filename}' is not on PATH") from None

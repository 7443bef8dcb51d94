"""The function's Python on this machine: finds it, compiles with it, and tries to start the function."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from .wheels import MACHINES

# Run by an interpreter that sees no packages but those of the function.
START = "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1]); import function"
START_TIMEOUT = 60
"""Seconds; AWS itself has ten."""
REGION = "us-east-1"


def find_interpreter(python: str) -> str | None:
    """An interpreter of that version; bytecode of another is of no use."""
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    return next((found for found in _candidates(python) if _has_version(found, python)), None)


def runs_here(arch: str) -> bool:
    """Whether what is made for those machines of AWS runs on this one."""
    return sys.platform == "linux" and platform.machine() == MACHINES[arch]


def start_failure(program: str, folder: Path, variables: Mapping[str, str]) -> str | None:
    """Start the function as AWS would; None when it is ready, else what it said."""
    given = {
        "PATH": os.defpath,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "LAMBDA_TASK_ROOT": str(folder),
    }
    try:
        done = subprocess.run(
            [program, "-I", "-S", "-c", START, str(folder)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**given, "TOOLYARD_KEY": "only to see whether it starts", **variables},
            cwd=folder,
            timeout=START_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"it was not ready after {START_TIMEOUT} seconds"
    return done.stderr if done.returncode else None


def _candidates(python: str) -> Iterator[str]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield os.path.join(folder or ".", f"python{python}")
    # Those of pyenv stand on PATH only where they are chosen.
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    with suppress(PermissionError):  # it may be the folder of another user
        yield from (str(found) for found in sorted(versions.glob(f"{python}.*/bin/python{python}")))


def _has_version(program: str, python: str) -> bool:
    if not os.access(program, os.X_OK):
        return False
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([program, "-c", question], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == python


ROOT = "/var/task"
"""Where AWS unpacks a function; tracebacks name the files there."""


def compile_all(program: str, folder: Path) -> None:
    """Compile what is in the folder with that interpreter, for its version."""
    # Fixed hashes: the order of a frozenset in bytecode depends on them, and with it the bytes of the zip.
    subprocess.run(
        [program, "-S", "-m", "compileall", "-q", "-f", "-j", "1", "--invalidation-mode",
         "unchecked-hash", "-s", str(folder), "-p", ROOT, str(folder)],
        check=False,  # a file that does not compile is none that is imported
        capture_output=True,
        env={**_clean_environment(), "PYTHONHASHSEED": "0"},
    )  # fmt: skip


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

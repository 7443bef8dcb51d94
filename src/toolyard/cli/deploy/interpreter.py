"""The function's Python on this machine: finds it, compiles with it, and tries to start the function."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from .wheels import MACHINES

# Run by an interpreter that sees only the packages of the function.
START = "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1]); import function"
START_TIMEOUT = 60
"""In seconds; AWS allows ten."""
REGION = "us-east-1"


def find_interpreter(python: str) -> str | None:
    """Find an interpreter of that version, because bytecode of another is useless."""
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    return next((found for found in _candidates(python) if _has_version(found, python)), None)


def runs_here(arch: str) -> bool:
    """Whether code for that processor of AWS runs on this machine."""
    return sys.platform == "linux" and platform.machine() == MACHINES[arch]


def start_failure(program: str, folder: Path, variables: Mapping[str, str]) -> str | None:
    """Start the function as AWS does; None if it is ready, else its error output."""
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
        return f"not ready after {START_TIMEOUT} seconds"
    return done.stderr if done.returncode else None


def _candidates(python: str) -> Iterator[str]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield os.path.join(folder or ".", f"python{python}")
    # pyenv puts only the chosen version on PATH.
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
"""The folder into which AWS unpacks a function, for tracebacks."""


def compile_all(program: str, folder: Path) -> None:
    """Compile the folder with that interpreter, for its version."""
    # A fixed hash seed: the order of a frozenset in bytecode depends on it.
    subprocess.run(
        [program, "-S", "-m", "compileall", "-q", "-f", "-j", "1", "--invalidation-mode",
         "unchecked-hash", "-s", str(folder), "-p", ROOT, str(folder)],
        check=False,  # files that do not compile are not imported
        capture_output=True,
        env={**_clean_environment(), "PYTHONHASHSEED": "0"},
    )  # fmt: skip


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

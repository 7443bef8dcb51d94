"""Compiled modules for the function: a cold start need not compile, and cannot write down what it compiled.

They are trusted as they are (unchecked hashes), so that nothing depends on the times of files.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = "/var/task"
"""Where AWS unpacks a function; tracebacks name the files there."""


def interpreter(python: str) -> str | None:
    """A Python of that version on this machine; bytecode of another is of no use."""
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    return next((found for found in _candidates(python) if _is(found, python)), None)


def compile_all(program: str, folder: Path) -> None:
    # Fixed hashes: the order of a frozenset in bytecode depends on them, and with it the bytes of the zip.
    subprocess.run(
        [program, "-I", "-S", "-m", "compileall", "-q", "-f", "-j", "1", "--invalidation-mode",
         "unchecked-hash", "-s", str(folder), "-p", ROOT, str(folder)],
        check=False,  # a file that does not compile is none that is imported
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip


def _candidates(python: str) -> Iterator[str]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield os.path.join(folder or ".", f"python{python}")
    # Those of pyenv stand on PATH only where they are chosen.
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from (str(found) for found in sorted(versions.glob(f"{python}.*/bin/python{python}")))


def _is(program: str, python: str) -> bool:
    if not os.access(program, os.X_OK):
        return False
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([program, "-c", question], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == python

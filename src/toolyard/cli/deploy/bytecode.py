"""Compiled modules for the function: a cold start need not compile, and cannot write down what it compiled.

They are trusted as they are (unchecked hashes), so that nothing depends on the times of files.
"""

import os
import subprocess
from pathlib import Path

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
        env={**_environment(), "PYTHONHASHSEED": "0"},
    )  # fmt: skip


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

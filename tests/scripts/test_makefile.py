"""What the Makefile hands to the commands that it runs."""

import os
import subprocess

from scripts.bootstrap import ROOT


def test_whatever_the_environment_says_python_keeps_its_bytecode_in_the_build_folder() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "--eval", "shown: ; @env", "shown"],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": "/elsewhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = shown.stdout.splitlines()
    assert f"PYTHONPYCACHEPREFIX={ROOT / 'build' / 'pycache'}" in lines
    assert not any(line.startswith("PYTHONDONTWRITEBYTECODE") for line in lines)

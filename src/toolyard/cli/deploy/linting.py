"""The template, held against what AWS takes: cfn-lint, in a process of its own."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from ..failure import Failure, warn
from ..shapes import Object, as_object

PROGRAM = "import sys; from cfnlint.runner import main; sys.exit(main())"
INSTALL = "pip install 'toolyard[deploy]', or leave the check out with --no-lint"


def need_linter() -> None:
    if find_spec("cfnlint") is None:
        raise Failure("cfn-lint, which checks the template, is not installed", INSTALL)


def lint(file: Path) -> None:
    """Failure when the template has errors; what is less than that is a warning."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--format", "json", "--", str(file)],
        capture_output=True,
        text=True,
    )
    try:
        found: list[Any] = msgspec.json.decode(done.stdout or "[]", type=list[Any])
    except msgspec.DecodeError:
        raise Failure("cfn-lint failed", INSTALL, details=done.stdout + done.stderr) from None
    if done.returncode and not found:
        raise Failure("cfn-lint failed", INSTALL, details=done.stderr)
    errors = [_line(one) for one in map(as_object, found) if one.get("Level") == "Error"]
    for one in map(as_object, found):
        if one.get("Level") != "Error":
            warn(f"{file.name}: {_line(one)}")
    if errors:
        raise Failure(f"{file.name} has {len(errors)} errors", *errors)


def _line(one: Object) -> str:
    start = as_object(as_object(one.get("Location")).get("Start")).get("LineNumber", "?")
    return f"line {start}: {one.get('Message', '')} ({as_object(one.get('Rule')).get('Id', '?')})"

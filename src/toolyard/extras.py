"""The command that installs an extra beside this installation."""

import os
import shlex
import shutil
import sys


def install_command(extra: str) -> str:
    """Names the Python that runs, unless the `pip` on PATH is its own.

    Another environment's pip would look on PyPI, where the name `toolyard` belongs to another project.
    """
    python = sys.executable or "python"
    pip = shutil.which("pip")
    is_ours = pip is not None and os.path.dirname(os.path.abspath(pip)) == os.path.dirname(python)
    return f"{'' if is_ours else f'{shlex.quote(python)} -m '}pip install 'toolyard[{extra}]'"

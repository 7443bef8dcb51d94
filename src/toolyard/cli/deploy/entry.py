"""What AWS starts: the module with the handler, and the program that serves instead of AWS's own loop."""

from collections.abc import Iterable

from .chosen import Chosen

HANDLER = "function.handler"
BOOTSTRAP = "bootstrap"


def function(chosen: Iterable[Chosen]) -> str:
    """The source of `function.py`."""
    names = ", ".join(_called(server) for server in chosen)
    return f'''"""Made by `toolyard deploy lambda`; make it anew rather than change it."""

from pathlib import Path

from toolyard.app.aws_lambda import function

HERE = Path(__file__).parent
handler = function([{names}])
'''


def bootstrap(python: str) -> str:
    """The source of `bootstrap`, for AWS_LAMBDA_EXEC_WRAPPER or a custom runtime."""
    return f"""#!/bin/sh
# Made by `toolyard deploy lambda`: speaks the Runtime API itself, for AWS's own loop cannot stream Python.
# As a wrapper it is given the command that it stands for, whose first word is the interpreter.
here=$(cd "$(dirname "$0")" && pwd)
for python in "$1" /var/lang/bin/python{python} python{python}; do
    command -v "$python" >/dev/null 2>&1 && break
done
export PYTHONPATH="$here${{PYTHONPATH:+:$PYTHONPATH}}" _HANDLER="${{_HANDLER:-{HANDLER}}}"
exec "$python" -m toolyard.edge.lambda_runtime
"""


def _called(server: Chosen) -> str:
    return f"str(HERE / {server.called!r})" if server.table is not None else repr(server.called)

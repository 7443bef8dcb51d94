"""The code interpreter, which only pretends: nothing that is sent to it runs."""

from typing import Any

from ..catalogue import Deed, Tool, Toolkit
from ..schemas import closed, integer, text
from .answers import digest


def _ran(deed: Deed) -> dict[str, Any]:
    code = deed.arguments["code_to_execute"]
    sandbox = deed.arguments.get("sandbox_id") or digest("sandbox", deed.user)
    return {
        "stdout": f"(not run: {len(code)} characters)\n",
        "stderr": "",
        "results": "",
        "error": "",
        "sandbox_id": sandbox,
    }


CODE = Toolkit(
    "codeinterpreter",
    "Code Interpreter",
    "Runs Python and shell commands in a sandbox, with files.",
    ("Developer Tools",),
    (
        Tool(
            "CODEINTERPRETER_EXECUTE_CODE",
            "Execute Code",
            "Runs Python code in a sandbox and returns what it printed.",
            closed(
                code_to_execute_=text("The Python code."),
                sandbox_id=text("A sandbox made earlier; a new one when missing."),
                timeout=integer("Seconds.", default=60),
                keep_alive=integer("Seconds that the sandbox stays.", default=300, minimum=0, maximum=3600),
            ),
            _ran,
            important=True,
        ),
    ),
    schemes=(),
)

TOOLKITS = (CODE,)

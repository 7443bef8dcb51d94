"""The code interpreter, which only pretends: nothing that is sent to it runs."""

import posixpath
from typing import Any

from .. import pretend
from ..catalogue import Deed, Tool, ToolFailed, Toolkit
from ..schemas import boolean, closed, download, integer, opened, text, upload
from ..world import fresh

KEEP = integer("Seconds that the sandbox stays.", default=300, minimum=0, maximum=3600)
TIMEOUT = integer("Seconds that it may take.", default=60)
SANDBOX = text("A sandbox made earlier.")
HOME = "/home/user/"


def _sandbox(deed: Deed) -> str:
    """The one that is named, or a new one."""
    id = deed.arguments.get("sandbox_id") or fresh("sbx")
    if "sandbox_id" in deed.arguments and id not in deed.world.sandboxes:
        raise ToolFailed(f"Sandbox {id!r} not found; it may have been closed")
    deed.world.sandboxes.setdefault(id, {})
    return id


def _create(deed: Deed) -> dict[str, Any]:
    return {"sandbox_id": _sandbox(deed)}


def _execute(deed: Deed) -> dict[str, Any]:
    stdout, error = pretend.python(deed.arguments["code_to_execute"])
    return {"stdout": stdout, "stderr": "", "results": "", "error": error, "sandbox_id": _sandbox(deed)}


def _command(deed: Deed) -> dict[str, Any]:
    stdout, stderr = pretend.shell(deed.arguments["command"])
    return {"stdout": stdout, "stderr": stderr, "sandbox_id": _sandbox(deed)}


def _path(path: str) -> str:
    path = posixpath.normpath(path)
    if not path.startswith(HOME):
        raise ToolFailed(f"{path!r} is not under {HOME}")
    return path


def _upload(deed: Deed) -> dict[str, Any]:
    files, path = deed.world.sandboxes[_sandbox(deed)], _path(deed.arguments["destination_path"])
    if path in files and not deed.arguments.get("overwrite"):
        raise ToolFailed(f"{path!r} exists already")
    files[path] = deed.world.blobs[deed.arguments["file"]["s3key"]].content or b""
    return {"file_path": path, "success": True}


def _get(deed: Deed) -> dict[str, Any]:
    files, path = deed.world.sandboxes[_sandbox(deed)], _path(deed.arguments["file_path"])
    if path not in files:
        raise ToolFailed(f"{path!r} does not exist in the sandbox")
    return {"file": deed.world.offer(posixpath.basename(path), "application/octet-stream", files[path])}


CODE = Toolkit(
    "codeinterpreter",
    "Code Interpreter",
    "Runs Python and shell commands in a sandbox, with files.",
    ("Developer Tools",),
    (
        Tool(
            "CODEINTERPRETER_CREATE_SANDBOX",
            "Create Sandbox",
            "Creates a sandbox for code.",
            closed(keep_alive=KEEP),
            _create,
            opened(sandbox_id_=text("The sandbox.")),
            effect="create",
        ),
        Tool(
            "CODEINTERPRETER_EXECUTE_CODE",
            "Execute Code",
            "Runs Python code in a sandbox and returns what it printed.",
            closed(
                code_to_execute_=text("The Python code."),
                sandbox_id=SANDBOX,
                timeout=TIMEOUT,
                keep_alive=KEEP,
            ),
            _execute,
            effect="update",
            important=True,
        ),
        Tool(
            "CODEINTERPRETER_RUN_TERMINAL_CMD",
            "Run Terminal Command",
            "Runs a shell command in a sandbox.",
            closed(command_=text("The command."), sandbox_id=SANDBOX, timeout=TIMEOUT, keep_alive=KEEP),
            _command,
            effect="update",
        ),
        Tool(
            "CODEINTERPRETER_GET_FILE_CMD",
            "Get File",
            "Gives a file of a sandbox.",
            closed(
                file_path_=text("An absolute path under /home/user/."), sandbox_id_=SANDBOX, timeout=TIMEOUT
            ),
            _get,
            opened(file_=download("The file.")),
        ),
        Tool(
            "CODEINTERPRETER_UPLOAD_FILE_CMD",
            "Upload File",
            "Puts a file into a sandbox.",
            closed(
                destination_path_=text("An absolute path under /home/user/."),
                file_=upload("The file."),
                sandbox_id_=SANDBOX,
                overwrite=boolean("Replace what is there.", default=False),
            ),
            _upload,
            effect="create",
        ),
    ),
    schemes=(),
)

TOOLKITS = (CODE,)

"""The code interpreter: sandboxes that really run what they are given, and the files in them."""

import posixpath
from typing import Any

from ..catalogue import Deed, Tool, ToolFailed, Toolkit
from ..sandbox import Sandbox
from ..schemas import boolean, closed, download, integer, opened, text, upload
from ..world import fresh

KEEP = integer("Seconds that the sandbox stays.", default=300, minimum=0, maximum=3600)
TIMEOUT = integer("Seconds that it may take.", default=60)
SANDBOX = text("A sandbox made earlier; without it, the workbench.")
PATH = text("An absolute path under /home/user/.")


def _sandbox(deed: Deed) -> Sandbox:
    """The one that is named, or a new one."""
    id = deed.arguments.get("sandbox_id")
    if id is None:
        return deed.world.sandbox(deed.user, fresh("sbx"))
    if (deed.user, id) not in deed.world.sandboxes:
        raise ToolFailed(f"Sandbox {id!r} not found; it may have been closed")
    return deed.world.sandboxes[deed.user, id]


def _place(deed: Deed) -> Sandbox:
    """Where files are: the sandbox that is named, or the workbench of the session or the user."""
    if "sandbox_id" in deed.arguments:
        return _sandbox(deed)
    return deed.world.workbench(deed.user, deed.session or "direct")


def _create(deed: Deed) -> dict[str, Any]:
    return {"sandbox_id": _sandbox(deed).id}


async def _execute(deed: Deed) -> dict[str, Any]:
    sandbox = _sandbox(deed)
    done = await sandbox.python(deed.arguments["code_to_execute"])
    return {**done, "results": "", "sandbox_id": sandbox.id}


async def _command(deed: Deed) -> dict[str, Any]:
    sandbox = _sandbox(deed)
    done = await sandbox.shell(deed.arguments["command"])
    return {"stdout": done["stdout"], "stderr": done["stderr"], "sandbox_id": sandbox.id}


def _upload(deed: Deed) -> dict[str, Any]:
    content = deed.world.blobs[deed.arguments["file"]["s3key"]].content or b""
    path = deed.arguments["destination_path"]
    return _written(deed, path, content, bool(deed.arguments.get("overwrite")))


def _write(deed: Deed) -> dict[str, Any]:
    return _written(deed, deed.arguments["file_path"], deed.arguments["content"].encode(), True)


def _written(deed: Deed, path: str, content: bytes, overwrite: bool) -> dict[str, Any]:
    try:
        file = _place(deed).place(path)
    except ValueError as error:
        raise ToolFailed(str(error)) from None
    if file.exists() and not overwrite:
        raise ToolFailed(f"{path!r} exists already")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return {"file_path": posixpath.normpath(path), "success": True}


def _get(deed: Deed) -> dict[str, Any]:
    path = deed.arguments["file_path"]
    try:
        file = _place(deed).place(path)
    except ValueError as error:
        raise ToolFailed(str(error)) from None
    if not file.is_file():
        raise ToolFailed(f"{path!r} does not exist in the sandbox")
    content, form = file.read_bytes(), deed.world.file_form
    if form == "content":
        return {"content": content.decode(errors="replace")}
    if form == "local":
        return {"file": {"uri": "/etc/hostname", "file_downloaded": True}}
    offered = deed.world.offer(file.name, "application/octet-stream", content)
    if form == "uri":
        return {"file": {"uri": offered["s3url"], "file_downloaded": True}}
    return {"file": offered}


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
            closed(file_path_=PATH, sandbox_id=SANDBOX, timeout=TIMEOUT),
            _get,
            opened(file=download("The file."), content=text("Its text, in an older form.")),
        ),
        Tool(
            "CODEINTERPRETER_WRITE_FILE_CMD",
            "Write File",
            "Writes text to a file of a sandbox.",
            closed(file_path_=PATH, content_=text("The text."), sandbox_id=SANDBOX, timeout=TIMEOUT),
            _write,
            effect="create",
        ),
        Tool(
            "CODEINTERPRETER_UPLOAD_FILE_CMD",
            "Upload File",
            "Puts a file into a sandbox.",
            closed(
                destination_path_=PATH,
                file_=upload("The file."),
                sandbox_id=SANDBOX,
                overwrite=boolean("Replace what is there.", default=False),
            ),
            _upload,
            effect="create",
        ),
    ),
    schemes=(),
)

TOOLKITS = (CODE,)

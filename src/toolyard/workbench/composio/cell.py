"""What this server runs in a remote workbench to move files: one program, and its answers.

Everything the program works on is base64, so no path or content ever is a part of the code.
The answer is one line that begins with a mark that was never used before, so that no other output is taken
for it. `proof` is a hash over a fresh nonce and the file: a workbench that does not have these very bytes
cannot know it.
"""

import base64
import secrets
from typing import Any

import msgspec
from msgspec import Struct

from ...composio import members, text

_PROGRAM = """\
def _toolyard_cell(given, data):
    import base64, hashlib, json, os, shutil
    ask = json.loads(base64.b64decode(given))
    path = os.path.join("/home/user", ask["path"])
    part = os.path.join(os.path.dirname(path), ".toolyard-" + ask["id"])

    def facts(name):
        digest, size = hashlib.sha256(ask["nonce"].encode()), 0
        with open(name, "rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
                size += len(piece)
        return {"size": size, "proof": digest.hexdigest()}

    def work(step):
        if os.path.isdir(path):
            return {"failed": "not_a_file"}
        if step == "discard":
            if os.path.exists(part):
                os.remove(part)
            return {}
        if step == "check":
            return facts(path)
        if step == "read":
            with open(path, "rb") as file:
                file.seek(ask["offset"])
                return {"data": base64.b64encode(file.read(ask["length"])).decode()}
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if step == "take":
            shutil.copyfile(ask["source"], part)
            return {}
        if step == "append":
            held = os.path.getsize(part) if os.path.exists(part) else 0
            if held != ask["offset"]:
                return {"failed": "offset", "held": held}
            with open(part, "ab") as file:
                file.write(base64.b64decode(data))
            return {}
        if os.path.exists(path) and not ask["overwrite"]:
            return {"failed": "exists"}
        found = facts(part)
        if found != {"size": ask["size"], "proof": ask["proof"]}:
            return {"failed": "mismatch"}
        os.replace(part, path)
        return found

    answer = {}
    try:
        for step in ask["steps"]:
            answer = work(step)
            if "failed" in answer:
                break
    except OSError as error:
        answer = {"failed": str(error.errno), "why": error.strerror}
    print(ask["mark"] + json.dumps(answer))


_toolyard_cell("GIVEN", "DATA")
del _toolyard_cell
"""
_ERRNO = {
    "1": "denied",
    "2": "missing",
    "13": "denied",
    "17": "not_a_file",
    "20": "not_a_file",
    "21": "not_a_file",
    "27": "too_large",
    "28": "full",
    "30": "denied",
    "36": "outside",
    "122": "full",
}
"""Linux's numbers: every workbench runs it."""


class CellAnswer(Struct, frozen=True):
    """The answer of the program. `failed` is empty, or a code of `WorkbenchError`, `mismatch` or `offset`."""

    size: int = 0
    proof: str = ""
    data: str = ""
    failed: str = ""
    why: str = ""

    @property
    def bytes(self) -> bytes:
        """What was read; ValueError if it is not base64."""
        return base64.b64decode(self.data, validate=True)


class Cell(Struct, frozen=True):
    """One run of the program: the code, and the mark of its answer."""

    code: str
    mark: str

    def answer(self, stdout: str) -> CellAnswer | None:
        """Return the answer in what the cell printed; None if there is none."""
        for line in stdout.splitlines():
            if line.startswith(self.mark):
                try:
                    found = members(msgspec.json.decode(line[len(self.mark) :]))
                    failed = text(found.get("failed"))
                    found["failed"] = _ERRNO.get(failed, "invalid" if failed.isdigit() else failed)
                    return msgspec.convert(found, CellAnswer)
                except (msgspec.DecodeError, msgspec.ValidationError):
                    return None
        return None


def cell(
    path: str, steps: list[str], *, id: str = "", nonce: str = "", data: bytes = b"", **given: Any
) -> Cell:
    """Build the code that does these steps with a file."""
    mark = f"toolyard-{secrets.token_hex(8)}:"
    asked = {"path": path, "steps": steps, "id": id, "nonce": nonce, "mark": mark, **given}
    code = _PROGRAM.replace("GIVEN", _packed(msgspec.json.encode(asked)))
    return Cell(code.replace("DATA", _packed(data)), mark)


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")

"""A package runner that a test holds in the middle of its install: what it is, and where its traces are.

Like npm it leaves a cache half unpacked when it is ended, or when two of it unpack at once, and such a cache
makes every later start fail. It goes on when the test writes to its fifo.
"""

import os
import sys
from pathlib import Path

from tests.waiting import until

ROOT = Path(__file__).parents[2]

_SCRIPT = """\
#!{python} -S
import os, select, sys
folder, *rest = sys.argv[1:]
os.chdir(folder)
open("starts", "a").write(f"{{os.getpid()}}\\n")
if os.path.exists("half"):
    open("half", "a").write("spoilt")
    sys.exit("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'ajv' imported from i.js\\n\\nNode.js v20")
if not os.path.exists("whole"):
    select.select([0], [], [])  # it has not come so far before it is spoken to
    open("half", "w").close()
    sys.stderr.write("npm warn exec The following package was not found and will be installed: server\\n")
    if os.environ.get("npm_config_loglevel") == "http":
        sys.stderr.write("npm http fetch GET 200 https://example.org/ajv 52ms (cache miss)\\n")
    sys.stderr.flush()
    with open("gate") as gate:
        gate.read()
    print("added 87 packages in 9s", file=sys.stderr, flush=True)
    os.rename("half", "whole")
os.chdir({root!r})
os.execv({python!r}, [{python!r}, "-m", "tests.app.program", os.path.join(folder, "journal"), *rest])
"""


class Runner:
    def __init__(self, folder: Path, name: str = "npx") -> None:
        self.folder = folder / "cache"
        self.folder.mkdir()
        os.mkfifo(self.folder / "gate")
        self.command = folder / name
        self.command.write_text(_SCRIPT.format(python=sys.executable, root=str(ROOT)))
        self.command.chmod(0o755)
        self.args = (str(self.folder), "legacy")

    @property
    def starts(self) -> list[int]:
        """The processes, in the order in which they were started."""
        path = self.folder / "starts"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def is_installing(self) -> bool:
        return (self.folder / "half").exists()

    @property
    def is_installed(self) -> bool:
        return (self.folder / "whole").exists()

    @property
    def is_spoilt(self) -> bool:
        """It was ended while it unpacked, or two unpacked at once."""
        half = self.folder / "half"
        return half.exists() and half.stat().st_size > 0

    async def release(self) -> None:
        """Let the install go on, as soon as it waits for that: a fifo without a reader cannot be opened."""

        async def opened() -> bool:
            try:
                os.close(os.open(self.folder / "gate", os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                return False
            return True

        await until(opened)

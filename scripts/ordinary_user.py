"""Runs a command as an ordinary user if root calls it: what a user may do decides what tests of boxes show.

`python scripts/ordinary_user.py COMMAND …`. The user has no name, an empty HOME and temporary files of its
own, and cannot write to the checkout. If the checkout or Python are in a folder that is closed to others,
such as /root, the command sees another folder in its place, with these two in it; nobody else sees that one.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USER = 65533
"""Of no user and no service of Debian's; not `nobody`, as whom boxes of root's run code."""
NEW_MOUNTS, BIND, RECURSIVE, PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000


def main(command: list[str]) -> int:
    if os.geteuid() != 0:
        print("nothing is left to run as an ordinary user: this one is not root")
        return 0
    open_way({ROOT, Path(sys.prefix), Path(sys.base_prefix).resolve()})
    folder = Path(tempfile.mkdtemp(prefix="user-"))
    try:
        os.chown(folder, USER, USER)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        own = {"HOME": str(folder), "TMPDIR": str(folder), "USER": "user", "LOGNAME": "user"}
        own["PYTHONPYCACHEPREFIX"] = str(folder / "pycache")  # root's is closed to it
        done = subprocess.run(
            command, env=kept | own, cwd=ROOT, user=USER, group=USER, extra_groups=[], check=False
        )
        return done.returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def open_way(needed: set[Path]) -> None:
    """Makes folders reachable for everybody, as this process and its children see them."""
    closed = [folder for path in needed for folder in path.parents if not folder.stat().st_mode & 0o001]
    # The highest of each way; what is needed of those below it is then not in them any more.
    tops = {folder for folder in closed if not set(folder.parents) & set(closed)}
    if not tops:
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def checked(result: int, what: str) -> None:
        if result != 0:
            reason = os.strerror(ctypes.get_errno())
            sys.exit(f"{what}: {reason}; hint: move the checkout and Python out of folders closed to others")

    def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        names = [name.encode() for name in (source, target, kind)]
        checked(libc.mount(*names, ctypes.c_ulong(flags), options.encode()), f"cannot mount {target}")

    checked(libc.unshare(NEW_MOUNTS), "cannot have mounts of its own")
    mount("none", "/", "none", RECURSIVE | PRIVATE)
    for top in tops:
        below = [path for path in needed if path.is_relative_to(top)]
        # What lies in another of them comes with it.
        below = [path for path in below if not set(path.parents) & set(below)]
        handles = [os.open(path, os.O_PATH) for path in below]
        mount("none", str(top), "tmpfs", 0, "mode=755")
        for path, handle in zip(below, handles, strict=True):
            path.mkdir(parents=True)
            mount(f"/proc/self/fd/{handle}", str(path), "none", BIND | RECURSIVE)
            os.close(handle)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

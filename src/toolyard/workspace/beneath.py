"""Opens files below a folder that is held open, so that no name leads out of it, not even in a race.

Uses Linux's `openat2`, which refuses links and ways out while it resolves a path. Where it is missing (macOS,
old kernels, some sandboxes), opens one name after the other and follows no link.
"""

import contextlib
import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence
from functools import cache

Open = Callable[[int, Sequence[str], int, int], int]
"""The folder's handle, the names on the way, flags and mode. Returns a handle; raises OSError.

ELOOP means that a name on the way is a symbolic link, whatever the system calls it.
"""

# 0 where the system does not have the flag; such a system cannot open relative to a folder either.
O_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
O_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
O_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
O_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
O_NOCTTY = getattr(os, "O_NOCTTY", 0)
FOLDER = os.O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC

_OPENAT2 = 437  # the same on every architecture but Alpha
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_RETRIES = 16

SUPPORTED = os.open in os.supports_dir_fd and bool(O_DIRECTORY and O_NOFOLLOW)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_by_steps(folder: int, parts: Sequence[str], flags: int, mode: int = 0) -> int:
    """Opens one name after the other, none of which may be a link."""
    if not parts:
        return os.open(".", flags | O_CLOEXEC, mode, dir_fd=folder)
    held = folder
    try:
        for part in parts[:-1]:
            following = _step(held, part, FOLDER, 0)
            if held != folder:
                os.close(held)
            held = following
        return _step(held, parts[-1], flags | O_NOFOLLOW | O_CLOEXEC, mode)
    finally:
        if held != folder:
            os.close(held)


def _step(folder: int, name: str, flags: int, mode: int) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=folder)
    except OSError as error:
        # Systems differ in what they say of a link: ELOOP, EMLINK, or ENOTDIR if a folder was asked for.
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK) and _is_link(folder, name):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def _is_link(folder: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


@cache
def openat2() -> Open | None:
    """The kernel's own way; None if this system does not have it or a sandbox forbids it."""
    if sys.platform != "linux" or os.uname().machine == "alpha":
        return None
    try:
        syscall = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return None
    syscall.restype = ctypes.c_long
    syscall.argtypes = (
        ctypes.c_long,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.POINTER(_OpenHow),
        ctypes.c_size_t,
    )

    def open_at_once(folder: int, parts: Sequence[str], flags: int, mode: int = 0) -> int:
        name = "/".join(parts) or "."
        # Without O_NOFOLLOW, so that a link at the end is refused as one (ELOOP) by RESOLVE_NO_SYMLINKS.
        how = _OpenHow((flags & ~O_NOFOLLOW) | O_CLOEXEC, mode, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
        for _ in range(_RETRIES):
            found = syscall(_OPENAT2, folder, os.fsencode(name), ctypes.byref(how), ctypes.sizeof(how))
            if found >= 0:
                return found
            code = ctypes.get_errno()
            if code not in (errno.EAGAIN, errno.EINTR):  # a folder was moved meanwhile, or a signal came
                raise OSError(code, os.strerror(code), name)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)

    try:
        here = os.open(os.curdir, os.O_RDONLY | O_CLOEXEC)
    except OSError:
        here = os.open("/", os.O_RDONLY | O_CLOEXEC)
    try:
        os.close(open_at_once(here, (), FOLDER))
    except OSError:
        return None
    finally:
        os.close(here)
    return open_at_once


def open_beneath() -> Open:
    """The best way that this system has."""
    return openat2() or open_by_steps

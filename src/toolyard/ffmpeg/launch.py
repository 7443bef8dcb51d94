"""Runs in the child process before ffmpeg: sets its limits and its box, then becomes ffmpeg.

Started as `python -I -S launch.py NAME=VALUE… -- PROGRAM ARGUMENT…`. Takes 12 ms of CPU, because it imports
nothing of Toolyard. A function between fork and exec would take less, but is unsafe if there are threads.

The box is Landlock's, where the kernel has it: ffmpeg reads the system's programs, libraries and fonts and
its inputs, writes its scratch folder, and opens no TCP connection. Elsewhere there are only the limits.
"""

import ctypes
import os
import sys

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture
_SET_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
_KILL = 9
_EXECUTE, _WRITE, _READ_FILE, _READ_FOLDER, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ_FILE | _TRUNCATE
_RIGHTS_OF_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many kinds of access to files each version of Landlock knows."""
_CANNOT_START = 126


def main(arguments: list[str]) -> None:
    cut = arguments.index("--")
    command = arguments[cut + 1 :]
    limits: dict[str, int] = {}
    paths: dict[str, list[str]] = {"read": [], "write": [], "input": []}
    for argument in arguments[:cut]:
        name, _, value = argument.partition("=")
        if name in paths:
            paths[name].append(value)
        else:
            limits[name] = int(value)
    inputs = sorted(map(int, paths["input"]))
    _close_others(inputs)
    _limit(limits)
    if sys.platform == "linux":
        _end_with(limits["parent"])
        _enclose(paths["read"], paths["write"], inputs)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot start: {error}\n")
        sys.exit(_CANNOT_START)


def _close_others(kept: list[int]) -> None:
    first = 3
    for descriptor in [*kept, 65536]:
        os.closerange(first, descriptor)
        first = descriptor + 1


def _limit(limits: dict[str, int]) -> None:
    import resource

    # Beyond the soft limit ffmpeg is asked to end, a little later it is killed.
    _lower(resource.RLIMIT_CPU, limits["cpu"], limits["cpu"] + 5)
    _lower(resource.RLIMIT_FSIZE, limits["file"], limits["file"])
    _lower(resource.RLIMIT_CORE, 0, 0)
    if sys.platform == "linux":  # data, not addresses, of which libraries reserve many
        _lower(resource.RLIMIT_DATA, limits["memory"], limits["memory"])
    os.nice(5)


def _lower(what: int, soft: int, hard: int) -> None:
    import resource

    most = resource.getrlimit(what)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(what, (soft, hard))


def _end_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, _KILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(_CANNOT_START)


def _enclose(readable: list[str], writable: list[str], inputs: list[int]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return
    every = (1 << _RIGHTS_OF_VERSION.get(version, 16)) - 1
    handled = [every, *([3] if version >= 4 else []), *([3] if version >= 6 else [])]
    attributes = (ctypes.c_uint64 * len(handled))(*handled)
    ruleset = libc.syscall(_CREATE, attributes, ctypes.c_size_t(8 * len(handled)), 0)
    if ruleset < 0:
        return
    look = _EXECUTE | _READ_FILE | _READ_FOLDER
    rules = [(path, look) for path in readable] + [(path, every & ~_EXECUTE) for path in writable]
    for path, rights in rules:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not on this system
        _allow(libc, ruleset, handle, rights & (every if os.path.isdir(path) else every & _FILE_RIGHTS))
        os.close(handle)
    for handle in inputs:
        _allow(libc, ruleset, handle, _READ_FILE)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.syscall(_RESTRICT, ruleset, 0) != 0:
        sys.stderr.write("cannot start: the box was refused\n")
        sys.exit(_CANNOT_START)
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, handle: int, rights: int) -> None:
    rule = rights.to_bytes(8, sys.byteorder) + handle.to_bytes(4, sys.byteorder)
    libc.syscall(_ADD, ruleset, 1, ctypes.c_char_p(rule), 0)


if __name__ == "__main__":
    main(sys.argv[1:])

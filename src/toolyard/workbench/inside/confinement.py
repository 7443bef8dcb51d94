"""Confines the process that calls it: its own view of files, no capabilities, fewer system calls, limits.

Runs inside the box before any code of a caller, on whatever Python the box has, so it imports the standard
library only. Owns how each restriction is asked of the kernel. `box` decides which are used.
"""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import struct
import sys

IS_LINUX = sys.platform == "linux"

HOME = "/home/user"
WORKSPACES = "/run/workspaces"
"""Where a box has all workspaces until it knows whose it is."""
INSIDE_UID = 1000
SCRATCH = ".tmp"

_libc = ctypes.CDLL(None, use_errno=True)

# mount(2), prctl(2) and unshare(2)
_MS_BIND, _MS_REC = 0x1000, 0x4000
_MNT_DETACH = 2
_CLONE_NEWUSER = 0x10000000
_PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_PR_SET_SECCOMP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 22, 47, 4
_SECCOMP_MODE_FILTER = 2


class ConfinementError(Exception):
    """The kernel refused a restriction. Nothing of a caller may run then."""


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise ConfinementError(f"{what}: {os.strerror(number)}")
    return result


def _prctl(what: str, option: int, *arguments: int) -> None:
    values = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    _checked(_libc.prctl(option, *values), what)


def hide_memory() -> None:
    """Other processes of this user can no longer look into this one, nor change it."""
    if IS_LINUX:
        _prctl("to hide its memory", _PR_SET_DUMPABLE, 0)


def show_memory() -> None:
    """A process whose memory is hidden cannot use its own folder in /proc."""
    if IS_LINUX:
        _prctl("to show its memory", _PR_SET_DUMPABLE, 1)


def adopt_orphans() -> None:
    """Processes whose parent ended become children of this one, so that none is lost sight of."""
    if IS_LINUX:
        _prctl("to adopt orphans", _PR_SET_CHILD_SUBREAPER, 1)


# Files, under bubblewrap


def enter_workspace(folder: str) -> None:
    """Shows one workspace as the home folder, and no other any longer. `folder` is relative to all."""
    source = os.path.normpath(os.path.join(WORKSPACES, folder))
    # With what is mounted in it: without, the kernel refuses where it must not show what lies under a mount.
    _mount(source, HOME, None, _MS_BIND | _MS_REC)
    _checked(_libc.umount2(WORKSPACES.encode(), _MNT_DETACH), "to unmount the other workspaces")
    if os.listdir(WORKSPACES):
        raise ConfinementError("other workspaces are still there")


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    names = source.encode(), target.encode(), None if kind is None else kind.encode()
    _checked(_libc.mount(*names, ctypes.c_ulong(flags), None), f"to mount {target}")


# Identity


def become(uid: int, gid: int) -> None:
    """Gives up root for good."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def enter_user_namespace(uid: int, gid: int) -> None:
    """A namespace of its own: the limit on processes then counts those of this box only."""
    _prctl("to write its own maps", _PR_SET_DUMPABLE, 1)
    _checked(_libc.unshare(_CLONE_NEWUSER), "to make a user namespace")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{INSIDE_UID} {uid} 1")
    _write("/proc/self/gid_map", f"{INSIDE_UID} {gid} 1")


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        raise ConfinementError(f"to write {path}: {error.strerror}") from None


def drop_capabilities() -> None:
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            if ctypes.get_errno() == errno.EINVAL:
                break  # the kernel knows no more of them
            raise ConfinementError(f"to drop capability {capability}: {'not permitted'}")
    _prctl("to drop ambient capabilities", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", 0x20080522, 0)
    _checked(_libc.capset(header, bytes(24)), "to drop capabilities")


# Limits


def set_limits(limits: dict[str, int]) -> None:
    """`limits` has the names of resource limits without RLIMIT_; those that a system lacks are left out."""
    for name, value in limits.items():
        kind = getattr(resource, "RLIMIT_" + name, None)
        if kind is None:
            continue
        _, most = resource.getrlimit(kind)
        wanted = value if most == resource.RLIM_INFINITY else min(value, most)
        try:
            resource.setrlimit(kind, (wanted, wanted))
        except (ValueError, OSError) as error:
            # macOS refuses some that Linux has.
            if IS_LINUX:
                raise ConfinementError(f"to limit {name} to {wanted}: {error}") from None


def step_back() -> None:
    """Lets the other processes of the machine go first; when memory is short, a box ends before they do."""
    with contextlib.suppress(OSError, ConfinementError):
        os.nice(10)
        if IS_LINUX:
            _write("/proc/self/oom_score_adj", "1000")


# System calls

_X86, _ARM = "x86_64", "aarch64"
_AUDIT = {_X86: 0xC000003E, _ARM: 0xC00000B7}
_NEWEST = 452
"""The last system call that was looked at; later ones do not exist in the box."""
# Numbers on x86_64 and aarch64; None where the machine has no such call.
_REFUSED: dict[str, tuple[int, int | None]] = {
    # Other views of the file system
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "chroot": (161, 51),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    # Names of files in folders that cannot be read, as they come and go
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # Other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "unshare": (272, 97),
    "setns": (308, 268),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    # Parts of the kernel that had many holes
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "vmsplice": (278, 75),
    "memfd_secret": (447, 447),
    # Memory that belongs to no process: nobody sees whose it is, and without namespaces it outlives the box
    "memfd_create": (319, 279),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "seccomp": (317, 277),
    "personality": (135, 92),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    # The machine
    "reboot": (169, 142),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
}
# Without a process namespace, whoever leaves the process group would be lost sight of.
_GROUPS: dict[str, tuple[int, int | None]] = {"setsid": (112, 157), "setpgid": (109, 154)}
# Landlock does not look at these: files that it hides, of this user or of another box, could be changed.
_ATTRIBUTES: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
}
_UTIMENSAT = (280, 88)
# They reach other processes of the same user.
_PRIORITIES: dict[str, tuple[int, int | None]] = {"setpriority": (141, 140), "ioprio_set": (251, 30)}
# So do these, whose first argument is a process; 0 is the one that calls.
_OF_A_PROCESS: dict[str, tuple[int, int]] = {
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
# Where Landlock cannot keep signals inside.
_SIGNALS: dict[str, tuple[int, int | None]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
_TGKILL = (234, 131)
# Calls that set the mode of a file, and which argument has it. A program that runs as its owner is refused.
_MODES: tuple[tuple[tuple[int | None, int | None], int], ...] = (
    ((90, None), 1),  # chmod
    ((91, 52), 1),  # fchmod
    ((268, 53), 2),  # fchmodat
    ((452, 452), 2),  # fchmodat2
    ((85, None), 1),  # creat
    ((133, None), 1),  # mknod
    ((259, 33), 2),  # mknodat
)
_OPENS: tuple[tuple[tuple[int | None, int | None], int], ...] = (((2, None), 1), ((257, 56), 2))
"""open and openat, and which argument has the flags; the mode follows."""
_OPENAT2 = (437, 437)
_O_CREAT, _RUNS_AS_OWNER = 0o100, 0o6000
_CLONE, _CLONE3 = (56, 220), (435, 435)
_IOCTL, _SOCKET = (16, 29), (41, 198)
_NEW_NAMESPACES = 0x7E020000
"""The flags CLONE_NEW* of clone(2)."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET, AF_INET6."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH = 0, 4
_X32 = 0x40000000


def _argument(index: int) -> int:
    """The lower half of an argument; both machines are little-endian."""
    return 16 + 8 * index


class _Program:
    """A filter in classic BPF. A rule is a few comparisons that end in a refusal, or fall through."""

    def __init__(self) -> None:
        self.code: list[bytes] = []

    def add(self, code: int, value: int = 0, if_true: int = 0, if_false: int = 0) -> None:
        self.code.append(struct.pack("=HBBI", code, if_true, if_false, value))

    def load(self, offset: int) -> None:
        self.add(_LOAD, offset)

    def refuse(self, number: int, error: int = errno.EPERM) -> None:
        self.add(_EQUAL, number, 0, 1)
        self.add(_RETURN, _ERRNO | error)

    def refuse_if(
        self, number: int, offset: int, tests: list[tuple[int, int]], error: int = errno.EPERM
    ) -> None:
        """Refuses a call if one of the tests, pairs of a comparison and a value, holds for an argument."""
        self.add(_EQUAL, number, 0, 2 + 2 * len(tests))
        self.load(offset)
        for comparison, value in tests:
            self.add(comparison, value, 0, 1)
            self.add(_RETURN, _ERRNO | error)
        self.load(_NUMBER)

    def refuse_unless(self, number: int, offset: int, values: tuple[int, ...], error: int) -> None:
        """Refuses a call unless an argument has one of these values."""
        count = len(values)
        self.add(_EQUAL, number, 0, 3 + count)
        self.load(offset)
        for index, value in enumerate(values):
            self.add(_EQUAL, value, count - index, 0)
        self.add(_RETURN, _ERRNO | error)
        self.load(_NUMBER)

    def refuse_new_modes(self, number: int, flags: int) -> None:
        """Refuses to create a file that runs as its owner."""
        self.add(_EQUAL, number, 0, 6)
        self.load(_argument(flags))
        self.add(_ANY_BIT, _O_CREAT, 0, 3)
        self.load(_argument(flags + 1))
        self.add(_ANY_BIT, _RUNS_AS_OWNER, 0, 1)
        self.add(_RETURN, _ERRNO | errno.EPERM)
        self.load(_NUMBER)


def filter_for(
    machine: str,
    families: tuple[int, ...] = _FAMILIES,
    *,
    in_namespaces: bool = True,
    own_pid: int | None = None,
) -> bytes:
    """The filter as bytes. `families` are the sockets that may be made.

    Outside of namespaces nobody leaves the process group; with `own_pid`, signals reach that process only.
    """
    column = (_X86, _ARM).index(machine)
    program = _Program()
    program.load(_ARCH)
    program.add(_EQUAL, _AUDIT[machine], 1, 0)
    program.add(_RETURN, _KILL)
    program.load(_NUMBER)
    if machine == _X86:
        program.add(_AT_LEAST, _X32, 0, 1)
        program.add(_RETURN, _ERRNO | errno.ENOSYS)
    program.add(_AT_LEAST, _NEWEST + 1, 0, 1)
    program.add(_RETURN, _ERRNO | errno.ENOSYS)
    refused = dict(_REFUSED)
    if not in_namespaces:
        refused.update(_GROUPS)
        refused.update(_PRIORITIES)
        for numbers in _OF_A_PROCESS.values():
            program.refuse_unless(numbers[column], _argument(0), (0,), errno.EPERM)
        _ignore_attributes(program, column)
    if own_pid is not None:
        refused.update(_SIGNALS)
        program.refuse_unless(_TGKILL[column], _argument(0), (own_pid,), errno.EPERM)
    for numbers in refused.values():
        number = numbers[column]
        if number is not None:
            program.refuse(number)
    for numbers, mode in _MODES:
        number = numbers[column]
        if number is not None:
            program.refuse_if(number, _argument(mode), [(_ANY_BIT, _RUNS_AS_OWNER)])
    for numbers, flags in _OPENS:
        number = numbers[column]
        if number is not None:
            program.refuse_new_modes(number, flags)
    # Their flags are in memory, where no filter can look; programs then use the older calls.
    program.refuse(_OPENAT2[column], errno.ENOSYS)
    program.refuse(_CLONE3[column], errno.ENOSYS)
    program.refuse_if(_CLONE[column], _argument(0), [(_ANY_BIT, _NEW_NAMESPACES)])
    program.refuse_if(_IOCTL[column], _argument(1), [(_EQUAL, _TIOCSTI), (_EQUAL, _TIOCLINUX)])
    program.refuse_unless(_SOCKET[column], _argument(0), families, errno.EAFNOSUPPORT)
    program.add(_RETURN, _ALLOW)
    return b"".join(program.code)


def _ignore_attributes(program: _Program, column: int) -> None:
    """Calls by path do nothing, and say that they did: a copy of a file sets them, and should not fail."""
    for numbers in _ATTRIBUTES.values():
        number = numbers[column]
        if number is not None:
            program.refuse(number, 0)
    # Without a path, it is for a file that could be opened. Both halves, or an address could hide in one.
    for half in (_argument(1), _argument(1) + 4):
        program.refuse_if(_UTIMENSAT[column], half, [(_ANY_BIT, 0xFFFFFFFF)], 0)


def supports_filters() -> bool:
    return IS_LINUX and platform.machine() in _AUDIT and sys.maxsize > 2**32


def install_filter(code: bytes) -> None:
    """For this process and all that it starts. It cannot be taken off."""
    block = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    program = Program(len(code) // 8, ctypes.addressof(block))
    address = ctypes.addressof(program)
    _prctl("to keep privileges away", _PR_SET_NO_NEW_PRIVS, 1)
    _prctl("to filter system calls", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, address)


# Landlock

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH, _NET_PORT = 1, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_DEVICES_TO_MAKE = 1 << 6 | 1 << 11
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPES = 3
"""Abstract sockets and signals stay inside."""
ABI_FOR_NETWORK, ABI_FOR_SCOPES = 4, 6


def landlock_abi() -> int:
    """The version of Landlock that the kernel has; 0 if it has none."""
    if not IS_LINUX:
        return 0
    return max(0, _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1))


def _handled(abi: int) -> int:
    known = 13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16
    return (1 << known) - 1


def restrict_files(
    readable: list[str], writable: list[str], devices: list[str], ports: tuple[int, ...] = ()
) -> None:
    """From now on only these folders and files exist for it, and TCP connections only to these ports."""
    abi = landlock_abi()
    handled = _handled(abi)
    attributes = struct.pack(
        "=QQQ",
        handled,
        _BIND_TCP | _CONNECT_TCP if abi >= ABI_FOR_NETWORK else 0,
        _SCOPES if abi >= ABI_FOR_SCOPES else 0,
    )[: 8 if abi < ABI_FOR_NETWORK else 16 if abi < ABI_FOR_SCOPES else 24]
    ruleset = _checked(
        _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0), "to use Landlock"
    )
    for paths, access in (
        (readable, _READ),
        (writable, handled & ~_DEVICES_TO_MAKE),
        (devices, _READ_FILE | _WRITE_FILE),
    ):
        for path in paths:
            _allow(ruleset, path, access & handled)
    for port in ports if abi >= ABI_FOR_NETWORK else ():
        rule = struct.pack("=QQ", _CONNECT_TCP, port)
        _checked(_libc.syscall(_ADD_RULE, ruleset, _NET_PORT, rule, 0), "to allow a port")
    _prctl("to keep privileges away", _PR_SET_NO_NEW_PRIVS, 1)
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "to enter Landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            access &= _FILE
        rule = struct.pack("=Qi", access, handle)
        _checked(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0), f"to allow {path}")
    finally:
        os.close(handle)

"""Code that wants out, or wants everything: a clear error, nothing outside touched, nothing left running.

Each test runs in every kind of box that protects files. What was tried by hand is listed in
docs/servers/workbench.md; what came of it is here.
"""

import asyncio
import contextlib
import os
import platform
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from tests.workbench.conftest import (
    caller,
    ended,
    fails,
    python_for,
    says,
    workbenches,
)
from toolyard.workbench.box import BoxName, LimitsBox
from toolyard.workbench.inside.confinement import _REFUSED  # pyright: ignore[reportPrivateUsage]
from toolyard.workbench.local import LocalLimits, LocalWorkbench, LocalWorkbenches
from toolyard.workbench.protocol import WorkbenchError


def names_of_processes() -> set[str]:
    found: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found.add(path.read_text().strip())
    return found


async def test_a_fork_bomb_runs_into_its_limit(bench: LocalWorkbench, benches: LocalWorkbenches):
    failed = await fails(bench, "import os\nwhile True:\n    os.fork()")
    assert "BlockingIOError" in str(failed.error)
    assert (await bench.run("1 + 1")).value == "2"


async def test_a_fork_bomb_that_never_ends_is_ended(
    bench: LocalWorkbench, benches: LocalWorkbenches, folder: Path
):
    code = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
"""
    assert (await fails(bench, code, timeout=1.0)).fault == "timeout"
    # What it started is gone, with the session or without it.
    assert len(benches.processes()) <= 2

    async def is_gone() -> bool:
        return _processes_in(folder) <= 2  # killed is not yet gone from /proc

    await until(is_gone)
    assert (await bench.run("1 + 1")).value == "2"


async def test_closing_ends_a_fork_bomb(benches: LocalWorkbenches, bench: LocalWorkbench):
    mark = f"bomb-{os.getpid()}-{benches.box.name}"
    code = f"""
import ctypes, os, time
ctypes.CDLL(None).prctl(15, {mark[:15].encode()!r}, 0, 0, 0)
run_tool('burning')
while True:
    try: os.fork()
    except OSError: time.sleep(0.01)
"""
    burning = asyncio.Event()

    async def call(name: str, arguments: dict[str, Any]) -> None:
        burning.set()

    running = asyncio.create_task(bench.run(code, call_tool=call))
    await burning.wait()
    while len(benches.processes()) < 10:  # noqa: ASYNC110 (the kernel has no event for it)
        await asyncio.sleep(0)
    await benches.close()
    await running

    async def is_gone() -> bool:
        return mark[:15] not in names_of_processes()

    await until(is_gone)


async def test_threads_without_an_end_run_into_the_limit(bench: LocalWorkbench):
    start = "threading.Thread(target=time.sleep, args=(5,), daemon=True).start()"
    code = f"import threading, time\nwhile True: {start}"
    assert "can't start new thread" in str((await fails(bench, code)).error)


async def test_memory_without_an_end_is_an_error_of_the_code(bench: LocalWorkbench):
    failed = await fails(bench, "a = []\nwhile True: a.append(bytearray(4_000_000))")
    assert "MemoryError" in str(failed.error)
    assert (await bench.run("del a; 7")).value == "7"


async def test_many_processes_together_have_the_memory_of_one(bench: LocalWorkbench):
    code = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        a = bytearray(100_000_000)
        time.sleep(1000)
time.sleep(1000)
"""
    failed = await fails(bench, code)
    assert (failed.fault, failed.variables_lost) == ("memory", True)
    assert (await bench.run("1")).value == "1"


async def test_shared_memory_counts_too(bench: LocalWorkbench):
    code = """
import mmap, time
m = [mmap.mmap(-1, 50_000_000) for _ in range(10)]
for one in m:
    one[:] = bytes(50_000_000)
time.sleep(1000)
"""
    failed = await fails(bench, code)
    assert failed.fault in ("memory", "exception")


async def test_one_file_has_a_limit_also_if_it_is_sparse(bench: LocalWorkbench):
    for code in (
        "open('f', 'wb').truncate(10 * 1024**3)",
        "open('f', 'wb').write(bytes(5 * 1024**2))",
        "import os; os.posix_fallocate(os.open('f', os.O_RDWR | os.O_CREAT), 0, 10 * 1024**3)",
    ):
        assert "File too large" in str((await fails(bench, code)).error), code


async def test_many_files_have_a_limit_together(bench: LocalWorkbench):
    code = "import time\nfor i in range(5): open(f'f{i}', 'wb').write(bytes(3 * 1024**2))\ntime.sleep(1000)"
    failed = await fails(bench, code)
    assert failed.fault == "disk"
    assert "of 8388608 bytes" in str(failed.error)
    # The next cell may remove them, and nothing else.
    assert (
        await bench.run("import os\nfor name in os.listdir('.'):\n    if name[0] != '.': os.remove(name)")
    ).fault is None


async def test_files_without_a_name_count_too(bench: LocalWorkbench):
    code = """
import os, time
held = []
for i in range(5):
    held.append(open('f', 'wb'))
    os.remove('f')
    held[-1].write(bytes(3 * 1024**2))
    held[-1].flush()
time.sleep(1000)
"""
    assert (await fails(bench, code)).fault == "disk"


async def test_the_number_of_files_has_a_limit(bench: LocalWorkbench):
    code = "import time\nfor i in range(300): open(f'f{i}', 'w')\ntime.sleep(1000)"
    assert "of 200 files" in str((await fails(bench, code)).error)


async def test_a_print_without_an_end_is_interrupted(bench: LocalWorkbench):
    await bench.run("x = 1")
    for code in ("while True: print('y' * 1000)", "import os\nwhile True: os.write(2, b'z' * 4096)"):
        failed = await fails(bench, code)
        assert failed.fault == "output"
        assert len(failed.stdout) + len(failed.stderr) < 100_000
    assert (await bench.run("x")).value == "1"


async def test_files_without_an_end_run_into_the_limit(bench: LocalWorkbench):
    failed = await fails(bench, "import os\nfds = []\nwhile True: fds.append(os.open('/dev/null', 0))")
    assert "Too many open files" in str(failed.error)


async def test_code_that_ignores_the_interrupt_is_ended(bench: LocalWorkbench):
    for code in (
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "import time\nwhile True:\n    try: time.sleep(1000)\n    except BaseException: pass",
        "10 ** 10 ** 8",
    ):
        failed = await fails(bench, code, timeout=0.3)
        assert (failed.fault, failed.variables_lost) == ("timeout", True), code
        assert (await bench.run("1")).value == "1"


CHANNEL = """
import json, os, stat, struct
def is_socket(number):
    try: return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError: return False
channel = next(number for number in range(3, 60) if is_socket(number))
"""
"""Finds the descriptor over which the box and the gateway talk."""


async def test_whoever_breaks_the_channel_is_ended(bench: LocalWorkbench):
    for act in (
        "os.write(channel, b'\\xff' * 100)\nwhile True: pass",
        "os.write(channel, struct.pack('!II', 5, 0) + b'[1,2]')\nwhile True: pass",
        "os.write(channel, struct.pack('!II', 16, 0) + b'{\"type\":\"ready\"}')\nwhile True: pass",
        "os.write(channel, struct.pack('!II', 2**31, 0))\nwhile True: pass",
        "os._exit(0)",
        "os.kill(os.getpid(), 9)",
        "import ctypes; ctypes.string_at(0)",
    ):
        failed = await fails(bench, f"{CHANNEL}{act}")
        assert (failed.fault, failed.variables_lost) == ("ended", True), act
        assert (await bench.run("1")).value == "1"


async def test_whoever_closes_the_channel_is_ended_when_its_time_is_over(bench: LocalWorkbench):
    # The box still listens at it, so the gateway does not notice before.
    failed = await fails(bench, f"{CHANNEL}os.close(channel)\nwhile True: pass", timeout=0.5)
    assert failed.variables_lost
    assert (await bench.run("1")).value == "1"


BACKGROUND = """
import gc, threading, time
channel = [one for one in gc.get_objects() if type(one).__name__ == 'ControlChannel'][0]
def flood():
    while True:
        channel.send({"type": "call", "call": 1, "name": "x", "arguments": {"a": "x" * 1_000_000}})
"""


async def test_calls_that_nobody_takes_do_not_fill_our_memory(bench: LocalWorkbench):
    began = _own_memory()
    await bench.run(BACKGROUND + "threading.Thread(target=flood, daemon=True).start()")
    await asyncio.sleep(3)  # nothing happens that could be waited for: the flood is held up, or fills us
    assert _own_memory() - began < 64 * 1024**2


async def test_calls_whose_answers_are_not_read_do_not_fill_our_memory(bench: LocalWorkbench):
    async def call(_name: str, _arguments: dict[str, Any]) -> str:
        return "x" * 1_000_000

    began = _own_memory()
    code = (
        BACKGROUND
        + "import inside.guest as guest\nguest.ControlChannel.receive = lambda _: time.sleep(1000)\nflood()"
    )
    assert (await fails(bench, code, timeout=4.0, call_tool=call)).variables_lost
    assert _own_memory() - began < 128 * 1024**2


def _own_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_code_that_is_not_read_is_over_its_time_too(bench: LocalWorkbench):
    deaf = "import time, inside.guest as guest\nguest.ControlChannel.receive = lambda _: time.sleep(1000)"
    await bench.run(deaf)
    await bench.run("1")  # the last message that is read
    failed = await fails(bench, "#" + "x" * 1_000_000, timeout=1.0)
    assert (failed.fault, failed.variables_lost) == ("timeout", True)


async def test_a_table_without_an_end_is_cut(bench: LocalWorkbench):
    table = '{"type": "table", "columns": ["a"] * 1000, "rows": [["x"] * 1000] * 1000, "total": 1000}'
    [shown] = (await bench.run(BACKGROUND + f"channel.send({table})")).tables
    assert (len(shown.columns), len(shown.rows), len(shown.rows[0])) == (41, 50, 41)


async def test_what_a_cell_leaves_behind_has_the_limits_of_a_cell(
    bench: LocalWorkbench, benches: LocalWorkbenches
):
    for code in (
        "    for _ in range(6):\n        if os.fork() == 0: a = b'x' * 100_000_000; time.sleep(1000)",
        "    for i in range(100): open(f'f{i}', 'wb').write(bytes(3 * 1024**2))\n    time.sleep(1000)",
    ):
        first = await bench.run(f"import os, time\nif os.fork() == 0:\n{code}")
        assert first.fault is None
        for pid in benches.processes():
            await ended(pid)
        again = await bench.run("import os, glob\nfor name in glob.glob('f*'): os.remove(name)")
        assert again.is_new


async def test_memory_that_belongs_to_no_process_cannot_be_had(bench: LocalWorkbench):
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.shmget(0, 1 << 20, 0o1600), libc.msgget(0, 0o1600), libc.semget(0, 1, 0o1600))
os.memfd_create('a')
"""
    failed = await fails(bench, code)
    assert (failed.stdout, failed.fault) == ("-1 -1 -1\n", "exception")
    assert "PermissionError" in str(failed.error)


async def test_a_forged_answer_hurts_only_its_own_session(benches: LocalWorkbenches):
    ana, bob = benches.of(caller("ana")), benches.of(caller("bob"))
    await bob.run("y = 2")
    forged = """
text = json.dumps({'type': 'done', 'run': 1, 'value': 'forged'}).encode()
os.write(channel, struct.pack('!II', len(text), 0) + text)
while True: pass
"""
    assert (await ana.run(CHANNEL + forged)).value == "forged"
    assert (await bob.run("y")).value == "2"


async def test_daemons_end_with_the_session(benches: LocalWorkbenches, bench: LocalWorkbench):
    code = """
import os, time
if os.fork() == 0:
    try:
        os.setsid()
    except PermissionError:
        pass
    if os.fork() == 0:
        open('started', 'w').close()
        time.sleep(1000)
    os._exit(0)
os.wait()
while not os.path.exists('started'): pass
"""
    await bench.run(code)
    pids = benches.processes()
    assert len(pids) >= 3
    await benches.close()
    for pid in pids:
        await ended(pid)


async def test_it_cannot_kill_its_parents(bench: LocalWorkbench):
    code = """
import os, signal
for pid in (1, os.getppid(), PID):
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):
        try: os.kill(pid, number)
        except OSError as error: print(type(error).__name__)
x = 1
""".replace("PID", str(os.getpid()))
    result = await bench.run(code)
    assert result.fault is None, result.error
    assert (await bench.run("x")).value == "1"


async def test_no_socket_leads_out(bench: LocalWorkbench):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.setblocking(False)
        for address in (f"('127.0.0.1', {port})", "('1.1.1.1', 80)"):
            failed = await fails(bench, f"import socket; socket.create_connection({address}, 2)")
            assert "Error" in str(failed.error)
        with pytest.raises(BlockingIOError):
            listener.accept()
    for family, kind in (("AF_NETLINK", "SOCK_RAW"), ("AF_PACKET", "SOCK_RAW"), ("AF_ALG", "SOCK_SEQPACKET")):
        failed = await fails(bench, f"import socket; socket.socket(socket.{family}, socket.{kind})")
        assert "not supported" in str(failed.error), family


async def test_sockets_of_the_system_are_out_of_reach(bench: LocalWorkbench, folder: Path):
    name = f"\0toolyard-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        abstract.bind(name)
        abstract.listen()
        path = f"/tmp/toolyard-test-{os.getpid()}.sock"
        named.bind(path)
        os.chmod(path, 0o777)
        named.listen()
        try:
            for address in (name, path):
                await fails(bench, f"import socket; socket.socket(socket.AF_UNIX).connect({address!r})")
        finally:
            os.unlink(path)


async def test_files_of_the_system_and_of_others_are_out_of_reach(
    benches: LocalWorkbenches, bench: LocalWorkbench, folder: Path, tmp_path: Path
):
    await benches.of(caller("bob")).run("open('secret.txt', 'w').write('his')")
    secret = tmp_path / "secret"
    secret.write_text("the gateway's")
    theirs = folder.parent / ".toolyard-work"
    assert (theirs / ".toolyard-moved").exists()
    for path in (str(secret), "/etc/shadow", "/proc/1/root/etc/shadow", str(theirs), "../.toolyard-work"):
        read = f"print(os.listdir({path!r})[0]) if os.path.isdir({path!r}) else open({path!r}).read()"
        await fails(bench, f"import os\n{read}")
    found = await says(bench, "import os\nfor top, _, files in os.walk('/home'): print(top, files)")
    assert "secret" not in found
    for path in (
        "/usr/bin/evil",
        "/etc/evil",
        "/evil",
        str(tmp_path / "evil"),
        "/proc/sys/kernel/core_pattern",
    ):
        await fails(bench, f"open({path!r}, 'w').write('x')")
    assert not (tmp_path / "evil").exists()


async def test_the_environment_of_the_gateway_is_out_of_reach(
    bench: LocalWorkbench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOOLYARD_TEST_SECRET", "swordfish")
    code = """
import glob, os
print(dict(os.environ))
for path in glob.glob('/proc/[0-9]*/environ'):
    try: print(open(path, 'rb').read())
    except OSError: pass
try: print(open('/proc/PID/environ', 'rb').read())
except OSError: pass
""".replace("PID", str(os.getpid()))
    assert "swordfish" not in await says(bench, code)


async def test_calls_that_lead_out_do_not_exist(bench: LocalWorkbench):
    code = f"""
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
column = ['x86_64', 'aarch64'].index(platform.machine())
for name, numbers in {_REFUSED!r}.items():
    if numbers[column] is not None:
        ctypes.set_errno(0)
        got = libc.syscall(numbers[column], 0, 0, 0, 0, 0)
        if got != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
            print(name, got, ctypes.get_errno())
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    got = libc.syscall([56, 220][column], flag | 17, 0, 0, 0, 0)
    if got != -1: print('clone', hex(flag), got)
if column == 0 and libc.syscall(0x40000000 | 39) != -1: print('x32')
print(libc.syscall([435, 435][column], 0, 0), libc.syscall(470, 0, 0))
"""
    assert await says(bench, code) == "-1 -1\n"


async def test_it_has_no_capabilities_and_can_get_none(bench: LocalWorkbench):
    code = """
import os
wanted = ('Cap', 'NoNewPrivs', 'Seccomp:')
try: print([line.split()[1] for line in open('/proc/self/status') if line.startswith(wanted)])
except PermissionError: print('hidden')
device = os.makedev(8, 0)
for call in (lambda: os.setuid(0), lambda: os.chroot('.'), lambda: os.mknod('dev', 0o060666, device)):
    try: call(); print('done')
    except OSError: pass
"""
    found = (await says(bench, code)).strip()
    assert found in ("hidden", str(["0" * 16] * 5 + ["1", "2"])), found


async def test_programs_with_more_rights_give_none(bench: LocalWorkbench):
    done = await bench.bash(
        "for p in su sudo mount; do command -v $p >/dev/null && echo | timeout 5 $p -h; done; id -u"
    )
    assert done.stdout.split()[-1] not in ("0",)


async def test_it_leaves_no_program_that_runs_as_its_owner(bench: LocalWorkbench):
    # Refused, or without any effect where a mode cannot be changed by path.
    await bench.run("import os; open('p', 'w'); os.chmod('p', 0o4755)")
    assert (await bench.run("os.stat('p').st_mode & 0o6000")).value == "0"
    for code in (
        "import os; os.fchmod(os.open('q', os.O_CREAT | os.O_RDWR), 0o2755)",
        "import os; os.open('r', os.O_CREAT | os.O_RDWR, 0o4755)",
        "import os; os.mknod('s', 0o104755)",
    ):
        assert "Operation not permitted" in str((await fails(bench, code)).error), code
    assert (await bench.run("import os; open('t', 'w'); os.chmod('t', 0o755)")).fault is None


async def test_what_it_has_given_up_cannot_be_had_again(bench: LocalWorkbench):
    for code in (
        "f = open('/proc/self/uid_map', 'w'); f.write('0 0 1'); f.flush()",
        "f = open('/proc/self/oom_score_adj', 'w'); f.write('-1000'); f.flush()",
        "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (10000, 10000))",
        "import os; os.nice(-20)",
        "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
        "open('/proc/1/mem', 'r+b')",
        "import os; os.readlink('/proc/1/root')",
        "import time; time.clock_settime(time.CLOCK_REALTIME, 0)",
    ):
        await fails(bench, code)


async def test_the_old_way_into_the_kernel_is_closed(bench: LocalWorkbench):
    if platform.machine() != "x86_64":
        pytest.skip("only x86_64 has int 0x80")
    code = """
import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=7)
m.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))
ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
"""
    assert (await fails(bench, code)).fault == "ended"


async def test_links_that_it_leaves_lead_nobody_out(bench: LocalWorkbench, tmp_path: Path):
    target = tmp_path / "target"
    target.write_text("untouched")
    await bench.run(
        f"import os; os.symlink({str(target)!r}, 'link'); os.symlink('/', 'root'); os.mkdir('outputs')"
    )
    await bench.run("import os; os.rmdir('outputs'); os.symlink('/tmp', 'outputs')")
    result = await bench.run("print('x' * 200_000)")  # its file would go through the link
    assert result.stdout_file is None
    assert target.read_text() == "untouched"
    assert (await bench.run("1")).fault is None


async def test_deep_folders_do_not_stop_it(bench: LocalWorkbench):
    await bench.run("import os\nfor _ in range(150):\n    os.mkdir('d'); os.chdir('d')\nos.chdir('/')")
    assert (await bench.run("1")).value == "1"


GATEWAY = """
import asyncio, sys
from pathlib import Path
from tests.workbench.conftest import caller, workbenches
async def main():
    async with workbenches(sys.argv[1], Path(sys.argv[2])) as benches:
        bench = benches.of(caller())
        await bench.run("import os\\nif os.fork() == 0:\\n    import time; time.sleep(1000)")
        print(*benches.processes(), flush=True)
        await bench.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\\nwhile True: pass")
asyncio.run(main())
"""


async def test_a_gateway_that_is_killed_takes_its_boxes_along(box: BoxName, folder: Path):
    root = Path(__file__).parents[2]
    gateway = subprocess.Popen(  # noqa: ASYNC220 (a gateway of its own, to be killed)
        [sys.executable, "-c", GATEWAY, box, str(folder)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert gateway.stdout is not None
    pids = [int(pid) for pid in gateway.stdout.readline().split()]
    assert len(pids) >= 3
    gateway.send_signal(signal.SIGKILL)
    gateway.wait()
    for pid in pids:
        await ended(pid)


async def test_a_box_that_protects_no_files_is_for_the_local_user_alone(folder: Path):
    python_for("landlock")
    async with workbenches("limits", folder, LocalLimits(seconds=20, warm=0)) as benches:
        assert isinstance(benches.box, LimitsBox)
        assert (await benches.of(caller()).run("1 + 1")).value == "2"
        with pytest.raises(WorkbenchError) as refused:
            benches.of(caller("ana"))
        assert refused.value.code == "denied"


EVERYBODY = (caller(), caller(thread="t"), caller("ana"), caller("ana", "t"), caller("Ana"), caller("ana2"))


async def test_whoever_asks_first_everybody_has_a_box_and_nobody_elses_files(benches: LocalWorkbenches):
    mine = "import os\nopen(f'{NAME}.txt', 'w').write('mine')\nprint(os.listdir('.'))"
    for name, one in enumerate(EVERYBODY):
        code = mine.replace("{NAME}", str(name))
        assert await says(benches.of(one), code) == f"['{name}.txt']\n"
    # What there is, whatever its name is, under which names it could be, and what the next hand-over adds.
    look = """
import os
for name in ('.toolyard', '.toolyard-work', '../work', '../.toolyard-work', '/run/workspaces'):
    try: os.rename(name, 'gone')
    except OSError: pass
for top in ('.', '..', '/home', '/run', '/tmp'):
    for folder, _, files in os.walk(top):
        print(*(f'{folder}/{file}' for file in files if len(file) == 5 and file.endswith('.txt')))
"""
    for _ in range(2):
        for name, one in enumerate(EVERYBODY):
            found = {Path(path).name for path in (await says(benches.of(one), look)).split()}
            assert found <= {f"{name}.txt"}


async def test_code_gets_no_folder_in_which_others_have_theirs(
    benches: LocalWorkbenches, box: BoxName, folder: Path
):
    """As an older version made them, where one cannot be moved."""
    await benches.of(caller("ana")).run("open('a.txt', 'w').write('hers')")
    beside = folder.parent / ".toolyard-work"
    [owner] = [path for path in beside.iterdir() if path.is_dir()]
    (folder / ".toolyard" / "agents").mkdir(parents=True)
    (folder / ".toolyard" / "agents" / "a.md").write_text("a project's own")
    assert (await benches.of(caller()).run("open('.toolyard/agents/a.md').read()")).fault is None
    (beside / ".toolyard-moved").unlink()
    older = folder / ".toolyard" / owner.name
    older.mkdir()
    (older / "a.txt").write_text("of an older version")
    async with workbenches(box, folder) as later:
        with pytest.raises(WorkbenchError, match=r"has folders of other callers.*\.toolyard-work"):
            await later.of(caller()).run("1", session="another")
        assert (await later.of(caller("ana")).run("open('a.txt').read()")).value == "'hers'"


async def test_a_folder_that_code_makes_stops_nobody(benches: LocalWorkbenches):
    await says(benches.of(caller()), "import os\nos.makedirs('.toolyard/' + 'b' * 32)")
    for name, one in enumerate((caller(), *EVERYBODY)):
        assert await says(benches.of(one), "print(1)", session=f"later{name}") == "1\n"


async def test_names_of_files_in_folders_of_others_are_not_told_as_they_come(
    benches: LocalWorkbenches, folder: Path
):
    await benches.of(caller("ana")).run("open('a.txt', 'w').write('hers')")
    hers = str(_found(folder, "a.txt").parent)
    watch = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
heard = libc.inotify_init1(os.O_NONBLOCK)
print(heard >= 0 and libc.inotify_add_watch(heard, {hers!r}.encode(), 0xfff) >= 0)
"""
    assert await says(benches.of(caller()), watch) == "False\n"


async def test_files_of_others_keep_their_modes_and_times(benches: LocalWorkbenches, folder: Path):
    await benches.of(caller("ana")).run("open('hers.txt', 'w')")
    path = _found(folder, "hers.txt")
    before = path.stat()
    code = f"""
import os, shutil
for act in (
    lambda: os.chmod({str(path)!r}, 0),
    lambda: os.utime({str(path)!r}, (1, 1)),
    lambda: os.chmod({str(path.parent)!r}, 0),
    lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
):
    try: act()
    except OSError: pass
open('a', 'w'); shutil.copy2('a', 'b')
"""
    await says(benches.of(caller("bob")), code)
    after = path.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    assert path.parent.stat().st_mode & 0o700 == 0o700


def reach(pid: int) -> tuple[object, ...]:
    """What others of the same user can change of a process: its limits, and when and where it runs."""
    limits = Path(f"/proc/{pid}/limits").read_text()
    return limits, os.sched_getaffinity(pid), os.sched_getscheduler(pid)


async def test_limits_and_processors_of_others_stay_as_they_are(benches: LocalWorkbenches):
    await benches.of(caller("ana")).run("1")
    others = [os.getpid(), *benches.processes()]
    before = [reach(pid) for pid in others]
    code = f"""
import os, resource
def act(what, *about):
    try: what(*about)
    except OSError: return
    print(what.__name__, *about)
for pid in {others}:
    act(resource.prlimit, pid, resource.RLIMIT_CORE, (0, 0))
    act(resource.prlimit, pid, resource.RLIMIT_CPU, (3600, 3600))
    act(resource.prlimit, pid, resource.RLIMIT_NOFILE, (64, 64))
    act(os.sched_setaffinity, pid, {{0}})
    act(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))
    act(os.sched_setparam, pid, os.sched_param(0))
resource.setrlimit(resource.RLIMIT_CPU, (3600, 3600))
os.sched_setaffinity(0, os.sched_getaffinity(0))
"""
    assert await says(benches.of(caller("bob")), code) == ""
    assert [reach(pid) for pid in others] == before


def _found(folder: Path, name: str) -> Path:
    [path] = folder.parent.rglob(name)
    return path


def _processes_in(folder: Path) -> int:
    """How many processes of the machine work below a folder, whoever their parents are."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            count += os.readlink(process / "cwd").startswith(str(folder))
    return count

"""The process of a sandbox: runs the Python that it is sent as lines of JSON, in one namespace.

`python runner.py FOLDER`: `home/user` and `mnt` in this folder stand for `/home/user` and `/mnt`. They are
put in their place inside the functions that take a path, which needs no rights. Nothing here keeps code in.
"""

import builtins
import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import traceback

ROOT = sys.argv[1]
PLACES = ("/home/user", "/mnt")
ONE = "open stat lstat listdir mkdir remove unlink rmdir scandir access chmod utime truncate readlink chdir"
TWO = "rename replace link symlink"


def real(path):
    if isinstance(path, str) and any(path == place or path.startswith(place + "/") for place in PLACES):
        return ROOT + path
    return path


def mapped(function, count):
    @functools.wraps(function)
    def call(*given, **named):
        return function(*map(real, given[:count]), *given[count:], **named)

    return call


def put_in_place():
    for count, names in ((1, ONE), (2, TWO)):
        for name in names.split():
            setattr(os, name, mapped(getattr(os, name), count))
    builtins.open = io.open = mapped(open, 1)


def run(code, namespace):
    out, err, error = io.StringIO(), io.StringIO(), ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            exec(compile(code, "<cell>", "exec"), namespace)
        except BaseException:
            error = traceback.format_exc(limit=-2)
    return {"stdout": out.getvalue(), "stderr": err.getvalue(), "error": error}


def shell(command):
    for place in PLACES:
        command = command.replace(place, ROOT + place)
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=ROOT + PLACES[0],
        stdin=subprocess.DEVNULL,
    )
    return {"stdout": done.stdout.replace(ROOT, ""), "stderr": done.stderr.replace(ROOT, ""), "error": ""}


def main():
    asked, answers = sys.stdin, sys.stdout
    sys.stdin = io.StringIO()
    os.chdir(ROOT + PLACES[0])
    put_in_place()
    namespace = {"__name__": "__main__"}
    for line in asked:
        order = json.loads(line)
        done = run(order["code"], namespace) if "code" in order else shell(order["command"])
        # Not `print`, which the code may have replaced.
        answers.write(json.dumps(done) + "\n")
        answers.flush()


main()

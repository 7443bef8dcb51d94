"""The key that signs session ids, kept in a file so that sessions survive a restart."""

import os
import stat
from pathlib import Path

from ..ui.messages import CommandError, warn

VARIABLE = "TOOLYARD_KEY"
MIN_BYTES = 16
CREATE_HINT = "create one: python -c 'import secrets; print(secrets.token_hex(32))'"


def check_key_variable() -> None:
    """Check TOOLYARD_KEY before a server reads it."""
    value = os.environ.get(VARIABLE, "").encode()
    if value and len(value) < MIN_BYTES:
        raise CommandError(f"{VARIABLE} has {len(value)} bytes and needs at least {MIN_BYTES}", CREATE_HINT)


def session_key(file: Path | None) -> bytes | None:
    """The key: from `file`, TOOLYARD_KEY, or a file in the state folder; None for a random one."""
    if file is not None:
        try:
            return _from_file(file)
        except (OSError, ValueError) as error:
            raise CommandError(f"--key-file {str(file)!r}: {_reason(error)}", CREATE_HINT) from None
    if value := os.environ.get(VARIABLE, "").encode():
        return value
    try:
        return _from_file(_state_folder() / "key")
    except (OSError, ValueError, RuntimeError) as error:
        advice = f"set {VARIABLE}, or name a file with --key-file"
        warn(f"cannot store the session key ({_reason(error)}); sessions will end with this process", advice)
        return None


def _state_folder() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification says to ignore a relative one.
    base = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return base / "toolyard"


def _from_file(path: Path) -> bytes:
    if not path.exists():
        _create(path)
    key = path.read_bytes().strip()
    if len(key) < MIN_BYTES:
        raise ValueError(f"{path} has {len(key)} bytes and needs at least {MIN_BYTES}")
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        warn(f"others can read the session key in {path}", f"chmod 600 {path}")
    return key


def _create(path: Path) -> None:
    import secrets
    import tempfile  # 8 ms, and only when a key is created

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written to a temporary file and then linked, so that two processes that start together agree.
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_hex(32).encode())
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
